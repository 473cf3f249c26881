"""The union of session updates: type checkers lead a new one to every front end, if it is in the union."""

from __future__ import annotations

from typing import get_args

from mainspring.agent.updates import AnySessionUpdate, Idle, SessionUpdate, is_session_update
from mainspring.core.updates import RequestStarted


def test_every_session_update_is_in_the_union() -> None:
    assert set(get_args(AnySessionUpdate)) == set(SessionUpdate.__subclasses__())
    assert is_session_update(Idle())
    assert not is_session_update(RequestStarted(1, "m"))
