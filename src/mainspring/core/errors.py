"""The exceptions that a program using mainspring may have to catch.

    MainspringError
      UsageError      the caller made a mistake: a wrong option, a wrong value
      ProviderError   the model's service failed; carries the Failure
      ToolError       becomes a tool result and never escapes a run
        InvalidValueError   a JSON value does not fit a type; carries the problems
      ProtocolError   a bug in mainspring: the driver reported an event that the loop was not waiting for

The model sees problems as tool results, the user as updates, and the programmer as one of these exceptions.
"""

from collections.abc import Sequence
from types import TracebackType

from mainspring.core.reasons import Failure


class MainspringError(Exception):
    """The base of all our exceptions.

    Example:
        try:
            answer = await ask("What is 2 + 3?")
        except MainspringError as error:
            print(error)
    """


class UsageError(MainspringError):
    """A wrong option, or a missing key: nothing was sent.

    Example:
        try:
            agent = Agent("haiku", max_turns=0)
        except UsageError as error:
            print(error)
    """


OUR_FRAMES = ("mainspring", "asyncio", "concurrent", "contextlib")


class CallerMistakes:
    """A block of a public function: the traceback of a `UsageError` ends at the line that called it. The mistake is in
    that line, and a reader who gets eight frames of our modules looks for a bug there. If code of the caller is among
    the frames, all of them stay."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: TracebackType | None) -> None:
        if not isinstance(error, UsageError):
            return
        while trace is not None:
            if trace.tb_frame.f_globals.get("__name__", "").partition(".")[0] not in OUR_FRAMES:
                return
            trace = trace.tb_next
        error.__traceback__ = None


class ProviderError(MainspringError):
    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.detail or failure.kind)
        self.failure = failure


class ToolError(MainspringError):
    """Raised by a tool to tell the model what is wrong. It never ends a run.

    Example:
        def look_up(word: str) -> str:
            '''The meaning of a word.'''
            raise ToolError(f"'{word}' is not in the dictionary: check the spelling")

        answer = await ask("What is 2 + 3?", tools=[look_up])
    """


MOST_PROBLEMS = 10  # reported at once


class InvalidValueError(ToolError):
    """A JSON value does not fit a type. Each problem says what is wrong and where: "... - at `$.city.zip`"."""

    def __init__(self, problems: Sequence[str]) -> None:
        more = len(problems) - MOST_PROBLEMS
        self.problems = (
            *problems[:MOST_PROBLEMS],
            *((f"and {more} more problem{'s' if more > 1 else ''}",) if more > 0 else ()),
        )
        super().__init__("; ".join(self.problems))


class DeclinedError(ToolError):
    """The user declined a call and wants the run to end: no further call starts."""


class ProtocolError(MainspringError):
    pass
