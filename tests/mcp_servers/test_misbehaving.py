"""Servers that die, hang, shout, lie and leave others behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from processes.traces import new_nap, with_word

from mainspring.core.errors import UsageError
from mainspring.mcp.base import McpStatus, McpTimeouts
from mainspring.mcp.server_process import McpServerProcess, ServerDirectory
from mainspring.processes.children import Children
from mainspring.processes.environment import child_environment
from mcp_servers.by_hand import by_hand
from mcp_servers.stage import PATIENCE, counter, program, stdio, until

RULES = ("allow mcp__shop", "allow mcp__odd", "allow mcp__good")
GOOD = program("good", by_hand("serve()"))


def failed(folder: Path, code: str, *, limits: McpTimeouts = McpTimeouts(first_turn=PATIENCE)) -> str:  # noqa: B008  # frozen
    """Why a server failed; another one beside it is there all the same."""

    async def main() -> str:
        async with counter(folder, [program("odd", code), GOOD], limits=limits) as both:
            assert await both.settle() == ("mcp__good__hello",)
            odd = both.servers.servers["odd"]
            assert odd.status is McpStatus.FAILED
            assert both.warned == [f"the MCP server 'odd' cannot be used: {odd.error}"]
            return odd.error

    return asyncio.run(main())


def test_one_that_ends_at_once(tmp_path: Path) -> None:
    said = failed(tmp_path, "import sys; sys.stderr.write('no licence\\n'); sys.exit(7)")
    assert said == "it ended with exit code 7; its last output: no licence"


def test_one_that_never_answers(tmp_path: Path) -> None:
    began = time.monotonic()
    said = failed(
        tmp_path,
        "import sys; sys.stderr.write('thinking\\n'); sys.stdin.read()",
        limits=McpTimeouts(start=1.5, first_turn=PATIENCE),
    )
    assert said.startswith("it did not answer within 1.5 s (MCP_TIMEOUT, in milliseconds, sets another limit)")
    assert said.endswith("its last output: thinking")
    assert time.monotonic() - began < PATIENCE


def test_one_that_only_talks_nonsense(tmp_path: Path) -> None:
    said = failed(tmp_path, "print('Welcome!'); print('{\"a\": 1}')")
    assert "it printed 2 lines that are not messages, such as '{\"a\": 1}'" in said


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("no-such-program", "'no-such-program' not found on PATH: install it"),
        ("./missing", "'{folder}/./missing' not found: check 'command'"),
    ],
)
def test_one_that_is_not_there(tmp_path: Path, command: str, said: str) -> None:
    async def main() -> None:
        async with counter(tmp_path, [stdio("odd", command=command)]) as none:
            assert await none.settle() == ()
            assert said.format(folder=tmp_path) in none.servers.servers["odd"].error

    asyncio.run(main())


def test_nonsense_between_messages_is_passed_over(tmp_path: Path) -> None:
    code = by_hand("serve(heard=lambda request: print('got', request['method'], flush=True))")

    async def main() -> None:
        async with counter(tmp_path, [program("odd", code)], rules=RULES) as odd:
            assert await odd.settle() == ("mcp__odd__hello",)
            assert await odd.text("mcp__odd__hello", a=1) == 'hello {"a": 1}'

    asyncio.run(main())


def test_a_flood_on_standard_error_holds_nobody_up(tmp_path: Path) -> None:
    """200 MB; what is kept of it are 9 KB at most, and the end of it is told when it dies."""
    code = by_hand(
        """
def answer(name, arguments):
    for _ in range(200):
        os.write(2, b"x" * 1_000_000)
    os.write(2, b"\\nthe last line\\n")
    if arguments:
        os._exit(4)
    return {"content": [{"type": "text", "text": "shouted"}]}
