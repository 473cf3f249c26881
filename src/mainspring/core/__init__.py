"""The decision core: pure values and functions. Start reading at `step.py`."""

from mainspring.core.config import COMPATIBLE, DEFAULT, Config
from mainspring.core.effects import Effect
from mainspring.core.events import Event
from mainspring.core.history import History
from mainspring.core.ladder import most_model_calls
from mainspring.core.messages import Assistant, Message, ToolCall, ToolResult, User
from mainspring.core.reasons import Cause, Terminal, Transition, Trouble
from mainspring.core.state import State, Step, checkpoint, restore
from mainspring.core.step import step
from mainspring.core.updates import Update
from mainspring.core.view import view

__all__ = [
    "COMPATIBLE",
    "DEFAULT",
    "Assistant",
    "Cause",
    "Config",
    "Effect",
    "Event",
    "History",
    "Message",
    "State",
    "Step",
    "Terminal",
    "ToolCall",
    "ToolResult",
    "Transition",
    "Trouble",
    "Update",
    "User",
    "checkpoint",
    "most_model_calls",
    "restore",
    "step",
    "view",
]
