"""`@tool`: from a function to what the model is told, and a call of it through the whole pipeline."""

# The hints of the functions below are strings until somebody looks: what many modules of users begin with.
from __future__ import annotations

import asyncio
import datetime as dt
import functools
import gc
import logging
import sys
import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta, Struct

from mainspring.core.errors import ToolError, UsageError
from mainspring.core.messages import Image, Text, ToolCall
from mainspring.core.updates import CallStarted
from mainspring.testing.world import FakeToolContext
from mainspring.tools.base import Tool, ToolAnswer, ToolContext, make_answer
from mainspring.tools.custom import FunctionTool, ThreadToolContext, parse_docstring, tool
from tools.desk import Desk


class Point(Struct):
    x: int
    y: int = 0


@tool
def greet(
    name: str,
    times: Annotated[int, Meta(ge=1, le=3)] = 1,
    mood: Literal["kind", "curt"] = "kind",
    tags: list[str] = [],  # noqa: B006  # what people write
    *,
    at: Annotated[Point | None, "Where."] = None,
    loud: bool,
) -> str:
    """Greet somebody,
    as often as asked.

    It is no part of what the model is told.

    Args:
        name: Whom to greet; a name
            may need a second line.
        times (int, optional): How often: not too often.
        at: Not used, since the hint has words.

    Returns:
        loud: nothing of this is about a parameter.
    """
    return f"{mood} {name} {times} {tags} {at} {loud}"


# --- from the function to the schema --------------------------------------------------------------------------------


@pytest.mark.covers("N-09")
def test_what_the_model_is_told() -> None:
    spec = greet.spec
    assert (spec.name, spec.description) == ("greet", "Greet somebody, as often as asked.")
    point = {
        "type": "object",
        "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
        "required": ["x"],
        "description": "Where.",
    }
    assert spec.schema == {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "Whom to greet; a name may need a second line."},
            "times": {"type": "integer", "minimum": 1, "maximum": 3, "description": "How often: not too often."},
            "mood": {"type": "string", "enum": ["kind", "curt"]},
            "tags": {"type": "array", "items": {"type": "string"}},
            "at": point,
            "loud": {"type": "boolean"},
        },
        "required": ["name", "loud"],
    }


def test_it_is_still_the_function() -> None:
    assert greet("Ada", loud=True) == "kind Ada 1 [] None True"
    assert greet("Ada", 2, loud=False) == "kind Ada 2 [] None False"


def test_it_is_a_tool() -> None:
    made: tuple[Tool, ...] = (greet,)  # for the type checkers, too
    assert isinstance(made[0], Tool)
    assert msgspec.structs.replace(greet, name="hello", paths=("name",)).spec.name == "hello"


def test_what_is_known_before_it_runs() -> None:
    @tool(name="look-up", about="Look it up.", read_only=True, concurrent=False, deferred=True)
    def look(word: str) -> str:
        return word

    @tool(read_only=lambda given: given.path == "a", repeatable=True)
    def change(path: str) -> None:
        """Change it."""

    given = look.parse({"word": "x" * 100})
    assert (look.name, look.about, look.deferred) == ("look-up", "Look it up.", True)
    assert (look.is_read_only(given), look.is_concurrent(given), look.is_repeatable(given)) == (True, False, True)
    assert look.line(given) == f"look-up(word='{'x' * 74}...)"
    reads, writes = change.parse({"path": "a"}), change.parse({"path": "b"})
    assert (change.is_concurrent(reads), change.is_concurrent(writes), change.is_repeatable(writes)) == (
        True, False, True,
    )  # fmt: skip
    assert greet.line(greet.parse({"name": "A", "loud": True})).startswith("greet(name='A', times=1, mood='kind'")


def test_a_bound_method() -> None:
    class Shelf:
        def __init__(self) -> None:
            self.books = ["a", "b"]

        def find(self, letter: str) -> list[str]:
            """Find books."""
            return [book for book in self.books if letter in book]

    made = tool(Shelf().find)
    assert (made.name, made.about, list(made.spec.schema["properties"])) == ("find", "Find books.", ["letter"])
    assert made("a") == ["a"]
    assert Desk([made]).now("find", letter="b").answer == make_answer('["b"]', ["b"])


