"""What somebody who was asked about a call answers: a word, or JSON in the shape of stream-json 5.1."""

from typing import Any, Literal

import msgspec
from msgspec import Struct

DENIED = "The user does not want this to be done. Ask what to do instead, or go on without it."


class Approval(Struct, frozen=True):
    behavior: Literal["allow", "deny"]
    updated_input: dict[str, Any] | None = msgspec.field(default=None, name="updatedInput")
    message: str = ""  # to the model, with a no
    interrupt: bool = False  # the run ends, too
    updates: Any = msgspec.field(default=None, name="updatedPermissions")  # with a yes: rules, directories, the mode


def parse_approval(answer: str) -> Approval:
    """What is neither is a no: nobody has said yes."""
    if answer in ("allow", "deny"):
        return Approval("allow" if answer == "allow" else "deny")
    try:
        return msgspec.json.decode(answer, type=Approval)
    except msgspec.MsgspecError:
        return Approval("deny", message=f"The answer to the question could not be read: {answer[:200]}")


def approval_to_text(approval: Approval) -> str:
    return msgspec.json.encode(approval).decode()
