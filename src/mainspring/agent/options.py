"""`SessionOptions`: the options of a session, one class for all front ends.

Each front end maps its own flags or arguments to it, field by field, and spells an option its own way in error
messages (`OptionError`). `read_option` reads options that may be JSON text or a file name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Self, dataclass_transform

from mainspring import secrets
from mainspring.text import strip_control_characters

if TYPE_CHECKING:
    from mainspring.agent.host import HostHook
    from mainspring.core.config import Sampling


MODES = ("default", "acceptEdits", "plan", "bypassPermissions", "dontAsk", "auto")
OTHER_MODES = {"manual": "default"}  # Z-31

# Which values options take: `option_checks.py` checks them, for all front ends.
CHOICES = {
    "permission_mode": MODES,
    "effort": ("low", "medium", "high", "xhigh", "max"),
    "thinking": ("adaptive", "enabled", "disabled"),
    "thinking_display": ("summarized", "omitted"),
    "retry": ("default", "unattended"),
}
LEAST = {"max_turns": 1, "max_thinking_tokens": 0, "task_budget": 1, "context_window": 1_000}
IDS = ("session_id", "resume_session_at", "resume_drops_turn")

CHECKPOINTS = "CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING"  # in the environment of the session
NO_CHECKPOINTS = "CLAUDE_CODE_DISABLE_FILE_CHECKPOINTING"

Spell = Callable[..., str]  # spells an option's name, and perhaps its value, as the front end does


class StartError(Exception):
    """The session cannot be started. The message says why, and what to do."""

    code = 1  # the exit code of the command,
    help = "mainspring --help"  # and the help that it refers to


class MissingKeyError(StartError):
    """No key is known for a server that needs one. A terminal can ask for it."""


def by_name(option: str, value: str = "") -> str:
    """Spells an option as a Python program does."""
    return f"{option}={value}" if value else option


class OptionError(StartError):
    """An option is wrong or not allowed: its name, its value, and the reason, which begins with a blank or a colon."""

    def __init__(self, option: str, reason: str, value: str = "", spell: Spell = by_name) -> None:
        self.option, self.reason, self.value = option, reason, value
        super().__init__(f"'{spell(option, value)}'{reason}")


def sanitize_words(words: str) -> str:
    """Redacts secrets and removes control characters."""
    return strip_control_characters(secrets.redact(words))


def log_warning(words: str) -> None:
    """Logs a warning, as libraries do: without logging set up it goes to standard error."""
    import logging

    logging.getLogger("mainspring").warning("%s", words)


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Fields:
    """Immutable named values with defaults.

    A plain class: with msgspec, `mainspring --version` would have to load it (docs/decisions/0061).
    """

    def __init__(self, **values: Any) -> None:
        if unknown := values.keys() - type(self).__annotations__.keys():
            raise TypeError(f"{type(self).__name__} has no '{min(unknown)}'")
        self.__dict__.update(values)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"'{name}' cannot be set: make a copy with 'replace'")

    def replace(self, **changes: Any) -> Self:
        """A copy with some values changed."""
        return type(self)(**(vars(self) | changes))


class SessionOptions(Fields):
    """The options of a session; None or empty: not given."""

    # --- where it runs ---
    cwd: str | None = None  # None: the working directory of the process
    in_process: bool = False  # embedded in another program: do not change the process
    driven: bool = False  # a program drives the session, prompt by prompt
    sessions_home: str | None = None  # where the session file is; None: in the home

    # --- the model ---
    model: str | None = None
    fallback_model: tuple[str, ...] = ()
    context_window: int | None = None
    effort: str | None = None
    thinking: str | None = None
    max_thinking_tokens: int | None = None
    thinking_display: str | None = None
    betas: tuple[str, ...] = ()
    system_prompt: str | None = None
    system_prompt_file: str | None = None
    append_system_prompt: str | None = None
    bare: bool = False  # the model sees nothing of ours: no default prompt, date, repository or notes
    exclude_dynamic_sections: bool = False  # makes the system prompt the same in all directories
    output_schema: Mapping[str, Any] | None = None  # JSON Schema of the answer
    sampling: Sampling | None = None
    max_output: int | None = None  # tokens of a reply; None: the settings' value, else the model's

    # --- limits ---
    max_turns: int | None = None
    max_budget_usd: float | None = None
    task_budget: int | None = None
    retry: str | None = None  # 'unattended': wait up to six hours for a server that is overloaded or limits the rate

    # --- tools and permissions ---
    tools: tuple[str, ...] | None = None  # built-in tools to offer; None: all
    own_tools: tuple[str, ...] = ()  # names of the host's tools
    allowed_tools: tuple[str, ...] = ()
    disallowed_tools: tuple[str, ...] = ()
    permission_mode: str | None = None
    allow_dangerously_skip_permissions: bool = False  # `bypassPermissions` may be switched to later
    permission_prompt_tool_name: str | None = None  # an MCP tool; 'stdio': the host
    add_dirs: tuple[str, ...] = ()
    host_hooks: tuple[HostHook, ...] = ()  # functions of the host
    deps: object | None = None  # the host's object for its tools and callbacks; never stored, never sent

    # --- which session ---
    session_id: str | None = None
    continue_conversation: bool = False
    resume: str | None = None
    fork_session: bool = False
    resume_session_at: str | None = None
    resume_drops_turn: str | None = None
    persist: bool = True  # False: nothing stays on disk after the session, and it cannot be resumed or forked
    require_journal: bool = False
    session_mirror: bool = False
    checkpoints: bool | None = None  # of files, so that they can be rewound; None: as the environment says

    # --- what it finds ---
    settings: str | Mapping[str, Any] | None = None  # a file, or the content of one
    setting_sources: tuple[str, ...] | None = None  # None: all
    skills: tuple[str, ...] | None = None  # the only ones that the model knows about; None: all
    agents: Mapping[str, Any] | None = None  # definitions by name, with the fields of agent files
    mcp_servers: tuple[str | Mapping[str, Any], ...] = ()  # files, or the content of one; the last one wins
    strict_mcp_config: bool = False  # no other servers
    plugin_dirs: tuple[str, ...] = ()

    # --- what the front end shows ---
    include_partial_messages: bool = False
    include_hook_events: bool = False
    replay_user_messages: bool = False
    forward_subagent_text: bool = False  # also text and thinking of subagents
    tool_use_summaries: bool | None = None  # a line about each batch of tool calls; None: as the settings say
    prompt_suggestions: bool = False  # a suggestion for the next prompt after each result
    lists_commands: bool = False  # the front end lists the slash commands
    ignored: tuple[str, ...] = ()  # given options that have no effect yet, as they were spelled

    # --- the front end itself ---
    tracing: bool | None = None  # spans and metrics of OpenTelemetry; None: if `mainspring.instrument` was called
    notice: Callable[[str], object] = staticmethod(log_warning)  # receives warnings for the user
    remark: Callable[[str], object] = staticmethod(log_warning)  # receives messages of hooks for the user
    spell: Spell = staticmethod(by_name)

    def tell(self, words: str) -> None:
        """Shows the user a warning."""
        self.notice(sanitize_words(words))

    def say(self, words: str) -> None:
        """Shows the user a hook's message."""
        self.remark(sanitize_words(words))

    def error(self, option: str, reason: str, value: str = "") -> OptionError:
        """An error for a wrong option, spelled as the front end does."""
        return OptionError(option, reason, value, self.spell)


def is_uuid(text: str) -> bool:
    parts = text.split("-")
    return [len(part) for part in parts] == [8, 4, 4, 4, 12] and set(text) <= set("-0123456789abcdefABCDEF")


def read_option(option: str, said: str, spell: Spell) -> str | dict[str, Any]:
    """Parses the text as JSON if it begins with a brace; else returns it as a path. Raises `OptionError`."""
    from mainspring.settings.read import UnreadableSettings, parse_settings_text

    if not said.lstrip().startswith("{"):
        return said
    try:
        return parse_settings_text(said.encode(errors="surrogatepass")).tree
    except UnreadableSettings as broken:
        raise OptionError(option, f" cannot be read{broken.where}: {broken.says}", spell=spell) from None