def test_an_object_that_holds_its_own_method_as_a_tool_is_collected() -> None:
    class Shelf:
        def __init__(self) -> None:
            self.tool = tool(self.find)

        def find(self, letter: str) -> str:
            return letter

    shelf = Shelf()
    gone = weakref.ref(shelf)
    del shelf
    gc.collect()
    assert gone() is None


def test_no_parameters_and_no_docstring() -> None:
    @tool
    def ping() -> str:
        return "pong"

    assert ping.spec.schema == {"type": "object", "properties": {}, "required": []}
    assert (ping.about, ping()) == ("", "pong")


def test_defaults_are_the_very_objects_that_the_function_names() -> None:
    shared = [1, 2]

    @tool
    def grow(items: list[int] = shared, size: float = 1.5) -> bool:
        return items is shared and size == 1.5

    assert Desk([grow]).now("grow").answer.data is True
    assert Desk([grow]).now("grow", items=[1, 2]).answer.data is False


@pytest.mark.parametrize(
    ("doc", "found"),
    [
        ("", ("", {})),
        ("One line.", ("One line.", {})),
        ("\n    Args:\n        a: words\n    ", ("", {"a": "words"})),
        (
            "F.\n\nArguments:\n  a: x\n\n  b: y\n    more: of it\nRaises:\n  c: z",
            ("F.", {"a": "x", "b": "y more: of it"}),
        ),
        (
            "F.\n\nParameters:\n  a (dict[str, int]): x\n  no words\n  b(int): y",
            ("F.", {"a": "x", "no words": "", "b": "y"}),
        ),
    ],
)
def test_words_of_a_docstring(doc: str, found: tuple[str, dict[str, str]]) -> None:
    assert parse_docstring(doc) == found


# --- what is refused when it is decorated ---------------------------------------------------------------------------


def untyped(a) -> str:  # type: ignore[no-untyped-def]
    return str(a)


def many(*words: str) -> str:
    return "".join(words)


def named(**words: str) -> str:
    return "".join(words)


def positional(a: str, /) -> str:
    return a


def odd(number: int | complex) -> str:
    return str(number)


def unknown(a: Nowhere) -> str:  # type: ignore[name-defined]  # noqa: F821
    return str(a)


def yields() -> Iterator[str]:
    yield "a"


async def yields_later() -> AsyncIterator[str]:
    yield "a"


class Holder:
    def method(self, a: str) -> str:
        return a


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (untyped, "the parameter 'a' of the tool 'untyped' has no type hint: write 'a: str'"),
        (many, "the parameter 'words' of the tool 'many' takes any number of values: a model passes"),
        (named, "the parameter 'words' of the tool 'named' takes any names: a model passes"),
        (positional, "the parameter 'a' of the tool 'positional' is positional-only: a model passes"),
        (odd, "the tool 'odd': the parameter 'number' is of type <class 'complex'>, which has no JSON Schema"),
        (unknown, "the hints of the tool 'unknown' cannot be read: name 'Nowhere' is not defined; import or define"),
        (yields, "the tool 'yields' is a generator: return one value"),
        (yields_later, "the tool 'yields_later' is a generator: return one value"),
        (Holder.method, "the tool 'method' is an unbound method: decorate the bound one, 'tool(thing.method)'"),
        (lambda: "x", "'<lambda>' is not a valid tool name: set one of up to 64 letters"),
        (functools.partial(many), "the parameter 'words' of the tool 'many' takes any number of values"),
        (Holder, "is not a function: put '@tool' on a 'def'"),
        (greet, "is not a function: put '@tool' on a 'def'"),
    ],
)
def test_what_cannot_be_a_tool(function: Callable[..., Any], message: str) -> None:
    with pytest.raises(UsageError) as error:
        tool(function)
    assert message in str(error.value)


@pytest.mark.parametrize("name", ["a b", "ä", "x" * 65, "a.b"])
def test_names_that_no_provider_takes(name: str) -> None:
    with pytest.raises(UsageError, match="is not a valid tool name"):
        tool(name=name)(many)


# --- wrong inputs ---------------------------------------------------------------------------------------------------


def nested(depth: int) -> Any:
    made: Any = "x"
    for _ in range(depth):
        made = [made]
    return made


