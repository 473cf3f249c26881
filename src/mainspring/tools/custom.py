"""`@tool`: make a tool from a typed function. Its type hints become the schema, its docstring the description.

    @tool(read_only=True)
    async def look_up(word: str, most: int = 5) -> list[str]:
        '''Look a word up.

        Args:
            word: As it stands in the text.
        '''

The result is a `Tool` that you can still call as the function. Problems with the function raise an error when it is
decorated, with the names of the function and the parameter. A plain function runs in a thread, so that it does not
block the event loop; a thread cannot be ended, so a cancelled call leaves it running and drops its return value.
"""

import asyncio
import inspect
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Generic,
    NoReturn,
    ParamSpec,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

import msgspec
from msgspec.structs import replace

from mainspring.core.errors import ToolError, UsageError
from mainspring.core.messages import Content
from mainspring.core.updates import Update
from mainspring.processes.paths import Resolved
from mainspring.text import did_you_mean
from mainspring.tools.base import (
    Input,
    Run,
    StrictInput,
    Tool,
    ToolAnswer,
    ToolContext,
    Trait,
    Workspace,
    is_content,
    log_tool_failure,
    make_answer,
)
from mainspring.tools.constraints import is_field_info
from mainspring.tools.json_schema import is_number
from mainspring.tools.json_type import Definitions, encode_json, make_field_type
from mainspring.tools.type_nodes import make_generic

if TYPE_CHECKING:
    from mainspring.tools.sdk_mcp_tool import Handler, SdkMcpTool

NOTHING = "(nothing)"  # the result of a function that returns None
MOST_SAID = 2_000  # characters of an exception's message that the model gets
LONGEST_NAME = 64  # the limit of all providers
LONGEST_LINE = 80  # of the line about a call

P = ParamSpec("P")
R = TypeVar("R")