serve(answer)
"""
    )

    async def main() -> None:
        async with counter(tmp_path, [program("odd", code)], rules=RULES) as odd:
            await odd.settle()
            assert await odd.text("mcp__odd__hello") == "shouted"
            lost = await odd.text("mcp__odd__hello", die=True)
            assert "it ended with exit code 4" in lost
            assert "the last line" in lost
            assert len(lost) < 1_200

    asyncio.run(main())


def test_a_death_in_mid_call_is_told_and_the_next_call_starts_it_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with counter(tmp_path, [stdio()]) as shop:
            await shop.settle()
            other = asyncio.create_task(shop.call("mcp__shop__hang", folder=str(tmp_path)))
            await until((tmp_path / "begun").exists)
            lost = await shop.call("mcp__shop__die", code=3)
            assert lost.answer.is_error
            assert lost.answer.text == (
                "The MCP server 'shop' was lost during the call, and it is unknown what the call did: it ended with "
                "exit code 3; its last output: the roof came down. The next call starts it again."
            )
            assert "was lost during the call" in (await other).answer.text
            assert shop.servers.status()[0]["status"] == "failed"
            # Two calls at once, one return.
            assert await asyncio.gather(*[shop.text("mcp__shop__add", a=n, b=1) for n in (1, 2)]) == ["2", "3"]
            assert shop.servers.status()[0]["status"] == "connected"
            assert await shop.settle() == ()  # the same tools

    asyncio.run(main())


def test_one_that_dies_again_without_an_answer_is_not_started_a_third_time(tmp_path: Path) -> None:
    started = tmp_path / "started"
    code = by_hand(
        f"""
with open({str(started)!r}, "a") as file: file.write("x")
serve(lambda name, arguments: os._exit(1))
"""
    )

    async def main() -> None:
        async with counter(tmp_path, [program("odd", code)], rules=RULES) as odd:
            await odd.settle()
            assert "The next call starts it again." in await odd.text("mcp__odd__hello")
            assert "It is not started again." in await odd.text("mcp__odd__hello")
            for _ in range(3):
                gone = await odd.text("mcp__odd__hello")
                assert gone.startswith(
                    "The MCP server 'odd' cannot be reached: it ended with exit code 1. Nothing was done"
                )
            assert started.read_text() == "xx"

    asyncio.run(main())


def test_a_death_between_calls_is_mended_by_the_next_one(tmp_path: Path) -> None:
    async def main() -> None:
        async with counter(tmp_path, [GOOD], rules=RULES) as good:
            await good.settle()
            server = good.servers.servers["good"]
            for _ in range(2):  # each time it has answered a call since
                assert await good.text("mcp__good__hello") == "hello {}"
                (pid,) = server_pids(os.getpid())
                os.kill(pid, signal.SIGKILL)
                await until(lambda: server.status is McpStatus.FAILED)
                assert server.error == "it was ended by signal 9"
            assert await good.text("mcp__good__hello") == "hello {}"

    asyncio.run(main())


def test_a_schema_that_cannot_be_understood_refuses_the_one_tool(tmp_path: Path) -> None:
    code = by_hand(
        """
def tool(name, schema):
    return {"name": name, "inputSchema": schema}