@pytest.mark.parametrize(
    ("input", "message"),
    [
        ({}, "Object missing required field `n"),
        ({"name": "A"}, "Object missing required field `loud`"),
        ({"name": 7, "loud": True}, "Expected `str`, got `int` - at `$.name`"),
        ({"name": None, "loud": True}, "Expected `str`, got `null` - at `$.name`"),
        ({"name": "A", "loud": True, "more": 1}, "Object contains unknown field `more`"),
        ({"name": "A", "loud": True, "times": 4}, "Expected `int` <= 3 - at `$.times`"),
        ({"name": "A", "loud": True, "mood": "wild"}, "Invalid enum value 'wild' - at `$.mood`"),
        ({"name": "A", "loud": True, "at": {"y": 1}}, "Object missing required field `x` - at `$.at`"),
        ({"name": "A", "loud": "yes"}, "Expected `bool`, got `str` - at `$.loud`"),
        ({"name": {str(n): n for n in range(50_000)}, "loud": True}, "Expected `str`, got `object` - at `$.name`"),
        ({"name": "A", "loud": True, "tags": nested(60)}, "Expected `str`, got `array` - at `$.tags[0]`"),
        ({"name": "A", "loud": True, "tags": nested(50_000)}, "is nested too deeply"),
    ],
)
def test_wrong_inputs(input: dict[str, Any], message: str) -> None:
    ran: list[object] = []

    watched = tool(name="watched")(greet.function)
    desk = Desk([msgspec.structs.replace(watched, run=_never(ran))])
    done = desk.now("watched", **input)
    assert done.answer.is_error
    assert message in done.answer.text
    assert done.answer.text.endswith("Nothing was done: call it again.")
    assert len(done.answer.text) < 500
    assert (ran, desk.decisions) == ([], [])


def _never(ran: list[object]) -> Callable[[Any, ToolContext], Awaitable[ToolAnswer]]:
    async def run(given: Any, calling: ToolContext) -> ToolAnswer:
        ran.append(given)
        return make_answer("")

    return run


def test_numbers_beyond_all_bounds_are_as_python_has_them() -> None:
    @tool
    def count(number: int, most: float = 1.0) -> str:
        return f"{number} {most}"

    assert Desk([count]).now("count", number=10**40).answer.text == f"{10**40} 1.0"
    assert Desk([count]).now("count", number=1, most=float("nan")).answer.text == "1 nan"
    with pytest.raises(ToolError, match="is invalid: a name in it contains half a character"):
        FakeToolContext("/").now(count, number=1, **{"a\ud800": 1})
    with pytest.raises(ToolError, match="Expected `int`"):
        FakeToolContext("/").now(count, number={1})


def test_an_enormous_value_is_taken_and_its_result_is_cut() -> None:
    @tool
    def echo(text: str) -> str:
        return text

    done = Desk([echo]).now("echo", text="x" * 5_000_000)
    assert not done.answer.is_error
    assert 90_000 < len(done.answer.text) < 101_000


# --- every kind of return, async and in a thread --------------------------------------------------------------------

PIXEL = Image("image/png", "aGk=")
WHOLE = ToolAnswer((Text("w"), PIXEL), {"a": 1}, is_error=True, failed=True)


class Shade(str):
    pass


RETURNS: dict[str, tuple[object, ToolAnswer]] = {
    "text": ("words", make_answer("words")),
    "text of another type": (Shade("words"), make_answer("words")),
    "empty text": ("", make_answer("")),
    "None": (None, make_answer("(nothing)")),
    "an answer": (WHOLE, WHOLE),
    "a number": (7, make_answer("7", 7)),
    "a large number": (2**60, make_answer(str(2**60), 2**60)),
    "true": (True, make_answer("true", True)),
    "a float": (0.5, make_answer("0.5", 0.5)),
    "a list": ([1, "a", None], make_answer('[1,"a",null]', [1, "a", None])),
    "an empty list": ([], make_answer("[]", [])),
    "an object": ({"a": {"b": [1]}}, make_answer('{"a":{"b":[1]}}', {"a": {"b": [1]}})),
    "keys that are numbers": ({1: "a"}, make_answer('{"1":"a"}', {"1": "a"})),
    "a tuple": ((1, 2), make_answer("[1,2]", [1, 2])),
    "a struct": (Point(1, 2), make_answer('{"x":1,"y":2}', {"x": 1, "y": 2})),
    "a date": (dt.date(2024, 2, 29), make_answer('"2024-02-29"', "2024-02-29")),
    "content": (PIXEL, ToolAnswer((PIXEL,))),
    "a list of content": ([Text("a"), PIXEL], ToolAnswer((Text("a"), PIXEL))),
    "a tuple of content": ((PIXEL, PIXEL), ToolAnswer((PIXEL, PIXEL))),
}


