"""An agent session within the test: the real one, over real sockets and files, with a host that the test scripts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from mainspring.agent.config import ResolvedConfig, resolve_config
from mainspring.agent.host import Answers, ApprovalRequest, NoHost, QuestionSet, Reach
from mainspring.agent.open_session import open_session
from mainspring.agent.options import SessionOptions
from mainspring.agent.session import AgentSession
from mainspring.agent.updates import AnyUpdate, Idle
from mainspring.simulator.replies import Reply
from mainspring.simulator.scripts import Choose
from mainspring.simulator.server import ModelServer
from mainspring.tools.base import Approval

PATIENCE = 40  # seconds; only what hangs takes so long


class ScriptedHost(NoHost):
    def __init__(self, reach: Reach = "always") -> None:
        self.reach = reach
        self.approvals: list[ApprovalRequest] = []
        self.questions: list[QuestionSet] = []

    async def approve(self, request: ApprovalRequest) -> Approval:
        self.approvals.append(request)
        return Approval("allow")

    async def ask(self, questions: QuestionSet) -> Answers:
        self.questions.append(questions)
        return Answers("yes")


class Stage:
    def __init__(self, server: ModelServer, folder: Path) -> None:
        self.server, self.folder, self.home = server, folder / "work", folder / "home"
        self.folder.mkdir(exist_ok=True)
        self.home.mkdir(exist_ok=True)
        (self.home / "settings.toml").write_text("autoMemoryEnabled = false\n[sandbox]\nenabled = false\n")
        self.told: list[str] = []
        self.environment = {
            "ANTHROPIC_BASE_URL": server.url,
            "ANTHROPIC_API_KEY": "sk-of-the-tests",
            "MAINSPRING_HOME": str(self.home),
            "HOME": str(self.folder.parent),
            "PATH": "/usr/bin:/bin",
            "IS_SANDBOX": "1",
        }

    def resolved(self, options: SessionOptions) -> ResolvedConfig:
        return resolve_config(options, self.environment)

    def open(
        self, host: NoHost | None = None, mirror: Callable[[str, bytes], None] | None = None, **chosen: Any
    ) -> AgentSession:
        options = SessionOptions(cwd=str(self.folder), in_process=True, notice=self.told.append, **chosen)
        return open_session(self.resolved(options), host or ScriptedHost(), mirror=mirror)


async def read_until_idle(session: AgentSession) -> list[AnyUpdate]:
    taken: list[AnyUpdate] = []
    async for update in session.updates():
        taken.append(update)
        if isinstance(update, Idle) and not update.background and not session.queued:
            break
    return taken


def play(main: Callable[[Stage], Awaitable[None]], folder: Path, *replies: Reply, choose: Choose | None = None) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE), ModelServer(list(replies), choose=choose) as server:
            await main(Stage(server, folder))

    asyncio.run(bounded())
