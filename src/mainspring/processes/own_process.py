"""Properties of our whole process, set before the first child. For the command line; a library asks the host first.

`become_subreaper` (Linux): descendants whose own parents are gone become our children. A process that sets it has to
reap them, and `children.py` does so for those that its own children left. Without it they go to process 1, which in
many containers reaps none.

`harden_process` closes our process to others before it has a key (security K2). Not dumpable: no other process of this
user may trace us, read our memory or the environment that we were started with, which may contain a key; and the
kernel writes no core of us. Removing the variable is not enough: the kernel still shows it. The core size is set to 0
as well, for systems without the first. Our children may raise it again for themselves.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 4, 36


def become_subreaper() -> bool:
    """Returns whether it worked."""
    return _prctl(PR_SET_CHILD_SUBREAPER, 1)


def hide_process() -> bool:
    return _prctl(PR_SET_DUMPABLE, 0)


def _prctl(option: int, value: int) -> bool:
    if sys.platform != "linux":
        return False
    try:  # what `ctypes` is made of: 0.4 ms to load instead of 2.1, at every start
        import _ctypes as c

        address = c.dlsym(c.dlopen(None, os.RTLD_NOW), "prctl")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        return bool(c.call_cdeclfunction(address, (option, value, 0, 0, 0)) == 0)
    except (ImportError, AttributeError, TypeError):  # another Python: the slow way
        return _by_ctypes(option, value)


def _by_ctypes(option: int, value: int) -> bool:
    import ctypes

    try:
        return bool(ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False


def harden_process() -> bool:
    """Returns whether other processes are now locked out."""
    import resource

    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    return hide_process()
