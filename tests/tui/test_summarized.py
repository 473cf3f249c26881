"""With summaries of tool calls: one line in place of the batch, and Ctrl-O shows all of it."""

from __future__ import annotations

from mainspring.cli.tui.held_calls import MOST_DRAWN, MOST_HELD
from mainspring.cli.tui.run_view import RunView
from mainspring.core.models import DEFAULT_MODEL
from mainspring.core.reasons import Cause, Subtype, Terminal, Transition
from mainspring.core.updates import Rendering, RequestStarted, Result, ToolSummary
from tui.seeing import ROOT, Watching

NEXT = RequestStarted(2, "m", Transition.NEXT_TURN)
ENDED = Result(Terminal.COMPLETED, Cause.END_TURN, Subtype.SUCCESS)
LINE = "Read two files and listed the folder"


class Summarizing(Watching):
    def __init__(self, width: int = 80) -> None:
        super().__init__(width)
        self.shown = RunView(self.paper, DEFAULT_MODEL, lambda: self.time, root=ROOT, summarizes=lambda: True)

    def batch(self) -> Summarizing:
        for name in ("a", "b"):
            self.calls("Read", f"Read {ROOT}/{name}.py", name).done("1\n2", Rendering("Read 2 lines"), name)
        self.calls("Bash", "ls", "c").done("\n".join("abcdefgh"), Rendering("ls", "\n".join("abcdefgh"), "output"), "c")
        return self

    def summed(self, *ids: str) -> Summarizing:
        self.see(ToolSummary(LINE, ids or ("a", "b", "c")))
        return self


def test_one_line_in_place_of_the_batch_and_ctrl_o_shows_all() -> None:
    seen = Summarizing()
    seen.reply()
    seen.batch().see(NEXT)
    assert seen.paper.said == []
    assert seen.drawn()[:3] == ["● Read(a.py)", "● Read(b.py)", "● Bash(ls)"]
    seen.summed().said("Done.")
    assert seen.paper.said == [f"● {LINE} · 2x Read, Bash (ctrl+o)", "● Done."]
    assert seen.whole("a") == ["● Read(a.py)", "  ⎿  1", "     2"]
    assert seen.whole("c")[-1].strip() == "h"


def test_text_does_not_wait_for_a_summary() -> None:
    seen = Summarizing()
    seen.reply()
    seen.batch().see(NEXT).says("One.\n\nTw")
    said = seen.paper.said
    assert said[:2] == ["● Read(a.py) · 2 lines", "● Read(b.py) · 2 lines"]
    assert said[-1] == "● One."
    seen.summed()
    assert seen.paper.said == said  # too late: the calls are printed


def test_a_summary_comes_before_the_text_that_streams_meanwhile() -> None:
    seen = Summarizing()
    seen.reply()
    seen.batch().see(NEXT).says("Tw")
    seen.summed().says("o.\n\n")
    assert seen.paper.said == [f"● {LINE} · 2x Read, Bash (ctrl+o)", "● Two."]


def test_a_failed_call_is_printed_below_the_summary() -> None:
    seen = Summarizing()
    seen.reply()
    seen.calls("Bash", "make", "d").done("no rule", id="d", wrong=True)
    seen.batch().summed("a", "b", "c", "d")
    assert seen.paper.said == [f"● {LINE} · 2x Read, Bash (ctrl+o)", "● Bash(make)", "  ⎿  Failed: no rule"]


def test_batches_keep_their_order() -> None:
    """The first batch has no summary yet when that of the second arrives."""
    seen = Summarizing()
    seen.reply()
    seen.calls("Bash", "one", "x").done("1", id="x").see(NEXT)
    seen.batch().see(NEXT)
    seen.calls("Bash", "three", "y").done("3", id="y")
    seen.summed()
    assert seen.paper.said == ["● Bash(one)", "  ⎿  1", f"● {LINE} · 2x Read, Bash (ctrl+o)"]
    seen.see(ENDED)
    assert seen.paper.said[3:5] == ["● Bash(three)", "  ⎿  3"]


def test_calls_without_a_summary_are_printed_at_the_end_and_not_too_many_are_held() -> None:
    seen = Summarizing()
    seen.reply()
    for number in range(MOST_HELD + 1):
        seen.calls("Read", f"Read {number}", str(number)).done("1", id=str(number))
    assert len(seen.paper.said) == MOST_HELD + 1
    seen.calls("Read", "Read last", "last").done("1", id="last")
    assert len([line for line in seen.drawn(9) if "Read" in line]) <= MOST_DRAWN
    seen.see(ENDED)
    assert "● Read(last)" in seen.paper.said


def test_nothing_is_held_unless_summaries_are_on() -> None:
    seen = Watching().reply().calls("Read", "Read a").done("1")
    assert seen.paper.said == ["● Read(a)"]
    seen.see(ToolSummary(LINE, ("c",)))
    assert seen.paper.said == ["● Read(a)"]
