"""The exceptions that a program using mainspring may have to catch.

    MainspringError
      UsageError      the caller made a mistake: a wrong option, a wrong value
      ProviderError   the model's service failed; carries the Failure
      ToolError       becomes a tool result and never escapes a run
      ProtocolError   a bug in mainspring: the driver reported an event that the loop was not waiting for

The model sees problems as tool results, the user as updates, and the programmer as one of these exceptions.
"""

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


class DeclinedError(ToolError):
    """The user declined a call and wants the run to end: no further call starts."""


class ProtocolError(MainspringError):
    pass
