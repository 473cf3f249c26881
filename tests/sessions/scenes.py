"""The scenarios that are cut, killed and damaged: each a script for the model, and what a consumer does meanwhile.

Some replies have a pace: time passes between their pieces, so the consumer sees each before the next is written.
"""

from __future__ import annotations

from typing import NamedTuple

from mainspring.context.attachments import PreparedContext
from mainspring.core.config import Config
from mainspring.core.effects import Priority
from mainspring.core.messages import Thinking
from mainspring.core.reasons import Trouble
from mainspring.core.updates import CallStarted, ReplyStarted, Update
from mainspring.engine.run import Run
from mainspring.engine.session import EngineSession
from mainspring.testing import ScriptedReply, call, fails, says
from sessions.stage import CONFIG, CheckedWorld, Meanwhile, nothing

FULL = 990_000  # tokens: above the threshold of the default model


class Scene(NamedTuple):
    replies: tuple[ScriptedReply, ...]
    prompts: tuple[str, ...] = ("go",)
    contexts: tuple[PreparedContext, ...] = ()
    meanwhile: Meanwhile = nothing
    config: Config = CONFIG

    def world(self) -> CheckedWorld:
        return CheckedWorld(self.replies, contexts=self.contexts)


async def types(session: EngineSession, run: Run, update: Update) -> None:
    """Types something while the first tool runs, and something for later when the next reply begins."""
    if isinstance(update, CallStarted):
        await session.submit("and mind the tests")
    if isinstance(update, ReplyStarted):
        await session.submit("one day", Priority.LATER)


async def interrupts(session: EngineSession, run: Run, update: Update) -> None:
    if isinstance(update, CallStarted):
        run.interrupt()


SCENES = {
    "text": Scene((says("A short answer, in a few pieces.", pace=1), says("And another one.", pace=1)), ("go", "on")),
    "tool": Scene((says("Let me look at this.", call("Bash", "c1", text="a\nb"), pace=1), says("Done.")), ("go",)),
    "parallel": Scene(
        (
            says(
                Thinking("hm", "signed"),
                "Three at once.",
                call("Read", "c1", ms=5),
                call("Read", "c2", ms=1),
                call("Bash", "c3", ms=2),
                pace=1,
            ),
            says("All done."),
        )
    ),
    "compaction": Scene(
        (
            says("First.", call("Bash", "c1")),
            says("Second.", call("Bash", "c2")),
            says("Third.", call("Bash", "c3")),
            says("Fourth."),
            says("Fifth."),
        ),
        ("go", "on"),
        (
            PreparedContext(10),
            PreparedContext(20),
            PreparedContext(FULL),
            PreparedContext(10),
            PreparedContext(10),
            PreparedContext(FULL),
            PreparedContext(10),
        ),
    ),
    "inbox": Scene(
        (says("Working.", call("Bash", "c1", ms=5)), says("More.", call("Sleep", "c2")), says("Done.")),
        meanwhile=types,
    ),
    "interrupt": Scene(
        (says("Working.", call("Bash", "c1", ms=50)), says("Again.")), ("go", "on"), meanwhile=interrupts
    ),
    "trouble": Scene(
        (
            fails(Trouble.NETWORK, "", "This text breaks off"),
            says("So, again.", call("Read", "c1")),
            says("There."),
        )
    ),
}
