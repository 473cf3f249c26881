"""A value that is wrong is refused by every front end, in the same words: only the option is spelled differently."""

from __future__ import annotations

from typing import Any

import pytest

from mainspring.agent.option_checks import check_option
from mainspring.agent.options import CHOICES, IDS, LEAST, OptionError
from mainspring.cli.flags import FLAGS, parse_arguments
from mainspring.core.errors import UsageError
from mainspring.sdk.options import Options, check_options

WRONG: list[tuple[str, Any]] = [
    *[(option, "nonsense") for option in CHOICES],
    *[(option, least - 1) for option, least in LEAST.items() if least],
    *[(option, "mine") for option in IDS],
    ("max_budget_usd", float("inf")),
]


def words_of(option: str, value: object) -> tuple[str, str]:
    with pytest.raises(OptionError) as refused:
        check_option(option, value)
    assert (refused.value.option, str(refused.value).startswith(f"'{option}")) == (option, True)
    return option, refused.value.reason


@pytest.mark.parametrize(("option", "value"), WRONG)
def test_the_command_line_spells_it_as_a_flag(option: str, value: Any) -> None:
    _, reason = words_of(option, value)
    [flag] = [one.name for one in FLAGS if one.field == option and one.takes]
    with pytest.raises(OptionError) as refused:
        parse_arguments([flag, str(value)])
    assert (refused.value.option, refused.value.reason) == (option, reason)
    assert str(refused.value).startswith(f"'{flag}")


@pytest.mark.parametrize(
    ("option", "value"), [one for one in WRONG if one[0] in {"permission_mode", "effort", "max_budget_usd", *IDS}]
)
def test_a_program_reads_its_own_name(option: str, value: Any) -> None:
    _, reason = words_of(option, value)
    with pytest.raises(UsageError) as refused:
        check_options(Options(**{option: value}))
    assert str(refused.value).startswith(f"'{option}")
    assert str(refused.value).endswith(reason)


@pytest.mark.parametrize("option", CHOICES)
def test_what_is_listed_is_taken(option: str) -> None:
    for value in CHOICES[option]:
        check_option(option, value)
    for number, least in LEAST.items():
        check_option(number, least)
