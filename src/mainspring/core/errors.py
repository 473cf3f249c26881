"""What a programmer who uses mainspring may have to catch.

    MainspringError
      UsageError      the caller erred: a wrong option, a wrong value
      ProviderError   they erred: the model's service; carries the Failure
      ToolError       becomes a tool result and never escapes a run
      ProtocolError   we erred: the driver reported what the loop was not waiting for

What the model must see is a tool result, what the user must see is an update, what the programmer must see
is one of these.
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
    """The person declined what a call asked and wants the run to end: nothing more is started."""


class ProtocolError(MainspringError):
    pass
