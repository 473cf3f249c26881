"""A session store of the program: no line is lost without a word, whatever the store does, and whoever is cancelled."""

from __future__ import annotations

import asyncio
import json
import tempfile
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from mainspring.sdk import ClaudeSDKError, Message, MirrorErrorMessage, Options, ResultMessage
from mainspring.sdk.store_sync import StoreMirror, project_of, restore_from_store
from mainspring.sdk.stores import InMemorySessionStore, SessionKey, SessionStoreEntry
from mainspring.simulator.replies import Say
from sdk.stage import Stage, play, texts

ID = "6ba7b810-9dad-41d1-80b4-00c04fd430c8"
FILE = f"/home/projects/-work/{ID}.jsonl"
AGENT = f"/home/projects/-work/{ID}/subagents/agent-a.jsonl"
TRIED = 3  # times, before a store is taken for failed
Line = dict[str, Any]


class Store(InMemorySessionStore):
    """One that does something before it keeps lines."""

    def __init__(self, first: Callable[[], Awaitable[Any]]) -> None:
        super().__init__()
        self.first, self.calls = first, 0

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        self.calls += 1
        await self.first()
        await super().append(key, entries)


async def fails() -> None:
    raise OSError("no room")


async def is_cancelled() -> None:
    """As when a connection to a database goes away."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


async def too_slow() -> None:
    raise TimeoutError("the database did not answer")


def said(*names: str) -> list[Line]:
    return [{"type": "user", "uuid": name} for name in names]


def lines(*names: str) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in said(*names))


def mirror(store: Any, shown: list[Line], **chosen: Any) -> StoreMirror:
    return StoreMirror(Options(session_store=store, **chosen), "/home/projects", shown.append)


def key(**more: str) -> Any:
    return {"project_key": "-work", "session_id": ID, **more}


def errors(told: list[Message]) -> list[MirrorErrorMessage]:
    return [message for message in told if isinstance(message, MirrorErrorMessage)]


def lines_in(file: Path) -> list[Line]:
    return [json.loads(line) for line in file.read_text().splitlines() if line]


# --- who waits is cancelled -------------------------------------------------------------------------------------


@pytest.mark.parametrize("flush", ["batched", "eager"])
def test_who_is_cancelled_while_lines_are_stored_loses_none(flush: str) -> None:
    """Nor is one stored twice; and lines that come meanwhile are behind them."""

    async def main() -> None:
        open, shown = asyncio.Event(), list[Line]()
        store = Store(open.wait)
        kept = mirror(store, shown, session_store_flush=flush)
        kept.add(FILE, lines("1", "2"))
        kept.add(AGENT, lines("a"))
        for _ in range(3):
            waiting = asyncio.ensure_future(kept.flush())
            while not store.calls:  # noqa: ASYNC110  # nobody tells us
                await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait({waiting})
        kept.add(FILE, lines("3"))
        open.set()
        await kept.close()
        assert store.get_entries(key()) == said("1", "2", "3")
        assert store.get_entries(key(subpath="subagents/agent-a")) == said("a")
        assert shown == []
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_many_frames_at_a_store_that_hangs_are_one_task_more() -> None:
    async def main() -> None:
        open = asyncio.Event()
        store = Store(open.wait)
        kept = mirror(store, [], session_store_flush="eager")
        for number in range(1_000):
            kept.add(FILE, lines(str(number)))
            await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) <= 4  # this one, one that waits for the store, its call, the one behind it
        open.set()
        await kept.close()
        assert store.get_entries(key()) == said(*map(str, range(1_000)))
        assert store.calls <= 3

    asyncio.run(main())


@pytest.mark.parametrize("again", [0.0, 0.02, 0.1])
def test_a_session_that_is_cancelled_twice_has_all_its_lines_in_the_store(again: float, tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        begun, open = asyncio.Event(), asyncio.Event()

        async def slow() -> None:
            begun.set()
            await open.wait()

        store = Store(slow)
        running = asyncio.ensure_future(stage.ask(session_store=store, session_id=ID))
        await begun.wait()
        running.cancel()
        await asyncio.sleep(again)
        running.cancel()
        await asyncio.sleep(again)
        open.set()
        await asyncio.wait({running})
        assert running.cancelled()
        [file] = stage.home.glob(f"projects/*/{ID}.jsonl")
        stored = store.get_entries({"project_key": file.parent.name, "session_id": ID})
        assert stored == lines_in(file)
        assert stored

    play(main, tmp_path, Say.of("Hi."))


# --- a store that fails -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "why"),
    [(fails, "OSError: no room"), (is_cancelled, "CancelledError"), (too_slow, "TimeoutError: the database did not")],
)
def test_what_a_store_does_not_take_is_told_and_the_turn_has_its_result(
    first: Callable[[], Awaitable[Any]], why: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main(stage: Stage) -> None:
        store = Store(first)
        told = await stage.ask(session_store=store, session_id=ID)
        assert texts(told) == ["Hi."]
        assert isinstance(told[-1], ResultMessage)
        [file] = stage.home.glob(f"projects/*/{ID}.jsonl")
        [error] = errors(told)
        assert error.key == {"project_key": file.parent.name, "session_id": ID}
        assert why in error.error
        assert str(file) in error.error
        assert store.calls % TRIED == 0

    play(main, tmp_path, Say.of("Hi."))
    assert why in caplog.text


def test_a_store_that_fails_once_has_each_line_once_and_in_order() -> None:
    async def main() -> None:
        shown: list[Line] = []

        async def once() -> None:
            kept.add(FILE, lines(f"{store.calls + 1}"))
            if store.calls == 1:
                raise OSError("not now")

        store = Store(once)
        kept = mirror(store, shown, session_store_flush="eager")
        kept.add(FILE, lines("1"))
        for _ in range(3):
            await kept.flush()
        names = [line.get("uuid") for line in store.get_entries(key())]
        assert names == [str(number + 1) for number in range(len(names))]
        assert len(names) >= 3
        assert shown == []
        store.first = nothing
        await kept.close()

    asyncio.run(main())


async def nothing() -> None: ...


def test_a_store_that_does_not_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not tried again: its lines may still come. It does not even end when it is cancelled."""
    monkeypatch.setattr("mainspring.sdk.store_sync.PATIENCE", 0.05)

    async def main() -> None:
        open, shown = asyncio.Event(), list[Line]()

        async def stubborn() -> None:
            for _ in range(2):  # then it ends, so that a test that fails ends too
                with suppress(asyncio.CancelledError):
                    await open.wait()

        store = Store(stubborn)
        kept = mirror(store, shown)
        kept.add(FILE, lines("1"))
        async with asyncio.timeout(20):
            await kept.close()
        assert store.calls == 1
        [error] = shown
        assert "it took more than" in error["error"]
        assert FILE in error["error"]
        open.set()

    asyncio.run(main())


