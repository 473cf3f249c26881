"""Which models may be asked: `availableModels`, `deniedModels` and what belongs to them. Names in, a decision out.

An entry is a model's name, the beginning of one up to a dash, or a family: `claude-opus-4-8`, `opus-4` or `opus`. Dates
and `-fast` at the end of a name do not count; nor does a provider before it, for `deniedModels`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from mainspring.settings.values import ModelRules

# Whose model depends on the release or the settings: in a list they name none.
MOVING = frozenset({"default", "best", "opusplan"})

_END = re.compile(r"(?:\[[^\]]*\]|-fast|-\d{8}|-v\d+:\d+|@\d{8})+$")
_PROVIDER = re.compile(r"^(?:[\w.-]+/)+|^(?:[a-z]{2,6}\.)?anthropic\.")


def explain_model_refusal(name: str, rules: ModelRules, *, default: bool = False) -> str:
    """Why a model may not be asked; empty: it may. `default`: nobody chose it."""
    if is_denied(name, rules):
        return _says(name, "deniedModels", rules)
    lists = [names for names in (rules.available, *rules.narrowed) if names is not None]
    if not lists or (default and not rules.default_too):
        return ""
    if all(matches_model(name, names, exact=rules.exact) for names in lists):
        return ""
    if default and not any(lists):  # an empty list leaves the default
        return ""
    return _says(name, "availableModels", rules)


def is_denied(name: str, rules: ModelRules) -> bool:
    bare = _PROVIDER.sub("", name.lower())
    return matches_model(name, rules.denied, exact=False) or matches_model(bare, rules.denied, exact=False)


def matches_model(name: str, entries: Iterable[str], *, exact: bool) -> bool:
    return any(_fits(_stem(name), _stem(entry), exact=exact) for entry in entries if entry.strip() not in MOVING)


def first_available(rules: ModelRules) -> str | None:
    """What the default is where the usual one is not available."""
    return next((name for name in rules.available or () if name not in MOVING), None)


def _fits(name: str, entry: str, *, exact: bool) -> bool:
    if not entry:
        return False
    if re.fullmatch(r"[a-z]+", entry):  # a family
        return entry in re.split(r"[-/.]", name)
    whole = entry if entry.startswith("claude-") or "/" in entry else f"claude-{entry}"
    return any(name == one or (not exact and name.startswith(f"{one}-")) for one in (entry, whole))


def _stem(name: str) -> str:
    return _END.sub("", name.strip().lower())


def _says(name: str, key: str, rules: ModelRules) -> str:
    where = f" in {', '.join(rules.places)}" if rules.places else ""
    listed = [*(rules.available or ()), *[one for names in rules.narrowed for one in names]]
    others = f": choose one of {', '.join(listed)}" if key == "availableModels" and listed else ": choose another one"
    return f"the model '{name}' is not available, by '{key}'{where}{others}"
