"""Removals that no mode and no rule approves: the root, home, the workspace and the like (security S9)."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable

from mainspring.core.value import Value
from mainspring.permissions.rules import glob_matches
from mainspring.permissions.shell.analyze import FOUND, CommandAnalysis, FoundCommand, base_name, shell_operand
from mainspring.permissions.shell.parse import may_remove
from mainspring.permissions.shell.runners import SHELLS
from mainspring.permissions.shell.values import UNKNOWN, ShellWord, names

_TOP = names(
    "bin boot data dev etc home lib lib32 lib64 media mnt opt private proc root run sbin srv sys tmp usr var "
    "Users Library System Applications Volumes"
)
_NARROW = names("-name -iname -path -ipath -wholename -regex -iregex -empty -newer -mtime -mmin -size -perm -user")
MOST_VALUES = 100  # of one variable
_LIST = names("find fd ls echo printf git grep rg")  # their output can be judged by their words
_WHERE_WE_ARE = frozenset({"HOME", "PWD", "OLDPWD", "("})
_BRACES = re.compile(r"([^{}]*)\{([^{}]*)\}([^{}]*)\Z")


class RemovalGuard(Value):
    """Folders that must not be removed: the working folders, home, and every folder above them."""

    cwds: tuple[str, ...]  # the folders in which the command may run
    folders: tuple[str, ...]
    home: str


def find_critical_removal(sight: CommandAnalysis, ground: RemovalGuard, real: Callable[[str], Iterable[str]]) -> str:
    """Why the line may remove a protected folder, or "". `real`: every name of a path."""
    values = _values(sight)
    listed = any(base_name(seen.words[0].text) in _LIST for seen in sight.commands)
    for seen in sight.commands:
        for target in {(word.text, word.names): word for word in _targets(seen)}.values():
            if target.names == ("{}",) and not listed and any(_is_recursive(word.text) for word in seen.words):
                return "it removes folders that its input names"
            for word in _variants(target, values):
                reason = _reason(word, ground, real)
                if reason:
                    return reason
    for text in sight.unread:
        if may_remove(text):
            return "it removes something, and cannot be read"
    return ""


def _is_recursive(text: str) -> bool:
    return text == "--recursive" or (text[:1] == "-" and text[:2] != "--" and "r" in text.lower())


def _values(sight: CommandAnalysis) -> dict[str, list[ShellWord]]:
    """The values that the line itself gives to variables; of functions and shells, all their arguments."""
    values: dict[str, list[ShellWord]] = {}
    for script in sight.scripts:
        functions = {name for name, _ in script.functions}
        for command in script.commands:
            for assign in command.assigns:
                if assign.value is not None:
                    values.setdefault(assign.name, []).append(assign.value)
            if command.words and command.words[0].text in functions:
                values.setdefault("1", []).extend(command.words[1:])
    printed = [word for seen in sight.commands if seen.sure for word in _printed(seen.words)]
    for script in sight.scripts:
        given = [redirect.target for redirect in script.all_redirects if redirect.op in ("<<", "<<<")]
        printed.extend([ShellWord(part, -1) for target in given for part in target.text.split()])
    for seen in sight.commands:
        name = base_name(seen.words[0].text)
        if name in SHELLS:
            kind, operand = shell_operand(seen.words)
            after = seen.words.index(operand) + 1 if kind == "string" and operand is not None else len(seen.words)
            values.setdefault("1", []).extend(seen.words[after:])
        elif name == "read":
            for word in seen.words[1:]:
                values.setdefault(word.text, []).extend(printed)
    values["{}"] = printed
    return values


def _printed(words: tuple[ShellWord, ...]) -> list[ShellWord]:
    """What a command may pass to `xargs` or `read`, as far as it is among its words."""
    match base_name(words[0].text):
        case "pwd":
            return [ShellWord(".", -1)]
        case "find":
            return _narrowed(words)
        case "echo" | "printf" | "ls":
            return [word for word in words[1:] if word.exact and not word.text.startswith("-")]
        case _:
            return []


def _variants(word: ShellWord, values: dict[str, list[ShellWord]]) -> list[ShellWord]:
    """The word, and its values with each known value of its variable, and of the variables in that."""
    found = [word]
    todo = [word]
    seen = {(word.text, word.names)}
    while todo:
        one = todo.pop()
        if len(one.names) != 1 or one.text.count(UNKNOWN) != 1:
            continue
        name = "1" if one.names[0] in ("@", "*") or one.names[0].isdigit() else one.names[0]
        for value in values.get(name, ()):
            text = one.text.replace(UNKNOWN, value.text)
            if (text, value.names) in seen:
                continue
            if len(seen) > MOST_VALUES:
                return [ShellWord(UNKNOWN, word.start)]  # too many to check
            seen.add((text, value.names))
            tilde = value.tilde and one.text.startswith(UNKNOWN)
            new = ShellWord(text, word.start, value.many, value.glob, tilde, names=value.names)
            found.append(new)
            if value.names != one.names:  # `x=$x/y` would never end
                todo.append(new)
    return found


def _targets(seen: FoundCommand) -> list[ShellWord]:
    name = base_name(seen.words[0].text) if seen.words[0].exact else ""
    if name == "find":
        return _found(seen.words)
    if name not in ("rm", "rmdir", "") or (not name and not seen.sure):
        return []
    targets: list[ShellWord] = []
    ended = False
    for word in seen.words[1:]:
        if ended or not word.text.startswith("-") or word.many:
            targets.append(word)
        ended = ended or word.text == "--"
    return targets if name else [word for word in targets if word.exact]  # an unknown program, given the root


def _found(words: tuple[ShellWord, ...]) -> list[ShellWord]:
    """The start folders of `find`, if it removes its results. With a narrow test, only paths outside the working
    folder.
    """
    removes_them = any(word.text == "-delete" or base_name(word.text) in ("rm", "rmdir") for word in words[1:])
    return _narrowed(words) if removes_them else []


def _narrowed(words: tuple[ShellWord, ...]) -> list[ShellWord]:
    first = next((index for index, word in enumerate(words[1:]) if word.text.startswith(("-", "(", "!"))), len(words))
    places = list(words[1 : first + 1]) or [ShellWord(".", -1)]
    places.extend(
        [ShellWord(".", -1) for word in places if word.many and word.text == UNKNOWN]
    )  # it may be no word at all
    narrow = any(word.text in _NARROW for word in words)
    return [word for word in places if not narrow or word.tilde or not word.exact or _leads_out(word.text)]


def _leads_out(text: str) -> bool:
    return text.startswith("/") or ".." in text.split("/")


def _reason(word: ShellWord, ground: RemovalGuard, real: Callable[[str], Iterable[str]]) -> str:
    if FOUND in word.names:
        return ""  # the searched folders are targets themselves
    if word.many and word.text.startswith("-"):
        return "it removes what follows options that are computed"
    if any(name.startswith("{") and name != "{}" for name in word.names):
        return _braces(word, ground, real)
    if UNKNOWN not in word.text:
        return _static(word.text, ground, real)
    if word.glob:
        reason = _glob(word, ground, real)
        if reason:
            return reason
    parts = word.text.split("/")
    while parts and not parts[-1].replace(UNKNOWN, "").strip("."):
        parts.pop()  # `*`, `.*`, `$x`, and empty names
    ends_open = len(parts) < len(word.text.split("/"))
    rest = "/".join(parts)
    if UNKNOWN in rest:
        return _computed(word, parts, ends_open=ends_open)
    if word.text == UNKNOWN and not word.glob:
        known = set(word.names) & _WHERE_WE_ARE
        return "it removes what a command or variable names" if known or not word.names else ""
    if word.text.startswith(UNKNOWN) and not word.glob:
        return "it removes what is below a variable, which may be empty"
    where = rest or ("/" if word.text.startswith("/") else ".")
    return _static(where, ground, real) if ends_open else ""


def _glob(word: ShellWord, ground: RemovalGuard, real: Callable[[str], Iterable[str]]) -> str:
    """Whether a pattern may match a protected folder."""
    path = ground.home + word.text[1:] if word.tilde else word.text
    before, _, after = path.partition(UNKNOWN)
    if ".." in after.split("/"):
        return "it removes what is above a pattern"
    kept = {name for folder in (ground.cwds[0], *ground.folders, ground.home) for name in (folder, *real(folder))}
    folders = [[part for part in name.split("/") if part] for name in kept]
    for cwd in ground.cwds:
        start, slash, name = posixpath.join(cwd, before).rpartition("/")
        parts = [
            part for part in (posixpath.normpath(start or "/") + slash + name + UNKNOWN + after).split("/") if part
        ]
        if len(parts) == 1:
            return "it removes what a pattern matches in '/'"
        if any(len(folder) >= len(parts) and all(map(_fits, parts, folder)) for folder in folders):
            return "it removes what a pattern matches, and that may be or hold a working folder or home"
    return ""


def _fits(part: str, name: str) -> bool:
    return glob_matches(part.split(UNKNOWN), name)


def _computed(word: ShellWord, parts: list[str], *, ends_open: bool) -> str:
    """An unknown part before a known one: below a variable."""
    if word.glob:
        return ""
    if ends_open or ".." in parts:
        return "it removes what is below a variable, which may be empty"
    after = [part for part in parts[1:] if part]
    if parts[0] == UNKNOWN and len(after) == 1 and after[0] in _TOP:
        return f"it removes '/{after[0]}' if the variable is empty"
    return "it removes what a pattern matches below a variable" if UNKNOWN in "/".join(parts[1:]) and word.many else ""


def _braces(word: ShellWord, ground: RemovalGuard, real: Callable[[str], Iterable[str]]) -> str:
    raw = next(name for name in word.names if name.startswith("{") and name != "{}")[1:]
    found = _BRACES.match(raw)
    if found is None or any(character in raw for character in "*?[$`'\"\\~"):
        return "it removes a list that is computed"
    for one in found[2].split(","):
        reason = _static(found[1] + one + found[3], ground, real)
        if reason:
            return reason
    return ""


def _static(path: str, ground: RemovalGuard, real: Callable[[str], Iterable[str]]) -> str:
    if not path:
        return ""
    if path == "~" or path.startswith("~/"):
        path = ground.home + path[1:]
    for cwd in ground.cwds:
        joined = posixpath.join(cwd, path)
        full = posixpath.normpath(joined)
        # After a link `..` leads elsewhere than it seems.
        for name in {full, *real(full), *(real(joined) if ".." in path else ())}:
            reason = _name(name, ground, real)
            if reason:
                return reason
    return ""


def _name(name: str, ground: RemovalGuard, real: Callable[[str], Iterable[str]]) -> str:
    parts = [part for part in name.split("/") if part]
    if len(parts) < 2:
        return f"it removes '{name}'"
    kept = {ground.cwds[0], *ground.folders, ground.home}
    if name.startswith(ground.cwds[0] + "/") and not any(folder.startswith(name) for folder in kept):
        return ""  # below the working folder, as most are
    for folder in kept:
        if any([part for part in one.split("/") if part][: len(parts)] == parts for one in {folder, *real(folder)}):
            return f"it removes '{name}', which is or holds a working folder or home"
    return ""
