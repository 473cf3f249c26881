"""What goes wrong in functions of the program: told to its logger, with the traceback, because it is its own bug."""

from __future__ import annotations

import asyncio
import logging


def log_callback_failure(function: object, error: BaseException) -> None:
    logging.getLogger("mainspring").error("'%s' failed: %s", function_name(function), error, exc_info=error)


def function_name(function: object) -> str:
    return getattr(function, "__qualname__", "") or type(function).__qualname__


def is_cancelled() -> bool:
    """Whether the task that runs is to end. If not, a `CancelledError` came out of what it called, and is an error."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
