"""The `Tool` class: a function with a typed input, and what is known of a call before it runs.

A tool's module holds its input (a struct whose fields carry their descriptions for the model), the function, and a
`Tool` that declares the rest. Tools raise `ToolError` with a message for the model; any other exception counts as a
failure of the tool.

`ToolContext` is what a running call can use, `Workspace` is where a session works, and `parse_approval` reads the
user's answer about a call: a word, or JSON in the shape of stream-json 5.1.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, cast

import msgspec
from msgspec import Struct

from mainspring import processes, tools
from mainspring.core.errors import InvalidValueError, ToolError
from mainspring.core.messages import Content, Message, Text
from mainspring.core.updates import Rendering, Update
from mainspring.core.value import Bundle, Value
from mainspring.providers.base import ToolSpec

if TYPE_CHECKING:
    import typing_extensions  # a part of every type checker; it need not be installed

    from mainspring.permissions.checker import PolicyView
    from mainspring.processes.atomic_write import ReadSet
    from mainspring.processes.paths import Resolved

    class ToolMemory(Protocol):
        """A tool's memory for a session. It lives in the conversation, so it survives a resume in another process."""

        def recall(self, seen: Iterable[Message]) -> None:
            """Called when a session is resumed, with what the model sees of it."""
            ...

        def unsaid(self, seen: Iterable[Message]) -> str:
            """Return what is kept if these messages no longer contain it; else an empty text."""
            ...

    DepsT_co = typing_extensions.TypeVar("DepsT_co", covariant=True, default=object)
else:
    DepsT_co = TypeVar("DepsT_co", covariant=True)
    ToolMemory = Any  # `help` evaluates the annotations of `Tool`


# Results of calls that did not finish.
LOGGER = "mainspring.tools"

INTERRUPTED = "The call was interrupted while it ran. What it did until then is not known."
INTERRUPTED_AFTER = "The call was interrupted while it ran. The end of its output until then:"
CRASHED = "The tool itself failed: {error}"
TIMED_OUT = "'{name}' did not finish within {seconds:g} seconds and was cancelled. What it did until then is not known."

MOST_IGNORED, MOST_NAMED = 5, 60  # fields that are named, and characters of a name
MOST_SHOWN = 100_000  # characters of a result that the model gets: about 30,000 tokens


class Input(Struct, frozen=True, forbid_unknown_fields=True):
    """What the model sends. The annotation of a field holds its description: `file_path: Annotated[str, "The file."]`.

    Fields that a built-in tool does not have are dropped, and its result says so (`Tool.ignored`).
    """


class StrictInput(Input, frozen=True):
    """Input of a user's function: an unknown field is an error."""


class ToolAnswer(Value):
    """The result of a call, for tools that return more than text.

    Example:
        def photograph(place: str) -> ToolAnswer:
            '''A picture of a place.'''
            return ToolAnswer((Text(place), Image("image/png", "iVBORw0KGgo=")))

        answer = await ask("What is 2 + 3?", tools=[photograph])
    """

    content: tuple[Content, ...]  # for the model
    data: Any = None  # in the tool's own shape, as JSON values: for hooks and for programs ('tool_use_result')
    is_error: bool = False
    failed: bool = False  # a shell command that failed, as opposed to one that found nothing: may cancel its siblings
    shown: Rendering | None = None

    @property
    def text(self) -> str:
        return "".join([part.text for part in self.content if isinstance(part, Text)])


def is_answer(made: object) -> bool:
    """Whether a tool returned a valid answer: structs do not check their fields, and reading wrong ones would fail
    later."""
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
    """Replace NUL by a visible sign: some servers reject it, and many readers stop at it."""
    return text.replace("\0", "\N{SYMBOL FOR NULL}") if "\0" in text else text


