"""Skills and custom commands of a folder that are ignored because the folder is not trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from mainspring import context

if TYPE_CHECKING:
    from mainspring.context.project_files import ConfigFolders
    from mainspring.context.sources import ContextSources


def is_held_back(word: str, found: ContextSources) -> bool:
    """Whether a slash command would exist if the folder were trusted."""
    if found.memory.where.trusted:
        return False
    skills, commands = held_words(found)
    return word in skills or word in commands or word in [name.rpartition(":")[2] for name in commands]


def held_words(found: ContextSources) -> tuple[list[str], list[str]]:
    skills, commands = (project_folders_only(found.memory.places(sort)) for sort in ("skills", "commands"))
    return (
        list(context.Skills(skills).by_name) if skills is not None else [],
        list(context.CustomCommands(commands).by_name) if commands is not None else [],
    )


def project_folders_only(places: ConfigFolders) -> ConfigFolders | None:
    """The project's folders alone, as if it were trusted; links still cannot lead out. None: none exist, or trusted."""
    if places.trusted:
        return None
    alone = replace(places, user="", home=None, trusted=True)
    return alone if alone.are_there() else None
