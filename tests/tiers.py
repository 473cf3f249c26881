"""Which tests run when: `make test` takes minutes, and `make ci-long` runs what is marked `long` (decision 0064)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet
from hypothesis import settings

USUAL = 200  # examples of a property (conftest.py)
Ids = Sequence[str] | Callable[[Any], str | None]


def long(*values: Any) -> ParameterSet:
    """A case of `pytest.mark.parametrize` that only `make ci-long` runs."""
    return pytest.param(*values, marks=pytest.mark.long)


def parametrize_few(names: str, cases: Iterable[Any], *, keep: int, ids: Ids | None = None) -> pytest.MarkDecorator:
    """`pytest.mark.parametrize` for many cases: `keep` of them, evenly spread, and the others marked `long`."""
    every, single = list(cases), "," not in names
    kept = {place * len(every) // keep for place in range(keep)}
    marked = [case if place in kept else long(*(case,) if single else case) for place, case in enumerate(every)]
    return pytest.mark.parametrize(names, marked, ids=ids)


def chosen(request: pytest.FixtureRequest, *names: str) -> list[Any]:
    """The values that these parameters have in the tests of this module that will run: for a fixture that does the
    work of all of them at once."""
    items = [item for item in request.session.items if isinstance(item, pytest.Function) and item.path == request.path]
    found = [item.callspec.params for item in items if hasattr(item, "callspec")]
    rows = [tuple(params[name] for name in names) for params in found if all(name in params for name in names)]
    return list(dict.fromkeys(row if len(names) > 1 else row[0] for row in rows))


def examples(most: int) -> int:
    """For `@settings(max_examples=...)`: so many, and in the `brief` profile as small a share as of all others."""
    return max(3, min(most, most * settings().max_examples // USUAL))
