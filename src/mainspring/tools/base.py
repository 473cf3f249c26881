"""What a tool is: a function with a typed input, and what can be known of a call before it runs.

A tool's file holds its input (a struct, whose fields carry the words for the model), the function, and a `Tool` that
declares the rest. Tools raise `ToolError` for what the model should hear; everything else is the tool's own failure.

What somebody who was asked about a call answers: a word, or JSON in the shape of stream-json 5.1.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, cast

import msgspec
from msgspec import Struct

from mainspring.core.errors import ToolError
from mainspring.core.messages import Content, Message, Text
from mainspring.core.updates import Rendering, Update
from mainspring.core.value import Bundle, Value
from mainspring.providers.base import ToolSpec

if TYPE_CHECKING:
    from mainspring.permissions.checker import PolicyView
    from mainspring.processes.atomic_write import ReadSet
    from mainspring.processes.paths import Resolved

    class ToolMemory(Protocol):
        """What a tool keeps for a session. It lives in the conversation, so that another process still has it."""

        def recall(self, seen: Iterable[Message]) -> None:
            """A session is taken up again, and this is what the model sees of it."""
            ...

        def unsaid(self, seen: Iterable[Message]) -> str:
            """What is kept, if this no longer tells it; else nothing."""
            ...


# What a call came to that did not come to its end.
INTERRUPTED = "The call was interrupted while it ran. What it did until then is not known."
CRASHED = "The tool itself failed: {error}"

MOST_IGNORED, MOST_NAMED = 5, 60  # fields that are named, and characters of a name
MOST_SHOWN = 100_000  # characters of a result that the model gets: about 30,000 tokens


class Input(Struct, frozen=True, forbid_unknown_fields=True):
    """What the model says. A field's words stand in its annotation: `file_path: Annotated[str, "The file."]`.

    Fields that a built-in tool does not have are dropped, and its result says so (`Tool.ignored`).
    """


class StrictInput(Input, frozen=True):
    """Of a function of the user's: there, a field that it does not have is an error."""


class ToolAnswer(Value):
    """What a call came to."""

    content: tuple[Content, ...]  # for the model
    data: Any = None  # in the tool's own shape, as JSON values: for hooks and for programs ('tool_use_result')
    is_error: bool = False
    failed: bool = False  # a shell command that failed, as opposed to one that found nothing: it takes others along
    shown: Rendering | None = None

    @property
    def text(self) -> str:
        return "".join([part.text for part in self.content if isinstance(part, Text)])


def is_answer(made: object) -> bool:
    """Whether a tool returned what it should: nobody checks the fields of a struct, and who reads them would fail."""
    return isinstance(made, ToolAnswer) and is_content(made.content)


def is_content(parts: object) -> bool:
    if not isinstance(parts, tuple | list):
        return False
    return all(isinstance(part, Content) and isinstance(_held(part), str) for part in cast("list[object]", parts))


def _held(part: Content) -> object:
    return part.text if isinstance(part, Text) else part.data


def make_answer(text: str, data: Any = None, shown: Rendering | None = None) -> ToolAnswer:
    return ToolAnswer((Text(text),), data, shown=shown)


def without_nul(text: str) -> str:
    """Some servers take no NUL, and many readers stop at it: it is shown as a sign."""
    return text.replace("\0", "\N{SYMBOL FOR NULL}") if "\0" in text else text


class Workspace:
    """Where a session works: one for all its calls. Only `Bash` moves `cwd`, and never out of the working folders."""

    def __init__(  # noqa: PLR0913  # keywords, all but one
        self,
        cwd: str,
        *,
        home: str = "",
        folders: tuple[str, ...] = (),
        spill: str = "",
        environ: Mapping[str, str] | None = None,
        nonce: str = "",
        read_log: str = "",
        keep: Callable[[Resolved], None] | None = None,
        above: Workspace | None = None,
    ) -> None:
        """`above`: of the session for which a subagent works, which may stand elsewhere by now."""
        self.root: str = cwd if above is None else above.root  # where the session began
        self.real: str = os.path.realpath(cwd) if above is None else above.real  # a link may take its place later
        self.cwd = cwd
        self.home = home
        self.environ = os.environ if environ is None else environ  # of the session; None: of the process
        self.folders = folders  # that were added to the first one; without links
        self.spill = spill  # a folder of our own for what is too long to be shown; empty: nothing is stored
        self.nonce = nonce  # by which the model knows our reminders; empty: there is none
        self.keep = keep  # before a file is changed, in the thread that does it
        self._read: ReadSet | None = None
        self._read_log = read_log  # where it is kept what was read (`processes/read_log.py`); empty: nowhere

    def for_subagent(self) -> Workspace:
        """Where the shell is now, in the same session. What was read is its own."""
        return Workspace(
            self.cwd,
            home=self.home,
            folders=self.folders,
            spill=self.spill,
            environ=self.environ,
            nonce=self.nonce,
            keep=self.keep,
            above=self,
        )

    @property
    def read(self) -> ReadSet:
        """What was read in this session."""
        if self._read is None:
            from mainspring.processes.atomic_write import ReadSet  # with the first file

            self._read = ReadSet(self._read_log)
        return self._read

    def was_shown(self, name: str, at: int) -> None:
        """The model was shown this file before the session was resumed, perhaps by another program."""
        from mainspring.processes.paths import PathRefused, resolve_path

        with suppress(PathRefused):
            self.read.was_shown(resolve_path(name, self.root, home=self.home or None), at)

    def put(self, path: Resolved, data: bytes, *, before: str | None) -> None:
        """As `write_atomically` does. What the file was is kept first, so that an end in between loses nothing."""
        from mainspring.processes.atomic_write import write_atomically

        if self.keep is not None:
            self.keep(path)
        self.read.keep(path, write_atomically(path, data, before=before))


