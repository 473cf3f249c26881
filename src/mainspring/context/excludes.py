"""`claudeMdExcludes`: which memory files are not loaded, by their paths. Patterns are those of path rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mainspring.permissions.patterns import matches_below, parse_path_pattern
from mainspring.settings.load import expand_tilde


def make_excluder(patterns: Iterable[str], home: str) -> Callable[[str], bool]:
    """Whether a pattern matches an absolute path. One that is not absolute matches at any depth."""
    anchored = [expand_tilde(pattern, home) for pattern in patterns]
    rooted = [f"//{one.lstrip('/')}" if one.startswith("/") else f"//**/{one}" for one in anchored]
    places = [parse_path_pattern(one, allow=True) for one in rooted]

    def is_excluded(path: str) -> bool:
        names = [name for name in path.split("/") if name]
        return any(
            (*names[: len(one.literal)],) == one.literal and matches_below(one.rest, names[len(one.literal) :])
            for one in places
        )

    return is_excluded
