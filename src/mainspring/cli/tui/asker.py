"""The person at the terminal, as the host of a session: asked by menus. What draws those is loaded at the first."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mainspring.agent.host import Answers, ApprovalRequest, NoHost, QuestionSet, Reach
from mainspring.agent.permission_updates import ApprovalScopes
from mainspring.cli.output import TextStyle
from mainspring.cli.terminal_session import LineWriter

if TYPE_CHECKING:
    from mainspring.agent.permission_updates import PermissionUpdates
    from mainspring.cli.tui.host import QuestionQueue
    from mainspring.cli.tui.screen import Screen
    from mainspring.tools.base import Approval


class TerminalHost(NoHost):
    reach: Reach = "during_run"

    def __init__(
        self,
        lines: LineWriter,
        stage: Callable[[], Screen],
        permissions: Callable[[], PermissionUpdates],
        interrupt: Callable[[], object],
    ) -> None:
        """`stage`: where menus are drawn. `interrupt`: the run under way."""
        self._lines, self._stage, self._interrupt = lines, stage, interrupt
        self._granting = ApprovalScopes(permissions)
        self._questions: QuestionQueue | None = None

    async def approve(self, request: ApprovalRequest) -> Approval:
        return await self._asking().approve(request)

    async def ask(self, questions: QuestionSet) -> Answers:
        return await self._asking().ask(questions)

    def _asking(self) -> QuestionQueue:
        if self._questions is None:
            from mainspring.cli.tui.host import QuestionContext, QuestionQueue
            from mainspring.cli.tui.permission_dialog import render_proposed_change

            stage = self._stage()
            self._questions = QuestionQueue(
                QuestionContext(
                    place=stage,
                    granting=self._granting,
                    tell=lambda words: self._lines.line(words, TextStyle.DIM),
                    warn=lambda words: self._lines.line(words, TextStyle.YELLOW),
                    interrupt=self._interrupt,
                    now=stage.attended,
                    changes=render_proposed_change,
                )
            )
        return self._questions