class CallContext(Protocol):
    """What the engine offers to a running call; `ToolContext` is what the tool sees of it."""

    @property
    def policy(self) -> PolicyView:
        """As it is now: it may have changed since the run began."""
        ...

    async def ask(self, text: str, about: Any = None) -> str:
        """Wait for a person. The call keeps its place; an abort withdraws the question."""
        ...

    async def note_decision(self, decision: str, reason: str) -> None:
        """Put down in the journal who decided about this call, and how."""
        ...

    def progress(self, text: str) -> None:
        """Show what the call has to say while it runs. Never waits; nothing of it is kept."""
        ...

    def show(self, update: Update) -> None:
        """Pass on what an agent shows that the call has started. Never waits."""
        ...

    async def room(self) -> None:
        """Wait until whoever follows the run has caught up."""
        ...


class ToolContext(Protocol):
    """What a running call may ask of those who run it."""

    @property
    def id(self) -> str: ...

    @property
    def place(self) -> Workspace: ...

    @property
    def approved(self) -> bool:
        """Whether somebody was asked about exactly this call, and said yes."""
        ...

    @property
    def cwd(self) -> str:
        """The working folder when the call came: what it leaves out is meant from there."""
        ...

    def resolve(self, path: str) -> Resolved:
        """Where a path of the input leads: exactly what the permission rules decided on. Raises `PathRefused` if the
        name leads elsewhere by now."""
        ...

    @property
    def has_read_rules(self) -> bool:
        """Whether there is any file that `may_read` could refuse."""
        ...

    def may_read(self, path: str) -> bool:
        """Whether the rules let a search look into this file (security F6): an absolute path. Quick, and from any
        thread."""
        ...

    def progress(self, text: str) -> None:
        """Show how far it is. Never waits."""
        ...

    async def ask(self, text: str, about: Any = None) -> str:
        """Wait for a person. `about` is for who answers by program."""
        ...

    def show(self, update: Update) -> None:
        """For whoever follows the run: what an agent does that this call has started. Never waits."""
        ...

    async def room(self) -> None:
        """Wait until whoever follows the run has caught up."""
        ...


Run = Callable[[Any, ToolContext], Awaitable[ToolAnswer]]
Trait = bool | Callable[[Any], bool]  # known of the tool, or only of a call: a function of its input


class Tool(Bundle, kw_only=True):
    """What can be known of a tool. For the collector to see: its function may lead back to whoever holds the tool."""

    name: str
    about: str  # for the model
    input: type[Input]
    run: Run
    read_only: Trait = False  # changes nothing
    concurrent: Trait | None = None  # may run beside others and while the model still talks; None: if it only reads
    repeatable: Trait | None = None  # may be run again if nobody knows whether it ran; None: if it only reads
    most_shown: int = MOST_SHOWN  # characters of a result; what is longer is stored, and its ends are shown
    paths: tuple[str, ...] = ()  # fields that hold a path: made absolute before anybody decides about them
    summary: Callable[[Any], str] | None = None  # one line about a call
    wording: Callable[[Any], str] | None = None  # of `data` that a hook put in place of ours; empty: it is of no shape
    deferred: bool = False  # the model is told its name only, until it asks for more (ToolSearch)
    memory: ToolMemory | None = None

    @property
    def spec(self) -> ToolSpec:
        from mainspring.tools.schema import schema_of  # our own tools have theirs in the catalog

        return ToolSpec(self.name, self.about, schema_of(self.input))

    def is_read_only(self, given: Any) -> bool:
        return _holds(self.read_only, given)

    def is_concurrent(self, given: Any) -> bool:
        return _holds(self.read_only if self.concurrent is None else self.concurrent, given)

    def is_repeatable(self, given: Any) -> bool:
        return _holds(self.read_only if self.repeatable is None else self.repeatable, given)

    def line(self, given: Any) -> str:
        return self.summary(given) if self.summary is not None else self.name

    def parse(self, input: dict[str, Any]) -> Any:
        """The input as the tool takes it. What is wrong with it, the model is told in words it can act on."""
        return parse_input(self.input, input, self.name)

    def ignored(self, input: dict[str, Any]) -> str:
        """About the fields of an input that fits but for those: the model is told. Empty: there are none."""
        dropped = without_unknown(self.input, input)[1] if not input_fits(self.input, input) else []
        return f"[Ignored: {_unknown(dropped, self.input)}]" if dropped else ""


