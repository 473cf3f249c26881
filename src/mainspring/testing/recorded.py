"""Functions over recorded sessions, for regression tests: `replay`, `fork`, `compare` and `what_if`.

A session is the path of its file; or its id, the start of an id, or its title, as on the command line. All functions
raise `OSError` if a file cannot be read or written, and `UsageError` or `StartError` for arguments that do not fit.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from mainspring.agent.config import HostSupplied
from mainspring.agent.find_session import locate_session
from mainspring.agent.options import SessionOptions
from mainspring.agent.resume import new_place
from mainspring.sessions.paths import Place
from mainspring.viewer.compare import SessionComparison, compare_sessions
from mainspring.viewer.forks import ForkedSession, fork_session_at
from mainspring.viewer.replay import ReplayReport, replay_session
from mainspring.viewer.what_if import CompactionChoice, OtherCalls, WhatIfChange, WhatIfResult, run_what_if

if TYPE_CHECKING:
    from mainspring.providers.base import Provider
    from mainspring.tools.base import Tool


def replay(session: Place) -> ReplayReport:
    """Runs the core on the recorded events again: does it decide the same?

    >>> report = replay(session)
    >>> report.same, report.differences
    (True, [])
    """
    return replay_session(locate_recorded(session))


def fork(session: Place, *, at: int | str | None = None, folder: Place | None = None) -> ForkedSession:
    """A new session with the turns up to `at`: a turn number, or the id of a message; None: all of them. Its file is in
    `folder`; None: beside the other.

    >>> forked = fork(session, at=1)
    >>> forked.turns, forked.file == session
    (1, False)
    """
    return fork_session_at(locate_recorded(session), at, folder=folder)


def compare(a: Place, b: Place) -> SessionComparison:
    """The first difference of two sessions, and turns, cost and outcome of each. If one is a fork of the other, the
    common part is left out.

    >>> found = compare(session, other)
    >>> found.same, found.first.turn_a, found.first.a, found.first.b
    (False, 2, 'It is 5.', 'It is five.')
    >>> found.a.outcome
    'completed, end_turn'
    """
    return compare_sessions(locate_recorded(a), locate_recorded(b))


def what_if(  # noqa: PLR0913  # keywords, nearly all of them
    session: Place,
    *,
    model: str | None = None,
    prompt: str | None = None,
    compaction: CompactionChoice | None = None,
    at: int | None = None,
    provider: Provider | None = None,
    tools: Iterable[Tool] = (),
    other_calls: OtherCalls = "run",
    options: SessionOptions | None = None,
    folder: Place | None = None,
) -> WhatIfResult:
    """Continues a session after turn `at` with another model, prompt or compaction, and compares both futures. Without
    `at`, the last run is repeated.

    The past is served from the record. The future calls `provider`, such as `Scripted([...])`; None: the real model of
    the settings. Calls that are in the recorded future get the recorded results; `other_calls`: the others "run", with
    built-in tools and `tools` as the rules allow, or are refused ("refuse"). Without `options` no settings files are
    read. Call it outside of an event loop; within one, await `mainspring.viewer.what_if.run_what_if`.

    >>> found = what_if(session, prompt="What is 2 + 4?", provider=Scripted([says("It is 6.")]))
    >>> found.comparison.b.answer, found.after_turn
    ('It is 6.', 0)
    """
    return asyncio.run(
        run_what_if(
            locate_recorded(session),
            WhatIfChange(model, prompt, compaction),
            after_turn=at,
            options=options or SessionOptions(in_process=True, setting_sources=()),
            supplied=HostSupplied(tuple(tools), provider),
            folder=folder,
            other_calls=other_calls,
        )
    )


def locate_recorded(session: Place) -> str:
    name = os.fspath(session)
    return name if not isinstance(session, str) else locate_session(name, new_place(os.environ, os.getcwd(), ()))  # noqa: PTH109
