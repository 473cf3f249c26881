"""Behind which walls a command runs, where there is a sandbox. Whether it may run at all was decided before.

Nothing but git: then `.git` can be written, though not what in it leads to code. What a person has named as excluded
runs without walls, if that is all that the line runs; so does what was asked for, and allowed, with
`dangerouslyDisableSandbox`. Where the line cannot be read for certain, the usual walls stand.
"""

from __future__ import annotations

from collections.abc import Callable

from mainspring.core.errors import ToolError
from mainspring.core.value import Bundle
from mainspring.permissions.shell.tables import names
from mainspring.processes.child import Walls

# Of git, what writes its folder and runs no other program than the repository's own hooks. No `-c` comes before these:
# then the first word after `git` is another.
OF_GIT = names(
    """add am apply blame branch checkout cherry-pick clean clone commit describe diff fetch gc grep init log
    ls-files ls-tree merge mv notes prune pull push range-diff rebase reflog reset restore rev-list rev-parse revert
    rm shortlog show sparse-checkout stash status switch tag worktree"""
)
NAMES = frozenset(["user.name", "user.email"])  # what `git config` may set there; in an older repository it cannot
# Options by which they do, or write where they are told to.
_WRITES = ("--output", "--ext-diff", "--textconv")
LEADS_TO_CODE: dict[str, tuple[str, ...]] = {
    "clone": ("-c", "--config", "-u", "--upload-pack", "--template"),
    "init": ("--template",),
    "fetch": ("--upload-pack",),
    "pull": ("--upload-pack",),
    "push": ("--receive-pack", "--exec"),
    "rebase": ("-x", "--exec", "-i", "--interactive"),
    "grep": ("-O", "--open-files-in-pager"),
    **dict.fromkeys(("diff", "log", "show", "range-diff", "stash", "reflog", "shortlog"), _WRITES),
}
# They touch nothing by themselves, under these very names.
BESIDE_GIT = names("cd echo true : pwd printf cat head tail wc grep ls sort uniq cut")


class Excluded(Bundle):
    """What may run outside, by the user's settings."""

    commands: tuple[str, ...] = ()  # as in a rule for Bash
    on_request: bool = True  # whether a command may ask to leave


WallsOf = Callable[[str, bool], Walls]  # a command, and whether it asks to leave


def no_walls(command: str, leave: bool) -> Walls:  # noqa: ARG001  # it has the shape of one that knows
    return Walls.NONE


def walls_of(excluded: Excluded) -> WallsOf:
    def choose(command: str, leave: bool) -> Walls:  # a callback
        if leave and not excluded.on_request:
            raise ToolError(
                "The sandbox cannot be left here ('sandbox.allowUnsandboxedCommands' is false). Nothing was done: run "
                "it without 'dangerouslyDisableSandbox', or tell the user what it would need."
            )
        return Walls.NONE if leave or _is_excluded(command, excluded.commands) else _usual(command)

    return choose


def _usual(command: str) -> Walls:
    if "git" not in command:
        return Walls.USUAL
    from mainspring.permissions.shell.look import look

    sight = look(command)
    if sight.opaque or any(script.functions for script in sight.scripts):
        return Walls.USUAL
    assigned = any(simple.assigns for script in sight.scripts for simple in script.commands)
    texts = [[word.text for word in seen.words] for seen in sight.commands]
    redirects = [redirect for script in sight.scripts for redirect in script.all_redirects]
    if assigned or any(r.op not in ("<", "2>&1", ">&") and r.target.text != "/dev/null" for r in redirects):
        return Walls.USUAL
    is_git = [words[0] == "git" and len(words) > 1 and (words[1] in OF_GIT or _sets_a_name(words)) for words in texts]
    harmless = [words[0] in BESIDE_GIT for words in texts]
    tempting = any(leads_to_code(words) for words in texts if words[0] == "git" and len(words) > 1)
    all_known = all(git or quiet for git, quiet in zip(is_git, harmless, strict=True))
    return Walls.GIT if any(is_git) and all_known and not tempting else Walls.USUAL


def _sets_a_name(words: list[str]) -> bool:
    """`git config user.name A`, with or without `--local`, and nothing else."""
    rest = [word for word in words[1:] if word != "--local"]
    return len(rest) == 3 and rest[0] == "config" and rest[1] in NAMES and not rest[2].startswith("-")


def leads_to_code(words: list[str]) -> bool:
    options = LEADS_TO_CODE.get(words[1], ())
    return any(word.startswith(options) for word in words[2:]) if options else False


def _is_excluded(command: str, patterns: tuple[str, ...]) -> bool:
    if not patterns:
        return False
    from mainspring.permissions.commands import covers, pattern
    from mainspring.permissions.shell.look import look

    sight = look(command)
    if sight.opaque or not sight.commands:
        return False
    rules = [pattern(text) for text in patterns]
    return all(any(covers(rule, seen.words) for rule in rules) for seen in sight.commands if seen.sure)
