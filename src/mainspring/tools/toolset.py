"""The toolset of a session: its tools, permissions, hooks and workspace. `pipeline.py`, which is loaded with the first
call, runs a call.

The functions at the end restore from the history of a resumed session what its tools know. Only a resume uses them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from mainspring import tools
from mainspring.core.errors import UsageError
from mainspring.core.messages import Assistant, Message, Origin, ToolCall, ToolResult, User
from mainspring.hooks.events import Hooks, NoHooks
from mainspring.permissions import READERS, WRITERS
from mainspring.permissions.checker import PermissionChecker
from mainspring.providers.base import ToolSpec
from mainspring.tools.base import CallContext, Tool, ToolHandle, Workspace, make_handle

if TYPE_CHECKING:
    from mainspring.permissions.classifier import Classifier
    from mainspring.tools.base import ToolMemory
    from mainspring.tools.pipeline import InvocationResult


Late = Callable[[str], Awaitable[str]]

SEARCH = "ToolSearch"
ALIASES = {"Task": "Agent"}  # its former name, which models still use (stream-json 17.18)


class Toolset:
    def __init__(  # noqa: PLR0913  # keywords, nearly all of them
        self,
        tools: Iterable[Tool | ToolHandle],
        *,
        place: Workspace,
        gate: PermissionChecker | None = None,
        hooks: Hooks | None = None,
        attended: bool = False,
        agent: tuple[str, str] | None = None,
        late: Late | None = None,
        classifier: Callable[[], Classifier] | None = None,
        deps: object = None,
    ) -> None:
        """`attended`: whether the user can be asked. `agent`: the id and the type of the subagent that owns this
        toolset, for hooks. `late` waits for a tool that may still arrive, see `arrive`; None: none does. `classifier`
        returns the one of mode auto; None: the user is asked instead. `deps`: the host's object for its own tools
        (`ToolContext.deps`)."""
        self.offers: dict[str, ToolHandle] = {}
        self.revealed: set[str] = set()  # deferred tools that the model has seen
        self.untold: tuple[tuple[str, ...], ...] = ()  # deferred tools that ToolSearch's description does not name
        self.late = late
        self._loaded: dict[str, Tool] = {}
        self.place = place
        self.gate = gate or PermissionChecker()
        self.hooks: Hooks = hooks or NoHooks()
        self.attended = attended
        self.classifier = classifier
        self.agent = agent
        self.deps = deps
        self.specs: tuple[ToolSpec, ...] = ()  # what the model sees from the beginning
        self.add(tools)

    def add(self, tools: Iterable[Tool | ToolHandle]) -> tuple[str, ...]:
        """Add tools at the start, or later, as MCP servers do; returns the names of those that were added. A tool whose
        name is in use is left out: the model knows another tool by that name.

        They go to the end of the list that the model sees. Adding to it in mid-session makes everything after it cost
        its full price once (law 4); adding deferred tools does not, if there are some already.
        """
        offers = [as_handle(tool) for tool in tools]
        added = {one.spec.name: one for one in reversed(offers) if one.spec.name not in self.offers}
        names = tuple([name for name in dict.fromkeys([one.spec.name for one in offers]) if name in added])
        self.offers |= {name: added[name] for name in names}
        if deferred := tuple([name for name in names if added[name].deferred]):
            self._offer_search(deferred)
        self.specs = tuple([one.spec for one in self.offers.values() if not one.deferred])
        return names

    def _offer_search(self, new: tuple[str, ...]) -> None:
        """The description of the first ToolSearch stays as it is, so that the prefix does not change; the tool itself
        knows all."""
        deferred = [one.spec for one in self.offers.values() if one.deferred]
        search = self._loaded[SEARCH] = tools.search_tool(deferred, self.revealed.update)
        if SEARCH in self.offers:
            self.untold += (new,)
        else:
            self.offers[SEARCH] = make_handle(search)

    async def arrive(self, name: str) -> str:
        """Wait for a tool of a server that is still connecting. Returns why it does not arrive; empty if that is
        unknown, or if it has arrived."""
        return await self.late(name) if self.late is not None and name not in self.offers else ""

    def is_known(self, name: str) -> bool:
        return not self.offers[name].deferred or name in self.revealed

    def reveal(self, name: str) -> str:
        """The schema of a deferred tool, for a model that has called it without having seen it."""
        self.revealed.add(name)
        return tools.show_schemas((self.offers[name].spec,))

    # --- memory in the conversation ---

    def remember(self, seen: Iterable[Message]) -> None:
        """Restore the tools' memory of a resumed session from what the model sees of it."""
        seen = tuple(seen)
        self.revealed |= names_shown(seen)
        for name, at in files_shown(seen).items():
            self.place.was_shown(name, at)
        if has_tasks(seen):
            for name in WITH_TASKS:
                self.tool(name)
            for memory in self._memories:
                memory.recall(seen)

    def unsaid(self, seen: Iterable[Message]) -> str:
        """What tools keep for the session, and the model's view no longer contains."""
        seen = tuple(seen)
        return "\n\n".join([words for memory in self._memories if (words := memory.unsaid(seen))])

    @property
    def keeps(self) -> bool:
        """Whether any tool keeps something: only a tool that has been used does."""
        return bool(self._memories)

    @property
    def _memories(self) -> list[ToolMemory]:
        """Each memory once: related tools share one."""
        return list(
            {id(tool.memory): tool.memory for tool in self._loaded.values() if tool.memory is not None}.values()
        )

    # --- calls ---

    def tool(self, name: str) -> Tool | None:
        found = self._loaded.get(name)
        if found is None and name in self.offers:
            found = self._loaded[name] = self.offers[name].load()
        return found

    def expect(self, name: str) -> None:
        """The model has begun to write a call of this tool."""
        if name in self.offers and self.offers[name].built_in:
            tool = self.tool(name)
            if tool is not None and tool.prepare is not None:
                tool.prepare(self.place)

    async def run(self, call: ToolCall, asking: CallContext) -> InvocationResult:
        if call.name in ALIASES and call.name not in self.offers:
            call = replace(call, name=ALIASES[call.name])
        from mainspring.tools.pipeline import ToolInvocation, run_pipeline

        return await run_pipeline(ToolInvocation(call, asking, self))

    def is_concurrent(self, call: ToolCall) -> bool:
        """Tools that may still arrive count as not concurrent: their effects are unknown."""
        tool = self.tool(call.name)
        return self.late is None if tool is None else _known(tool, tool.is_concurrent, call)

    def is_repeatable(self, call: ToolCall) -> bool:
        tool = self.tool(call.name)
        return False if tool is None else _known(tool, tool.is_repeatable, call)

    def line(self, call: ToolCall) -> str:
        """A line about a call, for a person; the tool's name, if its input is invalid."""
        tool = self.tool(call.name)
        try:
            return call.name if tool is None else tool.line(tool.parse(call.input))
        except Exception:  # noqa: BLE001  # the model wrote this input, and somebody else perhaps the tool
            return call.name


