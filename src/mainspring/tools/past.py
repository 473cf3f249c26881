"""What tools know of a session that is taken up again, from its history. Loaded only then."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from mainspring.core.messages import Assistant, Message, Origin, ToolResult, User

LIST, BEFORE, AFTER = "<functions>", "<function>", "</function>"  # as `tool_search.py` writes them

TASKS_BEGIN, TASKS_END = "<tasks>", "</tasks>"  # around a list that we have put into the conversation
WITH_TASKS = frozenset({"TaskCreate", "TaskUpdate"})


def names_shown(past: Iterable[Message]) -> set[str]:
    """The deferred tools of which the model has seen the schemas."""
    return {name for message in past if isinstance(message, ToolResult) for name in _names_in(message.text)}


def _names_in(text: str) -> Iterator[str]:
    if not text.startswith(LIST):
        return
    for line in text.splitlines():
        if line.startswith(BEFORE) and line.endswith(AFTER):
            name = _name_in(line[len(BEFORE) : -len(AFTER)])
            if name is not None:
                yield name


class _Named(msgspec.Struct):
    name: str


def _name_in(schema: str) -> str | None:
    try:
        return msgspec.json.decode(schema, type=_Named).name
    except msgspec.MsgspecError:
        return None  # some other tool printed it


FILE_TOOLS = {"Read": "file_path", "Edit": "file_path", "Write": "file_path", "NotebookEdit": "notebook_path"}
MOST_SHOWN = 200  # files, the newest


def files_shown(seen: Sequence[Message]) -> dict[str, int]:
    """The files whose content the model knows, as calls name them, and since when."""
    calls = {call.id: call for message in seen if isinstance(message, Assistant) for call in message.calls}
    found: dict[str, int] = {}
    for message in seen:
        if isinstance(message, ToolResult) and not message.is_error and message.call_id in calls:
            call = calls[message.call_id]
            path = call.input.get(FILE_TOOLS.get(call.name, ""))
            if isinstance(path, str):
                found.pop(path, None)
                found[path] = message.at
    return dict(list(found.items())[-MOST_SHOWN:])


def has_tasks(seen: Sequence[Message]) -> bool:
    """Whether the conversation tells of tasks at all. Most do not, and then nothing of them is loaded."""
    return any(_tells_of_tasks(message) for message in seen)


def _tells_of_tasks(message: Message) -> bool:
    if isinstance(message, Assistant):
        return any(call.name in WITH_TASKS for call in message.calls)
    return isinstance(message, User) and message.origin is not Origin.PROMPT and TASKS_BEGIN in message.text