class FunctionTool(Tool, Generic[P, R], frozen=True, kw_only=True, gc=True):
    """Tracked by the garbage collector: an object may hold the tool made from its own method."""

    function: Callable[P, R]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself, as if it were not decorated."""
        return self.function(*args, **kwargs)


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...


@overload
def tool(
    name: str, description: str, input_schema: type | dict[str, Any], annotations: Any = None
) -> "Callable[[Handler], SdkMcpTool[Any]]": ...


@overload
def tool(
    *,
    name: str = ...,
    description: str = ...,
    about: str = ...,
    read_only: Trait = ...,
    concurrent: Trait | None = ...,
    repeatable: Trait | None = ...,
    deferred: bool = ...,
    timeout: float | None = ...,
    retries: int | None = ...,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(
    name: Callable[..., Any] | str = "",
    description: str = "",
    input_schema: Any = None,
    annotations: Any = None,
    **options: Any,
) -> Any:
    """Make a tool of a typed function; type hints become the schema, the docstring the description.

    Example:
        @tool
        async def look_up(word: str) -> str: ...

        @tool(name="look-up", read_only=True, timeout=10, retries=2)
        async def look_up(word: str) -> str: ...

    `name` and `description` replace those of the function. The other options are fields of `Tool`: `read_only`,
    `concurrent`, `repeatable`, `deferred`, `timeout` (seconds) and `retries` (how often in a row the model may try
    again after a failure). You can still call the result as the function.

    With three arguments it makes a tool for `create_sdk_mcp_server`, as in `claude-agent-sdk`:

        @tool("add", "Adds two numbers.", {"a": float, "b": float})
        async def add(given: dict[str, Any]) -> dict[str, Any]: ...
    """
    if input_schema is not None:
        return _described_tool(name, description, input_schema, annotations, options)
    about = options.pop("about", "") or description
    _check_options(options)

    def make(function: Callable[..., Any]) -> FunctionTool[..., Any]:
        title = _title(function, name if isinstance(name, str) else "")
        first, words = parse_docstring(inspect.unwrap(_inner(function)).__doc__ or "")
        fields, slot = _fields(function, title, words)
        return FunctionTool(
            name=title,
            about=about or first,
            input=_input(title, fields),
            run=_run(function, title, slot),
            summary=_line(title),
            function=function,
            **options,
        )

    return make if isinstance(name, str) else make(name)


OPTIONS = ("read_only", "concurrent", "repeatable", "deferred", "timeout", "retries")


def _check_options(options: dict[str, Any]) -> None:
    for name in options:
        if name not in OPTIONS:
            raise UsageError(f"'tool' has no option '{name}'{did_you_mean(name, OPTIONS)}")
    timeout, retries = options.get("timeout"), options.get("retries")
    if timeout is not None and (not is_number(timeout) or not 0 < timeout < float("inf")):
        raise UsageError(f"'timeout' must be a number of seconds above 0, not {timeout!r}")
    if retries is not None and (not isinstance(retries, int) or isinstance(retries, bool) or retries < 0):
        raise UsageError(f"'retries' must be a whole number from 0 on, not {retries!r}")


def _described_tool(name: Any, description: str, input_schema: Any, annotations: Any, options: dict[str, Any]) -> Any:
    from mainspring.tools.sdk_mcp_tool import SdkMcpTool, json_schema

    if not isinstance(name, str) or not name:
        raise UsageError("'tool(name, description, schema)' needs a name")
    if options:
        raise UsageError(
            f"'tool(name, description, schema)' has no option '{min(options)}': use 'annotations', or '@tool' on a "
            "typed function"
        )
    json_schema(name, input_schema)  # raises if it is invalid

    def make(handler: Any) -> SdkMcpTool[Any]:
        return SdkMcpTool(name, description, input_schema, handler, annotations)

    return make


def _line(title: str) -> Callable[[Any], str]:
    def line(given: Any) -> str:
        words = ", ".join([f"{key}={value!r}" for key, value in msgspec.structs.asdict(given).items()])
        return f"{title}({words if len(words) <= LONGEST_LINE else words[:LONGEST_LINE] + '...'})"

    return line


# --- from the function to its input -------------------------------------------------------------------------------

BY_NAME = "a model passes every value by name, so use plain parameters"
UNFIT = {
    inspect.Parameter.POSITIONAL_ONLY: "is positional-only",
    inspect.Parameter.VAR_POSITIONAL: "takes any number of values",
    inspect.Parameter.VAR_KEYWORD: "takes any names",
}

InputField = tuple[str, Any, Any]  # its name, its type, and its default for msgspec


def _title(function: Callable[..., Any], name: str) -> str:
    inner = _inner(function)
    if not inspect.isroutine(inner):
        raise UsageError(f"{function!r} is not a function: put '@tool' on a 'def', or pass a bound method")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise UsageError(
            f"the tool '{inner.__name__}' is a generator: return one value, show the rest by 'ToolContext.progress'"
        )
    title = name or inner.__name__
    if len(title) > LONGEST_NAME or not all(c.isascii() and (c.isalnum() or c in "_-") for c in title):
        raise UsageError(
            f"'{title}' is not a valid tool name: set one of up to {LONGEST_NAME} letters, digits, '_' and "
            "'-' with '@tool(name=...)'"
        )
    return title


def _is_partial(function: object) -> bool:
    return isinstance(function, partial)


def _inner(function: Any) -> Callable[..., Any]:
    """The function in a `functools.partial`."""
    inner: Callable[..., Any] = function.func if _is_partial(function) else function
    return inner


def _bound(function: Any) -> dict[str, Any]:
    """The arguments that a `functools.partial` sets by name."""
    return dict(function.keywords) if _is_partial(function) else {}


def _fields(function: Callable[..., Any], title: str, words: dict[str, str]) -> tuple[list[InputField], str]:
    """The fields that the model fills in, and the name of the parameter that gets the `ToolContext`, if any."""
    hints = _hints(_inner(function), title)
    bound = _bound(function)
    fields: list[InputField] = []
    slot = ""
    for name, parameter in inspect.signature(function).parameters.items():
        if name in bound:
            continue  # the program has set it: the model must not
        if parameter.kind in UNFIT:
            raise UsageError(f"the parameter '{name}' of the tool '{title}' {UNFIT[parameter.kind]}: {BY_NAME}")
        if name not in hints:
            raise UsageError(_untyped(name, title))
        hint = hints[name]
        if _is_context(hint):
            slot = name
        else:
            hint, default = _field_default(hint, parameter.default)
            fields.append((name, _worded(hint, words.get(name, "")), _default(default)))
    return fields, slot


def _is_context(hint: Any) -> bool:
    """Whether it is `ToolContext`, `ToolContext[X]`, or one of these or None."""
    found = hint is ToolContext or get_origin(hint) is ToolContext
    return found or (get_origin(hint) in (Annotated, Union, UnionType) and any(map(_is_context, get_args(hint))))


def _hints(function: Callable[..., Any], title: str) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except (NameError, TypeError, SyntaxError) as error:
        raise UsageError(
            f"the hints of the tool '{title}' cannot be read: {error}; import or define what they name at the top of "
            "the module, and not only for type checkers"
        ) from error


def _untyped(name: str, title: str) -> str:
    if name in ("self", "cls"):
        return f"the tool '{title}' is an unbound method: decorate the bound one, 'tool(thing.{title})'"
    return f"the parameter '{name}' of the tool '{title}' has no type hint: write '{name}: str', or what it is"


def _field_default(hint: Any, default: Any) -> tuple[Any, Any]:
    """The type and the default of a parameter, also where pydantic's `Field` gives them: `x: int = Field(3, ge=1)`."""
    if is_field_info(default):
        hint, default = Annotated[hint, default], inspect.Parameter.empty
    for note in getattr(hint, "__metadata__", ()):
        if default is inspect.Parameter.empty and is_field_info(note) and not note.is_required():
            default = note.get_default(call_default_factory=True)
    return hint, default


