"""`Answer`: the result of a run, for the program that asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic

from mainspring.core.messages import Message
from mainspring.core.money import NANOS_PER_USD, Usage
from mainspring.core.updates import Result
from mainspring.core.value import Bundle

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    OutputT = TypeVar("OutputT", default=str)
else:
    from typing import TypeVar

    OutputT = TypeVar("OutputT")

LONGEST_REPR = 60  # characters of text in a representation,
LONGEST_HTML = 20_000  # and in a notebook


class Answer(Bundle, Generic[OutputT]):
    """What came of a run.

    Example:
        answer = await ask("What is 2 + 3?", tools=[add])
        print(answer.text, answer.cost_usd)
    """

    output: OutputT
    """The answer in the type of `output=`; the text if none was given."""
    text: str
    """The last text of the model; for typed output, its JSON."""
    messages: tuple[Message, ...]
    """The messages of this run, beginning with the prompt."""
    session_id: str
    """For `resume`, and for `mainspring trace`."""
    result: Result
    """How the run ended: terminal reason, cause, turns, duration."""

    @property
    def usage(self) -> Usage:
        """The tokens of this run."""
        return self.result.usage

    @property
    def cost_usd(self) -> float:
        """The cost of this run in dollars, with its subagents."""
        return self.result.cost / NANOS_PER_USD

    def __repr__(self) -> str:
        text = self.text if len(self.text) <= LONGEST_REPR else f"{self.text[:LONGEST_REPR]}..."
        return f"Answer({text!r}, turns={self.result.turns}, cost_usd={self.cost_usd:.6f})"

    def __str__(self) -> str:
        return self.text

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """For rich: `print(answer)` there, and tracebacks with locals."""
        output = [] if self.output == self.text else [("output", self.output)]
        facts = [("turns", self.result.turns), ("cost_usd", round(self.cost_usd, 6)), ("session_id", self.session_id)]
        return [("text", self.text), *output, *facts]

    def _repr_html_(self) -> str:
        """For notebooks: the text and its figures. The model's text is shown literally."""
        from mainspring.text import plural, render_html_block

        shown = self.text if len(self.text) <= LONGEST_HTML else f"{self.text[:LONGEST_HTML]}..."
        tokens = f"{self.usage.prompt:,} tokens in, {self.usage.output:,} out"
        facts = f"{plural(self.result.turns, 'turn')}, {tokens}, ${self.cost_usd:.4f}, session {self.session_id}"
        return render_html_block(shown) + render_html_block(facts)
