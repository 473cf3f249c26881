"""The entries of `hooks` in a settings file: `{event: [{matcher, hooks: [{type, command, timeout}]}]}`.

A mistake in an entry never switches a guard off. An invalid matcher matches every call of its event. An entry whose
intent is clear although its shape is wrong is used. An entry that cannot run at all stays as a guard that denies the
calls it matches; at other events it is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, cast

from mainspring.core.matchers import compile_matcher
from mainspring.settings.keys import CheckedValue, InvalidSetting, check_amount, check_table
from mainspring.text import suggest_near_name

GUARD_EVENTS = ("PreToolUse", "PermissionRequest")  # a hook of these decides about a call: `hooks/events.py`
NEEDS = {"command": "command", "prompt": "prompt", "agent": "prompt", "http": "url"}  # the required field of each type
GROUP_FIELDS = ("matcher", "hooks")
ENTRY_FIELDS = (
    "type", "command", "prompt", "url", "timeout", "onFailure", "async", "asyncRewake", "asyncTimeout", "once", "if",
    "shell", "args", "model", "headers", "allowedEnvVars", "statusMessage", "description", "continueOnBlock", "server",
    "tool", "input",
)  # fmt: skip  # ours, and those of Claude Code
FAILURES = ("block", "continue")
REFUSED = "Every call that it would guard is denied until you fix it"
LEFT_OUT = "It is left out"


class RawHook(NamedTuple):
    event: str
    matcher: str
    command: dict[str, object]
    entry: str  # its path in the file: 'hooks.PreToolUse[0].hooks[1]'
    broken: str = ""  # why it cannot run


def check_hooks(value: object) -> CheckedValue:
    reader = _Reader()
    for event, groups in check_table(value).items():
        reader.event(event, groups)
    return CheckedValue(tuple(reader.good), tuple(reader.wrong))


def unreadable_guards(text: str) -> tuple[RawHook, ...]:
    """Of a file that cannot be parsed: its hooks are lost, so every call that they would guard is denied."""
    found = [event for event in GUARD_EVENTS if f'"{event}"' in text or f"hooks.{event}" in text]
    return tuple([RawHook(event, "", {}, f"hooks.{event}", "the settings file is invalid") for event in found])


def place_of(path: tuple[str | int, ...]) -> str:
    return "hooks" + "".join([f"[{part}]" if isinstance(part, int) else f".{part}" for part in path])


class _Reader:
    def __init__(self) -> None:
        self.good: list[RawHook] = []
        self.wrong: list[InvalidSetting] = []

    def event(self, event: str, groups: object) -> None:
        if isinstance(groups, dict) and not {"hooks", "command"}.isdisjoint(cast("dict[str, object]", groups)):
            self.wrong.append(InvalidSetting("it must be a list; its value is used as the only entry", event))
            groups = [cast("object", groups)]
        if not isinstance(groups, list):
            self.broken(event, "", "it must be a list", (event,))
            return
        for number, group in enumerate(cast("list[object]", groups)):
            self.group(event, group, (event, number))

    def group(self, event: str, value: object, path: tuple[str | int, ...]) -> None:
        if not isinstance(value, dict):
            self.broken(event, "", "it must be a table of names and values", path)
            return
        group = cast("dict[str, object]", value)
        matcher = self.matcher(event, group.get("matcher"), path)
        inner = group.get("hooks")
        if inner is None and "command" in group:
            self.wrong.append(InvalidSetting("it needs a list 'hooks' around its command; the command is used", *path))
            self.command(event, matcher, {name: one for name, one in group.items() if name != "matcher"}, path)
            return
        self.fields(group, GROUP_FIELDS, path)
        for at, entry in self.entries(event, matcher, inner, path):
            self.command(event, matcher, entry, (*path, "hooks", at))

    def entries(
        self, event: str, matcher: str, inner: object, path: tuple[str | int, ...]
    ) -> Iterator[tuple[int, object]]:
        if isinstance(inner, dict):
            self.wrong.append(InvalidSetting("'hooks' must be a list; its value is used as the only hook", *path))
            yield 0, inner  # pyright: ignore[reportUnknownMemberType]
        elif isinstance(inner, list):
            if not inner:
                self.warn("its list 'hooks' is empty, so nothing runs", *path)
            yield from enumerate(cast("list[object]", inner))
        else:
            self.broken(event, matcher, "it needs a list 'hooks'", path)

    def matcher(self, event: str, matcher: object, path: tuple[str | int, ...]) -> str:
        if matcher is None:
            return ""
        why = _trouble_with(matcher)
        if why:
            self.warn(f"{why}. Its hooks run for every call of {event}", *path, "matcher")
        return "" if why else str(matcher)

    def command(self, event: str, matcher: str, value: object, path: tuple[str | int, ...]) -> None:
        if not isinstance(value, dict):
            self.broken(event, matcher, "it must be a table of names and values", path)
            return
        hook = dict(cast("dict[str, object]", value))
        if "type" not in hook and isinstance(hook.get("command"), str):
            self.wrong.append(InvalidSetting("its 'type' is missing; 'command' holds", *path))
            hook["type"] = "command"
        needs = NEEDS.get(str(hook.get("type")))
        if needs is None:
            kinds = tuple(NEEDS)
            says = f"its 'type' must be one of {', '.join(kinds)}{suggest_near_name(str(hook.get('type')), kinds)}"
            self.broken(event, matcher, says, path)
        elif not isinstance(hook.get(needs), str) or not str(hook[needs]).strip():
            self.broken(event, matcher, f"it needs a string '{needs}'", path)
        else:
            self.details(hook, path)
            self.good.append(RawHook(event, matcher, hook, place_of(path)))

    def details(self, hook: dict[str, object], path: tuple[str | int, ...]) -> None:
        self.fields(hook, ENTRY_FIELDS, path)
        try:
            if "timeout" in hook:
                check_amount(hook["timeout"])
        except InvalidSetting as error:
            del hook["timeout"]
            self.warn(f"{error.says}. Its hook has the default time limit", *path, "timeout")
        if hook.get("onFailure", "block") not in FAILURES:
            hook["onFailure"] = "block"
            self.warn("it must be 'block' or 'continue'. A failure of its hook blocks", *path, "onFailure")
        if not isinstance(hook.get("async", False), bool):
            del hook["async"]
            self.warn("it must be true or false. Its hook does not run in the background", *path, "async")

    def fields(self, entry: dict[str, object], known: tuple[str, ...], path: tuple[str | int, ...]) -> None:
        for name in entry:
            if name not in known:
                self.warn(f"unknown field{suggest_near_name(name, known)}", *path, name)

    def broken(self, event: str, matcher: str, says: str, path: tuple[str | int, ...]) -> None:
        guards = event in GUARD_EVENTS
        self.wrong.append(InvalidSetting(f"{says}. {REFUSED if guards else LEFT_OUT}", *path))
        if guards:
            self.good.append(RawHook(event, matcher, {}, place_of(path), says))

    def warn(self, says: str, *path: str | int) -> None:
        self.wrong.append(InvalidSetting(says, *path, in_force=True))


def _trouble_with(matcher: object) -> str:
    if not isinstance(matcher, str):
        return "it must be a string"
    try:
        compile_matcher(matcher)
    except ValueError as error:
        return str(error)
    return ""
