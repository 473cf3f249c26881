"""The union of session updates: type checkers lead a new one to every front end, if it is in the union."""

from __future__ import annotations

from typing import get_args

from mainspring.agent.updates import AnySessionUpdate, SessionUpdate


def test_every_session_update_is_in_the_union() -> None:
    assert set(get_args(AnySessionUpdate)) == set(SessionUpdate.__subclasses__())
