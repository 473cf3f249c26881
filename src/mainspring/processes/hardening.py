"""Our own process, closed to others before a key is in it (security K2). For the command line: a library asks its owner
first.

Not dumpable: no other process of this user may trace us, read our memory or the environment that we were started with;
and the kernel writes no core of us. The core size is set to 0 as well, for systems where the first is not to be had.
Our children may raise it again for themselves.
"""

from __future__ import annotations

from contextlib import suppress

from mainspring.processes.own_process import hide_process


def harden_process() -> bool:
    """Whether nobody can look in now."""
    import resource

    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    return hide_process()
