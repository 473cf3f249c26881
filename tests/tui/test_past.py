"""What stands on paper when a conversation is taken up again."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence

import pytest
from cli.slash.sitting import here, seated
from cli.stage import Serve
from hypothesis import given
from hypothesis import strategies as st

from mainspring.cli.tui.history_view import MOST_LINES, put_past, render_past
from mainspring.core.messages import Assistant, Message, Origin, Stop, Text, ToolCall, result, user
from mainspring.simulator.replies import Say
from tui.hands import few, widths, words
from tui.seeing import ReadPaper


def reply(*parts: str | ToolCall, stop: Stop = Stop.END_TURN) -> Assistant:
    return Assistant(tuple([Text(part) if isinstance(part, str) else part for part in parts]), "m", stop)


def call(name: str, **given: str) -> ToolCall:
    return ToolCall("c", name, dict(given))


def shown(
    messages: Sequence[Message], cut_off: Assistant | None = None, width: int = 60, *, forgotten: bool = False
) -> list[str]:
    paper = ReadPaper(width)
    found = render_past(reversed(messages), cut_off, forgotten=forgotten)
    if found is None:
        return []
    paper.put(found)
    return paper.lines[:-1]  # it ends with the end of a line


def test_the_last_exchanges_stand_there_as_they_did() -> None:
    messages = [
        *[message for number in range(12) for message in (user(f"old {number}"), reply("Yes."))],
        user("what is\nin a.py?"),
        user("<system-reminder>memory</system-reminder>", Origin.ATTACHMENT),
        reply("I **look**.", call("Read", file_path="a.py"), call("Bash", command="ls -l", description="x")),
        result("c", "a thousand lines"),
        reply("Two things:\n\n- one\n- two"),
        user("thanks"),
        reply("You are welcome."),
        user("and now?"),
        reply("Now this."),
    ]
    assert shown(messages) == [
        "… 12 earlier prompts",
        "",
        "❯ what is",
        "  in a.py?",
        "",
        "● I look.",
        "",
        "● Read(a.py)",
        "● Bash(ls -l)",
        "",
        "● Two things:",
        "",
        "  - one",
        "  - two",
        "",
        "❯ thanks",
        "",
        "● You are welcome.",
        "",
        "❯ and now?",
        "",
        "● Now this.",
    ]


def test_a_reply_that_a_kill_cut_off_is_marked() -> None:
    cut = reply("I begin", call("Bash", command="make"), stop=Stop.UNFINISHED)
    assert shown([user("go")], cut)[-5:] == ["", "● I begin", "", "● Bash(make)", "  (cut off)"]
    nothing_yet = reply(stop=Stop.UNFINISHED)
    assert shown([user("go")], nothing_yet) == ["", "❯ go", "", "  (cut off)"]
    assert shown([user("go")]) == ["", "❯ go"]


def test_a_reply_that_somebody_interrupted_says_so() -> None:
    half = reply("Half", call("Bash", command="make"), stop=Stop.UNFINISHED)
    stop = user("[Request interrupted by user]", Origin.INTERRUPTION)
    assert shown([user("go"), half, result("c", "stopped"), stop])[-1] == "  (interrupted)"
    lines = shown([user("go"), half, result("c", "lost"), user("on")])
    assert lines[-4:] == ["● Bash(make)", "  (cut off)", "", "❯ on"]


def test_nothing_that_was_said_is_nothing_on_paper() -> None:
    assert render_past([]) is None
    assert render_past([user("x", Origin.SUMMARY)]) is None


def test_what_was_summed_up_is_told() -> None:
    assert shown([user("a"), reply("b")], forgotten=True)[0] == "… compacted messages"
    messages = [one for number in range(4) for one in (user(str(number)), reply("b"))]
    assert shown(messages, forgotten=True)[0] == "… 1 earlier prompt, and compacted messages"
    assert shown([user("s", Origin.SUMMARY), reply("what came of it"), user("on")])[:2] == ["", "● what came of it"]


def test_the_newest_answer_is_whole_however_long_and_the_rest_is_counted() -> None:
    long = "\n\n".join([f"Paragraph {number}." for number in range(100)])
    steps = [reply(call("Read", file_path=f"{number}.py")) for number in range(500)]
    lines = shown([user("before"), reply("x"), user("go"), *steps, reply(long)])
    assert lines[:4] == ["… 1 earlier prompt", "", "❯ go", ""]
    assert lines[4] == "  … 500 earlier steps"
    assert lines[6] == "● Paragraph 0."
    assert lines[-1] == "  Paragraph 99."
    lines = shown([user("before"), reply("x"), user("go"), *steps, reply("Done.")])
    assert lines[0] == "… 1 earlier prompt"
    assert lines[-3:] == ["● Read(499.py)", "", "● Done."]
    assert MOST_LINES - 10 < len(lines) <= MOST_LINES + 1


def test_long_prompts_are_cut_as_when_they_were_said() -> None:
    lines = shown([user("\n".join(map(str, range(100))))])
    assert (len(lines), lines[-1]) == (32, "  … 70 more lines")
    assert shown([user("")]) == ["", "❯ (empty prompt)"]


def test_no_more_of_the_history_is_laid_out_than_is_shown() -> None:
    """Of a thousand exchanges the messages are counted, and no text of them is looked at."""

    class Unread(str):
        __slots__ = ()

        def strip(self, *_: object) -> str:
            raise AssertionError("it was looked at")

    old: list[Message] = [one for _ in range(1_000) for one in (user("old"), reply(Unread("text")))]
    new = [one for number in range(3) for one in (user(f"new {number}"), reply("yes"))]
    assert shown([*old, *new])[0] == "… 1,000 earlier prompts"


blocks = words | st.builds(lambda text: call("Bash", command=text), words)
replies = st.builds(
    lambda parts, stop: reply(*parts, stop=stop), st.lists(blocks, max_size=3), st.sampled_from([*Stop])
)
users = st.builds(user, words, st.sampled_from([*Origin]))


@few
@given(st.lists(users | replies | st.builds(result, st.just("c"), words), max_size=12), st.none() | replies, widths)
def test_nothing_is_too_wide_and_nothing_is_obeyed(
    messages: list[Message], cut_off: Assistant | None, width: int
) -> None:
    for line in shown(messages, cut_off, width):  # the paper looks at widths and at what a terminal would obey
        assert not set(line) & {"\x1b", "\r", "\u202e"}


# --- with a real session --------------------------------------------------------------------------------------------


def test_a_session_that_was_killed_shows_what_it_had_said(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = serve(Say.of("First answer."), Say.of("One two. " + "And more. " * 5_000, pace_ms=20))
    here(stage, monkeypatch)
    stage.run("-p", "first")
    partial = ("--output-format=stream-json", "--verbose", "--include-partial-messages")
    process = stage.start("-p", "second", "--continue", *partial)
    assert process.stdout is not None
    try:
        next(line for line in process.stdout if b"text_delta" in line)  # what was shown is kept
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    paper = ReadPaper()

    async def main() -> None:
        async with seated("--continue") as sitting:
            put_past(paper, sitting.talk)
            await sitting.said("/clear")
            put_past(paper, sitting.talk)  # a new one has no past

    asyncio.run(main())
    assert paper.said[:3] == ["❯ first", "● First answer.", "❯ second"]
    assert paper.said[3].startswith("● One")
    assert paper.said[-1] == "  (cut off)"
    assert paper.said.count("❯ second") == 1