serve(tools=[
    tool("plain", {"type": "object"}),
    tool("typeless", {"type": "object", "properties": {"a": {"type": "text"}}}),
    tool("top", {"type": "object", "anyOf": [{"required": ["a"]}]}),
    tool("nowhere", {"type": "object", "properties": {"a": {"$ref": "#/$defs/none"}}}),
    tool("regular", {"type": "object", "properties": {"a": {"pattern": "(a+)+$"}, "pattern": {"type": "string"}}}),
    tool("a.b", {"type": "object"}),
    tool("a/b", {"type": "object"}),
    tool("a" * 80, {"type": "object"}),
])
"""
    )

    async def main() -> None:
        async with counter(tmp_path, [program("odd", code)], rules=RULES) as odd:
            names = await odd.settle()
            assert names[:3] == ("mcp__odd__plain", "mcp__odd__regular", "mcp__odd__a_b")
            assert len(names[3]) == 64
            assert await odd.text(names[3]) == f"{'a' * 80} {{}}"
            assert [words.partition(" is skipped: ")[0] for words in odd.warned] == [
                f"the tool '{name}' of the MCP server 'odd'" for name in ("typeless", "top", "nowhere", "a/b")
            ]
            assert "'a.b' already has the name 'mcp__odd__a_b'" in odd.warned[-1]
            # An expression that takes for ever is the server's own concern.
            assert (await odd.text("mcp__odd__regular", a="a" * 60 + "!")).startswith("regular")
            assert (await odd.call("mcp__odd__regular", pattern=1)).answer.is_error

    asyncio.run(main())


def test_names_that_could_be_mistaken_for_anothers(tmp_path: Path) -> None:
    """A rule for 'a' must not cover a server that calls itself 'a__b' or 'a_'."""
    wanted = [program(name, by_hand("serve()")) for name in ("a__b", "a_", "_a", "a.b", "a b", "")]

    async def main() -> None:
        async with counter(tmp_path, wanted) as odd:
            assert await odd.settle() == ("mcp__a_b__hello",)
            assert len(odd.warned) == 5
            assert odd.warned[0].startswith("the MCP server 'a__b' would be called 'a__b', which could be mistaken")
            assert odd.warned[3] == "the MCP server 'a b' is skipped: 'a.b' already has the name 'a_b'; rename one"

    asyncio.run(main())


def test_the_first_turn_does_not_wait_for_ever(tmp_path: Path) -> None:
    """What comes later counts from the next turn."""
    go = tmp_path / "go"
    code = by_hand(f"while not os.path.exists({str(go)!r}): time.sleep(0.01)\nserve()")

    async def main() -> None:
        limits = McpTimeouts(first_turn=1.0)
        async with counter(tmp_path, [program("odd", code)], limits=limits, rules=RULES) as odd:
            began = time.monotonic()
            assert await odd.settle() == ()
            assert time.monotonic() - began > 0.9
            assert await odd.settle() == ()  # at once
            assert odd.servers.status()[0]["status"] == "pending"
            (told,) = odd.warned
            assert told.startswith("the MCP server 'odd' is not connected after 1 s: the run continues without it")
            go.touch()
            await until(lambda: odd.servers.servers["odd"].status is McpStatus.CONNECTED)
            assert await odd.settle() == ("mcp__odd__hello",)

    asyncio.run(main())


def test_one_is_switched_off_and_on_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with counter(tmp_path, [GOOD, program("odd", "raise SystemExit(5)")], rules=RULES) as good:
            await good.settle()
            await good.servers.switch_off("good")
            assert server_pids(os.getpid()) == []
            assert good.servers.status()[0]["status"] == "disabled"
            assert "cannot be reached: disabled" in await good.text("mcp__good__hello")
            await good.servers.reconnect("good")
            assert await good.text("mcp__good__hello") == "hello {}"
            with pytest.raises(UsageError, match="'odd' cannot be used: it ended with exit code 5"):
                await good.servers.reconnect("odd")
            with pytest.raises(UsageError, match="no MCP server 'none'; configured: good, odd"):
                await good.servers.reconnect("none")

    asyncio.run(main())


# --- nothing is left ------------------------------------------------------------------------------------------------

STUBBORN = """
import signal, subprocess, sys
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP): signal.signal(number, signal.SIG_IGN)
subprocess.Popen(["setsid", "sleep", sys.argv[1]])
subprocess.Popen(["sh", "-c", f"trap '' TERM; (sleep {sys.argv[1]} &) ; sleep {sys.argv[1]}"])
"""


def stubborn(nap: str) -> str:
    """A server that hears nothing, not even that its input has ended, and has started others."""
    return by_hand(f"sys.argv[1:] = [{nap!r}]\n{STUBBORN}\nserve()\ntime.sleep(float(sys.argv[1]))")


def test_nothing_is_left_of_a_server_that_hears_nothing(tmp_path: Path) -> None:
    nap = new_nap()

    async def main() -> None:
        async with counter(tmp_path, [program("odd", stubborn(nap))]) as odd:
            await odd.settle()
            await until(lambda: len(with_word(nap)) >= 4)

    asyncio.run(main())
    assert with_word(nap) == []


AGENT = """
import asyncio, sys
from pathlib import Path
from mcp_servers.stage import counter, program
async def main():
    async with counter(Path(sys.argv[1]), [program("odd", sys.argv[2])]) as odd:
        await odd.settle()
        Path(sys.argv[1], "settled").touch()
        await asyncio.sleep(1_000)