class Workspace:
    """Where a session works, shared by all its calls. Only `Bash` changes `cwd`, and never out of the working
    directories."""

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
        before_writing: Callable[[], Awaitable[None]] | None = None,
        above: Workspace | None = None,
    ) -> None:
        """`above`: the workspace of the session that a subagent works for; its `cwd` may have changed since."""
        self.root: str = cwd if above is None else above.root  # where the session began
        self.real: str = os.path.realpath(cwd) if above is None else above.real  # a link may replace it later
        self.cwd = cwd
        self.home = home
        self.environ = os.environ if environ is None else environ  # of the session; None: of the process
        self.folders = folders  # additional directories, without links
        self.spill = spill  # our own directory for output that is too long to show; empty: nothing is stored
        self.nonce = nonce  # marks our reminders for the model; empty: none
        self.keep = keep  # called before a file is changed, in the thread that changes it
        self.before_writing = before_writing  # awaited before a call or a hook that may change files
        self._read: ReadSet | None = None
        self._read_log = read_log  # where the log of read files is stored (`processes/read_log.py`); empty: nowhere

    def for_subagent(self) -> Workspace:
        """The same session, in the shell's current directory. The subagent has its own record of files read."""
        return Workspace(
            self.cwd,
            home=self.home,
            folders=self.folders,
            spill=self.spill,
            environ=self.environ,
            nonce=self.nonce,
            keep=self.keep,
            before_writing=self.before_writing,
            above=self,
        )

    @property
    def read(self) -> processes.ReadSet:
        """The files that this session has read."""
        if self._read is None:
            self._read = processes.ReadSet(self._read_log)
        return self._read

    def was_shown(self, name: str, at: int) -> None:
        """Whether the model saw this file before the session was resumed, perhaps in another program."""
        with suppress(processes.PathRefused):
            self.read.was_shown(processes.resolve_path(name, self.root, home=self.home or None), at)

    def put(self, path: Resolved, data: bytes, *, before: str | None) -> None:
        """Like `write_atomically`, but saves the old content first, so that a crash in between loses nothing."""
        if self.keep is not None:
            self.keep(path)
        self.read.keep(path, processes.write_atomically(path, data, before=before))


class InterruptedCommand(asyncio.CancelledError):
    """A command was cancelled while it ran, and had printed something."""

    def __init__(self, output: str) -> None:
        super().__init__()
        self.output = output


class CallContext(Protocol):
    """What the engine offers to a running call; a tool sees it as `ToolContext`."""

    @property
    def policy(self) -> PolicyView:
        """The current policy: it may have changed since the run began."""
        ...

    @property
    def failures(self) -> dict[str, int]:
        """How many calls in a row have failed in this run, by tool (`Tool.retries`)."""
        ...

    async def ask(self, text: str, about: Any = None) -> str:
        """Wait for the user's answer. The call keeps its position; an abort withdraws the question."""
        ...

    async def note_decision(self, decision: str, reason: str, classifier: tuple[str, str] | None = None) -> None:
        """Record in the journal who decided about this call, and how. `classifier`: its answer, and its reason."""
        ...

    def progress(self, text: str) -> None:
        """Show progress text of the running call. Never waits; the text is not stored."""
        ...

    def show(self, update: Update) -> None:
        """Pass on an update of a subagent that the call has started. Never waits."""
        ...

    async def room(self) -> None:
        """Wait until the consumers of the run have caught up."""
        ...


class ToolContext(Protocol[DepsT_co]):
    """What a running call can use. A tool that needs the program's object names its type:

    Example:
        def find_user(id: int, context: ToolContext[Database]) -> str:
            '''The name of a user.'''
            return context.deps.users[id]

        answer = await ask("Who is user 1?", tools=[find_user], deps=Database({1: "Ada"}))
    """

    @property
    def id(self) -> str: ...

    @property
    def deps(self) -> DepsT_co:
        """The object that the program gave to the session (`deps=...`); None if it gave none. It stays in this process:
        it is not stored and not sent."""
        ...

    @property
    def place(self) -> Workspace: ...

    @property
    def approved(self) -> bool:
        """Whether the user was asked about exactly this call, and allowed it."""
        ...

    @property
    def cwd(self) -> str:
        """The working directory when the call arrived; relative paths start there."""
        ...

    def resolve(self, path: str) -> Resolved:
        """Resolve a path of the input to exactly the file that the permission rules decided on. Raises `PathRefused` if
        the name leads elsewhere by now."""
        ...

    @property
    def has_read_rules(self) -> bool:
        """Whether there is any file that `may_read` could refuse."""
        ...

    def may_read(self, path: str) -> bool:
        """Whether the rules allow a search to read this file (security F6): an absolute path. Fast, and safe to call
        from any thread."""
        ...

    def progress(self, text: str) -> None:
        """Show progress. Never waits."""
        ...

    async def ask(self, text: str, about: Any = None) -> str:
        """Wait for the user's answer. `about` is data for hosts that answer by program."""
        ...

    def show(self, update: Update) -> None:
        """Pass on to the consumers of the run what a subagent of this call does. Never waits."""
        ...

    async def room(self) -> None:
        """Wait until the consumers of the run have caught up."""
        ...


Run = Callable[[Any, ToolContext], Awaitable[ToolAnswer]]
Preview = Callable[[Any, ToolContext], Awaitable[str]]
Trait = bool | Callable[[Any], bool]  # a constant of the tool, or a function of a call's input


