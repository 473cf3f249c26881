"""`@tool`: a typed function as a tool. Its hints become the schema, its docstring the words for the model.

    @tool(read_only=True)
    async def look_up(word: str, most: int = 5) -> list[str]:
        '''Look a word up.

        Args:
            word: As it stands in the text.
        '''

What is made is a `Tool`, and can still be called as the function that it was. Whatever is wrong with the function is
said when it is decorated, with the names of the function and the parameter. A plain function runs in a thread, so that
nobody waits for it; a thread cannot be ended, so a cancelled call leaves it alone and drops what it returns.
"""

import asyncio
import inspect
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Annotated, Any, Generic, NoReturn, ParamSpec, TypeVar, cast, get_args, get_type_hints, overload

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from mainspring.core.errors import ToolError, UsageError
from mainspring.core.messages import Content
from mainspring.core.updates import Update
from mainspring.processes.paths import Resolved
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
    make_answer,
)
from mainspring.tools.schema import schema_of

NOTHING = "(nothing)"  # what a function that returns None came to
MOST_SAID = 2_000  # characters of an exception that the model gets
LONGEST_NAME = 64  # what all providers take
LONGEST_LINE = 80  # of the line about a call

P = ParamSpec("P")
R = TypeVar("R")


class FunctionTool(Tool, Generic[P, R], frozen=True, kw_only=True, gc=True):
    """For the collector to see: an object may hold the tool that its own method is."""

    function: Callable[P, R]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """The function itself, as if it had not been decorated."""
        return self.function(*args, **kwargs)


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...


