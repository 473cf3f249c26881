"""Recall finds what a session has seen, also what the model no longer sees, in the session's own file."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from mainspring.core.errors import ToolError
from mainspring.core.messages import Origin, Text, Thinking, ToolCall, result, user
from mainspring.core.reasons import Trouble
from mainspring.sessions.journal import Durability, FileJournal, JournalOptions
from mainspring.sessions.line_format import LARGEST_INLINE, Envelope
from mainspring.sessions.records import BlockRecord, OutcomeRecord, Record, SaidRecord, WithdrawnRecord
from mainspring.testing.world import FakeToolContext
from mainspring.tools.recall import MOST, Search, recall_tool

ID = "11111111-2222-4333-8444-555555555555"


def stamped(message: Any, number: int) -> Any:
    from msgspec.structs import replace

    return replace(message, id=reply_id(number), at=1_700_000_000_000 + number)


def reply_id(number: int) -> str:
    return f"{number:08x}-0000-4000-8000-000000000000"


class Script:
    """A session's file, written by the journal itself, record by record."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / f"{ID}.jsonl"
        self.records: list[Record] = []
        self._number = 0

    def next(self) -> int:
        self._number += 1
        return self._number

    def says(self, text: str, origin: Origin = Origin.PROMPT) -> None:
        self.records.append(SaidRecord(stamped(user(text, origin), self.next())))

    def replies(self, *blocks: Text | Thinking | ToolCall) -> str:
        name = reply_id(self.next())
        self.records += [BlockRecord(name, index, block, 0, "m") for index, block in enumerate(blocks)]
        return name

    def returns(self, call_id: str, text: str) -> None:
        self.records.append(OutcomeRecord(stamped(result(call_id, text), self.next())))

    def written(self) -> Path:
        async def write() -> None:
            journal = FileJournal.create(self.file, Envelope(ID, "/somewhere", "0.1"), JournalOptions(Durability.NONE))
            for record in self.records:
                await journal.append(record)
            journal.close()

        asyncio.run(write())
        return self.file


def search_of(file: Path) -> Search:
    """As the kit hands it out."""
    return lambda: (sys.executable, "-I", "-m", "mainspring.sessions.search", str(file))


def recall(file: Path, query: str, **more: Any) -> str:
    return FakeToolContext(str(file.parent)).now(recall_tool(search_of(file)), query=query, **more).text


def refused(search: Search, folder: Path, query: str) -> str:
    with pytest.raises(ToolError) as error:
        FakeToolContext(str(folder)).now(recall_tool(search), query=query)
    return str(error.value)


@pytest.fixture
def talk(tmp_path: Path) -> Script:
    script = Script(tmp_path)
    script.says("The staging password rotates on Tuesdays.")
    script.replies(
        Thinking("secret thoughts about Tuesdays"),
        Text("I look at the log."),
        ToolCall("c1", "Bash", {"command": 'grep "TOKEN expired" app.log\ntail app.log'}),
    )
    script.returns("c1", "ok\n" * 500 + "line 501: token expired at 12:00\n" + "ok\n" * 500 + "token expired again")
    script.replies(Text("The token expired at noon."))
    script.says("All is summed up: the token expired.", Origin.SUMMARY)
    script.says("[a file changed: token expired]", Origin.ATTACHMENT)
    script.says("And now the tests.")
    script.replies(ToolCall("c2", "Recall", {"query": "token expired"}))
    script.returns("c2", "token expired, says the past")
    return script


def test_what_was_said_called_and_returned_the_newest_first(talk: Script) -> None:
    found = recall(talk.written(), "token expired")
    around = "ok\n" * 500 + "line 501: token expired at 12:00\n" + "ok\n" * 500
    at = around.index("token expired")
    begin = at - (300 - len("token expired")) // 2
    assert found == (
        "3 found, newest first.\n\n"
        "[turn 2, you]\nThe token expired at noon.\n\n"
        f"[turn 1, result of Bash, and 1 more in it]\n...{around[begin : begin + 300].strip()}...\n\n"
        '[turn 1, your call of Bash]\ncommand: grep "TOKEN expired" app.log\ntail app.log\n'
    )