class Tool(Bundle, kw_only=True):
    """A tool and its traits; `tool` makes it of a function. Tracked by the garbage collector: its function may refer
    back to the tool's owner.

    Example:
        adder = tool(add)
        print(adder.name, adder.spec.schema)
    """

    name: str
    about: str  # for the model
    input: type[Input]
    run: Run
    read_only: Trait = False  # changes nothing
    concurrent: Trait | None = None  # may run beside others and while the model streams; None: if it only reads
    repeatable: Trait | None = None  # may run again if it is unknown whether it ran; None: if it only reads
    most_shown: int = MOST_SHOWN  # characters of a result; a longer one is stored, and its ends are shown
    paths: tuple[str, ...] = ()  # fields that hold a path: made absolute before hooks and rules see them
    summary: Callable[[Any], str] | None = None  # one line about a call
    # For a tool that changes a file: the change as a unified diff, or `ToolError` if the call cannot succeed. It runs
    # before the user is asked, and only if the file may be read without asking. Empty: there is nothing to compare.
    preview: Preview | None = None
    wording: Callable[[Any], str] | None = None  # text of `data` that a hook replaced; empty: the shape is unknown
    deferred: bool = False  # the model sees only its name until it asks for more (ToolSearch)
    timeout: float | None = None  # seconds; None: it may take as long as it likes
    retries: int | None = None  # calls that may fail after the first failure in a row; None: any number
    memory: ToolMemory | None = None
    prepare: Callable[[Workspace], None] | None = None  # the model writes a call: do now what needs no input; at once

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(self.name, self.about, tools.schema_of(self.input))

    def is_read_only(self, given: Any) -> bool:
        return _holds(self.read_only, given)

    def is_concurrent(self, given: Any) -> bool:
        return _holds(self.read_only if self.concurrent is None else self.concurrent, given)

    def is_repeatable(self, given: Any) -> bool:
        return _holds(self.read_only if self.repeatable is None else self.repeatable, given)

    def line(self, given: Any) -> str:
        return self.summary(given) if self.summary is not None else self.name

    def parse(self, input: dict[str, Any]) -> Any:
        """Parse the input as the tool takes it. Raises with a message that tells the model what to change."""
        return parse_input(self.input, input, self.name)

    def ignored(self, input: dict[str, Any]) -> str:
        """Note for the model about unknown fields of an otherwise valid input; empty if there are none."""
        dropped = without_unknown(self.input, input)[1] if not input_fits(self.input, input) else []
        return f"[Ignored: {_unknown(dropped, self.input)}]" if dropped else ""


class ToolHandle(Bundle):
    """A tool as the model sees it, with a loader for its first call."""

    spec: ToolSpec
    load: Callable[[], Tool]
    deferred: bool = False
    built_in: bool = False  # ours: we know what contains its effects. A host may give a tool of its own any name


def make_handle(tool: Tool) -> ToolHandle:
    return ToolHandle(tool.spec, lambda: tool, tool.deferred)


def _holds(trait: Trait, given: Any) -> bool:
    return trait(given) if callable(trait) else trait


Kind = TypeVar("Kind", bound=Struct)


def parse_input(kind: type[Kind], input: dict[str, Any], name: str) -> Kind:
    try:
        if halves := half_characters(input):
            raise ToolError(f"The input of '{name}' is invalid: {halves}. Nothing was done: call it again.")
        return _converted(input, kind)
    except (msgspec.ValidationError, InvalidValueError) as error:
        given, dropped = without_unknown(kind, _without_nulls(kind, input))
        if given != input:
            return _parsed_without(kind, given, dropped, name)
        raise ToolError(
            f"The input of '{name}' is invalid: {_told(error, kind)} Nothing was done: call it again."
        ) from None
    except RecursionError:
        raise ToolError(f"The input of '{name}' is nested too deeply. Nothing was done: call it again.") from None


def _converted(input: dict[str, Any], kind: type[Kind]) -> Kind:
    return msgspec.convert(input, kind, str_keys=True, dec_hook=_decode_field)  # all keys of JSON are texts


def _decode_field(kind: Any, value: object) -> Any:
    """A value that msgspec does not decode: see `json_type.py`, which such a tool has loaded."""
    return kind.node.decode(value, kind.path)


def _parsed_without(kind: type[Kind], given: dict[str, Any], dropped: list[str], name: str) -> Kind:
    """Parse without the unknown fields. If that still fails, a dropped field may be the reason: it has a wrong name."""
    try:
        return _converted(given, kind)
    except (msgspec.ValidationError, InvalidValueError) as error:
        hint = f" {_unknown(dropped, kind)}" if dropped else ""
        raise ToolError(
            f"The input of '{name}' is invalid: {_told(error, kind)}{hint} Nothing was done: call it again."
        ) from None


