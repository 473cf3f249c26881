"""The engine's side of a call, for tests that send tools through the whole pipeline. A rule allows each of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from mainspring.core.messages import ToolCall
from mainspring.core.updates import Update
from mainspring.engine.shared_state import EnginePolicy
from mainspring.tools.base import Tool, Workspace
from mainspring.tools.pipeline import InvocationResult
from mainspring.tools.toolset import Toolset


class Desk:
    """A `CallContext` that keeps what it hears; `answers` are given in their order."""

    def __init__(self, tools: Iterable[Tool], *, answers: tuple[str, ...] = (), cwd: str = "/") -> None:
        given = tuple(tools)
        self.hands = Toolset(given, place=Workspace(cwd), attended=True)
        self.policy = EnginePolicy(rules=tuple(f"allow {tool.name}" for tool in given))
        self.answers = list(answers)
        self.asked: list[str] = []
        self.shown: list[str] = []
        self.decisions: list[str] = []
        self.failures: dict[str, int] = {}

    async def ask(self, text: str, about: Any = None) -> str:
        self.asked.append(text)
        return self.answers.pop(0)

    async def note_decision(self, decision: str, reason: str, classifier: tuple[str, str] | None = None) -> None:
        self.decisions.append(decision)

    def progress(self, text: str) -> None:
        self.shown.append(text)

    def show(self, update: Update) -> None:
        raise AssertionError(update)  # nothing here starts an agent

    async def room(self) -> None:
        pass

    async def call(self, name: str, /, **input: Any) -> InvocationResult:
        return await self.hands.run(ToolCall("call-1", name, input), self)

    def now(self, name: str, /, **input: Any) -> InvocationResult:
        """Where no event loop runs."""
        return asyncio.run(self.call(name, **input))
