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

from mainspring.core.reasons import Failure


class MainspringError(Exception):
    pass


class UsageError(MainspringError):
    pass


class ProviderError(MainspringError):
    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.detail or failure.kind)
        self.failure = failure


class ToolError(MainspringError):
    pass


MOST_PROBLEMS = 10  # reported at once


class InvalidValueError(ToolError):
    """A JSON value does not fit a type. Each problem says what is wrong and where: "... - at `$.city.zip`"."""

    def __init__(self, problems: Sequence[str]) -> None:
        more = len(problems) - MOST_PROBLEMS
        self.problems = (*problems[:MOST_PROBLEMS], *((f"and {more} more problems",) if more > 0 else ()))
        super().__init__("; ".join(self.problems))


class DeclinedError(ToolError):
    """The user declined a call and wants the run to end: no further call starts."""


class ProtocolError(MainspringError):
    pass
