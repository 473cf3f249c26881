"""Checks the values of session options, for all front ends.

Each front end spells the option as its user wrote it. Loaded only when there is something to check.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from mainspring.agent.options import CHOICES, IDS, LEAST, OTHER_MODES, OptionError, by_name, is_uuid
from mainspring.text import did_you_mean

if TYPE_CHECKING:
    from mainspring.agent.options import Spell

BUDGET = "max_budget_usd"
MOST_DOLLARS = 1e9
EXAMPLE = "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed"


def check_option(option: str, value: Any, spell: Spell = by_name, *, least: int | None = None) -> None:
    """Checks a value whose type is already right. `least`: the front end's own minimum. Raises `OptionError`."""
    if option in CHOICES:
        if option != "permission_mode" or value not in OTHER_MODES:
            check_choice(option, value, CHOICES[option], spell)
    elif option in LEAST:
        check_number(option, value, LEAST[option] if least is None else least, spell)
    elif option == BUDGET:
        if not is_money(value):
            raise money_error(value, spell)
    elif option in IDS and not is_uuid(value):
        raise OptionError(option, f": Must be a valid UUID, such as {EXAMPLE}", value, spell)


def check_choice(option: str, value: str, choices: Iterable[str], spell: Spell = by_name) -> None:
    if value not in choices:
        near = did_you_mean(value, choices)
        raise OptionError(option, f" must be one of {', '.join(choices)}, not '{value}'{near}", spell=spell)


def check_number(option: str, value: int, least: int, spell: Spell = by_name) -> None:
    if value < least:
        raise number_error(option, value, least, spell)


def number_error(option: str, value: object, least: int, spell: Spell = by_name) -> OptionError:
    return OptionError(option, f" must be a whole number of at least {least}, not '{value}'", spell=spell)


def is_money(amount: float) -> bool:
    return 0 < amount < MOST_DOLLARS


def money_error(value: object, spell: Spell = by_name) -> OptionError:
    return OptionError(BUDGET, f" must be an amount in dollars such as 0.50, not '{value}'", spell=spell)


# --- types of values, for front ends whose options are Python objects ---


Holds = Callable[[object], bool]


class OptionCheck(NamedTuple):
    words: str
    holds: Holds


def instance_of(*kinds: type) -> Holds:
    return lambda value: isinstance(value, kinds)


def number_of(*kinds: type) -> Holds:
    return lambda value: isinstance(value, kinds) and not isinstance(value, bool)


def able_to(method: str) -> Holds:
    return lambda value: callable(getattr(value, method, None))


def is_list_of(*kinds: type) -> Holds:
    def holds(value: object) -> bool:
        return isinstance(value, list | tuple) and all(isinstance(one, kinds) for one in cast("list[object]", value))

    return holds


def is_table_of(*kinds: type) -> Holds:
    def holds(value: object) -> bool:
        if not isinstance(value, Mapping):
            return False
        given = cast("Mapping[object, object]", value)
        return all(isinstance(name, str) and isinstance(one, kinds) for name, one in given.items())

    return holds


TEXT = OptionCheck("a string", instance_of(str))
PATH = OptionCheck("a path", instance_of(str, os.PathLike))
FLAG = OptionCheck("True or False", instance_of(bool))
NUMBER = OptionCheck("a whole number", number_of(int))
MONEY = OptionCheck("a number", number_of(int, float))
NAMES = OptionCheck("a list of strings", is_list_of(str))
PATHS = OptionCheck("a list of paths", is_list_of(str, os.PathLike))
TEXTS = OptionCheck("a dict of strings", is_table_of(str))
TABLE = OptionCheck("a dict", instance_of(Mapping))
FUNCTION = OptionCheck("a function", callable)


def shorten_repr(value: object) -> str:
    said = repr(value)
    return said if len(said) <= 80 else f"{said[:80]}..."
