"""What a session is made of: one class for all front ends. Each maps its own words to it, field by field, and spells an
option in its own way where one is wrong: `OptionError`.

Options that a person or a program may give as JSON text, where a file's name could stand, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Self, dataclass_transform

if TYPE_CHECKING:
    from mainspring.agent.host import HostHook


MODES = ("default", "acceptEdits", "plan", "bypassPermissions", "dontAsk", "auto")
OTHER_MODES = {"manual": "default"}  # Z-31

# Which values options take: `option_checks.py` holds them to it, for all front ends.
CHOICES = {
    "permission_mode": MODES,
    "effort": ("low", "medium", "high", "xhigh", "max"),
    "thinking": ("adaptive", "enabled", "disabled"),
    "thinking_display": ("summarized", "omitted"),
}
LEAST = {"max_turns": 1, "max_thinking_tokens": 0, "task_budget": 1, "context_window": 1_000}
IDS = ("session_id", "resume_session_at", "resume_drops_turn")

Spell = Callable[..., str]  # the name of an option, and perhaps its value, as a front end writes them


class StartError(Exception):
    """What the user asked for cannot be started. The message says why, and the way out."""


def by_name(option: str, value: str = "") -> str:
    """As in a Python program."""
    return f"{option}={value}" if value else option


class OptionError(StartError):
    """An option is wrong, or refused: which one, the value, and the reason, which begins with a blank or a colon."""

    def __init__(self, option: str, reason: str, value: str = "", spell: Spell = by_name) -> None:
        self.option, self.reason, self.value = option, reason, value
        super().__init__(f"'{spell(option, value)}'{reason}")


def sanitize_words(words: str) -> str:
    """No secrets, and nothing that a terminal obeys rather than shows."""
    from mainspring.secrets.redaction import redact
    from mainspring.text import strip_control_characters

    return strip_control_characters(redact(words))


def log_warning(words: str) -> None:
    """As libraries do: who sets nothing up sees it on standard error."""
    import logging

    logging.getLogger("mainspring").warning("%s", words)


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Fields:
    """Named values with defaults, which nobody changes.

    A plain class: msgspec would have to be loaded for `mainspring --version`, too (docs/decisions/0061).
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
    """What somebody wants of a session; None or empty where nothing was said."""

    # --- where it runs ---
    cwd: str | None = None  # None: the working directory of the process
    in_process: bool = False  # within another program: nothing of the process is ours to change
    driven: bool = False  # a program says what is to be done, prompt by prompt
    sessions_home: str | None = None  # where its file is, if not in the home

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
    exclude_dynamic_sections: bool = False  # the system prompt is to be alike in all directories
    output_schema: Mapping[str, Any] | None = None  # JSON Schema of the answer

    # --- limits ---
    max_turns: int | None = None
    max_budget_usd: float | None = None
    task_budget: int | None = None

    # --- tools and permissions ---
    tools: tuple[str, ...] | None = None  # built-in tools that exist; None: all
    own_tools: tuple[str, ...] = ()  # names of tools that a program brings
    allowed_tools: tuple[str, ...] = ()
    disallowed_tools: tuple[str, ...] = ()
    permission_mode: str | None = None
    permission_prompt_tool_name: str | None = None  # an MCP tool; 'stdio': the program that drives us
    add_dirs: tuple[str, ...] = ()
    host_hooks: tuple[HostHook, ...] = ()  # functions of the program

    # --- which session ---
    session_id: str | None = None
    continue_conversation: bool = False
    resume: str | None = None
    fork_session: bool = False
    resume_session_at: str | None = None
    resume_drops_turn: str | None = None
    require_journal: bool = False
    session_mirror: bool = False

    # --- what it finds ---
    settings: str | Mapping[str, Any] | None = None  # a file, or what one holds
    setting_sources: tuple[str, ...] | None = None  # None: all
    skills: tuple[str, ...] | None = None  # of these alone the model is told; None: of all
    agents: Mapping[str, Any] | None = None  # definitions by name, with the fields of agent files
    mcp_servers: tuple[str | Mapping[str, Any], ...] = ()  # files, or what such a file holds; the last one counts
    strict_mcp_config: bool = False  # no other servers
    plugin_dirs: tuple[str, ...] = ()

    # --- what is shown of it ---
    include_partial_messages: bool = False
    include_hook_events: bool = False
    replay_user_messages: bool = False
    forward_subagent_text: bool = False  # also what subagents say and think
    lists_commands: bool = False  # the front end tells which slash commands there are
    ignored: tuple[str, ...] = ()  # what was asked for and is not honoured yet, as it was spelled

    # --- the front end itself ---
    notice: Callable[[str], object] = staticmethod(log_warning)  # hears what the person should know
    remark: Callable[[str], object] = staticmethod(log_warning)  # hears what hooks have for the person
    spell: Spell = staticmethod(by_name)

    def tell(self, words: str) -> None:
        """Something that the person should know."""
        self.notice(sanitize_words(words))

    def say(self, words: str) -> None:
        """What a hook has for the person."""
        self.remark(sanitize_words(words))

    def error(self, option: str, reason: str, value: str = "") -> OptionError:
        """For an option that is wrong, spelled as the front end does."""
        return OptionError(option, reason, value, self.spell)


def is_uuid(text: str) -> bool:
    parts = text.split("-")
    return [len(part) for part in parts] == [8, 4, 4, 4, 12] and set(text) <= set("-0123456789abcdefABCDEF")


def read_option(option: str, said: str, spell: Spell) -> str | dict[str, Any]:
    """What the text holds, if it begins with a brace; else it is a path. Raises `OptionError`."""
    from mainspring.settings.read import UnreadableSettings, parse_settings_text

    if not said.lstrip().startswith("{"):
        return said
    try:
        return parse_settings_text(said.encode(errors="surrogatepass")).tree
    except UnreadableSettings as broken:
        raise OptionError(option, f" cannot be read{broken.where}: {broken.says}", spell=spell) from None
