"""Find calls and thinking that a server left in the text, and repair arguments and events that are not quite JSON. Sans
I/O.

A weak model behind a simple server writes its calls as it was trained to, and the server does not extract them:

    <tool_call>{"name": "Read", "arguments": {"file_path": "a.py"}}</tool_call>

`TextToolCallReader` takes text as it arrives and returns text, thinking and calls. Text is held back only from where a
known syntax may have begun, until that is clear. If the syntax is certain but cannot be parsed, it becomes a call with
a defect, which the loop answers with a bounded retry; if it is not certain, it stays text. Nothing is dropped.

`repair_json` reads JSON that no protocol allows, after the normal decoder has failed:

    null where a text, a number or an item should be      {"delta": {"type": "text_delta", "text": null}}
    numbers as text, fractions, or out of range           {"index": "0", "usage": {"output_tokens": 12.0}}
    NaN and infinities, which are not JSON                {"usage": {"output_tokens": NaN}}
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar, cast

import msgspec

from mainspring.core.messages import Defect, ToolCall
from mainspring.core.updates import BlockKind
from mainspring.core.value import Bundle

Said = tuple[BlockKind, str] | ToolCall
Tools = Mapping[str, Mapping[str, Any]]  # schemas by name

UNNAMED = "unknown"


# --- arguments ----------------------------------------------------------------------------------------


def call_of(call_id: str, name: str, written: str) -> ToolCall:
    """A call from its arguments as text. If they are cut short or damaged, the call has a defect and does not run."""
    if not name:
        return ToolCall(call_id, UNNAMED, {}, Defect.MALFORMED)
    if not written.strip():
        return ToolCall(call_id, name, {})
    try:
        value: Any = msgspec.json.decode(written)
        if isinstance(value, str):  # encoded twice
            value = msgspec.json.decode(value) if value.strip() else {}
    except msgspec.DecodeError as error:
        return ToolCall(call_id, name, {}, Defect.CUT if "truncated" in str(error) else Defect.MALFORMED)
    except (RecursionError, UnicodeEncodeError):
        return ToolCall(call_id, name, {}, Defect.MALFORMED)
    if value is None:
        return ToolCall(call_id, name, {})
    if not isinstance(value, dict):
        return ToolCall(call_id, name, {}, Defect.MALFORMED)
    return ToolCall(call_id, name, cast("dict[str, Any]", value))


def is_whole(written: str) -> bool:
    """Whether the text is one complete JSON value."""
    if not written.rstrip().endswith(("}", "]", '"')):
        return False
    try:
        msgspec.json.decode(written)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return False
    return True


MARKS = re.compile(r'["\\{}\[\]]')


class JsonBalance:
    """Whether JSON that comes in pieces may be complete: all brackets are closed. Each piece is scanned once."""

    def __init__(self) -> None:
        self._depth = 0
        self._quoted = False
        self._escaped_at = -1  # 0: the first character of the next piece is escaped
        self._begun = False

    def feed(self, text: str) -> None:
        self._begun = self._begun or bool(text.strip())
        escaped = self._escaped_at
        for found in MARKS.finditer(text):
            at, mark = found.start(), found[0]
            if at == escaped:
                continue
            if mark == '"':
                self._quoted = not self._quoted
            elif mark == "\\":
                escaped = at + 1
            elif not self._quoted:
                self._depth += 1 if mark in "{[" else -1
        self._escaped_at = escaped - len(text) if escaped >= len(text) else -1

    @property
    def is_even(self) -> bool:
        return self._begun and not self._quoted and self._depth <= 0


# --- forms of a call without its wrapping ----------------------------------------------------------------

NAMES = ("name", "function", "tool", "tool_name")
ARGUMENTS = ("arguments", "parameters", "input", "args", "tool_input")
OTHERS = ("id", "type", "index", "call_id")


def as_list(value: Any) -> list[Any]:
    return cast("list[Any]", value)


def calls_in(value: Any) -> list[ToolCall] | None:
    """The calls in a JSON value; None if it is something else."""
    if isinstance(value, list):
        found = [calls_in(each) for each in as_list(value)]
        return [call for calls in found if calls for call in calls] if found and all(found) else None
    if not isinstance(value, dict):
        return None
    fields = cast("dict[str, Any]", value)
    if isinstance(inner := fields.get("tool_calls"), list):
        return calls_in(inner)
    if isinstance(inner := fields.get("function"), dict):
        return calls_in({"id": fields.get("id"), **inner})
    if not fields.keys() <= {*NAMES, *ARGUMENTS, *OTHERS}:
        return None
    name = next((fields[key] for key in NAMES if isinstance(fields.get(key), str)), None)
    given = next((fields[key] for key in ARGUMENTS if key in fields), None)
    if not name or (given is None and not any(key in fields for key in ARGUMENTS)):
        return None
    written = given if isinstance(given, str) else msgspec.json.encode(given).decode()
    call_id = fields.get("id") or fields.get("call_id")
    return [call_of(call_id if isinstance(call_id, str) else "", name, written)]


_lines = msgspec.json.Decoder()


def parse_json_calls(text: str, _: Tools) -> list[ToolCall] | None:
    """One value, or one per line."""
    for decode in (msgspec.json.decode, _lines.decode_lines):
        try:
            return calls_in(decode(text))
        except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
            continue
    return None


FUNCTION = re.compile(r"\s*(?:<function=)?([\w.-]+)>(.*?)(?:</function>)?\s*", re.DOTALL)
PARAMETER = re.compile(r"<parameter=([\w.-]+)>\n?(.*?)\n?</parameter>", re.DOTALL)
PAIR = re.compile(r"<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)</arg_value>", re.DOTALL)
NAMED = re.compile(r"\s*([\w.-]+)\s*(?:\[ARGS\]|\[CALL_ID\]\w+\[ARGS\])?\s*(\{.*\})\s*", re.DOTALL)
PAIRED = re.compile(r"\s*([\w.-]+)\s*(<arg_key>.*)", re.DOTALL)


def parse_tagged_calls(text: str, tools: Tools) -> list[ToolCall] | None:
    """`name>{...}` or `name><parameter=key>value</parameter>`, with or without `<function=` before it."""
    found = FUNCTION.fullmatch(text)
    if found is None:
        return None
    name, inner = found[1], found[2]
    if pairs := PARAMETER.findall(inner):
        return [ToolCall("", name, convert_to_schema(pairs, tools.get(name, {})))]
    return [call_of("", name, inner)] if not inner.strip() or inner.strip().startswith("{") else None


def parse_paired_calls(text: str, tools: Tools) -> list[ToolCall] | None:
    """`name<arg_key>key</arg_key><arg_value>value</arg_value>`."""
    found = PAIRED.fullmatch(text)
    pairs = PAIR.findall(found[2]) if found else []
    return [ToolCall("", found[1], convert_to_schema(pairs, tools.get(found[1], {})))] if found and pairs else None


def parse_named_calls(text: str, _: Tools) -> list[ToolCall] | None:
    """`name{...}` or `name[ARGS]{...}`."""
    found = NAMED.fullmatch(text)
    return [call_of("", found[1], found[2])] if found else None


def convert_to_schema(pairs: list[tuple[str, str]], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Convert values that came as plain text to the types of the schema."""
    properties: dict[str, Any] = schema.get("properties") or {}
    return {key: convert_value_to_schema(value, properties.get(key) or {}) for key, value in pairs}