def input_fits(kind: type[Struct], input: dict[str, Any]) -> bool:
    try:
        _converted(input, kind)
    except (msgspec.ValidationError, InvalidValueError, RecursionError):
        return False
    return True


def without_unknown(kind: type[Struct], input: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return an input without the fields that a built-in tool does not have, and the names of those."""
    if kind is Input or not issubclass(kind, Input) or issubclass(kind, StrictInput):
        return input, []
    return tools.known_part(input, tools.schema_of(kind))


def _unknown(dropped: list[str], kind: type[Struct]) -> str:
    names = ", ".join([f"'{name[:MOST_NAMED]}'" for name in dropped[:MOST_IGNORED]])
    more = f" and {len(dropped) - MOST_IGNORED} more" if len(dropped) > MOST_IGNORED else ""
    takes = ", ".join(tools.schema_of(kind)["properties"]) or "nothing"
    return f"Unknown field {names}{more}: the tool takes {takes}."


def half_characters(input: dict[str, Any]) -> str:
    """Say where lone surrogates are; empty if there are none. JSON can hold a lone surrogate, but files and program
    arguments cannot: writing one fails with an obscure encoding error. May raise `RecursionError`."""
    if not _has_half_characters(input):
        return ""
    where = next((f"'{key}'" for key in input if _has_half_characters(input[key])), "a name in it")
    return f"{where} contains half a character (a lone surrogate)"


def _has_half_characters(value: object) -> bool:
    try:
        msgspec.json.encode(value)
    except UnicodeEncodeError:
        return True
    except TypeError:  # not JSON: it comes from a program, and its types are checked next
        return False
    return False


def _without_nulls(kind: type[Struct], input: dict[str, Any]) -> dict[str, Any]:
    """Many models send null for fields that they leave out."""
    optional = {field.encode_name for field in msgspec.structs.fields(kind) if not field.required}
    return {key: value for key, value in input.items() if value is not None or key not in optional}


def _told(error: msgspec.ValidationError | InvalidValueError, kind: type[Struct]) -> str:
    """Describe the error, with the valid values where they can be listed."""
    problems = error.problems if isinstance(error, InvalidValueError) else (str(error),)
    return " ".join([_told_one(said, kind) for said in problems])


def _told_one(said: str, kind: type[Struct]) -> str:
    _, _, path = said.partition(" - at ")
    place = tools.subschema_at(tools.schema_of(kind), path.strip("`") or "$")
    takes = ""
    if "unknown field" in said and "properties" in place:
        takes = f" It takes {', '.join(place['properties']) or 'nothing'}."
    elif said.startswith("Invalid enum value") and "enum" in place:
        takes = f" It takes {', '.join(map(repr, place['enum']))}."
    return f"{said}.{takes}"


def log_tool_failure(name: str, error: BaseException) -> None:
    """Log an exception of a tool with its traceback. We configure no logging: that is up to the program."""
    import logging  # rarely needed, and slow to load

    logging.getLogger(LOGGER).error("tool '%s' failed", name, exc_info=error)


DENIED = "The user does not want this to be done. Ask what to do instead, or go on without it."


class Approval(Struct, frozen=True):
    """The answer to an `ApprovalRequest`.

    Example:
        def approve(request: ApprovalRequest) -> Approval:
            return Approval("deny", message="Ask me again tomorrow.")

        agent = Agent("haiku", tools=["Bash"], approve=approve)
    """

    behavior: Literal["allow", "deny"]
    updated_input: dict[str, Any] | None = msgspec.field(default=None, name="updatedInput")
    message: str = ""  # for the model, with a denial
    interrupt: bool = False  # the run ends, too
    updates: Any = msgspec.field(default=None, name="updatedPermissions")  # with an approval: rules, directories, mode


def parse_approval(answer: str) -> Approval:
    """An answer that is neither an approval nor a denial counts as a denial."""
    if answer in ("allow", "deny"):
        return Approval("allow" if answer == "allow" else "deny")
    try:
        return msgspec.json.decode(answer, type=Approval)
    except msgspec.MsgspecError:
        return Approval("deny", message=f"The answer to the question is invalid: {answer[:200]}")


def approval_to_text(approval: Approval) -> str:
    return msgspec.json.encode(approval).decode()


# Former names, for one release.
Answer = ToolAnswer
Calling = ToolContext
Place = Workspace