def test_an_expression_and_one_that_is_none(talk: Script) -> None:
    file = talk.written()
    assert "[turn 1, result of Bash]" in recall(file, r"line \d+: token")
    assert (
        recall(file, "grep \\[(") == "Nothing in this session matches 'grep \\[('. Try fewer or other words.\n".strip()
    )
    talk.file.unlink()
    talk.says("what does foo(bar mean")
    assert "what does foo(bar mean" in recall(talk.written(), "foo(bar")


def test_words_that_stand_apart(talk: Script) -> None:
    found = recall(talk.written(), "Tuesdays password")
    assert found == (
        "1 found (all words, not next to each other), newest first.\n\n"
        "[turn 1, user]\nThe staging password rotates on Tuesdays.\n"
    )


def test_thoughts_summaries_attachments_and_its_own_calls_are_left_out(talk: Script) -> None:
    file = talk.written()
    for hidden in ("secret thoughts", "summed up", "a file changed", "says the past"):
        assert recall(file, hidden).startswith("Nothing in this session matches"), hidden


def test_a_limit(talk: Script) -> None:
    for number in range(200):
        talk.says(f"remark {number}")
    file = talk.written()
    found = recall(file, "remark", limit=2)
    assert found.startswith("2 of 200 found, newest first.\n\n[turn 4, user]\nremark 199\n\n[turn 4, user]\nremark 198")
    assert found.endswith("[There are more: ask with a higher 'limit', or for other words.]\n")
    assert recall(file, "remark", limit=MOST).count("[turn") == MOST


def test_what_was_withdrawn_was_never_said(tmp_path: Path) -> None:
    script = Script(tmp_path)
    script.says("go")
    gone = script.replies(Text("a first try at it"))
    script.records.append(WithdrawnRecord(gone, Trouble.OVERLOADED))
    script.replies(Text("a second try at it"))
    assert recall(script.written(), "try at it") == "1 found, newest first.\n\n[turn 1, you]\na second try at it\n"


def test_a_result_that_is_too_large_for_a_line_is_found_whole(tmp_path: Path) -> None:
    script = Script(tmp_path)
    script.says("go")
    script.replies(ToolCall("c1", "Read", {"file_path": "log"}))
    script.returns("c1", "x" * LARGEST_INLINE + " the needle " + "y" * LARGEST_INLINE)
    assert "the needle" in recall(script.written(), "needle")


def test_damage_hides_no_more_than_the_line(talk: Script) -> None:
    file = talk.written()
    data = file.read_bytes().split(b"\n")
    data.insert(1, b'{"type":"user","message":{"content":[{"type":"tool_result","content":3}]}}')
    data.insert(2, b"{torn")
    file.write_bytes(b"\n".join(data)[:-30])
    assert recall(file, "token expired").startswith("3 found")


def test_an_expression_that_takes_for_ever_is_ended_with_the_call(tmp_path: Path) -> None:
    script = Script(tmp_path)
    script.says("a" * 60)
    file = script.written()

    async def main() -> float:
        call = asyncio.ensure_future(
            FakeToolContext(str(tmp_path)).use(recall_tool(search_of(file)), query="(a+)+(a+)+(a+)+$x")
        )
        done, _ = await asyncio.wait([call], timeout=1)
        assert not done, "the expression was meant to be hard"
        before = time.monotonic()
        call.cancel()
        await asyncio.wait([call])
        assert call.cancelled()
        return time.monotonic() - before

    assert asyncio.run(main()) < 60  # `asyncio.run` waits for the thread, and the thread for its child


def test_what_makes_no_sense(tmp_path: Path) -> None:
    gone = search_of(tmp_path / "gone.jsonl")
    assert refused(lambda: None, tmp_path, "x") == ("This session is not stored, so it cannot be searched.")
    assert refused(gone, tmp_path, "  ") == "'query' is empty: give some words, or an expression."
    assert refused(gone, tmp_path, "x" * 1_001) == "'query' has 1,001 characters; 1,000 is the limit."
    assert "gone.jsonl" in refused(gone, tmp_path, "x")


def test_it_reads_only_and_may_run_beside_others() -> None:
    tool = recall_tool(lambda: None)
    given = tool.parse({"query": "x"})
    assert (tool.is_read_only(given), tool.is_concurrent(given), tool.is_repeatable(given)) == (True, True, True)
    assert tool.line(given) == "Recall x"
