"""What each model accepts beyond what `core/models.py` knows of it. As documented by Anthropic, read on 2026-11-15.

Kept apart from the table that our own requests are made from: a mistake there must not be excused here.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from mainspring.core.models import MODELS, Model
from mainspring.simulator.shapes import EFFORTS

ALL_EFFORTS = frozenset(EFFORTS)
UP_TO_HIGH = frozenset({"low", "medium", "high"})
_DATE = re.compile(r"-20\d{6}$")


class ModelQuirks(NamedTuple):
    thinking: frozenset[str]  # values of `thinking.type`
    efforts: frozenset[str] = ALL_EFFORTS
    quiet: frozenset[str] = ALL_EFFORTS  # efforts at which thinking may be turned off or down
    thinks_unasked: bool = True  # when `thinking` is left out
    forced_tools: bool = True  # tool_choice "any" and "tool"
    sampling: bool = False  # temperature, top_p, top_k
    prefill: bool = False  # a conversation may end with the assistant
    binds: bool = False  # thinking is void once anything before it was changed (`binding.py`)
    least_cached: int = 1_024  # tokens; a shorter prefix is not cached
    system_messages: bool = True  # in mid-conversation, behind a user's: since Opus 4.8


# The shortest cached prefix: 512 tokens for Opus 5, Fable 5 and Mythos 5, 1,024 for Sonnet, 4,096 for Opus 4.5 and
# Haiku 4.5. For the newest models the pages we could read say nothing; they get what their predecessors have.
ADAPTIVE = ModelQuirks(frozenset({"adaptive", "disabled"}))
ALWAYS = ModelQuirks(frozenset({"adaptive"}), forced_tools=False, least_cached=512)
BUDGETED = ModelQuirks(
    frozenset({"enabled", "disabled"}),
    efforts=frozenset(),
    thinks_unasked=False,
    sampling=True,
    prefill=True,
    system_messages=False,
)
MANNERS: dict[str, ModelQuirks] = {
    "claude-fable-5-1": ALWAYS._replace(binds=True),
    "claude-fable-5": ALWAYS,  # forced tools: refused in June 2026, said to be accepted since; the strict reading
    "claude-mythos-5-1": ALWAYS,
    "claude-mythos-5": ALWAYS,
    "claude-opus-5-5": ALWAYS._replace(binds=True),
    "claude-opus-5": ADAPTIVE._replace(quiet=UP_TO_HIGH, least_cached=512),
    "claude-sonnet-5-5": ModelQuirks(
        frozenset({"adaptive", "between_tools"}), quiet=UP_TO_HIGH, forced_tools=False, binds=True
    ),
    "claude-sonnet-5": ADAPTIVE,
    "claude-haiku-5-5": ADAPTIVE._replace(quiet=UP_TO_HIGH, binds=True, least_cached=4_096),
    "claude-opus-4-5": BUDGETED._replace(efforts=UP_TO_HIGH, least_cached=4_096),
    "claude-sonnet-4-5": BUDGETED,
    "claude-haiku-4-5": BUDGETED._replace(least_cached=4_096),
}


def strip_model_date_suffix(model: str) -> str:
    return _DATE.sub("", model)


@lru_cache
def manner_of(model: str) -> ModelQuirks | None:
    """None for a model nobody described: it is held to no rule that depends on the model."""
    name = strip_model_date_suffix(model)
    later = ALWAYS if name.startswith(("claude-fable-", "claude-mythos-")) else None
    return MANNERS.get(name, later)


def listed_model(model: str) -> Model | None:
    """The row of the core's table; None where it has none."""
    return MODELS.get(strip_model_date_suffix(model))
