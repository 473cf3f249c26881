"""A session is a guest in the program: it leaves the process as it found it, however it ends."""

from __future__ import annotations

import asyncio
import contextvars
import ctypes
import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

import pytest

from mainspring.sdk import AssistantMessage, Client, HookMatcher, Message, Options, ResultMessage, query
from mainspring.simulator.replies import Say
from sdk.stage import Stage, call, outcomes, play, texts

PR_GET_CHILD_SUBREAPER = 37
SHELL = call("Bash", command="sleep 0.01; echo hello")


def standing() -> dict[str, Any]:
    """What belongs to the process."""
    adopts = ctypes.c_int()
    ctypes.CDLL(None).prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(adopts))
    return {
        "signals": {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)},
        "folder": Path.cwd(),
        "environment": dict(os.environ),
        "collector": (gc.isenabled(), gc.get_threshold()),
        "threads": {thread.name for thread in threading.enumerate() if not thread.name.startswith("asyncio_")},
        "hook": sys.excepthook,
        "adopts": adopts.value,
        "files": open_files(),
    }


def open_files() -> set[str]:
    """By name: sockets of the model server and the like come and go."""
    found: set[str] = set()
    for fd in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.add(str(fd.readlink()))
    return {name for name in found if name.startswith("/") and not name.startswith("/proc/")}


@pytest.mark.covers("M-01")
def test_nothing_of_the_process_is_changed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    async def main(stage: Stage) -> None:
        before, tasks, frozen = standing(), asyncio.all_tasks(), gc.get_freeze_count()
        told = await stage.ask(allowed_tools=["Bash"])
        assert texts(told) == ["Done."]
        assert outcomes(told)[0].content == "hello"
        assert standing() == before
        assert frozen / 2 < gc.get_freeze_count() <= frozen  # some of the frozen objects may be gone
        assert asyncio.all_tasks() == tasks

    play(main, tmp_path, Say.of(SHELL), Say.of("Done."))
    assert capfd.readouterr() == ("", "")


def test_who_leaves_early_leaves_nothing_behind(tmp_path: Path) -> None:
    """Also a command that would run for long."""

    async def main(stage: Stage) -> None:
        before = asyncio.all_tasks()
        async with aclosing(query(prompt="go", options=stage.options(allowed_tools=["Bash"]))) as told:
            async for message in told:
                if isinstance(message, AssistantMessage):
                    await until(lambda: "sleep\x00613" in running_commands())
                    break
        assert asyncio.all_tasks() == before

    play(main, tmp_path, Say.of(call("Bash", command="exec sleep 613")), Say.of("Done."))
    assert "sleep\x00613" not in running_commands()


def running_commands() -> str:
    """The command lines of all processes."""
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            found.append((process / "cmdline").read_text(errors="replace"))
    return "\n".join(found)


def test_cancelled_at_any_moment(tmp_path: Path) -> None:
    """Wherever the program's own task is cancelled, the session ends, and its file can be taken up again."""

    async def main(stage: Stage) -> None:
        tasks = asyncio.all_tasks()
        for moment in range(0, 60, 3):
            running = asyncio.ensure_future(stage.ask(allowed_tools=["Bash"]))
            for _ in range(moment):
                await asyncio.sleep(0)
                if moment > 30:
                    await asyncio.sleep(0.002)
            running.cancel()
            await asyncio.wait({running})
            assert running.cancelled() or running.exception() is None
            assert asyncio.all_tasks() == tasks
        told = await stage.ask(continue_conversation=True)
        assert isinstance(told[-1], ResultMessage)

    def choose(request: Any) -> Say:
        return Say.of("Done.") if "tool_result" in str(request.body["messages"][-1]) else Say.of(SHELL)

    play(main, tmp_path, choose=choose)


def test_cancelled_again_and_again(tmp_path: Path) -> None:
    """As a cancel scope of anyio does it: at every step, until it is over. The ending is brought to its end."""

    async def main(stage: Stage) -> None:
        tasks = asyncio.all_tasks()
        first = await stage.ask(allowed_tools=["Bash"])
        again = first[-1].session_id  # type: ignore[union-attr]
        for moment in (1, 5, 20, 60):
            running = asyncio.ensure_future(stage.ask(allowed_tools=["Bash"], resume=again))
            for _ in range(moment):
                await asyncio.sleep(0.001)
            while not running.done():
                running.cancel()
                await asyncio.sleep(0)
            assert asyncio.all_tasks() == tasks
            assert "sleep\x00617" not in running_commands()
        assert texts(await stage.ask(resume=again))[-1:] == ["Done."]

    def choose(request: Any) -> Say:
        """Only the second prompt of a session brings a command; a third is the last one."""
        prompts = str(request.body["messages"]).count("'go'")
        return Say.of(call("Bash", command="sleep 617 & wait")) if prompts == 2 else Say.of("Done.")

    play(main, tmp_path, choose=choose)


