"""The long version of `tests/tui/test_disturbances.py`: many seeds, each in a terminal of its own."""

from __future__ import annotations

import pytest
from cli.stage import Serve
from tui.conftest import serve, sit_at
from tui.disturbances import (
    ALL,
    PLAN,
    Asking,
    answer,
    disturb_one_after_the_other,
    disturb_palette,
    disturb_trust,
    disturb_wildly,
    set_stage,
)
from tui.person import SitAt
from tui.typist import folder_with_hooks

__all__ = ["serve", "sit_at"]


@pytest.mark.parametrize("seed", range(100, 120))
def test_text_is_kept_and_nothing_granted(serve: Serve, sit_at: SitAt, seed: int) -> None:
    stage = serve(choose=answer)
    set_stage(stage)
    disturb_one_after_the_other(sit_at(stage), stage, seed, ALL)


@pytest.mark.parametrize("seed", range(200, 215))
def test_text_is_kept_at_a_plan(serve: Serve, sit_at: SitAt, seed: int) -> None:
    stage = serve(choose=answer)
    set_stage(stage)
    disturb_one_after_the_other(sit_at(stage, "--permission-mode", "plan"), stage, seed, [PLAN])


@pytest.mark.parametrize("seed", range(300, 315))
def test_text_is_kept_at_the_question_about_trust(serve: Serve, sit_at: SitAt, seed: int) -> None:
    stage = serve(choose=answer)
    disturb_trust(sit_at(stage), stage, seed, folder_with_hooks(stage))


@pytest.mark.parametrize("seed", range(400, 410))
def test_the_palette_keeps_what_is_typed(serve: Serve, sit_at: SitAt, seed: int) -> None:
    stage = serve(choose=answer)
    set_stage(stage)
    disturb_palette(sit_at(stage), stage, seed)


@pytest.mark.parametrize("seed", range(500, 505))
@pytest.mark.parametrize("asking", ALL, ids=[one.prompt for one in ALL])
def test_wild_keys_grant_nothing(serve: Serve, sit_at: SitAt, asking: Asking, seed: int) -> None:
    stage = serve(choose=answer)
    set_stage(stage)
    disturb_wildly(sit_at(stage), stage, seed, asking)
