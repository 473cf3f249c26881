"""Convert the options of a program to those of a session (`agent/options.py`). Raises `UsageError` for invalid ones."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec

from mainspring.agent.options import CHECKPOINTS, OTHER_MODES, SessionOptions, by_name, log_warning, read_option
from mainspring.core.errors import UsageError
from mainspring.sdk.errors import log_callback_failure
from mainspring.sdk.options import Options

if TYPE_CHECKING:
    from mainspring.agent.host import HostHook

ALL = "all"
ENTRYPOINT = "CLAUDE_CODE_ENTRYPOINT"


def session_options(
    given: Options, hooks: tuple[HostHook, ...] = (), sessions_home: str | None = None
) -> SessionOptions:
    """The options must have been checked: see `options.py`. `sessions_home`: where a stored session was restored."""
    rules, sources = add_skill_rules(given)
    own = tuple([tool.name for tool in own_tools(given)])
    kind, most, display = read_thinking_options(given)
    prompt = system_prompt(given)
    flags = given_flags(given.extra_args)
    tell = make_listener(given.stderr)
    return SessionOptions(
        in_process=True,
        driven=True,
        cwd=os.fspath(given.cwd) if given.cwd is not None else None,
        sessions_home=sessions_home,
        model=given.model,
        fallback_model=tuple([name.strip() for name in (given.fallback_model or "").split(",") if name.strip()]),
        effort=given.effort,
        thinking=kind,
        max_thinking_tokens=most,
        thinking_display=display,
        betas=tuple(given.betas),
        system_prompt=prompt.text,
        system_prompt_file=prompt.file,
        append_system_prompt=prompt.append,
        exclude_dynamic_sections=prompt.is_alike,
        output_schema=read_output_schema(given),
        max_turns=given.max_turns or None,  # 0: no limit
        max_budget_usd=given.max_budget_usd,
        task_budget=given.task_budget["total"] if given.task_budget else None,
        retry=given.retry,
        tools=tool_names(given),
        own_tools=own,
        allowed_tools=(*rules, *own),  # the program passed the function so that it is called
        disallowed_tools=tuple(given.disallowed_tools),
        permission_mode=OTHER_MODES.get(given.permission_mode or "", given.permission_mode),
        allow_dangerously_skip_permissions="allow-dangerously-skip-permissions" in flags,
        permission_prompt_tool_name="stdio" if given.can_use_tool else given.permission_prompt_tool_name,
        add_dirs=tuple([os.fspath(folder) for folder in given.add_dirs]),
        host_hooks=hooks,
        deps=given.deps,
        session_id=given.session_id.lower() if given.session_id else None,
        continue_conversation=given.continue_conversation,
        resume=given.resume,
        fork_session=given.fork_session,
        resume_session_at=given.resume_session_at,
        resume_drops_turn=given.resume_drops_turn,
        persist=given.persist,
        require_journal="require-journal" in flags,
        settings=merge_sandbox_settings(given),
        setting_sources=sources,
        skills=None if given.skills is None or given.skills == ALL else tuple(given.skills),
        agents=list_agent_definitions(given),
        mcp_servers=list_mcp_configs(given),
        strict_mcp_config=given.strict_mcp_config,
        plugin_dirs=tuple([os.fspath(one["path"]) for one in given.plugins]),
        include_partial_messages=given.include_partial_messages,
        include_hook_events=given.include_hook_events,
        replay_user_messages="replay-user-messages" in flags,
        forward_subagent_text=given.forward_subagent_text,
        tool_use_summaries=given.tool_use_summaries,
        prompt_suggestions=given.prompt_suggestions,
        tracing=given.tracing,
        notice=tell,
        remark=tell,
        spell=spell_sdk_option,
    )


# Options of a session that have another name here.
NAMES = {
    "allow_dangerously_skip_permissions": "allow-dangerously-skip-permissions",  # in `extra_args`
    "output_schema": "output_format",
    "plugin_dirs": "plugins",
    "require_journal": "require-journal",  # in `extra_args`
    "system_prompt_file": "system_prompt",
}


def spell_sdk_option(option: str, value: str = "") -> str:
    return by_name(NAMES.get(option, option), value)


def make_listener(tell: Callable[[str], object] | None) -> Callable[[str], None]:
    def hear(words: str) -> None:
        if tell is None:
            log_warning(words)
            return
        try:
            tell(words)
        except Exception as error:  # noqa: BLE001  # an error in the callback must not stop the session
            log_callback_failure(tell, error)

    return hear


# Flags of the command that have no option of their own.
FLAGS = (
    "allow-dangerously-skip-permissions",
    "replay-user-messages",
    "require-journal",
)
NO_USE = ("debug-to-stderr", "verbose")


def given_flags(given: Mapping[str, str | None]) -> tuple[str, ...]:
    for flag, value in given.items():
        if (flag not in FLAGS and flag not in NO_USE) or value is not None:
            raise UsageError(
                f"'extra_args' has '{flag}', which the SDK does not support; supported: {', '.join(FLAGS)}"
            )
    return tuple(given)


def tool_names(given: Options) -> tuple[str, ...] | None:
    """Names of built-in tools; functions of the program are passed on as they are: see `own_tools`."""
    if given.tools is None or isinstance(given.tools, Mapping):
        return None
    return tuple(["Agent" if one == "Task" else one for one in given.tools if isinstance(one, str)])


def own_tools(given: Options) -> tuple[Any, ...]:
    """Tools that the program made with `mainspring.tool`."""
    if given.tools is None or isinstance(given.tools, Mapping):
        return ()
    return tuple([one for one in given.tools if not isinstance(one, str)])


def add_skill_rules(given: Options) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """Rules and setting sources, extended for `skills`: they are loaded, and the model may use them."""
    rules = [*given.allowed_tools]
    sources = tuple(given.setting_sources) if given.setting_sources is not None else None
    if given.skills is None:
        return tuple(rules), sources
    rules += ["Skill"] if given.skills == ALL else [f"Skill({name})" for name in given.skills]
    return tuple(dict.fromkeys(rules)), sources if sources is not None else ("user", "project")


def read_thinking_options(given: Options) -> tuple[str | None, int | None, str | None]:
    """Whether the model thinks, how much, and what is shown of it."""
    said = cast("Mapping[str, Any] | None", given.thinking)
    if said is None:
        return None, given.max_thinking_tokens, None
    display = said.get("display")
    match said.get("type"):
        case "adaptive" | "disabled" as kind:
            return kind, None, display
        case "enabled" if isinstance(said.get("budget_tokens"), int):
            return None, said["budget_tokens"], display
        case "enabled":
            raise UsageError("'thinking' of type 'enabled' needs 'budget_tokens', a whole number")
        case other:
            raise UsageError(f"'thinking' must have the type 'adaptive', 'enabled' or 'disabled', not '{other}'")


class SystemPrompt(NamedTuple):
    text: str | None = None  # None: the default prompt; empty: a minimal prompt
    file: str | None = None
    append: str | None = None
    is_alike: bool = False  # the same in all directories


def system_prompt(given: Options) -> SystemPrompt:
    """None gives a minimal prompt; the preset gives the default prompt."""
    said = given.system_prompt
    if said is None or isinstance(said, str):
        return SystemPrompt(said or "")
    match said.get("type"):
        case "preset":
            return SystemPrompt(append=said.get("append"), is_alike=said.get("exclude_dynamic_sections") is True)
        case "custom" if isinstance(said.get("prompt"), str):
            return SystemPrompt(said["prompt"])
        case "file" if isinstance(said.get("path"), str | os.PathLike):
            return SystemPrompt(file=absolute_from_session(given, said["path"]))
        case other:
            raise UsageError(
                "'system_prompt' must be a string, or have type preset, custom (with 'prompt') or file (with 'path'), "
                f"not '{other}'"
            )


def read_output_schema(given: Options) -> dict[str, Any] | None:
    said = given.output_format
    if said is None:
        return None
    if said.get("type") != "json_schema" or not isinstance(said.get("schema"), Mapping):
        raise UsageError("'output_format' is {'type': 'json_schema', 'schema': {...}}")
    return to_plain_json("output_format", said["schema"])


def merge_sandbox_settings(given: Options) -> str | dict[str, Any] | None:
    """Settings and the `sandbox` option as one object."""
    if given.settings is None and given.sandbox is None:
        return None
    said = read_option("settings", (given.settings or "{}").strip(), spell_sdk_option)
    path = absolute_from_session(given, said) if isinstance(said, str) else ""
    if given.sandbox is None:
        return path or said
    if path:
        try:
            with open(path, encoding="utf-8-sig") as file:  # noqa: PTH123
                said = msgspec.json.decode(file.read(), type=dict[str, Any])
        except (OSError, msgspec.MsgspecError) as error:
            raise UsageError(f"'settings' cannot be read: {error}") from None
    return {**cast("dict[str, Any]", said), "sandbox": to_plain_json("sandbox", given.sandbox)}


def list_mcp_configs(given: Options) -> tuple[str | dict[str, Any], ...]:
    said = given.mcp_servers
    if not isinstance(said, Mapping):
        read = read_option("mcp_servers", os.fspath(said), spell_sdk_option)
        return (absolute_from_session(given, read) if isinstance(read, str) else read,)
    if not said:
        return ()
    told = {name: {key: value for key, value in one.items() if key != "instance"} for name, one in said.items()}
    return ({"mcpServers": to_plain_json("mcp_servers", told)},)


def list_agent_definitions(given: Options) -> dict[str, Any] | None:
    if not given.agents:
        return None
    kinds = {name: asdict(one) for name, one in given.agents.items()}
    return {name: {key: value for key, value in kind.items() if value is not None} for name, kind in kinds.items()}


def to_plain_json(option: str, value: Mapping[Any, Any]) -> dict[str, Any]:
    """As JSON has it: lists for tuples, and no values that only this program knows."""

    def made(value: object) -> Any:
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, list | tuple):
            return [made(one) for one in cast("list[object]", value)]
        if isinstance(value, Mapping):
            table = cast("Mapping[Any, object]", value)
            if all(isinstance(key, str) for key in table):
                return {key: made(one) for key, one in table.items()}
        raise UsageError(f"'{option}' has a value that JSON cannot represent: a {type(cast('Any', value)).__name__}")

    return cast("dict[str, Any]", made(value))


def absolute_from_session(given: Options, path: str | os.PathLike[str]) -> str:
    """Resolve a path against the session's working directory."""
    return os.path.join(given.cwd or "", path)  # noqa: PTH118


def make_environment(given: Options) -> dict[str, str]:
    found = {**os.environ, ENTRYPOINT: "sdk-py", **given.env}
    if given.env.get("CLAUDE_CONFIG_DIR") and "MAINSPRING_HOME" not in given.env:
        found.pop("MAINSPRING_HOME", None)  # the program chose another home than the process has
    if "CLAUDECODE" not in given.env:
        found.pop("CLAUDECODE", None)  # variables of a session that may run this program
    if given.client_app is not None:
        found["CLAUDE_AGENT_SDK_CLIENT_APP"] = given.client_app
    if given.enable_file_checkpointing:
        found[CHECKPOINTS] = "true"
    return found
