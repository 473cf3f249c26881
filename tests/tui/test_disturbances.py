"""On a pty: words, pastes, early keys, resizes, stops and signals at every dialog. Nothing is granted without an
explicit choice, and no text is lost. `tests/long/test_disturbances.py` does more of the same."""

from __future__ import annotations

import pytest
from cli.stage import Serve
from tiers import long

from tui.disturbances import (
    ALL,
    COMMAND,
    FORM,
    PLAN,
    Asking,
    answer,
    disturb_one_after_the_other,
    disturb_palette,
    disturb_trust,
    disturb_wildly,
    library_server,
    set_stage,
)
from tui.person import SitAt
from tui.typist import folder_with_hooks


@pytest.mark.parametrize("seed", [long(0), long(1)])
def test_text_is_kept_and_nothing_granted(serve: Serve, sit_at: SitAt, seed: int) -> None:
    stage = serve(choose=answer)
    set_stage(stage)
    disturb_one_after_the_other(sit_at(stage), stage, seed, ALL)


@pytest.mark.parametrize("seed", [0, long(1)])
def test_text_is_kept_at_a_plan(serve: Serve, sit_at: SitAt, seed: int) -> None:
    stage = serve(choose=answer)
    set_stage(stage)
    disturb_one_after_the_other(sit_at(stage, "--permission-mode", "plan"), stage, seed, [PLAN])


@pytest.mark.parametrize("seed", [long(0), long(1), long(2)])
def test_no_key_answers_the_form_of_a_server(serve: Serve, sit_at: SitAt, seed: int) -> None:
    stage = serve(choose=answer)
    set_stage(stage)
    disturb_one_after_the_other(sit_at(stage, *library_server()), stage, seed, [FORM])


@pytest.mark.parametrize("seed", [1, long(2)])
def test_text_is_kept_at_the_question_about_trust(serve: Serve, sit_at: SitAt, seed: int) -> None:
    stage = serve(choose=answer)
    disturb_trust(sit_at(stage), stage, seed, folder_with_hooks(stage))


@pytest.mark.parametrize("seed", [0, long(1)])
def test_the_palette_keeps_what_is_typed(serve: Serve, sit_at: SitAt, seed: int) -> None:
    stage = serve(choose=answer)
    set_stage(stage)
    disturb_palette(sit_at(stage), stage, seed)


@pytest.mark.parametrize("asking", [COMMAND, *[long(one) for one in ALL if one is not COMMAND]])
def test_wild_keys_grant_nothing(serve: Serve, sit_at: SitAt, asking: Asking) -> None:
    stage = serve(choose=answer)
    set_stage(stage)
    disturb_wildly(sit_at(stage), stage, 3, asking)
