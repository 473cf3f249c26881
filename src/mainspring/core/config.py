"""Config: everything that is fixed when a run starts. This module computes thresholds; it makes no decisions."""

from __future__ import annotations

from enum import StrEnum

from mainspring.core.errors import UsageError
from mainspring.core.models import DEFAULT_MODEL, Model
from mainspring.core.value import Value

OUTPUT_RESERVE = 20_000  # D-24: room reserved for the reply, at most
AUTOCOMPACT_BUFFER_TOKENS = 13_000  # D-25
MANUAL_COMPACT_BUFFER_TOKENS = 3_000  # D-26, D-27: so that a manual compaction still fits
LOW_OUTPUT_CAP = 8_192  # settled 19: "8K"; only a cap this low is worth escalating
ESCALATED_OUTPUT = 64_000  # B-07
MAX_FALLBACKS = 5  # ours: more than anyone configures, and it keeps the longest possible run finite

RESUME = (
    "Output token limit hit. Resume directly: no apology, no recap of what you were doing. "
    "Pick up in mid-thought if that is where the cut happened. Break the remaining work into smaller pieces."
)


class RunSource(StrEnum):
    """Where this run comes from (A-10). A subagent's source is `agent:` and its id."""

    REPL = "repl_main_thread"
    SDK = "sdk"
    COMPACT = "compact"
    SESSION_MEMORY = "session_memory"


class StopHooks(StrEnum):
    """Whether stop hooks run again after one of them objected (Z-11)."""

    ONCE = "once"  # they run again only after progress: a tool result, or a budget continuation
    CAPPED = "capped"  # they run again, with `active` set, until the cap


class Siblings(StrEnum):
    """What a failing shell command does to the other calls of the reply (Z-29, settled 21)."""

    ISOLATE = "isolate"  # nothing: the model sees which of them failed
    CASCADE = "cascade"  # those that have not started are skipped (F-15)


class Effort(StrEnum):
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    XHIGH = "xhigh"
    MAX = "max"


FORCED = "required"  # as a tool choice: the model must call a tool
FREE = ("auto", "none")  # tool choices that do not force a call
LEAST_TOP_P = 0.95  # below it, the Messages API accepts no thinking budget


class Sampling(Value, omit_defaults=True):
    """How the model chooses its words and tools; None or empty: the server's default. Providers send what their
    protocol has, and refuse the rest."""

    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()  # texts at which a reply ends
    seed: int | None = None
    tool_choice: str | None = None  # auto, none, required, or the name of a tool

    @property
    def forces_call(self) -> bool:
        return self.tool_choice is not None and self.tool_choice not in FREE

    @property
    def rules_out_thinking(self) -> bool:
        """Whether a thinking budget cannot be combined with it."""
        return self.forces_call or self.temperature not in (None, 1) or (self.top_p or 1) < LEAST_TOP_P


class Config(Value):
    model: Model = DEFAULT_MODEL
    fallbacks: tuple[Model, ...] = ()
    source: str = RunSource.SDK
    chain: str = ""  # which tree of agents this run belongs to,
    depth: int = 0  # and how deep in it

    max_turns: int = 10_000  # settled 17: law 1 holds for any model
    max_tokens: int | None = None  # all tokens of the run, including prompts
    token_budget: int | None = None  # "+500k": continue until the model has written that much
    task_budget: int | None = None  # announced to the model, which paces itself
    max_output: int | None = None  # the setting; else the model's own cap

    thinking: bool = True
    effort: Effort | None = None
    sampling: Sampling | None = None
    structured_output: bool = False  # the run must end with a valid StructuredOutput call
    auto_compact: bool = True
    reactive_compact: bool = True  # O-10: summarize after the server reported that the prompt is too long
    resume: str = RESUME  # Z-08
    nonce: str = ""  # marks the reminders of this session, so that the model can tell them from imitations

    stop_hooks: StopHooks = StopHooks.ONCE
    max_stop_blocks: int = 9  # Z-11, Z-12: objections in one run, in total
    siblings: Siblings = Siblings.ISOLATE
    shell_tools: tuple[str, ...] = ("Bash",)  # a failure of one of these can cancel its siblings
    early_safe: bool = True  # F-01, F-02: safe calls start while the reply still streams
    early_unsafe: bool = False  # Z-23: let an unsafe call start before the reply is complete

    # G-18: of a reply that broke off; the provider has the same limit for a reply that never began
    max_retries: int = 9
    overload_tries_before_fallback: int = 3  # settled 9: attempts, including the first one
    retries_before_fallback: int | None = None  # a patient run switches to the next model first; None: `max_retries`
    max_wait: int | None = None  # milliseconds of waiting for one answer, over all its retries; None: no limit
    advise_after: int = 10  # settled 18: the same call with the same result, in a row
    end_after: int = 20
    patient_tools: tuple[str, ...] = ("Sleep", "BashOutput", "TaskOutput")  # may repeat the same call

    def __post_init__(self) -> None:
        if len(self.fallbacks) > MAX_FALLBACKS:
            raise UsageError(f"'fallbacks' names {len(self.fallbacks)} models; at most {MAX_FALLBACKS} are tried")
        if self.max_turns < 1:
            raise UsageError(f"'max_turns' is {self.max_turns}; a run needs at least 1")
        if self.max_retries < 0:
            raise UsageError(f"'max_retries' is {self.max_retries}; give 0 for none")
        for name in ("max_tokens", "token_budget", "task_budget", "max_output", "max_wait"):
            amount: int | None = getattr(self, name)
            if amount is not None and amount < 1:
                raise UsageError(f"'{name}' is {amount}; give a positive number, or leave it out for no limit")

    @property
    def is_subagent(self) -> bool:
        return self.source.startswith("agent:")

    def output_cap(self, model: Model) -> int:
        return min(self.max_output or model.max_output, model.max_output)

    # The divisors only matter for windows below 100,000 tokens, where the fixed numbers would leave too little room.

    def effective_window(self, model: Model) -> int:
        return model.window - min(self.output_cap(model), OUTPUT_RESERVE, model.window // 5)

    def compact_at(self, model: Model) -> int:
        return self.effective_window(model) - min(AUTOCOMPACT_BUFFER_TOKENS, model.window // 7)

    def blocked_at(self, model: Model) -> int:
        return self.effective_window(model) - min(MANUAL_COMPACT_BUFFER_TOKENS, model.window // 30)


# Settled 21: what the REPL and `mainspring -p` do, and what programs written for the Claude Agent SDK expect.
DEFAULT = Config(source=RunSource.REPL)
COMPATIBLE = Config(stop_hooks=StopHooks.CAPPED)
