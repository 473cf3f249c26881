"""Who may do what: rules, the shell checker, and `decide`, which is pure."""

from mainspring.permissions.decide import decide
from mainspring.permissions.policy import Asked, Mode, Policy, Verdict
from mainspring.permissions.rules import Rules, Source, parse

__all__ = ["Asked", "Mode", "Policy", "Rules", "Source", "Verdict", "decide", "parse"]