def test_an_exception_in_the_program_ends_the_session(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        tasks = asyncio.all_tasks()
        with pytest.raises(ZeroDivisionError):
            async with Client(stage.options()) as client:
                await client.query("go")
                async for _ in client.receive_response():
                    raise ZeroDivisionError
        assert asyncio.all_tasks() == tasks

    play(main, tmp_path, Say.of("Hi."))


def test_many_at_once_do_not_mix(tmp_path: Path) -> None:
    """Forty sessions in one process, each in a folder of its own, each with a hook of its own."""
    number: contextvars.ContextVar[int] = contextvars.ContextVar("number")

    async def one(stage: Stage, place: int) -> list[Message]:
        number.set(place)
        folder = stage.folder / str(place)
        folder.mkdir()
        heard: list[tuple[int, str]] = []

        async def hook(input: Any, id: str | None, context: Any) -> dict[str, Any]:
            heard.append((number.get(), input["cwd"]))
            return {}

        hooks: Any = {"PreToolUse": [HookMatcher(hooks=[hook])]}
        told = await stage.ask(f"number {place}", cwd=folder, allowed_tools=["Bash"], hooks=hooks)
        assert heard == [(place, str(folder))]
        assert (folder / "here").read_text() == f"{place}\n"
        return told

    async def main(stage: Stage) -> None:
        found = await asyncio.gather(*[one(stage, place) for place in range(40)])
        assert [texts(told) for told in found] == [[f"It was {place}."] for place in range(40)]
        assert len({told[0].data["session_id"] for told in found}) == 40  # type: ignore[union-attr]

    def choose(request: Any) -> Say:
        said = str(request.body["messages"])
        place = said.split("number ")[1].split("'", maxsplit=1)[0].split("\\", maxsplit=1)[0]
        if "tool_result" in said:
            return Say.of(f"It was {place}.")
        return Say.of(call("Bash", command=f"echo {place} > here"))

    play(main, tmp_path, choose=choose)


async def until(holds: Callable[[], bool]) -> None:
    """Within the time that a test has."""
    while not holds():  # noqa: ASYNC110  # nobody tells us
        await asyncio.sleep(0.01)


# --- a slow reader ----------------------------------------------------------------------------------


@pytest.mark.covers("A-03")
def test_who_does_not_read_stops_the_loop_and_may_still_ask(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        async with Client(stage.options(allowed_tools=["Bash"])) as client:
            await client.query("go")
            await until(lambda: len(stage.server.requests) >= 5)
            quiet, before = 0, 0
            while quiet < 20:  # until nothing more happens
                await asyncio.sleep(0.02)
                quiet = quiet + 1 if len(stage.server.requests) == before else 0
                before = len(stage.server.requests)
            assert before < 30
            await client.set_permission_mode("acceptEdits")
            assert (await client.get_context_usage())["totalTokens"] > 0
            await client.interrupt()
            told = [message async for message in client.receive_response()]
            assert isinstance(told[-1], ResultMessage)
            assert told[-1].terminal_reason in ("aborted_tools", "aborted_streaming")

    def choose(request: Any) -> Say:
        return Say.of(
            call("Bash", f"n{len(request.body['messages'])}", command=f"echo {len(request.body['messages'])}")
        )

    play(main, tmp_path, choose=choose)


# --- what it costs to have it ----------------------------------------------------------------------


def test_importing_it_loads_no_client_of_others() -> None:
    said = "import sys, mainspring.sdk; print(*[name for name in ('mcp', 'anyio', 'pydantic', 'httpx', 'anthropic', "
    said += "'claude_agent_sdk') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


def test_the_package_has_them_at_hand() -> None:
    import mainspring

    assert (mainspring.query, mainspring.Client, mainspring.Options) == (query, Client, Options)
