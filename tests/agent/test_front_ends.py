"""Where the front ends differed: each case is decided once, and the same for all of them (decision 60)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import pytest
from cli.stage import Serve, frames
from cli.stage import Stage as Command
from cli.terminal import CTRL_D, SitAt, sit_at
from tiers import long
from tui.person import sit_at as sit_at_terminal

from agent.stage import ScriptedHost, Stage, play, read_until_idle
from mainspring import Agent
from mainspring.agent.host import Reach
from mainspring.agent.updates import Idle, PromptAnswered, PromptExpanded, RunBroken, RunStarted
from mainspring.checkpoints.history import FileHistory
from mainspring.checkpoints.store import PLAN
from mainspring.cli.flags import spell_option
from mainspring.core.errors import UsageError
from mainspring.core.models import DEFAULT_MODEL
from mainspring.core.updates import Delta, Result
from mainspring.sdk import Client, Options
from mainspring.sessions.listing import list_sessions_in
from mainspring.simulator.replies import ReceivedRequest, Refuse, Reply, Say

__all__ = ["sit_at", "sit_at_terminal"]  # fixtures

FRONT_ENDS = ("print", "plain", "terminal", "pipe", "sdk", "library")
STREAM = ("-p", "--output-format=stream-json", "--verbose")


def lines_in(*prompts: str) -> bytes:
    said = [{"type": "user", "message": {"role": "user", "content": one}} for one in prompts]
    return b"".join([json.dumps(one).encode() + b"\n" for one in said])


def wait_for_requests(stage: Command, number: int) -> None:
    stage.until(lambda: len(stage.requests) == number)


def through_sdk(stage: Command, *prompts: str, **options: Any) -> list[Any]:
    async def main() -> list[Any]:
        env = {"ANTHROPIC_BASE_URL": stage.server.url, "CLAUDE_CONFIG_DIR": str(stage.home), "IS_SANDBOX": "1"}
        told: list[Any] = []
        async with Client(Options(cwd=stage.folder, env=env, setting_sources=["user"], **options)) as client:
            for prompt in prompts:
                await client.query(prompt)
                told += [message async for message in client.receive_response()]
        return told

    return asyncio.run(main())


def through_library(stage: Command, *prompts: str, **options: Any) -> None:
    async def main() -> None:
        env = {"ANTHROPIC_BASE_URL": stage.server.url, "MAINSPRING_HOME": str(stage.home), "IS_SANDBOX": "1"}
        agent = Agent(cwd=stage.folder, env=env, setting_sources=["user"], expand_prompts=True, **options)
        async with agent.session() as chat:
            for prompt in prompts:
                await chat.run(prompt)

    asyncio.run(main())


@pytest.fixture
def say(sit_at: SitAt, sit_at_terminal: Any) -> Callable[..., None]:
    """Says these things through a front end, one after the other, and leaves. `flags`: options of the session by name,
    which commands take as flags."""

    def through(front_end: str, stage: Command, *prompts: str, flags: Mapping[str, str] = MappingProxyType({})) -> None:
        given = [f"{spell_option(name)}={value}" for name, value in flags.items()]
        match front_end:
            case "print":
                for prompt in prompts:
                    assert stage.run("-p", prompt, *given).returncode == 0
            case "plain":
                terminal = sit_at(stage, *given)
                for prompt in prompts:
                    terminal.say(prompt)
                terminal.see("> ")
                terminal.type(CTRL_D)
                assert terminal.end() == 0
            case "terminal":
                person = sit_at_terminal(stage, *given)
                for number, prompt in enumerate(prompts):
                    person.see("? for shortcuts")
                    person.type(f"{prompt}\r")
                    wait_for_requests(stage, sum(one[0] != "/" for one in prompts[: number + 1]))
                    person.see("Hi." if prompt[0] != "/" else "Started a new conversation.")
                person.type(CTRL_D)
                assert person.process.wait(40) == 0
            case "pipe":
                done = stage.run(*STREAM, "--input-format=stream-json", *given, input=lines_in(*prompts))
                assert done.returncode == 0, done.stderr
            case "sdk":
                through_sdk(stage, *prompts, **flags)
            case _:
                through_library(stage, *prompts, **flags)

    return through


@pytest.mark.parametrize("front_end", FRONT_ENDS)
def test_an_option_reaches_the_model_from_every_front_end(
    serve: Serve, say: Callable[..., None], front_end: str
) -> None:
    stage = serve(Say.of("Hi."))
    say(front_end, stage, "hello", flags={"model": "claude-opus-5"})
    assert [request.body["model"] for request in stage.requests] == ["claude-opus-5"]


def hooked(stage: Command) -> Path:
    """What hooks hear when a session begins and ends."""
    heard = stage.folder.parent / "heard"
    command = [{"hooks": [{"type": "command", "command": f"cat >> '{heard}'; echo >> '{heard}'"}]}]
    settings = {"hooks": {"SessionStart": command, "SessionEnd": command}, "autoMemoryEnabled": False}
    stage.home.mkdir(parents=True, exist_ok=True)
    (stage.home / "settings.json").write_text(json.dumps(settings | {"sandbox": {"enabled": False}}))
    return heard


def told(heard: Path) -> list[str]:
    payloads = [json.loads(line) for line in heard.read_text().splitlines() if line]
    return [f"{one['hook_event_name']} {one.get('source') or one.get('reason')}" for one in payloads]


@pytest.mark.parametrize("front_end", FRONT_ENDS[1:])
def test_hooks_hear_why_a_session_begins_and_ends(serve: Serve, say: Callable[..., None], front_end: str) -> None:
    stage = serve(Say.of("Hi."), Say.of("Hi."))
    heard = hooked(stage)
    say(front_end, stage, "one", "/clear", "two")
    last = "prompt_input_exit" if front_end in ("plain", "terminal") else "other"
    assert told(heard) == ["SessionStart startup", "SessionEnd clear", "SessionStart clear", f"SessionEnd {last}"]


def test_a_resumed_session_says_so_to_hooks(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(Say.of("Hi."), Say.of("Hi."), Say.of("Hi."))
    assert stage.run("-p", "one").returncode == 0
    [file] = stage.sessions()
    heard = hooked(stage)
    terminal = sit_at(stage)
    terminal.say("two")
    terminal.say(f"/resume {file.stem}")
    terminal.say("three")
    terminal.see("> ")
    terminal.type(CTRL_D)
    assert terminal.end() == 0
    ends = ["SessionEnd resume", "SessionStart resume", "SessionEnd prompt_input_exit"]
    assert told(heard) == ["SessionStart startup", *ends]


@pytest.mark.parametrize("command", ["/context", "/cost"])
@pytest.mark.parametrize("front_end", ["print", "plain", "pipe", "sdk", "library"])
def test_a_command_is_answered_without_a_request(
    serve: Serve, say: Callable[..., None], front_end: str, command: str
) -> None:
    stage = serve()
    hooked(stage)
    say(front_end, stage, command)
    assert stage.requests == []


def test_a_command_that_fails_is_an_error_at_every_front_end_and_costs_nothing(serve: Serve) -> None:
    wrong = "There is no command and no skill '/stauts'. Did you mean /status?"
    stage = serve()
    done = stage.run(*STREAM, "--input-format=stream-json", input=lines_in("/stauts"))
    assert (done.returncode, frames(done.stdout)[-1]["result"]) == (1, wrong)
    last = through_sdk(stage, "/stauts")[-1]
    assert (last.is_error, last.result) == (True, wrong)
    with pytest.raises(UsageError, match="Did you mean /status"):
        through_library(stage, "/stauts")
    assert stage.run("-p", "/stauts").returncode == 1
    assert stage.requests == []


def test_print_mode_prints_the_context(serve: Serve) -> None:
    done = serve().run("-p", "/context")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b" of 200,000 tokens" in done.stdout or b" tokens (" in done.stdout


def test_a_file_that_is_not_there_is_told_in_print_mode_too(serve: Serve) -> None:
    stage = serve(Say.of("Hi."), Say.of("Hi."))
    done = stage.run("-p", "look at @notes.md")
    assert done.stdout == b"Hi.\n"
    assert done.stderr == b"mainspring: file 'notes.md' not found: '@notes.md' is sent as text\n"
    done = stage.run(*STREAM, "look at @notes.md")  # frames have no place for it
    assert done.stderr == b""
    assert frames(done.stdout)[-1]["result"] == "Hi."


def test_a_prompt_that_a_hook_blocks_leaves_no_file(serve: Serve) -> None:
    """Print mode closes the journal as all others do: what nothing was written to is taken away."""
    stage = serve()
    stage.home.mkdir(parents=True)
    block = [{"hooks": [{"type": "command", "command": "echo no >&2; exit 2"}]}]
    (stage.home / "settings.json").write_text(json.dumps({"hooks": {"UserPromptSubmit": block}}))
    assert stage.run("-p", "hello").returncode == 0
    assert stage.sessions() == []


# --- what every front end can do --------------------------------------------------------------------


@pytest.mark.parametrize("reach", ["during_run", "always"])
def test_bypass_mode_is_refused_to_a_session_that_began_without(tmp_path: Path, reach: Reach) -> None:
    async def main(stage: Stage) -> None:
        session = stage.open(ScriptedHost(reach))
        with pytest.raises(UsageError, match="not launched with"):
            await session.set_mode("bypassPermissions")
        await session.update_permissions([{"type": "setMode", "mode": "bypassPermissions"}])
        assert session.permissions.mode == "default"
        await session.close()

    play(main, tmp_path)


def test_files_can_be_rewound(tmp_path: Path) -> None:
    write = {"type": "tool_use", "id": "toolu_1", "name": "Write", "input": {"file_path": "a", "content": "new"}}

    async def main(stage: Stage) -> None:
        stage.environment["CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING"] = "1"
        session = stage.open(ScriptedHost("during_run"))
        await session.start()
        queued = await session.submit("write it")
        await read_until_idle(session)
        assert (stage.folder / "a").read_text() == "new"
        report = await session.rewind_files(queued.id)
        assert report["filesChanged"] == [str(stage.folder / "a")]
        assert not (stage.folder / "a").exists()
        await session.close()

    play(main, tmp_path, Say.of(write), Say.of("Done."))


def test_a_title_goes_through_the_journal(tmp_path: Path) -> None:
    mirrored: list[bytes] = []

    async def main(stage: Stage) -> None:
        session = stage.open(mirror=lambda _, lines: mirrored.append(lines))
        await session.start()
        with pytest.raises(UsageError, match="the session has no prompts yet"):
            await session.rename("too early")
        await session.submit("hello")
        await read_until_idle(session)
        await session.rename("My session")
        await session.submit("more")
        await read_until_idle(session)
        await session.close()
        assert session.opened.journal is not None
        [entry] = list_sessions_in(Path(session.opened.journal.file).parent)
        assert entry.title == "My session"

    play(main, tmp_path, Say.of("Hi."), Say.of("Ho."))
    assert b'"customTitle":"My session"' in b"".join(mirrored)


def test_compacting_is_a_run_of_its_own(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        session = stage.open()
        await session.start()
        await session.submit("hello")
        await read_until_idle(session)
        await session.compact("keep the numbers")
        taken = await read_until_idle(session)
        [result] = [update for update in taken if isinstance(update, Result)]
        assert result.cause == "compacted"
        await session.close()

    play(main, tmp_path, Say.of("Hi."), Say.of("<summary>It was short.</summary>"))


# --- a rewind that a crash has interrupted ----------------------------------------------------------

FINISHED = "A rewind of files was interrupted"


def crash_in_rewind(stage: Command) -> str:
    """The id of a session whose process was killed after it had decided what to restore, and before it did."""
    stage.home.mkdir(parents=True)
    env = {"CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING": "1"}
    (stage.home / "settings.json").write_text(json.dumps({"env": env, "autoMemoryEnabled": False}))
    assert stage.run("-p", "one", "--permission-mode=bypassPermissions").returncode == 0
    [file] = stage.sessions()
    history = FileHistory(str(file))
    [prompt] = history.prompts()
    planned = history.plan(prompt.prompt_id, (str(stage.folder),), dry_run=False)
    history.store.write_file(PLAN, msgspec.msgpack.encode(planned.plan))
    history.close()
    assert (stage.folder / "made").exists()
    return file.stem


@pytest.mark.parametrize("front_end", ["print", long("plain"), "terminal", long("pipe"), long("sdk")])
def test_an_interrupted_rewind_is_finished_and_every_front_end_says_so(
    serve: Serve, sit_at: SitAt, sit_at_terminal: Any, front_end: str
) -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "Write", "input": {"file_path": "made", "content": "1"}}
    stage = serve(Say.of(call), Say.of("Done."), Say.of("Hi."))
    session = crash_in_rewind(stage)
    match front_end:
        case "print":
            assert FINISHED in stage.run("-p", "hello", f"--resume={session}").stderr.decode()
        case "plain":
            terminal = sit_at(stage, f"--resume={session}")
            terminal.see(FINISHED)
            terminal.see("> ")
            terminal.type(CTRL_D)
            assert terminal.end() == 0
        case "terminal":
            person = sit_at_terminal(stage, f"--resume={session}")
            person.see(FINISHED, "? for shortcuts")
            person.type(CTRL_D)
            assert person.process.wait(40) == 0
        case "pipe":
            how = ("--input-format=stream-json", f"--resume={session}")
            done = stage.run(*STREAM, *how, input=lines_in("hello"))
            assert FINISHED in done.stdout.decode() + done.stderr.decode()
        case _:
            said: list[str] = []
            through_sdk(stage, "hello", resume=session, stderr=said.append)
            assert FINISHED in "\n".join(said)
    assert not (stage.folder / "made").exists()


# --- what an interrupt and a broken run leave behind ------------------------------------------------


BACKGROUND = {
    "type": "tool_use",
    "id": "toolu_1",
    "name": "Agent",
    "input": {"description": "look", "prompt": "AWAY", "subagent_type": "Explore", "run_in_background": True},
}


@pytest.mark.parametrize("held", [True, False])
def test_reports_are_held_back_after_an_interrupt_if_somebody_wants_that(tmp_path: Path, held: bool) -> None:
    """A person who interrupts wants rest (terminal, plain); a program goes on with what comes (pipe, SDK)."""

    def choose(request: Any) -> Say:
        said = json.dumps(request.body["messages"])
        if '"AWAY"' in said and "task-notification" not in said and "toolu_1" not in said:
            return Say.of("Rain.")
        if "task-notification" in said:
            return Say.of("It rains.")
        if "tool_result" in said:
            return Say.of("word " * 200, pace_ms=20)
        return Say.of(BACKGROUND)

    async def main(stage: Stage) -> None:
        session = stage.open(allowed_tools=("Agent",))
        await session.start()
        await session.submit("go")
        taken: list[Any] = []
        async for update in session.updates():
            taken.append(update)
            if isinstance(update, Delta) and not session.world.agents.away:
                session.interrupt(hold_reports=held)
            if isinstance(update, Result) and update.text == "It rains.":
                break
            if isinstance(update, Idle) and not update.background:
                break
        causes = [update.cause for update in taken if isinstance(update, RunStarted)]
        assert causes == (["prompt"] if held else ["prompt", "report"])
        if held:
            session.release()
            taken = await read_until_idle(session)
            assert [update.cause for update in taken if isinstance(update, RunStarted)] == ["report"]
        await session.close()

    play(main, tmp_path, choose=choose)


def test_a_run_that_breaks_is_told_and_the_session_goes_on(tmp_path: Path) -> None:
    """The journal cannot be written: nothing may go on (law 3), and the next prompt says so again."""

    async def main(stage: Stage) -> None:
        session = stage.open(require_journal=True)
        await session.start()
        await session.submit("one")
        taken: list[Any] = []
        async for update in session.updates():
            taken.append(update)
            if isinstance(update, RunStarted):
                assert session.opened.journal is not None
                session.opened.journal.stored = False  # as after a failed write
            if isinstance(update, RunBroken):
                break
        assert "cannot be written" in str(taken[-1].error)
        await session.submit("two")
        assert any(isinstance(update, RunBroken) for update in await read_until_idle(session))
        await session.close()

    play(main, tmp_path)


def test_mentions_are_told_once_for_every_front_end(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        (stage.folder / "there.md").write_text("words\n")
        session = stage.open()
        await session.start()
        await session.submit("look at @there.md and @gone.md")
        taken = await read_until_idle(session)
        [expanded] = [update for update in taken if isinstance(update, PromptExpanded)]
        assert ([one.name for one in expanded.attached], expanded.missing) == (["there.md"], ("gone.md",))
        await session.submit("/context")
        [answer] = [update for update in await read_until_idle(session) if isinstance(update, PromptAnswered)]
        assert "tokens" in answer.text
        await session.close()

    play(main, tmp_path, Say.of("Hi."))


def user_texts(file: Path) -> list[str]:
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    return [str(line["message"]["content"]) for line in lines if line["type"] == "user" and not line.get("isMeta")]


@pytest.mark.covers("L-01")
@pytest.mark.parametrize("front_end", FRONT_ENDS)
def test_the_prompt_is_in_the_session_file_before_the_request(
    serve: Serve, say: Callable[..., None], front_end: str
) -> None:
    """The server reads the file when a request comes, before it answers."""
    stored: list[list[str]] = []

    def choose(_: ReceivedRequest) -> Reply:
        stored.append([text for file in stage.sessions() for text in user_texts(file)])
        return Say.of("Hi.")

    stage = serve(choose=choose)
    hooked(stage)
    say(front_end, stage, "first prompt", "second prompt")
    assert [sorted(texts) for texts in stored] == [["first prompt"], ["first prompt", "second prompt"]]


@pytest.mark.covers("G-21")
@pytest.mark.parametrize("front_end", ["terminal", "pipe", "sdk"])
def test_the_third_overload_in_a_row_is_the_last(serve: Serve, say: Callable[..., None], front_end: str) -> None:
    """Z-10: then the fallback model answers."""
    stage = serve(*[Refuse(529, "overloaded_error", "Overloaded")] * 3, Say.of("Hi."))
    stage.home.mkdir(parents=True)
    settings = {"fallbackModel": "haiku", "autoMemoryEnabled": False, "sandbox": {"enabled": False}}
    (stage.home / "settings.json").write_text(json.dumps(settings))
    say(front_end, stage, "hello")
    assert [one.body["model"] for one in stage.requests] == [*[DEFAULT_MODEL.name] * 3, "claude-haiku-5-5"]
    waits = [later.at - earlier.at for earlier, later in pairwise(stage.requests)]
    assert waits[0] >= 500  # milliseconds, and doubled
    assert waits[1] >= 1_000
