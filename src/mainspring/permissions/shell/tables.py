"""How tables of names are written: as text, many to a line."""

from __future__ import annotations


def names(text: str) -> frozenset[str]:
    return frozenset(text.split())


def longs(text: str) -> frozenset[str]:
    """Long options, without their dashes."""
    return frozenset("--" + name for name in text.split())
