"""The last words of a program that fails in a way that nobody foresaw: a traceback, without secrets (security K3).

sys.excepthook = crash.tell
"""

from __future__ import annotations

import sys
from types import TracebackType


def print_crash(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Nothing is loaded before it happens. If even this fails, no more than the kind is said."""
    try:
        from traceback import format_exception

        from mainspring.secrets.redaction import redact

        words = redact("".join(format_exception(kind, error, trace)))
    except Exception:  # noqa: BLE001  # no memory, too deep: whatever it is, the message may hold a key
        words = f"{kind.__name__} (its traceback could not be made)\n"
    sys.stderr.write(words)
