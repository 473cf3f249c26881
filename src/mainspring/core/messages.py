"""What a conversation is made of. No wire format is here: `providers/` projects these onto one."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from mainspring.core.money import Usage
from mainspring.core.value import Stamped, Value

# --- content --------------------------------------------------------------------------------------


class Text(Value, omit_defaults=True):
    text: str
    citations: str = ""  # the server's own, as JSON: handed back as they came


class Image(Value):
    media_type: str
    data: str  # base64


class Document(Value):
    media_type: str
    data: str  # base64


class Thinking(Value):
    """Reasoning. The signature is bound to the model that wrote it, and is kept byte for byte."""

    text: str
    signature: str = ""


class RedactedThinking(Value):
    data: str


class ServerBlock(Value):
    """A block of the server's own tools, handed back as it came: we neither read nor run it."""

    kind: str
    json: str


class Defect(StrEnum):
    """Why a call cannot be run as it stands."""

    MALFORMED = "malformed"  # its input is not what the protocol allows
    CUT = "cut"  # the reply ended inside it


class ToolCall(Value):
    id: str
    name: str
    input: dict[str, Any]
    defect: Defect | None = None


Content = Text | Image | Document
Block = Text | Thinking | RedactedThinking | ServerBlock | ToolCall


def text_of(parts: tuple[Content | Block, ...]) -> str:
    return "".join([part.text for part in parts if isinstance(part, Text)])


# --- messages -------------------------------------------------------------------------------------


class Origin(StrEnum):
    """Who put a user message into the conversation. Only `prompt` holds the user's own words."""

    PROMPT = "prompt"
    ATTACHMENT = "attachment"  # files changed, memory, queued commands
    SUMMARY = "summary"  # stands for a compacted span
    RECOVERY = "recovery"  # asks the model to go on after a failure
    HOOK = "hook"  # a stop hook's objection
    BUDGET = "budget"  # how much of the asked-for budget is left
    ADVICE = "advice"  # the progress guard speaking
    INTERRUPTION = "interruption"
    REPORT = "report"  # of an agent that worked in the background


class User(Stamped):
    content: tuple[Content, ...]
    origin: Origin = Origin.PROMPT

    @property
    def text(self) -> str:
        return text_of(self.content)


class Stop(StrEnum):
    """Why the model stopped. Providers map what they do not know to the nearest of these."""

    END_TURN = "end_turn"
    TOOL_USE = "tool_use"
    STOP_SEQUENCE = "stop_sequence"
    MAX_TOKENS = "max_tokens"
    CONTEXT_WINDOW = "model_context_window_exceeded"
    PAUSE_TURN = "pause_turn"
    REFUSAL = "refusal"
    UNFINISHED = "unfinished"  # ours: the stream broke off or was interrupted


class Assistant(Stamped):
    blocks: tuple[Block, ...]
    model: str = ""
    stop: Stop = Stop.END_TURN
    usage: Usage = Usage()

    @property
    def text(self) -> str:
        return text_of(self.blocks)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple([block for block in self.blocks if isinstance(block, ToolCall)])

    @property
    def runnable(self) -> tuple[ToolCall, ...]:
        return tuple([block for block in self.blocks if isinstance(block, ToolCall) and block.defect is None])


class ToolResult(Stamped):
    call_id: str
    content: tuple[Content, ...]
    is_error: bool = False
    synthetic: bool = False  # made up by us, because the call never ran

    @property
    def text(self) -> str:
        return text_of(self.content)


Message = User | Assistant | ToolResult


def user(text: str, origin: Origin = Origin.PROMPT) -> User:
    return User((Text(text),), origin)


def result(call_id: str, text: str, *, is_error: bool = False, synthetic: bool = False) -> ToolResult:
    return ToolResult(call_id, (Text(text),), is_error, synthetic)
