"""Around a verdict: who may choose bypassPermissions, and the classifier of mode auto."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol

from msgspec.structs import replace

from mainspring.permissions.policy import Mode, PermissionDecision, PermissionRequest


def bypass_refused(*, root: bool, environment: Mapping[str, str]) -> str:
    """Why mode bypassPermissions must not be entered, or "" (N-16)."""
    if root and environment.get("IS_SANDBOX") != "1":
        return (
            "bypassPermissions is refused to root: use another user, or set IS_SANDBOX=1 where the machine is isolated"
        )
    return ""


class Classifier(Protocol):
    """A model that judges a call. None: it cannot tell."""

    async def judge(self, asked: PermissionRequest) -> Literal["allow", "deny"] | None: ...


async def apply_classifier(
    verdict: PermissionDecision, asked: PermissionRequest, mode: Mode, classifier: Classifier | None
) -> PermissionDecision:
    """In mode auto a classifier answers what is asked only for want of a rule; else it stays asked (N-15)."""
    if mode is not Mode.AUTO or not verdict.open or classifier is None:
        return verdict
    try:
        answer = await classifier.judge(asked)
    except Exception as error:  # noqa: BLE001  # whatever a classifier does, the safe answer is the question
        return replace(verdict, reason=f"{verdict.reason}; the classifier failed: {error}")
    match answer:
        case "allow":
            return replace(verdict, decision="allow", reason="the classifier allowed it", open=False)
        case "deny":
            return replace(verdict, decision="deny", reason="the classifier refused it", open=False)
        case _:
            return replace(verdict, reason=f"{verdict.reason}; the classifier cannot tell")
