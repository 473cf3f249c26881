"""The name that was probably meant."""

from __future__ import annotations


def near(name: str, names: tuple[str, ...]) -> str:
    """A question that helps, if a name is close."""
    import difflib  # 4 ms, and only after a mistake

    found = difflib.get_close_matches(name, names, n=1)
    return f". Did you mean '{found[0]}'?" if found else ""