def convert_value_to_schema(value: str, schema: Mapping[str, Any]) -> Any:
    if schema.get("type") == "string":
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return value


# --- syntaxes -------------------------------------------------------------------------------------------

Read = Callable[[str, Tools], list[ToolCall] | None]


class CallSpelling(Bundle):
    begin: str
    end: str  # empty: the end of the reply
    reads: tuple[Read, ...] = ()  # None: it is thinking
    sure: bool = True  # certainly a call; otherwise the name must be that of a tool
    first: bool = False  # only at the beginning of the reply


ANY_FORM = (parse_json_calls, parse_tagged_calls, parse_paired_calls, parse_named_calls)

CALLS = (
    CallSpelling("<tool_call>", "</tool_call>", ANY_FORM),  # Hermes, Qwen, GLM
    CallSpelling("<|tool_call|>", "<|/tool_call|>", ANY_FORM),  # Phi
    CallSpelling("<function_call>", "</function_call>", ANY_FORM),
    CallSpelling("<function=", "</function>", (parse_tagged_calls,)),  # Llama 3.1, Qwen coder
    CallSpelling("[TOOL_CALLS]", "", ANY_FORM),  # Mistral
    CallSpelling("<|python_tag|>", "", (parse_json_calls,)),  # Llama 3
    CallSpelling("```json", "```", (parse_json_calls,), sure=False),
    CallSpelling("```tool_call", "```", (parse_json_calls,), sure=False),
    CallSpelling("```\n", "```", (parse_json_calls,), sure=False),
    CallSpelling("{", "", (parse_json_calls,), sure=False, first=True),
    CallSpelling("[{", "", (parse_json_calls,), sure=False, first=True),
)
THOUGHTS = (
    CallSpelling("<think>", "</think>", first=True),
    CallSpelling("<thinking>", "</thinking>", first=True),
    CallSpelling("<thought>", "</thought>", first=True),
)
MAY_BEGIN = re.compile(r"[<\[`{]")
KEYS = (*NAMES, *ARGUMENTS, *OTHERS, "tool_calls")
LONGEST_HEAD = 1_000  # characters up to the end of the first key, including blanks
FIRST_KEY = re.compile(r'\s*(?:\[\s*)?(?:\{\s*(?:"(\w*)("?)|$)|$)')
LEFTOVERS = re.compile(r"\s*(</s>|<\|im_end\|>|<\|eot_id\|>|<\|eom_id\|>|<\|end\|>)+\s*$")
NAME = re.compile(r'"name"\s*:\s*"([\w.-]+)"|<function=([\w.-]+)')
QUOTES = "`\"'"  # after one of these, the syntax is only mentioned