def _worded(hint: Any, words: str) -> Any:
    """A description in the hint itself is closer to the code, and wins: it comes last."""
    if not words:
        return hint
    inner, *notes = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    return make_generic(Annotated, inner, words, *notes)


def _default(default: Any) -> Any:
    """A factory for every default: msgspec accepts any object then, and the function gets the very object it named."""
    return msgspec.field() if default is inspect.Parameter.empty else msgspec.field(default_factory=lambda: default)


def _input(title: str, fields: list[InputField]) -> type[Input]:
    definitions = Definitions()
    try:
        typed = [(name, make_field_type(hint, name, definitions), default) for name, hint, default in fields]
    except UsageError as error:
        raise UsageError(f"the tool '{title}': the parameter {error}") from None
    made: Any = msgspec.defstruct(title, typed, bases=(StrictInput,), frozen=True, kw_only=True)
    return cast("type[Input]", made)


# --- words from the docstring -------------------------------------------------------------------------------------

HEADS = ("Args:", "Arguments:", "Parameters:")


def parse_docstring(doc: str) -> tuple[str, dict[str, str]]:
    """Return the first paragraph, and the description of each parameter from a section 'Args:' in Google's style."""
    lines = inspect.cleandoc(doc).splitlines()
    first: list[str] = []
    for line in lines:
        if not line.strip() or line in HEADS:
            break
        first.append(line.strip())
    head = next((number for number, line in enumerate(lines) if line in HEADS), len(lines))
    return " ".join(first), _args(lines[head + 1 :])


