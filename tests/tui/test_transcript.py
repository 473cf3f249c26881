"""The transcript: each key, marks of a search, folding, what streams, and a cost that does not depend on the length."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from tiers import examples

from mainspring.agent.background_tasks import BackgroundTask
from mainspring.cli.tui import transcript as module
from mainspring.cli.tui.streamed_reply import StreamedReply
from mainspring.cli.tui.transcript import ConversationDocument, DocumentLine, OutputDocument
from mainspring.cli.tui.transcript_view import TranscriptView
from mainspring.core.history import History
from mainspring.core.messages import Assistant, Message, Origin, Stop, Text, Thinking, ToolCall, result, user
from mainspring.core.money import Usage
from mainspring.core.updates import BlockKind, CallProgress, Delta, ReplyDone
from tui.hands import fits, keys, press


def talk(turns: int) -> list[Message]:
    said: list[Message] = []
    for turn in range(turns):
        said += [
            user(f"prompt {turn}"),
            user(f"date {turn}", Origin.ATTACHMENT),
            Assistant(
                (
                    Thinking(f"thought {turn}"),
                    Text(f"I run it: {turn}"),
                    ToolCall(f"c{turn}", "Bash", {"command": "ls"}),
                )
            ),
            result(f"c{turn}", "\n".join([f"row {turn}.{row}" for row in range(6)])),
            Assistant((Text(f"answer {turn}"),)),
        ]
    return said


class Looked:
    """A view of a conversation that may grow, as text."""

    def __init__(self, *said: Message, height: int = 14, steers: bool = False) -> None:
        self.history, self.height = History(said), height
        self.streamed = StreamedReply()
        self.copied: list[str] = []
        self.steered: list[str] = []
        self.document = ConversationDocument(lambda: self.history, self.streamed)
        self.view = TranscriptView(
            lambda: "Transcript",
            self.document,
            copy=self._copy,
            steer=(lambda _, words: self.steered.append(words)) if steers else None,
        )
        self.read()

    def _copy(self, view: TranscriptView, text: str) -> None:
        self.copied.append(text)
        view.remark("Copied.")

    def press(self, *pressed: str) -> list[str]:
        press(self.view, *pressed)
        return self.read()

    def lines(self) -> Sequence[object]:
        return self.view.draw(60, self.height)

    def read(self) -> list[str]:
        lines = self.view.draw(60, self.height)
        fits(lines, 60, self.height)
        assert len(lines) == self.height
        return [line.plain.rstrip() for line in lines]

    def marked(self, style: str) -> list[str]:
        """What is drawn in this style."""
        found = []
        for line in self.view.draw(60, self.height):
            found += [line.plain[span.start : span.end] for span in line.spans if style in str(span.style)]
        return found


def test_it_begins_at_the_end_and_scrolls() -> None:
    seen = Looked(*talk(20))
    first = seen.read()
    assert first[0].endswith(" end ─")
    assert first[-2] == "● answer 19"
    assert seen.press("up")[-2] == ""
    assert seen.press("j")[-2] == "● answer 19"
    assert "end" in seen.read()[0]
    top = seen.press("g")
    assert top[0].endswith(" 0 % ─")
    assert "❯ prompt 0" in top
    assert seen.press("G") == first
    assert seen.press("home") == top
    assert seen.press("up") == top
    below = seen.press("pagedown")
    assert top[-2] == below[1]  # one line stays, for orientation
    assert seen.press("pageup") == top
    assert seen.press("end") == first
    seen.press("c-u")
    assert seen.press("c-d") == first


def test_it_follows_what_streams_while_at_the_end() -> None:
    seen = Looked(*talk(3))
    seen.streamed.see(Delta("r", 0, BlockKind.TEXT, "One **bold** word"))
    assert seen.read()[-2] == "● One bold word"
    above = seen.press("up")
    seen.streamed.see(Delta("r", 0, BlockKind.TEXT, "\n\n" + "more\n\n" * 30))
    assert seen.read()[1:] == above[1:]  # it stays where the user looks
    seen.press("G")
    seen.streamed.see(ReplyDone("r", Stop.END_TURN, Usage()))
    seen.history = seen.history.append(Assistant((Text("Done."),)))
    assert seen.read()[-2] == "● Done."


def test_a_running_call_shows_its_output() -> None:
    seen = Looked(user("go"), Assistant((ToolCall("x", "Bash", {"command": "make"}),)))
    assert "● Bash(make) · running" in seen.read()
    seen.streamed.see(CallProgress("x", "compiling"))
    assert "    compiling" in seen.read()
    seen.history = seen.history.append(result("x", "all done"))
    assert "    all done" in seen.read()
    assert "● Bash(make)" in seen.read()


def test_blocks_fold_and_unfold() -> None:
    seen = Looked(*talk(1), height=40)
    assert "▸ Added context · 1 line" in seen.read()
    assert "    thought 0" in seen.read()
    assert "    row 0.5" in seen.read()
    seen.press("s-tab")
    assert seen.marked("chosen") == ["● Bash(ls)"]
    assert "● Bash(ls) · 6 lines" in seen.press("enter")
    assert "    row 0.5" not in seen.read()
    assert "    row 0.5" in seen.press("space")
    folded = seen.press("e")
    assert "▸ Thinking · 1 line" in folded
    assert "● Bash(ls) · 6 lines" in folded
    assert "    date 0" in seen.press("e")


def test_a_search_marks_and_goes_on() -> None:
    async def main() -> None:
        seen = Looked(*talk(900))
        seen.press("g", "/", "p", "r", "o", "m", "p", "t", "space", "7", "7", "7", "enter")
        for _ in range(50):
            await asyncio.sleep(0)  # slices of the search
        assert "❯ prompt 777" in seen.read()
        assert seen.marked("reverse") == ["prompt 777"]
        seen.press("escape")
        assert seen.marked("reverse") == []
        assert not seen.view.over
        seen.press("/", *"row 5", "enter")
        for _ in range(50):
            await asyncio.sleep(0)
        there = seen.read()
        assert any("row 5" in line for line in there)
        seen.press("n")
        for _ in range(50):
            await asyncio.sleep(0)
        assert seen.press("N") == there or any("row 5" in line for line in seen.read())
        seen.press("/", *"nowhere", "enter")
        for _ in range(50):
            await asyncio.sleep(0)
        assert seen.read()[-1] == "not found"

    asyncio.run(main())


def test_a_search_opens_what_is_folded() -> None:
    async def main() -> None:
        seen = Looked(*talk(3))
        seen.press("/", *"date 1", "enter")
        for _ in range(20):
            await asyncio.sleep(0)
        assert "    date 1" in seen.read()

    asyncio.run(main())


def test_keys_for_the_rest() -> None:
    seen = Looked(*talk(2))
    assert seen.press("y")[-1] == "Copied."
    assert seen.copied == ["answer 1"]
    seen.press("s-tab", "y")
    assert seen.copied[1].startswith("Bash\ncommand: ls\nrow 1.0\n")
    seen.press("v")
    assert (seen.view.over, seen.view.said) == (True, "edit")
    for key in ("q", "c-o", "escape", "c-c"):
        seen = Looked(*talk(2))
        seen.press(key)
        assert (seen.view.over, seen.view.said) == (True, "close")


def test_typing_steers_a_subagent() -> None:
    seen = Looked(*talk(20), steers=True)
    assert seen.read()[-1] == "❯  message to this subagent · esc back"
    assert seen.press(*"go q", "up")[-1] == "❯ go q"
    seen.press("enter")
    assert seen.steered == ["go q"]
    seen.press("x", "escape")
    assert not seen.view.over
    seen.press("escape")
    assert seen.view.over


def test_the_output_of_a_command_is_a_document() -> None:
    lines = [f"line {at}" for at in range(500)]
    task = BackgroundTask(
        "bash_1", "command", "seq", "", "running", 1.0, output=lambda size: "\n".join(lines)[-size:] + "\n"
    )
    view = TranscriptView(lambda: "seq", OutputDocument(lambda: task))
    assert view.draw(40, 10)[-2].plain == "line 499"
    lines.append("line 500")
    assert view.draw(40, 10)[-2].plain == "line 500"
    press(view, "g")
    assert view.draw(40, 10)[1].plain == "line 0"


def test_ten_thousand_turns_open_at_once() -> None:
    """Only what is visible is drawn, and few parts are kept."""
    drawn: list[int] = []

    class Counted(ConversationDocument):
        def _draw_message(self, history, part, message, width):  # type: ignore[no-untyped-def]  # counts
            drawn.append(part)
            return super()._draw_message(history, part, message, width)

    history = History(talk(10_000))
    document = Counted(lambda: history)
    view = TranscriptView(lambda: "", document)
    view.draw(80, 40)
    assert len(drawn) < 40
    for key in ("up", "pageup", "g", "pagedown", "down", "G", "home", "end"):
        drawn.clear()
        press(view, key)
        view.draw(80, 40)
        assert len(drawn) < 80, key
    for _ in range(200):
        press(view, "pageup")
        view.draw(80, 40)
    assert len(document._drawn) <= module.MOST_KEPT  # the bound is the point


@settings(max_examples=examples(60))
@given(
    st.lists(st.one_of(keys, st.sampled_from("ngGNejkyv/").map(lambda key: ("text", key))), max_size=40),
    st.integers(1, 100),
    st.integers(1, 30),
    st.integers(0, 6),
    st.booleans(),
)
def test_no_key_breaks_it(pressed: list[tuple[str, str]], width: int, height: int, turns: int, steers: bool) -> None:
    async def main() -> None:
        history = History(talk(turns))
        view = TranscriptView(
            lambda: "\x1b[2Jtitle",
            ConversationDocument(lambda: history),
            copy=lambda view, _: view.remark("Copied."),
            steer=(lambda _, __: None) if steers else None,
        )
        for at, (key, text) in enumerate(pressed):
            view.press(key, text)
            fits(view.draw(width, height), width, height)
            if at % 5 == 4:
                await asyncio.sleep(0)
                history = history.append(user("more"))

    asyncio.run(main())


def test_lines_have_no_control_characters() -> None:
    wild = "\x1b[31mred\x1b[0m \x07bell \u202e turned"
    seen = Looked(
        user(wild),
        Assistant((Thinking(wild), Text(wild), ToolCall("w", wild, {wild: wild, "b": [wild]}))),
        result("w", wild),
        height=30,
    )
    seen.read()  # `fits` looks at each character
    assert all(isinstance(line, DocumentLine) for line in seen.document.lines(1, 60))
