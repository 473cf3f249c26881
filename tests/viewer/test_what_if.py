"""What if: the past from the record, the future scripted, both compared."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from msgspec.structs import replace
from sessions.stage import CheckedWorld

from mainspring import tool
from mainspring.agent.options import SessionOptions
from mainspring.context.attachments import PreparedContext
from mainspring.core.config import Config
from mainspring.core.effects import Request
from mainspring.core.errors import UsageError
from mainspring.core.messages import Assistant, Message, Origin, Text, ToolResult, User, user
from mainspring.core.reasons import Trouble
from mainspring.core.state import State
from mainspring.core.view import Replace, view
from mainspring.providers.base import Batch, Conversation
from mainspring.sessions.resume import load_session
from mainspring.testing import Scripted, World, call, compare, fails, replay, says, what_if
from mainspring.viewer.forks import open_fork
from mainspring.viewer.transcript import read_transcript
from mainspring.viewer.what_if import WhatIfChange, load_past
from viewer.stage import FULL, ID, write

OPUS = "claude-opus-5"


class Watched(Scripted):
    """Keeps what the model was shown with each request."""

    def __init__(self, *replies: object) -> None:
        super().__init__(replies)  # type: ignore[arg-type]
        self.views: list[list[Message]] = []

    async def stream(self, request: Request, conversation: Conversation) -> AsyncGenerator[Batch, None]:
        self.views.append(list(view(conversation.history, conversation.edits)))
        async for batch in super().stream(request, conversation):
            yield batch

    def texts(self, number: int = 0) -> list[str]:
        """Without our reminders about the surroundings."""
        shown = [m for m in self.views[number] if not (isinstance(m, User) and m.origin is Origin.ATTACHMENT)]
        return [message.text for message in shown]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Two runs, three turns; two of them with a call."""
    replies = [
        says("Let me look.", call("Read", "c1", text="one")),
        says("It is 1."),
        says("Again.", call("Bash", "c2", text="two"), call("Bash", "c3", text="three")),
        says("It is 2."),
    ]
    return write(tmp_path / f"{ID}.jsonl", World(replies), "What is it?", "And now?")


def test_another_model_repeats_the_last_run(file: Path) -> None:
    before = file.read_bytes()
    model = Watched(says("Other.", call("Bash", text="two"), call("Bash", text="three")), says("It is 3."))
    found = what_if(file, model=OPUS, provider=model)
    assert found.after_turn == 2
    assert [request.model for request in model.requests] == [OPUS, OPUS]
    assert model.texts(0) == ["What is it?", "Let me look.", "one", "It is 1.", "And now?"]
    assert model.texts(1)[-3:] == ["Other.", "two", "three"]  # no tool ran: there is none that would say so
    assert (found.recorded_calls, found.other_calls, found.error) == (2, 0, "")
    a, b, first = found.comparison.a, found.comparison.b, found.comparison.first
    assert (a.turns, a.calls, a.models, a.answer, a.outcome) == (
        2, 2, ["claude-sonnet-5-5"], "It is 2.", "completed, end_turn",
    )  # fmt: skip
    assert (b.turns, b.calls, b.models, b.answer, b.outcome) == (2, 2, [OPUS], "It is 3.", "completed, end_turn")
    assert 0 < a.cost < b.cost
    assert first is not None
    assert (first.kind_a, first.kind_b, first.turn_a) == ("reply", "reply", 3)
    assert file.read_bytes() == before
    assert replay(Path(found.file)).same


def test_the_same_replies_lead_to_the_same_future(file: Path) -> None:
    model = Scripted([says("Again.", call("Bash", text="two"), call("Bash", text="three")), says("It is 2.")])
    found = what_if(file, model=OPUS, provider=model)
    assert found.comparison.same
    assert compare(file, Path(found.file)).same


def test_a_future_in_the_middle_of_a_run(file: Path) -> None:
    """After the results of turn 3, without a new prompt."""
    model = Watched(says("It is 4."))
    found = what_if(file, model=OPUS, at=3, provider=model)
    assert model.texts()[-4:] == ["And now?", "Again.", "two", "three"]
    assert (found.comparison.a.turns, found.comparison.b.turns, found.comparison.b.answer) == (1, 1, "It is 4.")


def test_a_future_from_the_beginning(file: Path) -> None:
    """Compared with the first run alone: the second one is another prompt."""
    model = Watched(says("I know it."))
    found = what_if(file, model=OPUS, at=0, provider=model)
    assert model.texts() == ["What is it?"]
    assert (found.comparison.a.turns, found.comparison.a.runs, found.comparison.b.turns) == (2, 1, 1)
    assert found.comparison.a.answer == "It is 1."