class TextToolCallReader:
    """Feed it the text as it arrives. Without tools it only looks for thinking."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._spellings = (*THOUGHTS, *CALLS) if tools else THOUGHTS
        self._held = ""
        self._inside: CallSpelling | None = None
        self._inner: list[str] = []  # inner text that need not be scanned again until the end arrives
        self._at_start = True  # only blanks and thinking so far
        self._last = ""  # the last text that was returned

    def passes(self, text: str) -> bool:
        """Whether this is plain text, as nearly always. Otherwise it must be fed."""
        if self._held or self._inside is not None:
            return False
        if "<" in text or "[" in text or "`" in text or "{" in text:  # `MAY_BEGIN`, in a third of the time
            return False
        self._last = text
        if self._at_start:
            self._at_start = not text.strip()
        return True

    def feed(self, text: str) -> list[Said]:
        if self.passes(text):
            return [(BlockKind.TEXT, text)]
        self._held += text
        return list(self._take())

    def close(self, *, cut: bool = False) -> list[Said]:
        """The reply has ended; `cut`: at its token limit."""
        said = list(self._take())
        rest, inside, self._held, self._inside = self._whole(self._held), self._inside, "", None
        if inside is None or not inside.reads:
            kind = BlockKind.TEXT if inside is None else BlockKind.THINKING
            return [*said, (kind, rest)] if rest else said
        return [*said, *self._read(inside, rest, "", cut=cut)]

    # --- steps ---

    def _take(self) -> Iterator[Said]:
        while self._held:
            step = self._within(self._inside) if self._inside is not None else self._outside()
            before = len(self._held), self._inside
            yield from step
            if before == (len(self._held), self._inside):
                return

    def _outside(self) -> Iterator[Said]:
        """Text up to where a syntax begins, or may begin."""
        at = 0
        while found := MAY_BEGIN.search(self._held, at):
            at = found.start()
            rest = self._held[at:]
            fitting = [each for each in self._spellings if self._can_stand(each, at)]
            begun = [each for each in fitting if rest.startswith(each.begin)]
            if begun or any(each.begin.startswith(rest) for each in fitting):
                yield from self._let_go(at)
                if begun:
                    self._inside = max(begun, key=lambda each: len(each.begin))
                    self._held = self._held[len(self._inside.begin) :]
                return
            at += 1
        yield from self._let_go(len(self._held))

    def _can_stand(self, spelling: CallSpelling, at: int) -> bool:
        before = self._held[:at]
        if spelling.first:
            return self._at_start and not before.strip()
        return (before or self._last)[-1:] not in (*QUOTES,)

    def _within(self, spelling: CallSpelling) -> Iterator[Said]:
        at = self._held.find(spelling.end) if spelling.end else -1
        if at >= 0:
            inner, self._held, self._inside = self._whole(self._held[:at]), self._held[at + len(spelling.end) :], None
            yield from self._read(spelling, inner, spelling.end)
        elif not spelling.reads:  # thinking is shown as it arrives, up to a possible end
            kept = begun_end(self._held, spelling.end)
            thought, self._held = self._held[: len(self._held) - kept], self._held[len(self._held) - kept :]
            if thought:
                yield BlockKind.THINKING, thought
        else:
            yield from self._wait_for_end(spelling)

    def _wait_for_end(self, spelling: CallSpelling) -> Iterator[Said]:
        is_call = True if spelling.sure or self._inner else may_be_call(spelling, self._held)
        if is_call:
            self._put_by(spelling)
        elif is_call is False:
            self._inside = None
            yield from self._let_go_with(spelling.begin)

    def _put_by(self, spelling: CallSpelling) -> None:
        """Keep all but a possible beginning of the end."""
        length = len(self._held) - max(0, len(spelling.end) - 1)
        if length > 0:
            self._inner.append(self._held[:length])
            self._held = self._held[length:]

    def _whole(self, last: str) -> str:
        inner, self._inner = "".join(self._inner) + last, []
        return inner

    def _read(self, spelling: CallSpelling, inner: str, end: str, *, cut: bool = False) -> Iterator[Said]:
        if not spelling.reads:
            yield BlockKind.THINKING, inner
            return
        whole = spelling.begin + inner if spelling.begin in ("{", "[{") else inner
        calls = self._calls(spelling, LEFTOVERS.sub("", whole).strip())
        if calls:
            self._at_start = False
            yield from calls
        elif spelling.sure:
            self._at_start = False
            yield damaged_call(spelling.begin + inner, cut=cut)
        else:
            text = spelling.begin + inner + end
            self._passed(text)
            yield BlockKind.TEXT, text

    def _calls(self, spelling: CallSpelling, inner: str) -> list[ToolCall] | None:
        for read in spelling.reads:
            calls = read(inner, self._tools)
            if calls and (spelling.sure or all(call.name in self._tools for call in calls)):
                return calls
        return None

    def _let_go(self, length: int) -> Iterator[Said]:
        text, self._held = self._held[:length], self._held[length:]
        if text:
            self._passed(text)
            yield BlockKind.TEXT, text

    def _let_go_with(self, begin: str) -> Iterator[Said]:
        """It was text after all. The text after it is scanned again."""
        self._passed(begin)
        yield BlockKind.TEXT, begin

    def _passed(self, text: str) -> None:
        self._last = text or self._last
        self._at_start = self._at_start and not text.strip()


def may_be_call(spelling: CallSpelling, held: str) -> bool | None:
    """Judged by the first key; None while that is incomplete."""
    whole = spelling.begin + held if spelling.begin in ("{", "[{") else held
    found = FIRST_KEY.match(whole)
    if found is None or len(held) > LONGEST_HEAD:
        return False
    if found[1] is None:
        return None
    if found[2]:
        return found[1] in KEYS
    return None if found.end() == len(whole) and any(key.startswith(found[1]) for key in KEYS) else False


def begun_end(text: str, end: str) -> int:
    """How many characters at the end of the text may be the beginning of `end`."""
    return next((size for size in range(min(len(end) - 1, len(text)), 0, -1) if end.startswith(text[-size:])), 0)


def damaged_call(text: str, *, cut: bool) -> ToolCall:
    found = NAME.search(text)
    name = (found[1] or found[2]) if found else UNNAMED
    return ToolCall("", name, {}, Defect.CUT if cut else Defect.MALFORMED)


T = TypeVar("T")

UNREADABLE = (ValueError, msgspec.MsgspecError, RecursionError)
OF_THE_MODEL = ("arguments", "input")  # written by a model: null has a meaning there


def decode_loosely(data: bytes) -> Any:
    """The value, with null for NaN and infinities. Raises one of `UNREADABLE`."""
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:
        return msgspec.json.decode(msgspec.json.encode(json.loads(data)))


def repair_json(data: bytes, form: type[T]) -> T | None:
    """None if it cannot be repaired."""
    try:
        return convert_loosely(decode_loosely(data), form)
    except UNREADABLE:
        return None


def convert_loosely(value: Any, form: type[T]) -> T:
    """Raises one of `UNREADABLE`."""
    return msgspec.json.decode(msgspec.json.encode(drop_nulls(value)), type=form, strict=False)


def drop_nulls(value: Any) -> Any:
    """Without nulls, and with whole numbers only."""
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value).items()
        return {name: inner if name in OF_THE_MODEL else drop_nulls(inner) for name, inner in pairs if is_there(inner)}
    if isinstance(value, list):
        return [drop_nulls(inner) for inner in as_list(value) if is_there(inner)]
    return round(value) if isinstance(value, float) else value


def is_there(value: Any) -> bool:
    return value is not None and not (isinstance(value, float) and not math.isfinite(value))
