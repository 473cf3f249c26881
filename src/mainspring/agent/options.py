"""What somebody wants of a session: one class for the command line, the pipe and the library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class StartError(Exception):
    """What the user asked for cannot be started. The message says why, and the way out."""


MODES = ("default", "acceptEdits", "plan", "bypassPermissions", "dontAsk", "auto")
OTHER_NAMES = {("--permission-mode", "manual"): "default"}  # Z-31


def clean(words: str) -> str:
    """No secrets, and nothing that a terminal obeys rather than shows."""
    from mainspring.agent.harmless import harmless
    from mainspring.secrets.redaction import redact

    return harmless(redact(words))


def log(words: str) -> None:
    """As libraries do: who sets nothing up sees it on standard error."""
    import logging

    logging.getLogger("mainspring").warning("%s", words)


class Options:
    """What somebody wants of a session; None or empty where nothing was said.

    A plain class: as a tuple with names, so many fields take 2 ms to define.
    """

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)

    @property
    def driven(self) -> bool:
        """A program says what is to be done, prompt by prompt."""
        return self.input_format == "stream-json"

    def tell(self, words: str) -> None:
        """Something that the person should know."""
        self.notice(clean(words))

    def say(self, words: str) -> None:
        """What a hook has for the person."""
        self.remark(clean(words))

    notice: Callable[[str], object] = staticmethod(log)  # a command has standard error for it
    remark: Callable[[str], object] = staticmethod(log)
    host_hooks: tuple[Any, ...] = ()  # `HostHook`: functions of the program
    skills: tuple[str, ...] | None = None  # of these alone the model is told; None: of all
    forward_subagent_text: bool = False  # also what subagents say and think is shown
    exclude_dynamic_sections: bool = False  # the system prompt is to be alike in all directories
    own_tools: tuple[str, ...] = ()  # names of tools that a program brings
    in_process: bool = False  # within another program: nothing of the process is ours to change
    sessions_home: str | None = None  # where its file is, if not in the home
    cwd: str | None = None  # where it works; None: where the process is
    words: tuple[str, ...] = ()  # what stood on the command line without a flag
    print: bool = False
    output_format: str = "text"
    input_format: str = "text"
    verbose: bool = False
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
    max_turns: int | None = None
    max_budget_usd: float | None = None
    task_budget: int | None = None
    tools: tuple[str, ...] | None = None
    allowed_tools: tuple[str, ...] = ()
    disallowed_tools: tuple[str, ...] = ()
    permission_mode: str | None = None
    dangerously_skip_permissions: bool = False
    permission_prompt_tool: str | None = None
    add_dir: tuple[str, ...] = ()
    session_id: str | None = None
    continue_: bool = False
    resume: str | None = None
    fork_session: bool = False
    resume_session_at: str | None = None
    resume_drops_turn: str | None = None
    require_journal: bool = False
    session_mirror: bool = False
    include_partial_messages: bool = False
    include_hook_events: bool = False
    replay_user_messages: bool = False
    json_schema: str | None = None
    settings: str | None = None
    setting_sources: tuple[str, ...] | None = None
    mcp_config: tuple[str, ...] = ()
    strict_mcp_config: bool = False
    agents: str | None = None
    plugin_dir: tuple[str, ...] = ()
    debug_to_stderr: bool = False
    plain: bool = False
    keep: bool = False
    html: str | None = None
    text: bool = False
    port: int | None = None
    open: bool = False
    ask: bool = False
    json: bool = False
    online: bool = False
    list: bool = False
    remove: bool = False
    batch: bool = False
    version: bool = False
    help: bool = False
    given: tuple[str, ...] = ()  # the names of the flags that were there
    ignored: tuple[str, ...] = ()  # those of them that nobody heeds yet


def is_uuid(text: str) -> bool:
    parts = text.split("-")
    return [len(part) for part in parts] == [8, 4, 4, 4, 12] and set(text) <= set("-0123456789abcdefABCDEF")