def both(returned: object) -> tuple[Tool, Tool]:
    @tool(name="late")
    async def late() -> object:
        await asyncio.sleep(0)
        return returned

    @tool(name="aside")
    def aside() -> object:
        return returned

    return late, aside


@pytest.mark.parametrize("kind", RETURNS)
def test_what_a_function_may_return(kind: str) -> None:
    returned, expected = RETURNS[kind]
    desk = Desk(both(returned))
    for name in ("late", "aside"):
        found = desk.now(name).answer
        if isinstance(returned, ToolAnswer):
            assert found == returned
        assert (found.content, found.data, found.is_error) == (expected.content, expected.data, expected.is_error)


LOOPED: list[object] = []
LOOPED.append(LOOPED)


NO_PARTS = "returned content that is not 'Text', 'Image' or 'Document'"


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (object(), "returned object, which is not JSON ("),
        ({"a": [object()]}, "returned dict, which is not JSON ("),
        (["\ud800"], "returned list, which is not JSON ("),
        (LOOPED, "returned list, which is not JSON ("),
        (len, "which is not JSON ("),
        (b"bytes", "returned bytes: decode them in the tool, or return an 'Image'."),
        (ToolAnswer("text"), NO_PARTS),  # type: ignore[arg-type]  # what people write
        (ToolAnswer(("text",)), NO_PARTS),  # type: ignore[arg-type]
        (ToolAnswer((Text(5),)), NO_PARTS),  # type: ignore[arg-type]
        (ToolAnswer(None), NO_PARTS),  # type: ignore[arg-type]
        ([Text("a"), Text(None)], NO_PARTS),  # type: ignore[arg-type]
        (ToolAnswer((Text("a"),), data=object()), "returned a 'ToolAnswer' whose data is not JSON ("),
        (ToolAnswer((Text("a"),), data=["\ud800"]), "returned a 'ToolAnswer' whose data is not JSON ("),
    ],
)
def test_what_a_function_may_not_return(returned: object, message: str) -> None:
    desk = Desk(both(returned))
    for name in ("late", "aside"):
        found = desk.now(name).answer
        assert found.is_error
        assert found.text.startswith(f"'{name}' ")
        assert message in found.text
        assert len(found.text) < 1_000


def test_no_nul_goes_to_the_model() -> None:
    """Some servers refuse it: a tool that is careless once must not end the conversation."""

    @tool
    def dump() -> list[Text]:
        return [Text("a\0b"), Text("\0")]

    @tool
    def fail() -> None:
        raise ValueError("c\0d")

    desk = Desk([dump, fail])
    assert desk.now("dump").answer.content == (Text("a\u2400b"), Text("\u2400"))
    assert desk.now("fail").answer.text == "'fail' failed: ValueError: c\u2400d"


# --- exceptions -----------------------------------------------------------------------------------------------------


class Plain(Exception):
    pass


RAISED: dict[str, tuple[BaseException, str]] = {
    "for the model": (ToolError("Say it otherwise."), "Say it otherwise."),
    "a bug": (ZeroDivisionError("division by zero"), "'{name}' failed: ZeroDivisionError: division by zero"),
    "without words": (Plain(), "'{name}' failed: Plain"),
    "with too many": (Plain("x" * 10_000), "'{name}' failed: Plain: " + "x" * 1_993 + "..."),
    "sys.exit": (SystemExit(3), "'{name}' failed: SystemExit: 3"),
    "a group": (
        ExceptionGroup("two", [ValueError("a"), ExceptionGroup("inner", [KeyError("b")])]),
        "'{name}' failed: ValueError: a; KeyError: 'b'",
    ),
    "a timeout": (TimeoutError("slow"), "'{name}' failed: TimeoutError: slow"),
}


def raising(error: BaseException) -> tuple[Tool, Tool]:
    @tool(name="late")
    async def late() -> None:
        raise error

    @tool(name="aside")
    def aside() -> None:
        raise error

    return late, aside


