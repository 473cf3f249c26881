"""The person at the terminal, as the host of a session: asked by menus. What draws those is loaded at the first."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mainspring.agent.host import Answers, ApprovalRequest, NoHost, QuestionSet, Reach
from mainspring.cli.granting import Granting
from mainspring.cli.output import Style
from mainspring.cli.talk import Lines

if TYPE_CHECKING:
    from mainspring.agent.permission_updates import PermissionUpdates
    from mainspring.cli.repl.questions import Questions
    from mainspring.cli.repl.stage import Stage
    from mainspring.tools.approval import Approval


class Asker(NoHost):
    reach: Reach = "during_run"

    def __init__(
        self,
        lines: Lines,
        stage: Callable[[], Stage],
        permissions: Callable[[], PermissionUpdates],
        interrupt: Callable[[], object],
    ) -> None:
        """`stage`: where menus are drawn. `interrupt`: the run under way."""
        self._lines, self._stage, self._interrupt = lines, stage, interrupt
        self._granting = Granting(permissions)
        self._questions: Questions | None = None

    async def approve(self, request: ApprovalRequest) -> Approval:
        return await self._asking().approve(request)

    async def ask(self, questions: QuestionSet) -> Answers:
        return await self._asking().ask(questions)

    def _asking(self) -> Questions:
        if self._questions is None:
            from mainspring.cli.repl.diffs import proposed
            from mainspring.cli.repl.questions import Outside, Questions

            stage = self._stage()
            self._questions = Questions(
                Outside(
                    place=stage,
                    granting=self._granting,
                    tell=lambda words: self._lines.line(words, Style.DIM),
                    warn=lambda words: self._lines.line(words, Style.YELLOW),
                    interrupt=self._interrupt,
                    now=stage.attended,
                    changes=proposed,
                )
            )
        return self._questions