def _args(lines: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    name, outer = "", 0
    for line in lines:
        text = line.strip()
        if not text:
            continue
        indent = len(line) - len(line.lstrip())
        if not indent:
            break  # the next section
        outer = outer or indent
        if indent == outer:
            name, found[name] = _entry(text)
        else:
            found[name] = f"{found[name]} {text}".strip()
    return found


def _entry(text: str) -> tuple[str, str]:
    """Parse `name: words` or `name (type): words`."""
    name, mark, words = text.partition(":")
    if "(" in name:
        name, mark, words = text.partition("):")
    return name.partition("(")[0].strip(), words.strip() if mark else ""


# --- a call -------------------------------------------------------------------------------------------------------


def _run(function: Callable[..., Any], title: str, slot: str) -> Run:
    in_loop = inspect.iscoroutinefunction(function)

    async def run(given: Any, calling: ToolContext) -> ToolAnswer:
        named = msgspec.structs.asdict(given)
        if in_loop:
            with explain_failures(title):
                return make_function_answer(await function(**named, **({slot: calling} if slot else {})), title)
        return make_function_answer(await _in_thread(function, named, title, slot, calling), title)

    return run


async def _in_thread(
    function: Callable[..., Any], named: dict[str, Any], title: str, slot: str, calling: ToolContext
) -> object:
    inside = ThreadToolContext(calling, title)

    def work() -> object:
        with explain_failures(title):  # in here: some exceptions cannot leave a thread (StopIteration)
            return function(**named, **({slot: inside} if slot else {}))

    try:
        returned = await asyncio.to_thread(work)
    finally:
        inside.over = True
    if inspect.isawaitable(returned):  # a plain function around an async one
        with explain_failures(title):
            return await returned
    return returned


IN_THREAD = "from a thread: make the tool 'async def'."


class ThreadToolContext:
    """The running call, as a plain function sees it from its thread."""

    def __init__(self, calling: ToolContext, title: str) -> None:
        self._calling, self._title = calling, title
        self._loop = asyncio.get_running_loop()
        self.over = False  # set by the loop when the call no longer waits for the function

    @property
    def id(self) -> str:
        return self._calling.id

    @property
    def deps(self) -> Any:
        return self._calling.deps

    @property
    def place(self) -> Workspace:
        return self._calling.place

    @property
    def approved(self) -> bool:
        return self._calling.approved

    @property
    def cwd(self) -> str:
        return self._calling.cwd

    def resolve(self, path: str) -> Resolved:
        return self._calling.resolve(path)

    @property
    def has_read_rules(self) -> bool:
        return self._calling.has_read_rules

    def may_read(self, path: str) -> bool:
        return self._calling.may_read(path)

    def progress(self, text: str) -> None:
        """Also ends a function that still runs after its call was cancelled."""
        self._later(self._calling.progress, text)

    def show(self, update: Update) -> None:
        self._later(self._calling.show, update)

    def _later(self, tell: Callable[[Any], None], what: object) -> None:
        if self.over:
            raise ToolError("It was cancelled.")
        with suppress(RuntimeError):  # the loop is closed by now
            self._loop.call_soon_threadsafe(tell, what)

    def ask(self, text: str, about: Any = None) -> NoReturn:  # noqa: ARG002  # as in `ToolContext`
        raise ToolError(f"'{self._title}' cannot ask {IN_THREAD}")

    def room(self) -> NoReturn:
        raise ToolError(f"'{self._title}' cannot wait {IN_THREAD}")


@contextmanager
def explain_failures(title: str) -> Generator[None]:
    """Turn exceptions of a function into messages for the model, never with a traceback: that goes to the log, which
    the program configures. `sys.exit` ends the call, not the program."""
    try:
        yield
    except ToolError:
        raise
    except (Exception, SystemExit) as error:  # a user's function may raise anything
        log_tool_failure(title, error)
        said = _said(error)
        raise ToolError(f"'{title}' failed: {said if len(said) <= MOST_SAID else said[:MOST_SAID] + '...'}") from error


def _said(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):  # of a task group; its own message only says how many there are
        group = cast("BaseExceptionGroup[BaseException]", error)
        return "; ".join([_said(one) for one in group.exceptions])
    return f"{type(error).__name__}: {error}".removesuffix(": ")


def make_function_answer(value: Any, title: str) -> ToolAnswer:
    """Convert a function's return value to what the model gets."""
    match value:
        case ToolAnswer():
            return _checked(value, title)
        case str():
            return make_answer(str(value))
        case None:
            return make_answer(NOTHING)
        case bytes() | bytearray() | memoryview():
            raise ToolError(f"'{title}' returned bytes: decode them in the tool, or return an 'Image'.")
        case _:
            parts = _content(value)
            return _checked(ToolAnswer(parts), title) if parts else _as_json(value, title)


def _content(value: Any) -> tuple[Content, ...]:
    """One content object, or a list of nothing else."""
    parts = tuple(value) if type(value) in (list, tuple) else (value,)
    return parts if all(isinstance(part, Content) for part in parts) else ()


def _checked(made: ToolAnswer, title: str) -> ToolAnswer:
    if not is_content(made.content):
        raise ToolError(
            f"'{title}' returned content that is not 'Text', 'Image' or 'Document': return text, or a list of those."
        )
    try:
        return replace(made, data=_through_json(made.data)[1])
    except NO_JSON as error:
        raise ToolError(
            f"'{title}' returned a 'ToolAnswer' whose data is not JSON ({error}): use JSON values."
        ) from error


def _as_json(value: object, title: str) -> ToolAnswer:
    try:
        return make_answer(*_through_json(value))
    except NO_JSON as error:
        raise ToolError(
            f"'{title}' returned {type(value).__name__}, which is not JSON ({error}): return text, JSON values, "
            "content or a 'ToolAnswer'."
        ) from error


NO_JSON = (TypeError, ValueError, OverflowError, RecursionError)


def _through_json(value: object) -> tuple[str, Any]:
    """Convert to text, and to plain JSON values, so that later changes to the object have no effect."""
    encoded = encode_json(value)
    return encoded.decode(), msgspec.json.decode(encoded)