@pytest.mark.parametrize("kind", RAISED)
def test_what_a_function_raises_is_logged_with_its_traceback(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    error, _ = RAISED[kind]
    desk = Desk(raising(error))
    for name in ("late", "aside"):
        caplog.clear()
        desk.now(name)
        found = [record for record in caplog.records if record.name == "mainspring.tools"]
        if isinstance(error, ToolError):  # meant for the model, and no bug
            assert not found
            continue
        (record,) = found
        assert (record.levelname, record.getMessage()) == ("ERROR", f"tool '{name}' failed")
        assert record.exc_info is not None
        assert record.exc_info[1] is error
        assert "in raising" in caplog.text or f"in {name}" in caplog.text  # where it was raised


def test_nothing_is_configured_for_the_log() -> None:
    raising(ValueError("x"))
    assert logging.getLogger("mainspring.tools").handlers == []
    assert logging.getLogger("mainspring").handlers == []


@pytest.mark.parametrize("kind", RAISED)
def test_what_a_function_may_raise(kind: str) -> None:
    error, words = RAISED[kind]
    desk = Desk(raising(error))
    for name in ("late", "aside"):
        found = desk.now(name).answer
        assert (found.text, found.is_error, found.failed) == (words.format(name=name), True, False)
        assert "Traceback" not in found.text
        assert __file__ not in found.text


def test_what_never_finds_the_way_out_of_a_thread() -> None:
    """In Python 3.11 a StopIteration from a thread leaves whoever awaits it waiting for ever."""

    @tool
    def first(items: list[int]) -> int:
        return next(iter(items))

    found = Desk([first]).now("first", items=[]).answer
    assert (found.text, found.is_error) == ("'first' failed: StopIteration", True)


def test_called_as_a_function_it_raises_what_it_raises() -> None:
    @tool
    def divide(a: int, b: int) -> float:
        return a / b

    with pytest.raises(ZeroDivisionError):
        divide(1, 0)


# --- the running call -----------------------------------------------------------------------------------------------


def test_a_plain_function_runs_in_a_thread_and_nobody_waits_for_it() -> None:
    async def main() -> None:
        loop, entered, leave = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

        @tool
        def block() -> str:
            loop.call_soon_threadsafe(entered.set)
            assert leave.wait(60)
            return threading.current_thread().name

        running = asyncio.ensure_future(Desk([block]).call("block"))
        await entered.wait()  # it runs, and so does the loop
        assert not running.done()
        leave.set()
        assert (await running).answer.text != threading.main_thread().name

    asyncio.run(main())


def test_an_async_function_runs_in_the_loop() -> None:
    @tool
    async def where() -> str:
        return threading.current_thread().name

    assert Desk([where]).now("where").answer.text == threading.current_thread().name


def test_a_plain_function_around_an_async_one() -> None:
    async def inner(a: int) -> int:
        return a + 1

    def wrapped(a: int) -> Awaitable[int]:
        return inner(a)

    assert Desk([tool(wrapped)]).now("wrapped", a=1).answer.data == 2


@pytest.mark.covers("N-09")
def test_progress_and_questions() -> None:
    @tool
    async def wizard(thing: str, calling: ToolContext) -> str:
        calling.progress("half of it")
        said = await calling.ask(f"Which {thing}?")
        return f"{calling.id} {calling.place.cwd} {said}"

    desk = Desk([wizard], answers=("the red one",), cwd="/tmp")
    assert "calling" not in wizard.spec.schema["properties"]
    assert desk.now("wizard", thing="hat").answer.text == "call-1 /tmp the red one"
    assert (desk.shown, desk.asked) == (["half of it"], ["Which hat?"])


def test_the_call_may_be_left_out_by_whoever_calls_the_function() -> None:
    @tool
    def count(most: int, calling: ToolContext | None = None) -> int:
        if calling is not None:
            calling.progress("counting")
        return most

    desk = Desk([count])
    assert (count(3), desk.now("count", most=4).answer.data, desk.shown) == (3, 4, ["counting"])


def test_progress_from_a_thread_comes_in_its_order_and_in_the_loop() -> None:
    threads: set[str] = set()

    class Watching(Desk):
        def progress(self, text: str) -> None:
            threads.add(threading.current_thread().name)
            super().progress(text)

    @tool
    def work(calling: ToolContext) -> str:
        for number in range(100):
            calling.progress(str(number))
        return f"{calling.id} {calling.place.cwd} {calling.may_read('/etc/hosts')}"

    desk = Watching([work])
    assert desk.now("work").answer.text == "call-1 / True"
    assert desk.shown == [str(number) for number in range(100)]
    assert threads == {threading.current_thread().name}


def test_a_thread_cannot_ask() -> None:
    @tool
    def work(calling: ToolContext) -> Any:
        return calling.ask("May I?")

    desk = Desk([work], answers=("yes",))
    found = desk.now("work").answer
    assert (found.is_error, found.text, desk.asked) == (
        True, "'work' cannot ask from a thread: make the tool 'async def'.", [],
    )  # fmt: skip


def test_from_a_thread_there_is_all_that_a_call_offers() -> None:
    """What cannot be had there says so in words: an AttributeError would be about us."""
    update = CallStarted(ToolCall("call-2", "inner", {}))

    @tool
    def work(calling: ToolContext) -> str:
        calling.show(update)
        return f"{calling.id} {calling.place.cwd} {calling.approved} {calling.may_read('/x')}"

    @tool
    def waits(calling: ToolContext) -> Any:
        return calling.room()

    @tool
    def asks(calling: ToolContext) -> Any:
        return calling.ask("May I?", about={"a": 1})

    called = FakeToolContext("/")
    assert (called.now(work).text, called.updates) == ("call-1 / False True", [update])
    for made, verb in ((waits, "wait"), (asks, "ask")):
        with pytest.raises(ToolError, match=f"'{made.name}' cannot {verb} from a thread: make the tool"):
            called.now(made)
    offered = {name for name in vars(ToolContext) if not name.startswith("_")}
    assert {name for name in offered if not hasattr(ThreadToolContext, name)} == set()


# --- cancellation ---------------------------------------------------------------------------------------------------


def test_cancelling_an_async_function_ends_it() -> None:
    async def main() -> list[str]:
        heard: list[str] = []
        entered = asyncio.Event()

        @tool
        async def wait() -> None:
            entered.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                heard.append("cancelled")
                raise

        running = asyncio.ensure_future(Desk([wait]).call("wait"))
        await entered.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return heard

    assert asyncio.run(main()) == ["cancelled"]


def test_cancelling_a_plain_function_leaves_its_thread_alone() -> None:
    """The call ends at once; the function ends when it next shows how far it is, or by itself."""
    ended: list[str] = []

    async def main() -> None:
        loop, entered = asyncio.get_running_loop(), asyncio.Event()
        go_on, over = threading.Event(), asyncio.Event()

        @tool
        def work(calling: ToolContext) -> str:
            loop.call_soon_threadsafe(entered.set)
            assert go_on.wait(60)
            try:
                calling.progress("still here")
            except ToolError as error:
                ended.append(str(error))
            finally:
                loop.call_soon_threadsafe(over.set)
            return "too late"

        desk = Desk([work])
        running = asyncio.ensure_future(desk.call("work"))
        await entered.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert not go_on.is_set()  # the call is over, and the thread is not
        go_on.set()
        await over.wait()
        assert desk.shown == []

    asyncio.run(main())
    assert ended == ["It was cancelled."]


# --- the rest -------------------------------------------------------------------------------------------------------


def test_progress_may_be_tested_without_the_pipeline() -> None:
    @tool
    async def work(calling: ToolContext) -> str:
        calling.progress("a")
        return await calling.ask("b?")

    called = FakeToolContext("/", answers=("c",))
    assert (called.now(work).text, called.shown, called.asked) == ("c", ["a"], ["b?"])
    assert isinstance(work, FunctionTool)


def test_it_loads_nothing_heavy() -> None:
    import subprocess

    code = (
        "import sys, asyncio, msgspec, mainspring.tools.base; before = set(sys.modules);"
        "import mainspring.tools.custom, mainspring.tools.tasks, mainspring.tools.question, mainspring.tools.plan,"
        "mainspring.tools.tool_search, mainspring.tools.structured_output;"
        "print(sorted(name for name in set(sys.modules) - before if not name.startswith('mainspring')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
