"""Exceptions of the SDK, and logging of errors in callbacks.

    MainspringError
      ClaudeSDKError            base class of the others; the names are those of `claude-agent-sdk`
        CLIConnectionError      the client is not connected, or a session could not begin
        ProcessError            a session ended with an error
          ResultError           its last result was an error; carries the result

Errors in functions of the program go to its logger, with the traceback, because they are the program's own bugs.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import asdict
from typing import Any

from mainspring.core.errors import MainspringError, UsageError
from mainspring.sdk.messages import ResultMessage


class ClaudeSDKError(MainspringError):
    """The base class of the errors of this module."""


class CLIConnectionError(ClaudeSDKError):
    """The client is not connected, or belongs to another event loop."""


class CLINotFoundError(CLIConnectionError):
    """Never raised: no command has to be found. The name exists for handlers that use it."""


class CLIJSONDecodeError(ClaudeSDKError):
    """Never raised. The name exists for handlers that use it."""


class CanUseToolShadowedWarning(UserWarning):
    """`can_use_tool` is set, but is not called for tools that are allowed anyway."""


class ProcessError(ClaudeSDKError):
    """There is no process that could fail. The name exists for handlers that use it."""

    def __init__(self, message: str, exit_code: int | None = None, stderr: str | None = None) -> None:
        super().__init__(message)
        self.exit_code, self.stderr = exit_code, stderr


class NotStartedError(ProcessError, CLIConnectionError, UsageError):
    """A session could not begin: an invalid option, no key, a missing folder. It inherits from all these classes, so
    that a handler for any of them catches it.
    """


class ResultError(ProcessError):
    """Raised after the messages of `query()`, the last of which was this result."""

    def __init__(self, message: str, data: dict[str, Any] | None = None, exit_code: int | None = 1) -> None:
        super().__init__(message, exit_code)
        self.data = data or {}

    @property
    def subtype(self) -> str | None:
        return self.data.get("subtype")

    @property
    def errors(self) -> list[str]:
        return list(self.data.get("errors") or ())

    @property
    def result(self) -> str | None:
        return self.data.get("result")

    @property
    def api_error_status(self) -> int | None:
        return self.data.get("api_error_status")

    @property
    def terminal_reason(self) -> str | None:
        return self.data.get("terminal_reason")

    @property
    def session_id(self) -> str | None:
        return self.data.get("session_id")


def result_error(last: ResultMessage) -> ResultError:
    words = "; ".join(last.errors or ()) or last.result or last.subtype
    return ResultError(f"the run ended with an error: {words}", asdict(last))


def log_callback_failure(function: object, error: BaseException) -> None:
    logging.getLogger("mainspring").error("'%s' failed: %s", function_name(function), error, exc_info=error)


def function_name(function: object) -> str:
    return getattr(function, "__qualname__", "") or type(function).__qualname__


def is_cancelled() -> bool:
    """Whether the current task is being cancelled. If not, a `CancelledError` came out of the code it called, and is an
    error.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
