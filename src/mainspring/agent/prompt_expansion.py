"""What goes along with what somebody says: files that it names, and what hooks have to say of it, as when a session
begins and ends. For every door.

What a prompt asks of the loop itself, beside what it asks of the model. The same for every door.

/compact keep the numbers      sums the conversation up, heeding these words (D-36)
+500k mend all the tests       goes on until that many tokens were written (H-01)
mend all the tests +500k       the same

What a front end submits: text and images, and how they are to be read.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Literal

from mainspring.core.errors import ToolError
from mainspring.core.messages import Content, Origin, Text, User, user
from mainspring.core.value import Bundle, Value
from mainspring.hooks.events import HookPoint, HookResult, Hooks


class BlockedPrompt(Value):
    """A prompt that a hook does not let through, or that stands for what nobody brings: the model is not asked."""

    reason: str


class AttachedMention(Value):
    """What became of an `@name` in a prompt, for whoever looks: what was attached, or why it was not."""

    name: str  # as it was written
    what: str = ""  # '12 lines'
    why_not: str = ""


class ExpandedPrompt(tuple[User, ...]):
    """What goes to the model, as any tuple has it; a door may tell what came along."""

    attached: tuple[AttachedMention, ...]

    def __new__(cls, messages: Iterable[User] = (), attached: tuple[AttachedMention, ...] = ()) -> ExpandedPrompt:
        made = super().__new__(cls, messages)
        made.attached = attached
        return made


Attach = Callable[[str], Awaitable[ExpandedPrompt]]


async def attach_nothing(text: str) -> ExpandedPrompt:  # noqa: ARG001  # it has the shape of what brings something
    return ExpandedPrompt()


class PromptHooks:
    """One for a session."""

    def __init__(self, hooks: Hooks, source: str = "startup", attach: Attach = attach_nothing) -> None:
        """`attach` brings what a text names by `@path` and the like, or raises `ToolError`."""
        self._hooks = hooks
        self._source = source
        self._attach = attach
        self._begun = False

    async def said(self, prompt: User, words: str | None = None) -> ExpandedPrompt | BlockedPrompt:
        """What goes to the model: the prompt, the files that it names, and what hooks have to add to it. `words`: what
        of it is looked through for files; None: all. Data that came along names none."""
        context: list[str] = []
        if not self._begun:
            self._begun = True
            context += (await self._ask(HookPoint.SESSION_START, source=self._source)).context
        opinion = await self._ask(HookPoint.USER_PROMPT_SUBMIT, prompt=prompt.text)
        if opinion.block or opinion.stop is not None:
            return BlockedPrompt(opinion.reason or opinion.stop or "A hook does not let this prompt through.")
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
MOST = 1_000_000_000  # tokens; nobody means more


def parse_compact_command(prompt: str) -> str | None:
    """The words for whoever sums up, if that is what the prompt is; None: it is something else."""
    command, *words = prompt.split(None, 1) or [""]
    return "".join(words).strip() if command == COMPACT else None


def parse_token_budget(prompt: str) -> int | None:
    """Tokens that the model is to use, if the prompt begins or ends with a number of them. The prompt keeps the words:
    the model may as well know."""
    words = prompt.split()
    if not words:
        return None
    first = _tokens(words[0])
    if first is not None or len(words) == 1 or not _ends_in_prose(prompt):
        return first
    return _tokens(words[-1].rstrip(".!"))


def _tokens(word: str) -> int | None:
    unit = UNITS.get(word[-1:].lower())
    number = word[1:-1]
    if unit is None or word[:1] != "+" or not number.replace(".", "", 1).isdecimal() or not number.isascii():
        return None
    return min(MOST, round(float(number) * unit)) or None


def _ends_in_prose(prompt: str) -> bool:
    """Not in a block of code, and not in a diff, whose lines begin with a plus, too."""
    lines = prompt.rstrip().splitlines()
    fences = sum(line.lstrip().startswith(("```", "~~~")) for line in lines)
    in_diff = lines[-1].startswith("+") and any(line.startswith(("+", "-", "@@")) for line in lines[-4:-1])
    return fences % 2 == 0 and not in_diff


class Prompt(Bundle):
    content: tuple[Content, ...]
    id: str = ""  # the client's; empty: the session makes one
    data: str = ""  # piped in beside the prompt: never read for slash commands, mentions or token budgets
    literal: bool = False  # nothing in it is expanded
    origin: Mapping[str, Any] | None = None  # comes back with the result
    delivery: Literal["next_run", "steer"] = "next_run"  # steer: joins the run under way, if nothing must be expanded

    @property
    def text(self) -> str:
        """Without `data`."""
        return "".join([part.text for part in self.content if isinstance(part, Text)])


class QueuedPrompt(Bundle):
    """A prompt that waits for its run."""

    id: str
    prompt: Prompt
    restored: bool = False  # it waited already when the session was last closed: `release()` sends it


def text_prompt(text: str) -> Prompt:
    return Prompt((Text(text),))


def append_piped_data(content: tuple[Content, ...], data: str) -> tuple[Content, ...]:
    """Behind the last text, as one text with it."""
    if not data:
        return content
    if content and isinstance(last := content[-1], Text):
        return (*content[:-1], Text(last.text + data))
    return (*content, Text(data))
