"""Messages and their content. This module knows no wire format: `providers/` maps these types to one."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from mainspring.core.money import Usage
from mainspring.core.value import Stamped, Value

# --- content --------------------------------------------------------------------------------------


class Text(Value, omit_defaults=True):
    """Text of a message.

    Example:
        said = User((Text("What is in this picture?"),))
    """

    text: str
    citations: str = ""  # the server's citations, as JSON, returned unchanged


class Image(Value):
    """A picture for the model.

    Example:
        picture = Image("image/png", "iVBORw0KGgo=")
        prompt = (Text("What is in this picture?"), picture)
    """

    media_type: str
    data: str  # base64


class Document(Value):
    """A PDF for the model.

    Example:
        report = Document("application/pdf", "JVBERi0xLjQ=")
        prompt = (Text("Summarize this report."), report)
    """

    media_type: str
    data: str  # base64


class Thinking(Value):
    """Reasoning. The signature belongs to the model that wrote it, so both are kept byte for byte."""

    text: str
    signature: str = ""


class RedactedThinking(Value):
    data: str


class ServerBlock(Value):
    """A block of a server-side tool. mainspring sends it back unchanged and neither reads nor runs it."""

    kind: str
    json: str


class Defect(StrEnum):
    """Why a call cannot run."""

    MALFORMED = "malformed"  # its input violates the protocol
    CUT = "cut"  # the reply ended inside it


class ToolCall(Value):
    """A call of a tool, as the model asked for it.

    Example:
        answer = await ask("What is 2 + 3?", tools=[add])
        for message in answer.messages:
            if isinstance(message, Assistant):
                print([(call.name, call.input) for call in message.calls])
    """

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
    """Where a user message comes from. Only `prompt` marks the user's own text."""

    PROMPT = "prompt"
    ATTACHMENT = "attachment"  # changed files, memory, queued prompts
    SUMMARY = "summary"  # replaces a compacted span
    RECOVERY = "recovery"  # asks the model to continue after a failure
    HOOK = "hook"  # a stop hook's objection
    BUDGET = "budget"  # how much of the requested budget is left
    ADVICE = "advice"  # from the progress guard
    INTERRUPTION = "interruption"
    REPORT = "report"  # of a background subagent


class User(Stamped, omit_defaults=True):
    """A user message: a prompt, or text that the loop added.

    Example:
        answer = await ask("What is 2 + 3?")
        print([message.text for message in answer.messages if isinstance(message, User)])
    """

    content: tuple[Content, ...]
    origin: Origin = Origin.PROMPT
    typed: str = ""  # by the user, if the content is its expansion: a slash command. Never sent

    @property
    def text(self) -> str:
        return text_of(self.content)

    @property
    def shown_text(self) -> str:
        """What people see in place of the text."""
        return self.typed or self.text


class Stop(StrEnum):
    """Why the model stopped. Providers map unknown stop reasons to the nearest one."""

    END_TURN = "end_turn"
    TOOL_USE = "tool_use"
    STOP_SEQUENCE = "stop_sequence"
    MAX_TOKENS = "max_tokens"
    CONTEXT_WINDOW = "model_context_window_exceeded"
    PAUSE_TURN = "pause_turn"
    REFUSAL = "refusal"
    UNFINISHED = "unfinished"  # ours: the stream broke off or was interrupted


class Assistant(Stamped):
    """A reply of the model.

    Example:
        answer = await ask("What is 2 + 3?")
        print([message.text for message in answer.messages if isinstance(message, Assistant)])
    """

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
    """The result of a tool call.

    Example:
        answer = await ask("What is 2 + 3?", tools=[add])
        print([message.text for message in answer.messages if isinstance(message, ToolResult)])
    """

    call_id: str
    content: tuple[Content, ...]
    is_error: bool = False
    synthetic: bool = False  # created by mainspring, because the call never ran

    @property
    def text(self) -> str:
        return text_of(self.content)


Message = User | Assistant | ToolResult


def user(text: str, origin: Origin = Origin.PROMPT) -> User:
    return User((Text(text),), origin)


def result(call_id: str, text: str, *, is_error: bool = False, synthetic: bool = False) -> ToolResult:
    return ToolResult(call_id, (Text(text),), is_error, synthetic)
