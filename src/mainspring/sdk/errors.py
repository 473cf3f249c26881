"""What a program that embeds a session may have to catch.

MainspringError
  ClaudeSDKError            all of these; the names are those of `claude-agent-sdk`
    CLIConnectionError      nobody is connected, or a session could not be begun
    ProcessError            a session ended in a way that it should not
      ResultError           its last result was an error; carries the result

What goes wrong in functions of the program: told to its logger, with the traceback, because it is its own bug.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import asdict
from typing import Any

from mainspring.core.errors import MainspringError, UsageError
from mainspring.sdk.messages import ResultMessage


class ClaudeSDKError(MainspringError):
    pass


class CLIConnectionError(ClaudeSDKError):
    pass


class CLINotFoundError(CLIConnectionError):
    """Nothing has to be found here, so nobody raises it. The name stays, for handlers that know it."""


class CLIJSONDecodeError(ClaudeSDKError):
    """The same."""


class CanUseToolShadowedWarning(UserWarning):
    """`can_use_tool` is there, and is not asked about tools that are allowed anyway."""


class ProcessError(ClaudeSDKError):
    """In one process there is none to fail. The name stays, for handlers that know it."""

    def __init__(self, message: str, exit_code: int | None = None, stderr: str | None = None) -> None:
        super().__init__(message)
        self.exit_code, self.stderr = exit_code, stderr


class NotStartedError(ProcessError, CLIConnectionError, UsageError):
    """A session could not be begun: an option that is wrong, no key, no such folder. It is of all these classes, so
    that whichever a program catches, it is caught."""


class ResultError(ProcessError):
    """Raised behind the messages of `query()`, the last of which was this result."""

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
    """Whether the task that runs is to end. If not, a `CancelledError` came out of what it called, and is an error."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
