"""What goes along with what somebody says: files that it names, and what hooks have to say of it, as when a session
begins and ends. For every door."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal

from mainspring.core.errors import ToolError
from mainspring.core.messages import Origin, User, user
from mainspring.core.value import Value
from mainspring.hooks.points import Hooks, Opinion, Point


class Blocked(Value):
    """A prompt that a hook does not let through, or that stands for what nobody brings: the model is not asked."""

    reason: str


Attach = Callable[[str], Awaitable[tuple[User, ...]]]


async def nothing(text: str) -> tuple[User, ...]:  # noqa: ARG001  # it has the shape of what brings something
    return ()


class Prompts:
    """One for a session."""

    def __init__(
        self, hooks: Hooks, source: Literal["startup", "resume"] = "startup", attach: Attach = nothing
    ) -> None:
        """`attach` brings what a text names by `@path` and the like, or raises `ToolError`."""
        self._hooks = hooks
        self._source = source
        self._attach = attach
        self._begun = False

    async def said(self, prompt: User, words: str | None = None) -> tuple[User, ...] | Blocked:
        """What goes to the model: the prompt, the files that it names, and what hooks have to add to it. `words`: what
        of it is looked through for files; None: all. Data that came along names none."""
        context: list[str] = []
        if not self._begun:
            self._begun = True
            context += (await self._ask(Point.SESSION_START, source=self._source)).context
        opinion = await self._ask(Point.USER_PROMPT_SUBMIT, prompt=prompt.text)
        if opinion.block or opinion.stop is not None:
            return Blocked(opinion.reason or opinion.stop or "A hook does not let this prompt through.")
        context += opinion.context
        try:
            files = await self._attach(prompt.text if words is None else words)
        except ToolError as error:
            return Blocked(str(error))
        return (prompt, *files, *[user(text, Origin.ATTACHMENT) for text in context])

    async def ended(self, reason: str) -> None:
        if self._begun:
            await self._ask(Point.SESSION_END, reason=reason)

    async def _ask(self, point: Point, **facts: str) -> Opinion:
        return await self._hooks.ask(point, dict(facts)) if self._hooks.any_at(point) else Opinion()