class ToolHandle(Bundle):
    """A tool as the model is told of it, and how to come by it at its first call."""

    spec: ToolSpec
    load: Callable[[], Tool]
    deferred: bool = False


def make_handle(tool: Tool) -> ToolHandle:
    return ToolHandle(tool.spec, lambda: tool, tool.deferred)


def _holds(trait: Trait, given: Any) -> bool:
    return trait(given) if callable(trait) else trait


Kind = TypeVar("Kind", bound=Struct)


def parse_input(kind: type[Kind], input: dict[str, Any], name: str) -> Kind:
    try:
        if halves := half_characters(input):
            raise ToolError(f"The input of '{name}' does not fit: {halves}. Nothing was done: call it again.")
        return msgspec.convert(input, kind, str_keys=True)  # as all keys of JSON are
    except msgspec.ValidationError as error:
        given, dropped = without_unknown(kind, _without_nulls(kind, input))
        if given != input:
            return _parsed_without(kind, given, dropped, name)
        raise ToolError(
            f"The input of '{name}' does not fit: {_told(error, kind)} Nothing was done: call it again."
        ) from None
    except RecursionError:
        raise ToolError(f"The input of '{name}' is nested too deeply. Nothing was done: call it again.") from None


def _parsed_without(kind: type[Kind], given: dict[str, Any], dropped: list[str], name: str) -> Kind:
    """Without what can be left out. If it still does not fit, what was left out may be why: a field by a wrong name."""
    try:
        return msgspec.convert(given, kind, str_keys=True)
    except msgspec.ValidationError as error:
        hint = f" {_unknown(dropped, kind)}" if dropped else ""
        raise ToolError(
            f"The input of '{name}' does not fit: {_told(error, kind)}{hint} Nothing was done: call it again."
        ) from None


def input_fits(kind: type[Struct], input: dict[str, Any]) -> bool:
    try:
        msgspec.convert(input, kind, str_keys=True)
    except (msgspec.ValidationError, RecursionError):
        return False
    return True


def without_unknown(kind: type[Struct], input: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """An input without the fields that a built-in tool does not have, and the names of those."""
    if kind is Input or not issubclass(kind, Input) or issubclass(kind, StrictInput):
        return input, []
    from mainspring.tools.schema import known_part, schema_of  # only after a failure

    return known_part(input, schema_of(kind))


def _unknown(dropped: list[str], kind: type[Struct]) -> str:
    from mainspring.tools.schema import schema_of

    names = ", ".join([f"'{name[:MOST_NAMED]}'" for name in dropped[:MOST_IGNORED]])
    more = f" and {len(dropped) - MOST_IGNORED} more" if len(dropped) > MOST_IGNORED else ""
    takes = ", ".join(schema_of(kind)["properties"]) or "nothing"
    return f"There is no field {names}{more}: the tool takes {takes}."


def half_characters(input: dict[str, Any]) -> str:
    """Where there are any, in words; else nothing. JSON can hold a lone surrogate, but no file and no argument of a
    program: whoever meets it fails with words about encodings. May raise `RecursionError`."""
    if not _has_half_characters(input):
        return ""
    where = next((f"'{key}'" for key in input if _has_half_characters(input[key])), "a name in it")
    return f"{where} holds half a character (a lone surrogate)"


def _has_half_characters(value: object) -> bool:
    try:
        msgspec.json.encode(value)
    except UnicodeEncodeError:
        return True
    except TypeError:  # no JSON: it comes from a program, and its types are looked at next
        return False
    return False


def _without_nulls(kind: type[Struct], input: dict[str, Any]) -> dict[str, Any]:
    """Many models send null for what they leave out."""
    optional = {field.encode_name for field in msgspec.structs.fields(kind) if not field.required}
    return {key: value for key, value in input.items() if value is not None or key not in optional}


def _told(error: msgspec.ValidationError, kind: type[Struct]) -> str:
    """With what would have fitted there, where that can be listed."""
    from mainspring.tools.schema import schema_of, subschema_at  # only after a failure

    said = str(error)
    _, _, path = said.partition(" - at ")
    place = subschema_at(schema_of(kind), path.strip("`") or "$")
    takes = ""
    if "unknown field" in said and "properties" in place:
        takes = f" It takes {', '.join(place['properties']) or 'nothing'}."
    elif said.startswith("Invalid enum value") and "enum" in place:
        takes = f" It takes {', '.join(map(repr, place['enum']))}."
    return f"{said}.{takes}"


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


# Former names, for one release.
Answer = ToolAnswer
Calling = ToolContext
Place = Workspace
