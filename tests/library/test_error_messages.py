"""What a programmer reads after a mistake: the rows of the library audit, one entry for each, good ones included.

An entry makes the mistake and returns what the programmer sees: the message of the exception, or the log lines. Tests
of the same rows for `mainspring.sdk` are in tests/sdk/test_messages_for_people.py.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from mainspring import Agent, MainspringError, UsageError, ask, open_run, query, tool
from mainspring.sdk import CLIConnectionError, Client, Options, ResultMessage
from mainspring.testing import Scripted, ScriptedReply, call, says

FLAG = re.compile(r"(?<![\w-])--[a-z]")  # a word of the command line
Mistake = Callable[[], object]


def told(mistake: Mistake) -> str:
    """The message of the exception."""
    with pytest.raises((MainspringError, CLIConnectionError, TypeError)) as raised:
        found = mistake()
        if asyncio.iscoroutine(found):
            asyncio.run(bounded(found))
    return str(raised.value)


async def bounded(work: Coroutine[Any, Any, object]) -> object:
    async with asyncio.timeout(20):
        return await work


def wrong(**given: Any) -> Mistake:
    return lambda: Agent(**given)


def wrong_options(**given: Any) -> Mistake:
    async def run() -> object:
        return [message async for message in query("go", options=Options(provider=Scripted([]), **given))]

    return run


def wrong_run(**given: Any) -> Mistake:
    return lambda: open_run("go", **given)


# --- functions that are no tools, or fail ---


def no_hint(city):  # type: ignore[no-untyped-def]  # pyright: ignore[reportUnknownParameterType, reportMissingParameterType]
    """The weather."""


def any_number(*cities: str) -> str:
    """The weather."""
    return str(cities)


def in_pieces(city: str) -> Iterator[str]:
    """The weather."""
    yield city


class Odd:
    pass


def odd(city: Odd) -> str:
    """The weather."""
    return str(city)


UNNAMED: Callable[[str], str] = lambda city: city  # noqa: E731


def breaks(x: int) -> int:
    """Fails."""
    raise ValueError(f"kaput {x}")


# --- sessions, runs and loops ---


async def use_outside() -> None:
    await Agent(Scripted(["Hi."])).session().run("go")


async def use_after() -> None:
    async with Agent(Scripted(["Hi."])).session() as chat:
        pass
    await chat.run("go")


async def use_client_outside() -> None:
    await Client().query("go")


async def use_in_another_loop() -> None:
    async with Agent(Scripted(["Hi.", "Hi."])).session() as chat:
        await chat.run("go")
        await asyncio.to_thread(asyncio.run, bounded(chat.run("go")))


async def use_client_in_another_loop() -> None:
    async with Client(Options(provider=Scripted(["Hi."]), setting_sources=[])) as client:
        await asyncio.to_thread(asyncio.run, bounded(client.query("go")))


async def read_early() -> None:
    async with open_run("go", provider=Scripted(["Hi."])) as run:
        _ = run.result


async def read_stream_early() -> None:
    async with Agent(Scripted(["Hi."])).stream("go") as stream:
        _ = stream.answer


async def enter_run_twice() -> None:
    run = open_run("go", provider=Scripted(["Hi."]))
    async with run:
        assert [update async for update in run]
    async with run:
        pass


async def enter_session_twice() -> None:
    async with Agent(Scripted(["Hi."])).session() as chat, chat:
        pass


async def run_two_at_once() -> None:
    async with Agent(Scripted(["Hi.", "Hi."])).session() as chat:
        await asyncio.gather(chat.run("one"), chat.run("two"))


async def open_a_session_twice() -> None:
    agent = Agent(Scripted(["Hi."]))
    async with agent.session() as chat:
        await chat.run("go")
        async with agent.session(resume=chat.session_id):
            pass


NOWHERE = {"ANTHROPIC_BASE_URL": "http://127.0.0.1:1", "ANTHROPIC_API_KEY": "k", "CLAUDE_CODE_MAX_RETRIES": "0"}
PROVIDERS = "anthropic, openai, openrouter, gemini, ollama, lmstudio, vllm, llamacpp, bedrock, vertex"
NO_SCHEMA = "the tool 'odd': the parameter 'city' is of type <class 'library.test_error_messages.Odd'>, which has no"

# The row of the audit, the mistake, and the message or its beginning.
RAISED: list[tuple[str, Mistake, str]] = [
    ("no key", lambda: ask("go"), "no API key found. Run 'mainspring login' to store one, or set one of these:\n  ANT"),
    ("no key", wrong_run(), "no API key found. Run 'mainspring login' to store one, or set one of these:\n  ANTHROPIC"),
    (
        "unknown prefix",
        lambda: ask("go", model="foo/bar"),
        f"'foo/bar': there is no provider 'foo'; use one of {PROVIDERS}.",
    ),
    (
        "server down",
        lambda: ask("go", env=NOWHERE),
        "connecting to '127.0.0.1:1': refused. Is a server running there? Check the connection, and the address in ",
    ),
    ("wrong option types", wrong(max_turns="3"), "'max_turns' must be a whole number, not '3'"),
    ("wrong option types", wrong(allowed_tools="Bash"), "'allowed_tools' must be a list of strings, not 'Bash'"),
    ("wrong option types", wrong_options(max_turns="3"), "'max_turns' must be a whole number, not '3'"),
    (
        "wrong option types",
        wrong_options(allowed_tools="Bash"),
        "'allowed_tools' must be a list of strings, not 'Bash'",
    ),
    (
        "wrong option types",
        wrong_options(agents={"a": {"prompt": "x"}}),
        "'agents' must be a dict of AgentDefinition, not {'a': {'prompt': 'x'}}",
    ),
    ("unknown option", wrong(max_turn=3), "'Agent' has no option 'max_turn'. Did you mean 'max_turns'?"),
    ("unknown option", wrong_options(max_turn=3), "unknown option 'max_turn'. Did you mean 'max_turns'?"),
    ("unknown option", wrong_run(max_turn=3), "'open_run' has no option 'max_turn'. Did you mean 'max_turns'?"),
    (
        "not a tool",
        lambda: tool(no_hint),  # pyright: ignore[reportUnknownArgumentType]
        "the parameter 'city' of the tool 'no_hint' has no type hint: write 'city: str', or what it is",
    ),
    (
        "not a tool",
        lambda: tool(any_number),
        "the parameter 'cities' of the tool 'any_number' takes any number of values: a model passes",
    ),
    (
        "not a tool",
        lambda: tool(in_pieces),
        "the tool 'in_pieces' is a generator: return one value, show the rest by 'ToolContext.progress'",
    ),
    (
        "not a tool",
        lambda: tool(UNNAMED),
        "'<lambda>' is not a valid tool name: set one of up to 64 letters, digits, '_' and '-' with '@tool(name=...)'",
    ),
    ("not a tool", lambda: tool(odd), NO_SCHEMA),
    (
        "use outside async with",
        use_outside,
        "the session is not open: use it inside 'async with agent.session() as chat'",
    ),
    (
        "use outside async with",
        use_after,
        "the session is not open: use it inside 'async with agent.session() as chat'",
    ),
    (
        "use outside async with",
        use_client_outside,
        "the client is not connected: use 'await client.connect()', or 'async with Client(...) as client'",
    ),
    ("other event loop", use_in_another_loop, "this session was opened in another event loop: use it there"),
    ("other event loop", use_client_in_another_loop, "this client was connected in another event loop: use it there"),
    ("run.result early, run twice, two readers", read_early, "the run has no result: iterate it to its end first"),
    (
        "run.result early, run twice, two readers",
        read_stream_early,
        "the stream has no answer yet: iterate it to its end first",
    ),
    ("run.result early, run twice, two readers", enter_run_twice, "a run is entered once: start another one"),
    (
        "run.result early, run twice, two readers",
        enter_session_twice,
        "a session is entered once: make another one with 'agent.session()'",
    ),
    (
        "run.result early, run twice, two readers",
        run_two_at_once,
        "a run of this session is active: wait for its end, or open another session",
    ),
    ("same session twice", open_a_session_twice, "session '"),  # its id; the rest is below
    (
        "open_run with wrong provider, model or limits",
        wrong_run(provider="anthropic"),
        "'provider' must be a provider, such as 'Anthropic(key)', not 'anthropic': pass a name",
    ),
    (
        "open_run with wrong provider, model or limits",
        wrong_run(model=5),
        "'model' must be a name such as 'haiku', or a 'Model', not 5",
    ),
    (
        "open_run with wrong provider, model or limits",
        wrong_run(max_turns="3"),  # also without a key
        "'max_turns' must be a whole number, not '3'",
    ),
]


@pytest.mark.parametrize(("row", "mistake", "words"), RAISED, ids=[f"{row}: {words[:30]}" for row, _, words in RAISED])
def test_a_mistake_that_raises(row: str, mistake: Mistake, words: str) -> None:
    said = told(mistake)
    assert said.startswith(words), row
    assert not FLAG.search(said), said


def test_a_session_that_is_open_already_names_the_way_out() -> None:
    said = told(open_a_session_twice)
    assert re.fullmatch(
        r"session '[0-9a-f-]{36}' is open in this process: close it there, or fork it with 'fork'", said
    )


# --- mistakes that a log shows, while the run goes on ---


async def failing_approval(_: object) -> bool:
    raise ValueError("kaput 1")


async def failing_callback(*_: Any) -> Any:
    raise ValueError("kaput 1")


async def query_last(prompt: str, **given: Any) -> object:
    [*_, last] = [message async for message in query(prompt, options=Options(setting_sources=[], **given))]
    assert isinstance(last, ResultMessage)
    return last.result


async def run_low_level() -> str:
    async with open_run("go", provider=Scripted([says(call("breaks", x=1)), "Done."]), tools=[breaks]) as run:
        async for _ in run:
            pass
    return run.result.text


def run_in_a_file(home: Path) -> Awaitable[object]:
    home.write_text("", encoding="utf-8")  # no folder can be made below it, not even by root
    return ask("go", model=Scripted(["Done."]), env={"MAINSPRING_HOME": str(home)})


CALLS_IT: list[ScriptedReply | str] = [says(call("breaks", x=1)), "Done."]
TOUCHES: list[ScriptedReply | str] = [says(call("Bash", command="touch x")), "Done."]
# The row, the work, the start of its one log line, and whether the line has the traceback.
LOGGED: list[tuple[str, Callable[[Path], Awaitable[object]], str, bool]] = [
    (
        "wrong model",
        lambda _: ask("go", model="claude-sonet-9", provider=Scripted(["Done."])),
        "'model': unknown model 'claude-sonet-9'. Did you mean 'claude-sonnet-5'?",
        False,
    ),
    (
        "exception in mainspring.tool",
        lambda _: ask("go", model=Scripted(CALLS_IT), tools=[breaks]),
        "tool 'breaks' failed",
        True,
    ),
    ("exception in mainspring.tool", lambda _: run_low_level(), "tool 'breaks' failed", True),
    (
        "exception in hook, permission, sdk tool",
        lambda _: ask("go", model=Scripted(TOUCHES), tools=["Bash"], approve=failing_approval),
        "'approve' failed, and the call is denied",
        True,
    ),
    (
        "exception in hook, permission, sdk tool",
        lambda _: query_last("go", provider=Scripted(TOUCHES), tools=["Bash"], can_use_tool=failing_callback),
        "'failing_callback' failed: kaput 1",
        True,
    ),
    ("read-only home", lambda folder: run_in_a_file(folder / "file"), "'", False),
]


@pytest.mark.parametrize(
    ("row", "work", "words", "traced"), LOGGED, ids=[f"{row}: {words[:30]}" for row, _, words, _ in LOGGED]
)
def test_a_mistake_that_is_logged(
    row: str,
    work: Callable[[Path], Awaitable[object]],
    words: str,
    traced: bool,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        assert "Done." in str(await work(tmp_path))

    with caplog.at_level(logging.WARNING):
        asyncio.run(bounded(main()))
    [record] = [record for record in caplog.records if record.name.startswith("mainspring")]
    assert record.getMessage().startswith(words), row
    assert not FLAG.search(record.getMessage())
    assert bool(record.exc_info) is traced
    if row == "read-only home":
        assert record.getMessage().endswith("from here on nothing of this session is stored")


def test_a_prompt_may_be_positional() -> None:
    assert asyncio.run(query_last("hello", provider=Scripted(["Done."]))) == "Done."


AUDIT = {
    "no key", "wrong model", "unknown prefix", "server down", "wrong option types", "unknown option", "not a tool",
    "exception in hook, permission, sdk tool", "exception in mainspring.tool", "use outside async with",
    "other event loop", "run.result early, run twice, two readers", "same session twice", "read-only home",
    "open_run with wrong provider, model or limits",
}  # fmt: skip  # and the prompt by position, above


def test_every_row_of_the_audit_has_an_entry() -> None:
    assert {row for row, *_ in RAISED} | {row for row, *_ in LOGGED} == AUDIT


# --- tracebacks -----------------------------------------------------------------------------------------------------


def frames_of(mistake: Callable[[], object]) -> list[str]:
    """The modules of the traceback, without asyncio's own."""
    with pytest.raises(MainspringError) as raised:
        found = mistake()
        if asyncio.iscoroutine(found):
            asyncio.run(found)
    error: BaseException = raised.value
    assert error.__suppress_context__ or error.__context__ is None
    modules = [entry.frame.f_globals["__name__"] for entry in raised.traceback]
    return [name for name in modules if name.partition(".")[0] != "asyncio"]


async def open_and_leave() -> None:
    async with open_run("hi"):
        pass


async def chat() -> None:
    async with Agent().session():
        pass


async def ask_the_sdk() -> None:
    async for _ in query(prompt="hi"):
        pass


@pytest.mark.parametrize(
    "mistake",
    [
        lambda: Agent().run_sync("hi"),
        lambda: Agent().run("hi"),
        lambda: ask("hi"),
        lambda: ask("hi", max_turns=0),
        lambda: Agent(max_turns=0),
        chat,
        open_and_leave,
        ask_the_sdk,
    ],
)
def test_a_traceback_ends_at_the_line_with_the_mistake(
    mistake: Callable[[], object], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in os.environ:
        if name.endswith(("_API_KEY", "_AUTH_TOKEN", "_BASE_URL")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("MAINSPRING_HOME", str(tmp_path))
    assert set(frames_of(mistake)) == {__name__}


def test_a_mistake_in_a_function_of_the_caller_keeps_its_traceback() -> None:
    def fail(_: object) -> str:
        raise UsageError("mine")

    assert any(name.startswith("mainspring.") for name in frames_of(lambda: Agent(fail, persist=False).run_sync("hi")))
