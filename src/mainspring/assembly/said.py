"""What somebody says may stand for more: `/name words` for a skill or a command, `@path` for a file. For every door."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mainspring.core.errors import ToolError
from mainspring.core.messages import User
from mainspring.core.view import view
from mainspring.engine.wishes import compaction

if TYPE_CHECKING:
    from mainspring.assembly.world import World
    from mainspring.context.named import Verdict
    from mainspring.context.slash import Entry, Slash
    from mainspring.context.surroundings import Surroundings
    from mainspring.engine.prompts import Attach
    from mainspring.engine.session import Session
    from mainspring.tools.gate import Gate

Skill = Callable[[str, str], str]


def stands_for(said: str, world: World) -> str | None:
    """The prompt that it stands for; None: it is what it is, or nobody knows the word."""
    if not said.startswith("/") or compaction(said) is not None:
        return None
    word, words = (*said.split(None, 1), "")[:2]
    try:
        return world.skill(word[1:], words.strip())
    except ToolError:
        return None


def skill_of(found: Surroundings) -> Skill:
    """The text of a skill or a command, by its name; it raises `ToolError`."""
    return lambda name, arguments: known(found).text(name, arguments)


def known(found: Surroundings) -> Slash:
    """All words with a slash but our own. What was left out of them is told, once."""
    slash = found.slash
    for problem in slash.news():
        found.tell(problem)
    return slash


def others(found: Surroundings, own: tuple[str, ...]) -> tuple[Entry, ...]:
    """Those that none of our own words hides."""
    if not found.has_words:  # as with most: nothing is loaded for them
        return ()
    return tuple([entry for entry in known(found).entries() if entry.name not in own])


def skill_names(found: Surroundings) -> tuple[str, ...]:
    """Of those that the model is told of."""
    return tuple(found.skills.told) if found.has_skills else ()


def attaching(found: Surroundings, gate: Gate, session: Session, cwd: str) -> Attach:
    """Brings the files that a prompt names, by the rules for `Read` as they are then. What the view holds already is
    not sent a second time."""

    async def may(path: str) -> Verdict:
        from mainspring.permissions.policy import Asked

        verdict = await gate.verdict(Asked("Read", {"file_path": path}, cwd), session.shared.policy)
        return verdict.decision

    async def attach(text: str) -> tuple[User, ...]:
        brought = await found.named(text, may) if compaction(text) is None else ()
        if not brought:
            return ()
        from mainspring.context.attachments import missing

        return missing(brought, view(session.state.history, session.state.edits))

    return attach
