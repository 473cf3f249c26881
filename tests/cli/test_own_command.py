"""`!COMMAND`: what is kept of its output."""

from __future__ import annotations

import asyncio
import gc

import pytest

from cli.slash.sitting import Sitting, here, sat
from cli.stage import Serve
from mainspring.cli.own_command import MOST_KEPT, CommandOutput, run_own_command
from mainspring.simulator.replies import Say


def test_the_beginning_and_the_end_are_kept() -> None:
    written = CommandOutput()
    for number in range(60):
        written.add(bytes([65 + number % 26]) * (MOST_KEPT // 10))
    assert len(written.text) < 3.2 * MOST_KEPT
    assert written.text.startswith("A")
    assert "bytes left out" in written.text
    assert written.is_mid_line
    assert not CommandOutput().is_mid_line


def test_what_the_model_is_told(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    stage = serve(Say.of("I see."), Say.of("Again."))
    here(stage, monkeypatch)

    async def run(sitting: Sitting, command: str) -> str:
        before = len(sitting.paper.lines)
        await run_own_command(command, sitting.talk)
        return "\n".join(sitting.paper.lines[before:])

    async def play(sitting: Sitting) -> None:
        assert await run(sitting, " ") == "Type a command after '!', such as '!git status'."
        assert await run(sitting, "echo one; echo two >&2; exit 3") == (
            "(exit code 3)\n(2 lines go to the model with your next prompt)"
        )
        assert await run(sitting, "true") == "(the command goes to the model with your next prompt)"
        assert await run(sitting, "!echo private") == ""
        assert await run(sitting, "printf '\\033[?1049h'") == (
            "\n(a program with the whole screen: the model does not see it)"
        )
        assert await run(sitting, "echo in the background &") == ""
        assert await run(sitting, "kill -TERM $$") == (
            "\n(ended by signal 15)\n(the command goes to the model with your next prompt)"
        )
        assert not stage.requests
        await sitting.asked("what do you see?")
        sent = str(stage.requests[-1].body["messages"])
        assert "$ echo one; echo two >&2; exit 3\\none\\ntwo\\n(exit code 3)" in sent
        assert "private" not in sent
        assert "background" not in sent
        await sitting.asked("and now?")
        assert str(stage.requests[-1].body["messages"]).count("echo two >&2") == 1, "it is told once"

    sat(play)
    assert "one\ntwo\nprivate\n" in capfd.readouterr().out
    [file] = stage.sessions()
    assert "echo two >&2" in file.read_text()


@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/true"])
def test_a_cancelled_command_ends(serve: Serve, monkeypatch: pytest.MonkeyPatch, shell: str) -> None:
    """Wherever in its start or its run, also if it has already ended. Nothing is left open: `gc` would complain."""
    here(serve(), monkeypatch)
    monkeypatch.setenv("SHELL", shell)

    async def play(sitting: Sitting) -> None:
        for steps in range(10):
            task = asyncio.ensure_future(run_own_command("sleep 1000", sitting.talk))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait({task}, timeout=60)
            assert task.done(), steps
            assert task.cancelled() or shell == "/bin/true"

    sat(play)
    gc.collect()
