"""Where a line may be when one of its commands runs: `cd` and its relatives."""

from __future__ import annotations

import posixpath

from mainspring.core.value import Value
from mainspring.permissions.files import FileRules
from mainspring.permissions.shell.analyze import CommandAnalysis, base_name, option_values
from mainspring.permissions.shell.values import UNKNOWN

CHDIR = {"env": frozenset({"-C", "--chdir"}), "sudo": frozenset({"-D", "--chdir"})}
_MOVERS = frozenset({*CHDIR, "cd", "pushd", "popd"})
MOST_FOLDERS = 16  # with more, it is not known where the line is


class WorkingDirectories(Value):
    cwds: tuple[str, ...]  # the working folder, and where a `cd` may lead
    moves: bool  # there is a `cd` to somewhere else
    known: bool
    inside: bool  # all of those are in the working folders
    lost: bool  # it may be in a folder that is not among `cwds`
    full: bool  # there are more: it is asked, since a limit must not hide one of them (security S10)


def find_working_directories(sight: CommandAnalysis, files: FileRules) -> WorkingDirectories:
    """Where the line may be when a command of it runs."""
    cwds = [files.cwd]
    moves, known, lost = False, True, False
    pushed = 0  # folders that a `popd` may come back to, all of them among `cwds`
    for seen in sight.commands:
        first = seen.words[0]
        if base_name(first.text) not in _MOVERS:
            continue  # which most are
        chdir = CHDIR.get(base_name(first.text))
        if chdir is not None and len(cwds) <= MOST_FOLDERS:
            for text, word in option_values(chdir, seen.words[:MOST_FOLDERS]):
                moves = True
                known = known and word.exact
                lost = lost or not word.exact
                cwds.append(posixpath.normpath(posixpath.join(files.cwd, text.replace(UNKNOWN, "x"))))
        if not first.exact or first.text not in ("cd", "pushd", "popd"):
            continue
        operands = [word for word in seen.words[1:] if word.text not in ("-L", "-e", "--", "-n")]
        if (
            first.text == "popd"
            or len(operands) != 1
            or not operands[0].exact
            or operands[0].text.startswith(("-", "+"))
        ):
            moves, known = True, False
            back = first.text == "popd" and not operands and pushed > 0
            pushed -= back
            lost = lost or not back
            continue
        pushed += first.text == "pushd"
        target = operands[0]
        text = files.policy.home + target.text[1:] if target.tilde else target.text
        for old in tuple(cwds):
            new = posixpath.normpath(posixpath.join(old, text))
            if new not in cwds:
                cwds.append(new)
                moves = True
        if len(cwds) > MOST_FOLDERS:  # each may double them
            break
    full = len(cwds) > MOST_FOLDERS
    known = known and not full
    del cwds[MOST_FOLDERS:]
    inside = all(files.is_inside(place) for place in cwds[1:])
    return WorkingDirectories(tuple(cwds), moves=moves, known=known, inside=known and inside, lost=lost, full=full)