@pytest.mark.parametrize(
    ("at", "past"),
    [
        (None, ["What is it?", "Let me look.", "one", "It is 1."]),
        (0, []),
        (1, ["What is it?", "Let me look.", "one"]),
        (4, ["What is it?", "Let me look.", "one", "It is 1.", "And now?", "Again.", "two", "three", "It is 2."]),
    ],
)
def test_another_prompt(file: Path, at: int | None, past: list[str]) -> None:
    model = Watched(says("It is 5."))
    found = what_if(file, prompt="Something else?", at=at, provider=model)
    assert model.texts() == [*past, "Something else?"]
    assert [request.model for request in model.requests] == ["claude-sonnet-5-5"]
    first = found.comparison.first
    assert first is not None
    assert (first.kind_b, first.b) == ("prompt", "Something else?")


# --- calls -------------------------------------------------------------------------------------------------------


def test_each_recorded_result_is_served_once_and_in_order(tmp_path: Path) -> None:
    replies = [
        says(call("Read", "c1", ms=0)),
        says(call("Read", "c2", ms=0)),
        says("Done."),
    ]
    file = write(tmp_path / f"{ID}.jsonl", World(replies), "go")
    place = file.read_bytes().rindex(b'"content":"Read is done"')
    data = file.read_bytes()
    file.write_bytes(data[:place] + data[place:].replace(b"Read is done", b"Read once more", 1))
    model = Watched(*[says(call("Read", ms=0))] * 3, says("Done."))
    found = what_if(file, model=OPUS, provider=model, other_calls="refuse")
    assert [text for text in model.texts(3) if text] == [
        "go",
        "Read is done",
        "Read once more",
        "This call is not in the record of the session, and calls are not run here: continue without its result.",
    ]
    assert (found.recorded_calls, found.other_calls) == (2, 1)


def test_other_calls_run_as_the_rules_allow(file: Path, tmp_path: Path) -> None:
    ran: list[str] = []

    @tool(name="Look")
    async def look(where: str) -> str:
        """Look somewhere."""
        ran.append(where)
        return f"nothing at {where}"

    model = Watched(says(call("Look", where="here"), call("Bash", command=f"touch {tmp_path}/x")), says("Done."))
    options = SessionOptions(in_process=True, setting_sources=(), allowed_tools=("Look",))
    found = what_if(file, model=OPUS, provider=model, tools=[look], options=options)
    assert (found.recorded_calls, found.other_calls, ran) == (0, 2, ["here"])
    assert not (tmp_path / "x").exists()  # nobody can approve it
    assert "nothing at here" in model.texts(1)


def test_calls_of_the_past_are_not_served_again(file: Path) -> None:
    """The file may have changed since."""
    model = Watched(says(call("Read", text="one")), says("Done."))
    found = what_if(file, model=OPUS, provider=model, other_calls="refuse")
    assert (found.recorded_calls, found.other_calls) == (0, 1)


# --- compaction --------------------------------------------------------------------------------------------------


@pytest.fixture
def compacted(tmp_path: Path) -> Path:
    """Compacted before its third turn."""
    replies = [says(f"{n}.", call("Bash", f"c{n}", text=f"r{n}")) for n in range(1, 4)] + [says("End.")]
    contexts = [PreparedContext(FULL if n == 2 else 10) for n in range(4)]
    return write(tmp_path / f"{ID[::-1]}.jsonl", CheckedWorld(replies, contexts=contexts), "go")


def test_without_compaction_the_future_begins_where_it_compacted(compacted: Path) -> None:
    model = Watched(says("3.", call("Bash", text="r3")), says("The end."))
    found = what_if(compacted, compaction="off", provider=model)
    assert found.after_turn == 2
    assert model.texts() == ["go", "1.", "r1", "2.", "r2"]  # no summary
    first = found.comparison.first
    assert first is not None
    assert (first.kind_a, first.kind_b, first.a) == ("compaction", "reply", "summary")
    assert load_session(found.file).config is not None
    assert load_session(found.file).config.auto_compact is False  # type: ignore[union-attr]


def test_the_recorded_summary_is_served(compacted: Path) -> None:
    """Another model does not have to write it again."""
    model = Watched(says("3.", call("Bash", text="r3")), says("End."))
    found = what_if(compacted, model=OPUS, at=2, provider=model)
    assert model.texts()[0].startswith("What happened before.")
    assert found.comparison.same


def test_compact_first(file: Path) -> None:
    model = Watched(says("<summary>They asked what it is.</summary>"), says("It is 7."))
    found = what_if(file, compaction="now", at=2, provider=model)
    assert found.error == ""
    assert "They asked what it is." in "".join(model.texts(1))
    assert found.comparison.b.answer == "It is 7."


def test_compaction_that_changes_nothing_is_told(file: Path, compacted: Path) -> None:
    with pytest.raises(UsageError, match="compaction 'off' changes no decision in 4 turns: choose a turn"):
        load_past(file, WhatIfChange(compaction="off"))
    with pytest.raises(UsageError, match="compaction 'on' changes no decision"):
        load_past(compacted, WhatIfChange(compaction="on"))