# --- a session out of a store ---------------------------------------------------------------------------------------


@pytest.fixture(name="temporary")
def temporary_fixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def files_in(folder: Path) -> list[Path]:
    return list(folder.rglob("*.jsonl"))


def is_empty(folder: Path) -> bool:
    return not any(folder.iterdir())


def test_a_folder_is_kept_if_the_store_did_not_take_all(temporary: Path, tmp_path: Path) -> None:
    """It would be the only place that has these lines: the error says where it is."""

    async def main(stage: Stage) -> None:
        store = Store(nothing)
        await stage.ask(session_store=store, session_id=ID)
        store.first = fails
        told = await stage.ask("once more", session_store=store, resume=ID)
        [error] = errors(told)
        [file] = [file for file in files_in(temporary) if file.stem == ID]
        assert str(file) in error.error
        assert "once more" in file.read_text()

    play(main, tmp_path, Say.of("Hi."), Say.of("Again."))


def test_a_folder_is_removed_if_it_did(temporary: Path, tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        store = InMemorySessionStore()
        await stage.ask(session_store=store, session_id=ID)
        told = await stage.ask("once more", session_store=store, resume=ID)
        assert errors(told) == []
        assert is_empty(temporary)
        assert "once more" in json.dumps(store.get_entries(home_key(stage)))

    play(main, tmp_path, Say.of("Hi."), Say.of("Again."))


def home_key(stage: Stage) -> SessionKey:
    return {"project_key": project_of(stage.options()), "session_id": ID}


class Answers:
    """A store that gives whatever it is told to give."""

    def __init__(self, sessions: Any = (), lines: Any = None, subkeys: Any = (), agent: Any = None) -> None:
        self.sessions, self.subkeys = sessions, subkeys
        self.lines, self.agent = said("1") if lines is None else lines, said("a") if agent is None else agent

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None: ...

    async def load(self, key: SessionKey) -> Any:
        return await given(self.agent if "subpath" in key else self.lines)

    async def list_sessions(self, project_key: str) -> Any:
        return await given(self.sessions)

    async def list_subkeys(self, key: SessionKey) -> Any:
        return await given(self.subkeys)


async def given(answer: Any) -> Any:
    return await answer() if answer in (fails, is_cancelled, too_slow) else answer


class Plain(Answers):
    """Not even `async`."""

    def load(self, key: SessionKey) -> Any:
        raise KeyError("mine")


CIRCLE: Line = {"type": "user"}
CIRCLE["message"] = CIRCLE
ODD: list[tuple[Answers, str]] = [
    (Answers(subkeys=["subagents/agent-a", "subagents/agent-a"]), "'subagents/agent-a' twice"),
    (Answers(subkeys=["subagents/agent-a", "subagents//agent-a"]), "File exists"),
    (Answers(subkeys=["a\0b"]), "null byte"),
    (Answers(subkeys=["\ud800"]), "surrogates"),
    (Answers(subkeys=["x" * 300]), "File name too long"),
    (Answers(subkeys=[None]), "list_subkeys() did not return a list of strings"),
    (Answers(subkeys=5), "list_subkeys() did not return a list"),
    (Answers(subkeys=["a"], agent=["no line"]), "load() did not return a list of dicts"),
    (Answers(subkeys=fails), "list_subkeys() failed: OSError: no room"),
    (Answers(lines="text"), "load() did not return a list"),
    (Answers(lines=[None]), "load() did not return a list of dicts"),
    (Answers(lines=[{"type": object()}]), "not JSON serializable"),
    (Answers(lines=[CIRCLE]), "Circular"),
    (Answers(lines=fails), "load() failed: OSError: no room"),
    (Answers(lines=is_cancelled), "load() failed: CancelledError"),
    (Answers(lines=too_slow), "load() failed: TimeoutError: the database did not answer"),
    (Plain(), "load() failed: KeyError: 'mine'"),
]
LISTS: list[tuple[Answers, str]] = [
    (Answers(sessions=5), "list_sessions() did not return a list"),
    (Answers(sessions=[None]), "list_sessions() did not return a list of dicts"),
    (Answers(sessions=[{"session_id": ID}]), "list_sessions() did not return a list of dicts"),
    (
        Answers(sessions=[{"session_id": ID, "mtime": 1}, {"session_id": ID, "mtime": "1"}]),
        "list_sessions() did not return a list",
    ),
    (Answers(sessions=[{"session_id": 5, "mtime": 1}]), "list_sessions() did not return a list of dicts"),
]


@pytest.mark.parametrize(
    ("store", "words", "wish"),
    [(*row, {"resume": ID}) for row in ODD] + [(*row, {"continue_conversation": True}) for row in LISTS],
)
def test_an_odd_answer_of_a_store_is_one_error_in_words(
    store: Answers, words: str, wish: dict[str, Any], temporary: Path, tmp_path: Path
) -> None:
    async def main(stage: Stage) -> None:
        with pytest.raises(ClaudeSDKError) as raised:
            await stage.ask(session_store=store, **wish)
        assert words in str(raised.value)
        assert "the session store" in str(raised.value)
        assert is_empty(temporary)
        assert stage.server.requests == []

    play(main, tmp_path)


@pytest.mark.parametrize("subkey", ["", "../x", "/etc/x", "a/../../x"])
def test_agents_that_are_out_of_the_folder_are_left_out(subkey: str, temporary: Path, tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        made = await restore_from_store(stage.options(session_store=Answers(subkeys=[subkey]), resume=ID))
        assert made is not None
        assert [file.name for file in files_in(temporary)] == [f"{ID}.jsonl"]
        made.remove()
        assert is_empty(temporary)

    play(main, tmp_path)


class Watched(dict[str, Any]):
    """A line that waits, while it is written, for the event loop to do something else."""

    def __init__(self) -> None:
        super().__init__(type="user", uuid="1")
        self.written, self.went_on, self.waited = threading.Event(), threading.Event(), list[bool]()

    def items(self) -> Any:
        self.written.set()
        self.waited.append(self.went_on.wait(5))
        return super().items()


def test_the_program_goes_on_while_lines_are_written(temporary: Path, tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        line = Watched()
        bringing = asyncio.ensure_future(
            restore_from_store(stage.options(session_store=Answers(lines=[line]), resume=ID))
        )
        while not line.written.is_set():  # noqa: ASYNC110  # it is a thread's
            await asyncio.sleep(0.001)
        line.went_on.set()
        made = await bringing
        assert made is not None
        assert line.waited == [True]
        made.remove()

    play(main, tmp_path)


def test_cancelled_while_lines_are_written_leaves_no_folder(temporary: Path, tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        line = Watched()
        bringing = asyncio.ensure_future(
            restore_from_store(stage.options(session_store=Answers(lines=[line]), resume=ID))
        )
        while not line.written.is_set():  # noqa: ASYNC110  # it is a thread's
            await asyncio.sleep(0.001)
        for _ in range(2):
            bringing.cancel()
            await asyncio.sleep(0.01)
        line.went_on.set()
        await asyncio.wait({bringing})
        assert bringing.cancelled()
        assert is_empty(temporary)

    play(main, tmp_path)
