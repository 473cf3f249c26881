"""What goes along with what somebody says: files that it names, and what hooks have to say of it, as when a session
begins and ends. For every door."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from mainspring.core.errors import ToolError
from mainspring.core.messages import Origin, User, user
from mainspring.core.value import Value
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