def test_compaction_can_be_turned_on(tmp_path: Path) -> None:
    contexts = [PreparedContext(10), PreparedContext(970_000)]
    world = World([says("1.", call("Bash", "c1")), says("2.")], contexts=contexts)
    file = write(tmp_path / f"{ID}.jsonl", world, "go", config=Config(auto_compact=False))
    assert load_past(file, WhatIfChange(compaction="on")).after_turn == 1


# --- reminders ---------------------------------------------------------------------------------------------------


def test_the_nonce_of_reminders_is_no_difference(tmp_path: Path) -> None:
    """A fork keeps the nonce of its source, and two sessions have different ones."""
    files: list[Path] = []
    for nonce in ("0f1e2d", "a9b8c7"):
        reminder = user(f'<system-reminder kind="memory" nonce="{nonce}">Be brief.</>', Origin.ATTACHMENT)
        contexts = [PreparedContext(9, attachments=(reminder,))]
        world = World([says("Look.", call("Read", "c1")), says("Done.")], contexts=contexts)
        files.append(write(tmp_path / f"{nonce}.jsonl", world, "go", config=Config(nonce=nonce)))
    assert compare(*files).same
    found = what_if(files[0], model=OPUS, at=0, provider=Scripted([says("No.")]))
    first = found.comparison.first
    assert first is not None
    assert (first.kind_a, first.kind_b, first.a, first.b) == ("reply", "reply", "Look. Read {}", "No.")


def test_a_result_that_was_cleared_from_the_view_is_no_difference(tmp_path: Path) -> None:
    """The fork has the view of its source, in which the last result is a note."""

    class Clears(World):
        async def shrink(self, state: State, queued: tuple[User, ...]) -> PreparedContext:
            last = state.history[-1]
            edits = (Replace(last.id, (Text("[cleared]"),)),) if isinstance(last, ToolResult) else ()
            return replace(await super().shrink(state, queued), edits=edits)

    replies = [says("Look.", call("Read", "c1", text="long")), says("Done.")]
    file = write(tmp_path / f"{ID}.jsonl", Clears(replies), "go")
    model = Watched(says("Done."))
    found = what_if(file, model=OPUS, at=1, provider=model)
    assert model.texts() == ["go", "Look.", "[cleared]"]
    assert found.comparison.same


# --- errors ------------------------------------------------------------------------------------------------------


def test_a_run_that_fails_is_compared_too(file: Path) -> None:
    found = what_if(file, model=OPUS, provider=Scripted([fails(Trouble.AUTH, "no such key")]))
    assert "no such key" in found.error
    assert found.comparison.b.outcome == "model_error, auth"


@pytest.mark.parametrize(
    ("change", "at", "words"),
    [
        (WhatIfChange(), None, "nothing is changed"),
        (WhatIfChange(model=OPUS), 4, "turn 4 is the last one: give a prompt, or an earlier turn"),
        (WhatIfChange(model=OPUS), 5, "turn 5 does not exist: session '.*' has 4 turns"),
        (WhatIfChange(prompt="x"), -1, "turn -1 does not exist"),
    ],
)
def test_a_change_that_does_not_fit(file: Path, change: WhatIfChange, at: int | None, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        load_past(file, change, at)
    assert len(list(file.parent.glob("*.jsonl"))) == 1


def test_a_session_of_another_program_can_continue(file: Path) -> None:
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([line for line in lines if b'"mainspring","v"' not in line]))
    model = Watched(says("Done."))
    found = what_if(file, model=OPUS, provider=model)
    assert (found.after_turn, model.texts()[-1]) == (2, "And now?")
    assert found.comparison.first is not None


# --- a long past -------------------------------------------------------------------------------------------------


def test_a_past_of_300_turns_is_served_in_under_a_second(tmp_path: Path) -> None:
    """Of processor time: what other processes do meanwhile does not count. It takes about a fifteenth of that."""
    replies = [says(f"Step {n}. " * 5, call("Read", f"c{n}", text=f"line {n}\n" * 40)) for n in range(302)]
    file = write(tmp_path / f"{ID}.jsonl", World([*replies, says("Done.")]), "go")
    took: list[float] = []
    for _ in range(3):
        begun = time.process_time()
        past = load_past(file, WhatIfChange(model=OPUS), 300)
        assert past.loaded is not None
        opened = open_fork(past.loaded, tmp_path / "forks", "/somewhere", "test")
        took.append(time.process_time() - begun)
        assert opened.journal is not None
        opened.journal.close()
        kept = [m for m in load_session(opened.journal.file).state.history if isinstance(m, Assistant)]
        assert len(kept) == 300
    assert min(took) < 1
    assert len(read_transcript(file).turns) == 303