asyncio.run(main())
"""


@pytest.mark.parametrize("kind", ["stubborn", "obedient"])
def test_killing_us_leaves_no_server(tmp_path: Path, kind: str) -> None:
    """`kill -9`: nobody is there any more to end them but the keeper."""
    nap = new_nap()
    code = stubborn(nap) if kind == "stubborn" else by_hand(f"# {nap}\nserve()")
    path = os.pathsep.join(sys.path)
    agent = subprocess.Popen([sys.executable, "-c", AGENT, str(tmp_path), code], env={**os.environ, "PYTHONPATH": path})

    async def main() -> None:
        try:
            await until((tmp_path / "settled").exists)
            await until(lambda: len(with_word(nap)) >= 3)  # us, the keeper, and the server at least
        finally:
            agent.send_signal(signal.SIGKILL)
            agent.wait()
        await until(lambda: with_word(nap) == [], seconds=10)

    asyncio.run(main())


def server_pids(parent: int) -> list[int]:
    """Of programs that keepers of this process keep."""
    keepers = children(parent)
    return [pid for keeper in keepers for pid in children(keeper)]


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize(("count", "told"), [(2_000, 0), (2_001, 1)])
def test_more_tools_than_are_taken_is_said_once(tmp_path: Path, count: int, told: int) -> None:
    many = f"[{{'name': f't{{n}}', 'inputSchema': {{'type': 'object'}}}} for n in range({count})]"

    async def main() -> None:
        async with counter(tmp_path, [program("big", by_hand(f"serve(tools={many})"))]) as big:
            assert len(await big.settle()) == 2_000
            big.servers.servers["big"].changed()
            await big.settle()
            assert len(big.warned) == told
            if told:
                assert big.warned[0].startswith("the MCP server 'big' has more tools than the limit (2,000, ")

    asyncio.run(main())


def test_a_list_of_tools_without_end_is_said(tmp_path: Path) -> None:
    """A page with a tool, and always another page."""
    code = """
pages = 0
_send = send
def send(**message):
    global pages
    if "tools" in message.get("result", {}):
        pages += 1
        tool = {"name": f"t{pages}", "inputSchema": {"type": "object"}}
        message["result"] |= {"nextCursor": str(pages), "tools": [tool]}
    _send(**message)
serve()
"""

    async def main() -> None:
        async with counter(tmp_path, [program("long", by_hand(code))]) as long:
            assert len(await long.settle()) == 100
            (told,) = long.warned
            assert "on at most 100 pages): the others are ignored" in told

    asyncio.run(main())


def test_who_stops_waiting_for_servers_leaves_nothing_behind(tmp_path: Path) -> None:
    def waits() -> list[asyncio.Task[object]]:
        all_tasks = [task for task in asyncio.all_tasks() if not task.cancelling()]
        return [
            task for task in all_tasks if getattr(task.get_coro(), "__qualname__", "") == "McpServerConnection.settled"
        ]

    async def main() -> None:
        async with counter(tmp_path, [program("slow", "import time; time.sleep(1000)")]) as slow:
            waiting = asyncio.create_task(slow.servers.ready())
            await until(lambda: len(waits()) == 1)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert waits() == []

    asyncio.run(main())


def test_a_start_that_is_cancelled_closes_each_pipe_once(tmp_path: Path) -> None:
    """A number that is closed twice may be another's file by then."""
    wrong: list[object] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: wrong.append(context))
        children = Children()
        ground = ServerDirectory(str(tmp_path), trusted=True)
        slow = McpServerProcess(
            children, program("slow", "import time; time.sleep(1000)"), child_environment(os.environ), ground
        )
        opening = asyncio.create_task(slow.pipes())
        await asyncio.sleep(0)  # it has begun, and waits
        opening.cancel()
        await asyncio.wait([opening])
        await slow.close()
        await children.close()

    asyncio.run(main())
    assert wrong == []
