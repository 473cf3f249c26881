"""The name that was probably meant."""

from __future__ import annotations


def suggest_near_name(name: str, names: tuple[str, ...]) -> str:
    """A question that helps, if a name is close."""
    from mainspring.core.meant import did_you_mean  # only after a mistake

    return did_you_mean(name, names) or did_you_mean(name.partition(".")[0], names)