def as_handle(tool: Tool | ToolHandle) -> ToolHandle:
    if isinstance(tool, Tool):
        return make_handle(tool)
    if not isinstance(tool, ToolHandle):  # pyright: ignore[reportUnnecessaryIsInstance]  # not everybody checks types
        name = getattr(tool, "__name__", type(tool).__name__)
        raise UsageError(f"'{name}' is not a tool: put '@mainspring.tool' above the function")
    return tool


def _known(tool: Tool, trait: Callable[[Any], bool], call: ToolCall) -> bool:
    """False for an invalid input: a session with such a call must still be resumable."""
    try:
        return trait(tool.parse(call.input))
    except Exception:  # noqa: BLE001  # the model wrote this input, and somebody else perhaps the trait
        return False


LIST, BEFORE, AFTER = "<functions>", "<function>", "</function>"  # as `tool_search.py` writes them

TASKS_BEGIN, TASKS_END = "<tasks>", "</tasks>"  # around a list that we put into the conversation
WITH_TASKS = frozenset({"TaskCreate", "TaskUpdate"})


def names_shown(past: Iterable[Message]) -> set[str]:
    """The deferred tools whose schemas the model has seen."""
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
        return None  # another tool printed it


FILE_TOOLS = {"Read": READERS["Read"], **WRITERS}  # whose result or input has the content
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
    """Whether the conversation contains tasks at all. Most do not, and then no task code is loaded."""
    return any(_tells_of_tasks(message) for message in seen)


def _tells_of_tasks(message: Message) -> bool:
    if isinstance(message, Assistant):
        return any(call.name in WITH_TASKS for call in message.calls)
    return isinstance(message, User) and message.origin is not Origin.PROMPT and TASKS_BEGIN in message.text
