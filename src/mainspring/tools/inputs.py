"""The input of a call, whoever it comes from: paths made whole, nothing nested too deeply, no key of ours in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mainspring.core.errors import ToolError
from mainspring.secrets.held import is_in

if TYPE_CHECKING:
    from mainspring.tools.passage import ToolInvocation

MOST_DEEP = 64  # how far an input may be nested
KEY_IN_INPUT = (
    "Nothing was done: the input holds a key of the program that runs you, and such keys go to nobody. Leave it out; a "
    "command that needs a key of the user's own finds it in the user's environment or files."
)


def accept_input(passage: ToolInvocation, input: dict[str, Any]) -> dict[str, Any]:
    """The input from now on, whoever it comes from: with whole paths, and checked."""
    if deeper_than(input, MOST_DEEP):
        raise ToolError(f"The changed input of '{passage.call.name}' is nested too deeply. Nothing was done.")
    if is_in(input):
        raise ToolError(KEY_IN_INPUT)
    paths = [field for field in passage.tool.paths if isinstance(input.get(field), str)]
    whole = {**input, **{field: whole_path(input[field], passage.cwd, passage.place.home) for field in paths}}
    passage.given, passage.input = passage.tool.parse(whole), whole
    return whole


def whole_path(path: str, cwd: str, home: str) -> str:
    """Seen from where the call stands. What is in the path stays as it is: links are followed later."""
    if path.startswith("/") or not path:
        return path
    if path.startswith("~/") and home:
        return home + path[1:]
    return f"{cwd.rstrip('/')}/{path}"


def deeper_than(value: object, most: int) -> bool:
    """Without recursion: the input may be nested deeper than Python can follow."""
    level = [value]
    for _ in range(most):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)  # pyright: ignore[reportUnknownVariableType]
        ]
        if not level:
            return False
    return True