@overload
def tool(
    *,
    name: str = ...,
    about: str = ...,
    read_only: Trait = ...,
    concurrent: Trait | None = ...,
    repeatable: Trait | None = ...,
    deferred: bool = ...,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(  # noqa: PLR0913  # keywords, all of them
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str = "",
    about: str = "",
    read_only: Trait = False,
    concurrent: Trait | None = None,
    repeatable: Trait | None = None,
    deferred: bool = False,
) -> Any:
    """Bare, or with what `Tool` wants to know; `name` and `about` stand for the function's name and docstring."""

    def made(function: Callable[..., Any]) -> FunctionTool[..., Any]:
        title = _title(function, name)
        first, words = parse_docstring(function.__doc__ or "")
        fields, slot = _fields(function, title, words)
        return FunctionTool(
            name=title,
            about=about or first,
            input=_input(title, fields),
            run=_run(function, title, slot),
            read_only=read_only,
            concurrent=concurrent,
            repeatable=repeatable,
            summary=_line(title),
            deferred=deferred,
            function=function,
        )

    return made if function is None else made(function)


def _line(title: str) -> Callable[[Any], str]:
    def line(given: Any) -> str:
        words = ", ".join([f"{key}={value!r}" for key, value in msgspec.structs.asdict(given).items()])
        return f"{title}({words if len(words) <= LONGEST_LINE else words[:LONGEST_LINE] + '...'})"

    return line


# --- from the function to its input -------------------------------------------------------------------------------

BY_NAME = "a model gives every value by its name, so use plain parameters"
UNFIT = {
    inspect.Parameter.POSITIONAL_ONLY: "can be given by position only",
    inspect.Parameter.VAR_POSITIONAL: "takes any number of values",
    inspect.Parameter.VAR_KEYWORD: "takes any names",
}

Field = tuple[str, Any, Any]  # its name, its type, and what msgspec knows of its default


def _title(function: Callable[..., Any], name: str) -> str:
    if not inspect.isroutine(function):
        raise UsageError(f"{function!r} is no function: put '@tool' on a 'def', or give it a bound method")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise UsageError(
            f"the tool '{function.__name__}' yields: return one value, show the rest by 'ToolContext.progress'"
        )
    title = name or function.__name__
    if len(title) > LONGEST_NAME or not all(c.isascii() and (c.isalnum() or c in "_-") for c in title):
        raise UsageError(
            f"'{title}' cannot be the name of a tool: give it one of up to {LONGEST_NAME} letters, digits, '_' and "
            "'-' with '@tool(name=...)'"
        )
    return title


def _fields(function: Callable[..., Any], title: str, words: dict[str, str]) -> tuple[list[Field], str]:
    """What the model gives, and the name of the parameter that gets the running call, if there is one."""
    hints = _hints(function, title)
    fields: list[Field] = []
    slot = ""
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in UNFIT:
            raise UsageError(f"the parameter '{name}' of the tool '{title}' {UNFIT[parameter.kind]}: {BY_NAME}")
        if name not in hints:
            raise UsageError(_untyped(name, title))
        hint = hints[name]
        if hint is ToolContext or ToolContext in get_args(hint):
            slot = name
        else:
            fields.append((name, _worded(hint, words.get(name, "")), _default(parameter.default)))
    return fields, slot


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
        return f"the tool '{title}' is a method of no object yet: decorate the bound one, 'tool(thing.{title})'"
    return f"the parameter '{name}' of the tool '{title}' has no type: write '{name}: str', or what it is"


def _worded(hint: Any, words: str) -> Any:
    """Words in the hint itself stand nearer to the code, and win."""
    notes = getattr(hint, "__metadata__", ())
    said = any(isinstance(note, str) or (isinstance(note, Meta) and note.description) for note in notes)
    return Annotated[hint, words] if words and not said else hint


def _default(default: Any) -> Any:
    """A factory for every default: msgspec takes it whatever it is, and the function gets the very object it named."""
    return msgspec.field() if default is inspect.Parameter.empty else msgspec.field(default_factory=lambda: default)


def _input(title: str, fields: list[Field]) -> type[Input]:
    for name, hint, _ in fields:
        _check(title, name, hint)
    made: Any = msgspec.defstruct(title, fields, bases=(StrictInput,), frozen=True, kw_only=True)
    return cast("type[Input]", made)


def _check(title: str, name: str, hint: Any) -> None:
    """Both who write the schema and who read the input must know the type."""
    try:
        schema_of(msgspec.defstruct(title, [(name, hint)]))
        msgspec.convert(None, hint)
    except msgspec.ValidationError:
        pass  # known, and None is none of it
    except UsageError as error:
        raise UsageError(f"the tool '{title}': the parameter {error}") from None
    except (TypeError, RecursionError) as error:
        raise UsageError(f"the tool '{title}': the parameter '{name}' cannot be read from JSON: {error}") from error


# --- words from the docstring -------------------------------------------------------------------------------------

HEADS = ("Args:", "Arguments:", "Parameters:")


def parse_docstring(doc: str) -> tuple[str, dict[str, str]]:
    """The first paragraph, and the words of each parameter from a section 'Args:' in Google's style."""
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
    """Of `name: words` and `name (type): words`."""
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
        with explain_failures(title):  # in here: some exceptions never find the way out of a thread (StopIteration)
            return function(**named, **({slot: inside} if slot else {}))

    try:
        returned = await asyncio.to_thread(work)
    finally:
        inside.over = True
    if inspect.isawaitable(returned):  # a plain function around an async one
        with explain_failures(title):
            return await returned
    return returned


LOGGER = "mainspring.tools"
IN_THREAD = "from a thread: mend the tool, make it 'async def'."


class ThreadToolContext:
    """The running call, as a plain function sees it from its thread."""

    def __init__(self, calling: ToolContext, title: str) -> None:
        self._calling, self._title = calling, title
        self._loop = asyncio.get_running_loop()
        self.over = False  # set by the loop when nobody waits for the function any more

    @property
    def id(self) -> str:
        return self._calling.id

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
        """Also the place where a function that goes on after its call was cancelled comes to its end."""
        self._later(self._calling.progress, text)

    def show(self, update: Update) -> None:
        self._later(self._calling.show, update)

    def _later(self, tell: Callable[[Any], None], what: object) -> None:
        if self.over:
            raise ToolError("It was cancelled.")
        with suppress(RuntimeError):  # the loop is closed since
            self._loop.call_soon_threadsafe(tell, what)

    def ask(self, text: str, about: Any = None) -> NoReturn:  # noqa: ARG002  # as in `ToolContext`
        raise ToolError(f"'{self._title}' cannot ask {IN_THREAD}")

    def room(self) -> NoReturn:
        raise ToolError(f"'{self._title}' cannot wait {IN_THREAD}")


@contextmanager
def explain_failures(title: str) -> Generator[None]:
    """What a function raises, in words for the model; never a traceback: that is for the program's log, which is
    configured by the program. `sys.exit` ends the call, not the program."""
    try:
        yield
    except ToolError:
        raise
    except (Exception, SystemExit) as error:  # whatever a function of somebody else's raises
        import logging  # seldom needed, and slow to load

        logging.getLogger(LOGGER).error("tool '%s' failed", title, exc_info=error)
        said = _said(error)
        raise ToolError(f"'{title}' failed: {said if len(said) <= MOST_SAID else said[:MOST_SAID] + '...'}") from error


def _said(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):  # of a task group; what it says of itself is only how many they were
        group = cast("BaseExceptionGroup[BaseException]", error)
        return "; ".join([_said(one) for one in group.exceptions])
    return f"{type(error).__name__}: {error}".removesuffix(": ")


def make_function_answer(value: Any, title: str) -> ToolAnswer:
    """What a function returned, as the model gets it."""
    match value:
        case ToolAnswer():
            return _checked(value, title)
        case str():
            return make_answer(str(value))
        case None:
            return make_answer(NOTHING)
        case bytes() | bytearray() | memoryview():
            raise ToolError(f"'{title}' returned bytes: mend the tool, decode them or return an 'Image'.")
        case _:
            parts = _content(value)
            return _checked(ToolAnswer(parts), title) if parts else _as_json(value, title)


def _content(value: Any) -> tuple[Content, ...]:
    """One piece, or a list of nothing else."""
    parts = tuple(value) if type(value) in (list, tuple) else (value,)
    return parts if all(isinstance(part, Content) for part in parts) else ()


def _checked(made: ToolAnswer, title: str) -> ToolAnswer:
    if not is_content(made.content):
        raise ToolError(
            f"'{title}' returned content that is no 'Text', 'Image' or 'Document': mend the tool, return text, or a "
            "list of those."
        )
    try:
        return replace(made, data=_through_json(made.data)[1])
    except NO_JSON as error:
        raise ToolError(
            f"'{title}' returned a 'ToolAnswer' whose data is no JSON ({error}): mend the tool, use JSON values."
        ) from error


def _as_json(value: object, title: str) -> ToolAnswer:
    try:
        return make_answer(*_through_json(value))
    except NO_JSON as error:
        raise ToolError(
            f"'{title}' returned {type(value).__name__}, which is no JSON ({error}): mend the tool, return text, JSON "
            "values, content or a 'ToolAnswer'."
        ) from error


NO_JSON = (TypeError, ValueError, OverflowError, RecursionError)


def _through_json(value: object) -> tuple[str, Any]:
    """As text, and as nothing but JSON values, which nobody can change from outside."""
    encoded = msgspec.json.encode(value)
    return encoded.decode(), msgspec.json.decode(encoded)
