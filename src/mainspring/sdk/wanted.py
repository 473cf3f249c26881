"""From the options of a program to those of a session (`agent/options.py`). What is wrong is a `UsageError`."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, cast

import msgspec

from mainspring.agent import options as wanted
from mainspring.agent.world import CHECKPOINTS
from mainspring.core.errors import UsageError
from mainspring.sdk.complaints import complain
from mainspring.sdk.options import Options

ALL = "all"
ENTRYPOINT = "CLAUDE_CODE_ENTRYPOINT"


def session_options(given: Options) -> wanted.Options:
    """Of options that were checked: see `checks.py`."""
    rules, sources = with_skills(given)
    rules = (*rules, *[tool.name for tool in own_tools(given)])  # who brings a function wants it to be called
    values: dict[str, Any] = {
        "in_process": True,
        "input_format": "stream-json",
        "output_format": "stream-json",
        "own_tools": tuple([tool.name for tool in own_tools(given)]),
        "cwd": os.fspath(given.cwd) if given.cwd is not None else None,
        "model": given.model,
        "fallback_model": tuple([name.strip() for name in (given.fallback_model or "").split(",") if name.strip()]),
        "effort": given.effort,
        "betas": tuple(given.betas),
        "max_turns": given.max_turns or None,  # 0: as many as it takes
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
    values["notice"] = values["remark"] = hearing(given.stderr)
    return wanted.Options(**values)


def hearing(tell: Callable[[str], object] | None) -> Callable[[str], None]:
    def hear(words: str) -> None:
        said = in_our_words(words)
        if tell is None:
            wanted.log(said)
            return
        try:
            tell(said)
        except Exception as error:  # noqa: BLE001  # what it raises is no reason to break off
            complain(tell, error)

    return hear


# What the command calls them.
BY_FLAG = {
    "--add-dir": "add_dirs", "--agents": "agents", "--allowedTools": "allowed_tools", "--betas": "betas",
    "--continue": "continue_conversation", "--disallowedTools": "disallowed_tools", "--effort": "effort",
    "--fallback-model": "fallback_model", "--fork-session": "fork_session", "--json-schema": "output_format",
    "--max-budget-usd": "max_budget_usd", "--max-turns": "max_turns", "--mcp-config": "mcp_servers", "--model": "model",
    "--permission-mode": "permission_mode", "--permission-prompt-tool": "permission_prompt_tool_name",
    "--resume": "resume", "--resume-drops-turn": "resume_drops_turn", "--resume-session-at": "resume_session_at",
    "--session-id": "session_id", "--setting-sources": "setting_sources", "--settings": "settings",
    "--system-prompt-file": "system_prompt", "--tools": "tools",
}  # fmt: skip


def in_our_words(words: str) -> str:
    """Whoever writes a program has written options, and no flags."""
    return re.sub(r"--[a-zA-Z-]+", lambda found: BY_FLAG.get(found[0], found[0]), words)


# Flags of the command that have no option of their own, and what they are in a session.
FLAGS = {"replay-user-messages": "replay_user_messages", "require-journal": "require_journal"}
NO_USE = ("debug-to-stderr", "verbose")


def flags(given: Mapping[str, str | None]) -> dict[str, Any]:
    for flag, value in given.items():
        if (flag not in FLAGS and flag not in NO_USE) or value is not None:
            raise UsageError(f"'extra_args' has '{flag}': a session within a program knows {', '.join(FLAGS)}")
    return {FLAGS[flag]: True for flag in given if flag in FLAGS}


def tool_names(given: Options) -> tuple[str, ...] | None:
    """Of those that are ours; functions of the program are handed over as they are: see `own_tools`."""
    if given.tools is None or isinstance(given.tools, Mapping):
        return None
    return tuple(["Agent" if one == "Task" else one for one in given.tools if isinstance(one, str)])


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
    rules += ["Skill"] if given.skills == ALL else [f"Skill({name})" for name in given.skills]
    return tuple(dict.fromkeys(rules)), sources if sources is not None else ("user", "project")


def thinking(given: Options) -> dict[str, Any]:
    said = cast("Mapping[str, Any] | None", given.thinking)
    if said is None:
        return {"max_thinking_tokens": given.max_thinking_tokens}
    match said.get("type"):
        case "adaptive" | "disabled" as kind:
            values: dict[str, Any] = {"thinking": kind}
        case "enabled" if isinstance(said.get("budget_tokens"), int):
            values = {"max_thinking_tokens": said["budget_tokens"]}
        case "enabled":
            raise UsageError("'thinking' of the type enabled needs 'budget_tokens', a whole number")
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
        case "custom" if isinstance(said.get("prompt"), str):
            return {"system_prompt": said["prompt"]}
        case "file" if isinstance(said.get("path"), str | os.PathLike):
            return {"system_prompt_file": from_there(given, said["path"])}
        case other:
            raise UsageError(
                "'system_prompt' is a text, or of the type preset, custom (with 'prompt') or file (with 'path'), not "
                f"'{other}'"
            )


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
    if "CLAUDECODE" not in given.env:
        found.pop("CLAUDECODE", None)  # of a session that this program itself may be run by
    if given.client_app is not None:
        found["CLAUDE_AGENT_SDK_CLIENT_APP"] = given.client_app
    if given.enable_file_checkpointing:
        found[CHECKPOINTS] = "true"
    return found


def greeting(given: Options, hooks: dict[str, Any]) -> dict[str, Any]:
    """What the first request, `initialize`, says (stream-json 3.1)."""
    fields: dict[str, Any] = {"hooks": hooks or None}
    if given.agents:
        kinds = {name: asdict(one) for name, one in given.agents.items()}
        fields["agents"] = {
            name: {key: value for key, value in kind.items() if value is not None} for name, kind in kinds.items()
        }
    if given.skills is not None and given.skills != ALL:
        fields["skills"] = list(given.skills)
    if given.forward_subagent_text:
        fields["forwardSubagentText"] = True
    said = given.system_prompt
    if isinstance(said, Mapping) and said.get("type") == "preset" and said.get("exclude_dynamic_sections") is True:
        fields["excludeDynamicSections"] = True
    return fields
