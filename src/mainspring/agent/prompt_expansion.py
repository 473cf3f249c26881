"""Prompts as front ends submit them, and how they are expanded, for every front end.

`Prompt` is text and images, and how to read them. `PromptHooks` adds the attachments of a prompt and the context of
hooks, and runs the hooks at the start and end of a session. A prompt can also address the loop itself:

/compact keep the numbers      compacts the conversation with these instructions (D-36)
+500k fix all the tests        continues until the model has written that many tokens (H-01)
fix all the tests +500k        the same
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Literal

from mainspring.core.errors import ToolError
from mainspring.core.messages import Content, Origin, Text, User, user
from mainspring.core.value import Bundle, Value
from mainspring.hooks.events import HookPoint, HookResult, Hooks


class BlockedPrompt(Value):
    """A hook blocked the prompt, or it could not be expanded: the model is not called."""

    reason: str


class AttachedMention(Value):
    """The outcome of an `@name` in a prompt, for the user: what was attached, or why nothing was."""

    name: str  # as the user wrote it
    what: str = ""  # '12 lines'
    why_not: str = ""


class ExpandedPrompt(tuple[User, ...]):
    """The messages for the model, as a tuple; `attached` is what a front end may show of them."""

    attached: tuple[AttachedMention, ...]

    def __new__(cls, messages: Iterable[User] = (), attached: tuple[AttachedMention, ...] = ()) -> ExpandedPrompt:
        made = super().__new__(cls, messages)
        made.attached = attached
        return made


Attach = Callable[[str], Awaitable[ExpandedPrompt]]


async def attach_nothing(text: str) -> ExpandedPrompt:  # noqa: ARG001  # has the signature of `Attach`
    return ExpandedPrompt()


class PromptHooks:
    """One for a session."""

    def __init__(self, hooks: Hooks, source: str = "startup", attach: Attach = attach_nothing) -> None:
        """`attach` returns the attachments for mentions such as `@path`, or raises `ToolError`."""
        self._hooks = hooks
        self._source = source
        self._attach = attach
        self._begun = False

    async def said(self, prompt: User, words: str | None = None) -> ExpandedPrompt | BlockedPrompt:
        """The messages for the model: the prompt, its attachments, and the context of hooks. `words`: the part that is
        searched for mentions; None: all. Piped data has no mentions."""
        context: list[str] = []
        if not self._begun:
            self._begun = True
            context += (await self._ask(HookPoint.SESSION_START, source=self._source)).context
        opinion = await self._ask(HookPoint.USER_PROMPT_SUBMIT, prompt=prompt.text)
        if opinion.block or opinion.stop is not None:
            return BlockedPrompt(opinion.reason or opinion.stop or "A hook blocked this prompt.")
        context += opinion.context
        try:
            files = await self._attach(prompt.text if words is None else words)
        except ToolError as error:
            return BlockedPrompt(str(error))
        return ExpandedPrompt((prompt, *files, *[user(text, Origin.ATTACHMENT) for text in context]), files.attached)

    async def ended(self, reason: str) -> None:
        if self._begun:
            await self._ask(HookPoint.SESSION_END, reason=reason)

    async def _ask(self, point: HookPoint, **facts: str) -> HookResult:
        return await self._hooks.ask(point, dict(facts)) if self._hooks.any_at(point) else HookResult()


COMPACT = "/compact"
UNITS = {"k": 1_000, "m": 1_000_000}
MOST = 1_000_000_000  # tokens; no user means more


def parse_compact_command(prompt: str) -> str | None:
    """The instructions of a `/compact` command; None: the prompt is not one."""
    command, *words = prompt.split(None, 1) or [""]
    return "".join(words).strip() if command == COMPACT else None


def parse_token_budget(prompt: str) -> int | None:
    """The token budget, if the prompt begins or ends with one. The prompt keeps it, so that the model knows it, too."""
    words = prompt.split()
    if not words:
        return None
    first = _tokens(words[0])
    if first is not None or len(words) == 1 or not _ends_in_prose(prompt):
        return first
    return _tokens(words[-1].rstrip(".!"))


def needs_expansion(prompt: str) -> bool:
    """Whether it may be a slash command, have mentions, or set a token budget."""
    return "@" in prompt or prompt.startswith("/") or parse_token_budget(prompt) is not None


def _tokens(word: str) -> int | None:
    unit = UNITS.get(word[-1:].lower())
    number = word[1:-1]
    if unit is None or word[:1] != "+" or not number.replace(".", "", 1).isdecimal() or not number.isascii():
        return None
    return min(MOST, round(float(number) * unit)) or None


def _ends_in_prose(prompt: str) -> bool:
    """Whether the prompt ends neither in a code block nor in a diff, whose lines also begin with a plus."""
    lines = prompt.rstrip().splitlines()
    fences = sum(line.lstrip().startswith(("```", "~~~")) for line in lines)
    in_diff = lines[-1].startswith("+") and any(line.startswith(("+", "-", "@@")) for line in lines[-4:-1])
    return fences % 2 == 0 and not in_diff


class Prompt(Bundle):
    content: tuple[Content, ...]
    id: str = ""  # the client's; empty: the session creates one
    data: str = ""  # piped in with the prompt: never searched for slash commands, mentions or token budgets
    literal: bool = False  # do not expand it
    typed: str = ""  # by the user, if the content is its expansion: a slash command
    origin: Mapping[str, Any] | None = None  # returned with the result
    delivery: Literal["next_run", "steer"] = "next_run"  # steer: joins the current run, if it needs no expansion

    @property
    def text(self) -> str:
        """Without `data`."""
        return "".join([part.text for part in self.content if isinstance(part, Text)])

    @property
    def shown_text(self) -> str:
        """As the user typed it."""
        return self.typed or self.text


MOST_REMEMBERED = 50  # prompts; the classifier reads fewer characters than these usually have


class UserPrompts:
    """The user's own words in this conversation, the newest last: without piped data, attachments and the text of
    skills. The classifier of mode auto judges by them. Prompts from before a resume are missing: a session file does
    not separate them from their data."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}  # by id

    def add(self, id: str, text: str) -> None:
        self._texts[id] = text
        if len(self._texts) > MOST_REMEMBERED:
            del self._texts[next(iter(self._texts))]

    def remove(self, id: str) -> None:
        """The user took it back."""
        self._texts.pop(id, None)

    def texts(self) -> tuple[tuple[str, str], ...]:
        """Each with its id."""
        return tuple(self._texts.items())


class QueuedPrompt(Bundle):
    """A prompt that waits for its run."""

    id: str
    prompt: Prompt
    restored: bool = False  # it was queued when the session was last closed: `release()` sends it


def text_prompt(text: str) -> Prompt:
    return Prompt((Text(text),))


def append_piped_data(content: tuple[Content, ...], data: str) -> tuple[Content, ...]:
    """Appends the data to the last text block, or as a new one."""
    if not data:
        return content
    if content and isinstance(last := content[-1], Text):
        return (*content[:-1], Text(last.text + data))
    return (*content, Text(data))
