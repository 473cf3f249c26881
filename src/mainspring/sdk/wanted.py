"""From the options of a program to those of a session (`assembly/options.py`). What is wrong is a `UsageError`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import msgspec

from mainspring.assembly import options as wanted
from mainspring.core.errors import UsageError
from mainspring.sdk.errors import CanUseToolShadowedWarning
from mainspring.sdk.options import Options

ALL = "all"
ENTRYPOINT = "CLAUDE_CODE_ENTRYPOINT"
CHECKPOINTS = "CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING"
CHOICES = {
    "permission_mode": (*wanted.MODES, "manual"),
    "effort": ("low", "medium", "high", "xhigh", "max"),
}
LEAST = {"max_turns": 1, "max_thinking_tokens": 0}


def session_options(given: Options) -> wanted.Options:
    check(given)
    rules, sources = with_skills(given)
    rules = (*rules, *[tool.name for tool in own_tools(given)])  # who brings a function wants it to be called
    values: dict[str, Any] = {
        "in_process": True,
        "input_format": "stream-json",
        "output_format": "stream-json",
        "cwd": os.fspath(given.cwd) if given.cwd is not None else None,
        "model": given.model,
        "fallback_model": (given.fallback_model,) if given.fallback_model else (),
        "effort": given.effort,
        "betas": tuple(given.betas),
        "max_turns": given.max_turns,
        "max_budget_usd": given.max_budget_usd,
        "task_budget": given.task_budget["total"] if given.task_budget else None,
        "tools": tool_names(given),
        "allowed_tools": rules,
        "disallowed_tools": tuple(given.disallowed_tools),
        "permission_mode": wanted.OTHER_NAMES.get(("--permission-mode", given.permission_mode or ""))
        or given.permission_mode,
        "permission_prompt_tool": "stdio" if given.can_use_tool else given.permission_prompt_tool_name,
        "add_dir": tuple([os.fspath(folder) for folder in given.add_dirs]),
        "session_id": given.session_id.lower() if given.session_id else None,
        "resume": given.resume,
        "continue_": given.continue_conversation,
        "fork_session": given.fork_session,
        "resume_session_at": given.resume_session_at,
        "resume_drops_turn": given.resume_drops_turn,
        "include_partial_messages": given.include_partial_messages,
        "include_hook_events": given.include_hook_events,
        "json_schema": schema(given),
        "settings": settings(given),
        "setting_sources": sources,
        "mcp_config": servers(given),
        "strict_mcp_config": given.strict_mcp_config,
        "session_mirror": given.session_store is not None,
        **thinking(given),
        **system_prompt(given),
        **flags(given.extra_args),
    }
    if given.stderr is not None:
        values["notice"] = values["remark"] = given.stderr
    return wanted.Options(**values)


def check(given: Options) -> None:
    """What type checkers cannot see, and what excludes each other."""
    for name, choices in CHOICES.items():
        if (value := getattr(given, name)) is not None and value not in choices:
            raise UsageError(f"'{name}' is one of {', '.join(choices)}, not '{value}'")
    for name, least in LEAST.items():
        if (value := getattr(given, name)) is not None and value < least:
            raise UsageError(f"'{name}' is a whole number of at least {least}, not {value}")
    for name in ("session_id", "resume_session_at", "resume_drops_turn"):
        if (value := getattr(given, name)) is not None and not wanted.is_uuid(value):
            raise UsageError(f"'{name}' is '{value}': it must be a UUID")
    if given.max_budget_usd is not None and given.max_budget_usd <= 0:
        raise UsageError(f"'max_budget_usd' is an amount of dollars such as 0.50, not {given.max_budget_usd}")
    if given.can_use_tool is not None and given.permission_prompt_tool_name:
        raise UsageError("'can_use_tool' and 'permission_prompt_tool_name' exclude each other: leave one out")
    if given.can_use_tool is not None:
        tell_of_shadows(given)
    if given.plugins:
        raise UsageError("'plugins' are not there yet: leave them out")


def tell_of_shadows(given: Options) -> None:
    """Who wants to be asked about everything may not know that rules come first. It may also be meant."""
    if given.permission_mode == "bypassPermissions":
        why = "'permission_mode' is 'bypassPermissions', so 'can_use_tool' is never asked"
    else:
        whole = [rule for rule in given.allowed_tools if "(" not in rule or rule.endswith(("()", "(*)"))]
        why = f"'can_use_tool' is not asked about {', '.join(whole)}: 'allowed_tools' has them" if whole else ""
    if why:
        warnings.warn(f"{why}. A 'PreToolUse' hook sees every call", CanUseToolShadowedWarning, stacklevel=2)


def flags(given: Mapping[str, str | None]) -> dict[str, Any]:
    """Flags of the command that have no option of their own, such as 'replay-user-messages'."""
    values: dict[str, Any] = {}
    for flag, value in given.items():
        name = flag.replace("-", "_")
        usual: object = getattr(wanted.Options, name, values)
        if isinstance(usual, bool) and value is None:
            values[name] = True
        elif (usual is None or isinstance(usual, str)) and isinstance(value, str):
            values[name] = value
        else:
            raise UsageError(f"'extra_args' has '{flag}', which is no flag that a session within a program heeds")
    return values


def tool_names(given: Options) -> tuple[str, ...] | None:
    """Of those that are ours; functions of the program are handed over as they are: see `own_tools`."""
    if given.tools is None or isinstance(given.tools, Mapping):
        return None
    return tuple([one for one in given.tools if isinstance(one, str)])


def own_tools(given: Options) -> tuple[Any, ...]:
    """Tools that the program made with `mainspring.tool`."""
    if given.tools is None or isinstance(given.tools, Mapping):
        return ()
    return tuple([one for one in given.tools if not isinstance(one, str)])


def with_skills(given: Options) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """Rules and sources of settings, with what the wish for skills brings: they are looked for, and may be loaded."""
    rules = [*given.allowed_tools]
    sources = tuple(given.setting_sources) if given.setting_sources is not None else None
    if given.skills is None:
        return tuple(rules), sources
    if isinstance(given.skills, str) and given.skills != ALL:
        raise UsageError(f"'skills' is a list of names, or '{ALL}', not '{given.skills}'")
    rules += ["Skill"] if given.skills == ALL else [f"Skill({name})" for name in given.skills]
    return tuple(dict.fromkeys(rules)), sources if sources is not None else ("user", "project")


def thinking(given: Options) -> dict[str, Any]:
    said = given.thinking
    if said is None:
        return {"max_thinking_tokens": given.max_thinking_tokens}
    match said.get("type"):
        case "adaptive" | "disabled" as kind:
            values: dict[str, Any] = {"thinking": kind}
        case "enabled":
            values = {"max_thinking_tokens": said["budget_tokens"]}
        case other:
            raise UsageError(f"'thinking' is of the type adaptive, enabled or disabled, not '{other}'")
    return values | {"thinking_display": said.get("display")}


def system_prompt(given: Options) -> dict[str, Any]:
    """None is one line that says who it is; ours is a preset."""
    said = given.system_prompt
    if said is None or isinstance(said, str):
        return {"system_prompt": said or ""}
    match said.get("type"):
        case "preset":
            return {"append_system_prompt": said.get("append")}
        case "custom":
            return {"system_prompt": said["prompt"]}
        case "file":
            return {"system_prompt_file": from_there(given, said["path"])}
        case other:
            raise UsageError(f"'system_prompt' is a text, or of the type preset, custom or file, not '{other}'")


def schema(given: Options) -> str | None:
    said = given.output_format
    if said is None:
        return None
    if said.get("type") != "json_schema" or not isinstance(said.get("schema"), Mapping):
        raise UsageError("'output_format' is {'type': 'json_schema', 'schema': {...}}")
    return msgspec.json.encode(said["schema"]).decode()


def settings(given: Options) -> str | None:
    """Where a sandbox is wished for, too, both are one text."""
    text = (given.settings or "{}").strip()
    path = "" if text.startswith("{") else from_there(given, text)
    if given.sandbox is None:
        return path or given.settings
    try:
        if path:
            with open(path, encoding="utf-8-sig") as file:  # noqa: PTH123
                text = file.read()
        read = msgspec.json.decode(text, type=dict[str, Any])
    except (OSError, msgspec.MsgspecError) as error:
        raise UsageError(f"'settings' cannot be read: {error}") from None
    return msgspec.json.encode(read | {"sandbox": dict(given.sandbox)}).decode()


def servers(given: Options) -> tuple[str, ...]:
    said = given.mcp_servers
    if not isinstance(said, Mapping):
        text = os.fspath(said)
        return (text if text.lstrip().startswith("{") else from_there(given, text),)
    if not said:
        return ()
    told = {name: {key: value for key, value in one.items() if key != "instance"} for name, one in said.items()}
    return (msgspec.json.encode({"mcpServers": told}).decode(),)


def from_there(given: Options, path: str | os.PathLike[str]) -> str:
    """A path as the session sees it, which works in a folder of its own."""
    return os.path.join(given.cwd or "", path)  # noqa: PTH118


def environment(given: Options) -> dict[str, str]:
    found = {**os.environ, ENTRYPOINT: "sdk-py", **given.env}
    if given.client_app is not None:
        found["CLAUDE_AGENT_SDK_CLIENT_APP"] = given.client_app
    if given.enable_file_checkpointing:
        found[CHECKPOINTS] = "true"
    return found


def greeting(given: Options, hooks: dict[str, Any]) -> dict[str, Any]:
    """What the first request says (stream-json 3.1)."""
    fields: dict[str, Any] = {"subtype": "initialize", "hooks": hooks or None}
    if given.agents:
        kinds = {name: asdict(one) for name, one in given.agents.items()}
        fields["agents"] = {
            name: {key: value for key, value in kind.items() if value is not None} for name, kind in kinds.items()
        }
    if given.skills is not None and given.skills != ALL:
        fields["skills"] = list(given.skills)
    if given.forward_subagent_text:
        fields["forwardSubagentText"] = True
    return fields
