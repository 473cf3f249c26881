"""Hostile streams, spelled out by hand for each of the three protocols: what no careful server would send.

Each is the bytes of one answer, frame by frame; a frame is one write of the server. What comes of each is in
`test_hostile.py`.
"""

from __future__ import annotations

import json
from typing import Any

from mainspring.simulator.replies import RawReply, RawStream, Reply

HEAD = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: %s\r\n\r\n"
JSON, EVENTS, PLAIN = b"application/json", b"text/event-stream", b"text/plain; charset=utf-8"
DONE = b"data: [DONE]\n\n"
KANJI = "漢字".encode()
PATH = '{"file_path":"a.py"}'
DEEP = '{"file_path":' + "[" * 100_000 + "]" * 100_000 + "}"
FAR = '{"file_path":"' + "a" * 3_000_000 + '"}'
BUSY = {"message": "the house is on fire", "type": "server_error", "code": None}


def data(*events: Any) -> tuple[bytes, ...]:
    """One frame for each. Text is put there as it is."""
    written = [event if isinstance(event, str) else json.dumps(event, ensure_ascii=False) for event in events]
    return tuple([f"data: {each}\n\n".encode() for each in written])


def stream(*frames: bytes | tuple[bytes, ...], end: Any = "done") -> RawStream:
    flat = [part for frame in frames for part in (frame if isinstance(frame, tuple) else (frame,))]
    return RawStream(tuple(flat), end=end)


def body(kind: bytes, content: Any) -> RawReply:
    written = content if isinstance(content, bytes) else json.dumps(content).encode()
    return RawReply((HEAD % kind, written))


def halves(event: bytes, at: bytes) -> tuple[bytes, bytes]:
    """Cut in the middle of this character."""
    place = event.index(at) + 1
    return event[:place], event[place:]


# --- chat completions -----------------------------------------------------------------------------------------


def said(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def called(*pieces: dict[str, Any] | None) -> dict[str, Any]:
    return said(tool_calls=list(pieces))


def piece(arguments: Any = None, name: str | None = None, **more: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {**more, "function": {key: value for key, value in function.items() if value is not None}}


def spent(prompt: Any, output: Any) -> dict[str, Any]:
    return {"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": output}}


READ = piece(PATH, "Read", index=0, id="c1")
STOPPED = said("stop")
CALLED = said("tool_calls")
CHAT: dict[str, Reply] = {
    "cut in a character": stream(*halves(data(said(content="漢字"))[0], KANJI), data(STOPPED), DONE),
    "half a character": stream(b'data: {"choices":[{"delta":{"content":"\xe6\xbc"}}]}\n\n', data(STOPPED), DONE),
    "half a surrogate": stream(data('{"choices":[{"delta":{"content":"a\\ud83d"}}]}', STOPPED), DONE),
    "two calls, one index": stream(
        data(called(piece(PATH, "Read", index=0, id="c1"), piece(PATH, "Read", index=0, id="c2")), CALLED), DONE
    ),
    "two calls, one index, no id": stream(
        data(called(piece(PATH, "Read", index=0)), called(piece(PATH, "Read", index=0)), CALLED), DONE
    ),
    "one id for two calls": stream(
        data(called(piece(PATH, "Read", index=0, id="c")), called(piece(PATH, "Read", index=1, id="c")), CALLED), DONE
    ),
    "arguments before the name": stream(
        data(called(piece('{"file_path":', index=0)), called(piece('"a.py"}', "Read", index=0, id="c1")), CALLED), DONE
    ),
    "a call without a name": stream(data(called(piece(PATH, index=0, id="c1")), CALLED), DONE),
    "null everywhere": stream(
        data(
            {"choices": None, "usage": None, "error": None},
            {"choices": [{"delta": None, "finish_reason": None}]},
            said(content=None, tool_calls=None, reasoning=None, refusal=None, function_call=None),
            {"choices": [{"delta": {"tool_calls": [{"index": None, "id": None, "function": None}]}}]},
            said(content="Hello."),
            STOPPED,
        ),
        DONE,
    ),
    "null in lists": stream(data({"choices": [None]}, called(None, READ), CALLED), DONE),
    "usage twice": stream(data(said(content="Hello."), spent(7, 1), STOPPED, spent(70, 10), spent(0, 0)), DONE),
    "usage that is none": stream(
        data(said(content="Hello."), STOPPED, '{"choices":[],"usage":{"prompt_tokens":-5,"completion_tokens":1e30}}'),
        DONE,
    ),
    "NaN in the usage": stream(
        data(said(content="Hello."), STOPPED, '{"choices":[],"usage":{"prompt_tokens":NaN,"completion_tokens":1}}'),
        DONE,
    ),
    "NaN in the arguments": stream(data(called(piece('{"file_path":NaN}', "Read", index=0, id="c1")), CALLED), DONE),
    "a number too large": stream(data(called(piece('{"file_path":1e999}', "Read", index=0, id="c1")), CALLED), DONE),
    "an error as the body": body(JSON, {"error": BUSY}),
    "an error as the body of events": body(EVENTS, {"error": BUSY}),
    "an error as plain text": body(PLAIN, {"error": "the house is on fire"}),
    "an error in the stream": stream(data(said(content="He"), {"error": BUSY}), DONE),
    "an error in words": stream(data({"error": "the house is on fire"}), DONE),
    "no [DONE]": stream(data(said(content="Hello."), STOPPED), end="close"),
    "[DONE] and blanks": stream(data(said(content="Hello.")), b"data: [DONE] \n\n", end="hang"),
    "[DONE] alone": stream(DONE),
    "nothing at all": stream(),
    "only empty choices": stream(data({"choices": []}, {"choices": []}), DONE),
    "the id changes": stream(
        data(
            called(piece('{"file_path":', "Read", index=0, id="c1")), called(piece('"a.py"}', index=0, id="c2")), CALLED
        ),
        DONE,
    ),
    "text behind the end": stream(data(said("stop", content="Hello."), said(content=" And more.")), DONE),
    "a call behind the end": stream(data(said("stop", content="Hello."), called(READ)), DONE),
    "the end twice": stream(data(said(content="Hello."), STOPPED, STOPPED, CALLED), DONE),
    "strange names and ids": stream(
        data(called(piece("{}", "../Read\n漢" * 40, index=-1, id='"\n' * 100)), CALLED), DONE
    ),
    "an index of every kind": stream(
        data(called(piece(PATH, "Read", index="0", id=1)), called(piece("", index=10**30)), CALLED), DONE
    ),
    "arguments for ever": stream(data(called(piece(FAR, "Read", index=0, id="c1")), CALLED), DONE),
    "arguments too deep": stream(data(called(piece(DEEP, "Read", index=0, id="c1")), CALLED), DONE),
    "an event too deep": stream(data('{"choices":' + "[" * 100_000), data(STOPPED), DONE),
    "an object for text": stream(data(said(content={"text": "Hello."}), STOPPED), DONE),
    "a list for a chunk": stream(data([said(content="Hello.")], STOPPED), DONE),
    "a number for a chunk": stream(data("7", STOPPED), DONE),
    "no JSON": stream(data("<html>502 Bad Gateway</html>"), DONE),
}

# --- responses ------------------------------------------------------------------------------------------------


def event(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", **more}


def over(**more: Any) -> dict[str, Any]:
    return event("completed", response={"status": "completed", **more})


def words(text: Any, **more: Any) -> dict[str, Any]:
    return event("output_text.delta", **{"output_index": 0, "delta": text, **more})


def begun(kind: str, place: Any = 0, **more: Any) -> dict[str, Any]:
    return event("output_item.added", output_index=place, item={"type": kind, **more})


def ended(kind: str, place: Any = 0, **more: Any) -> dict[str, Any]:
    return event("output_item.done", output_index=place, item={"type": kind, **more})


def written(text: Any, place: Any = 0, **more: Any) -> dict[str, Any]:
    return event("function_call_arguments.delta", output_index=place, delta=text, **more)


ITEM = {"id": "fc_1", "call_id": "c1", "name": "Read"}
GIVEN = {"type": "function_call", **ITEM, "arguments": PATH}
RESPONSES: dict[str, Reply] = {
    "cut in a character": stream(*halves(data(words("漢字"))[0], KANJI), data(over())),
    "half a character": stream(b'data: {"type":"response.output_text.delta","delta":"\xe6\xbc"}\n\n', data(over())),
    "half a surrogate": stream(data('{"type":"response.output_text.delta","delta":"a\\ud83d"}', over())),
    "two calls, one index": stream(
        data(
            begun("function_call", **ITEM),
            written(PATH),
            ended("function_call", **ITEM, arguments=PATH),
            begun("function_call", **ITEM | {"id": "fc_2", "call_id": "c2"}),
            ended("function_call", **ITEM | {"id": "fc_2", "call_id": "c2"}, arguments=PATH),
            over(),
        )
    ),
    "one id for two calls": stream(
        data(
            ended("function_call", 0, **ITEM, arguments=PATH), ended("function_call", 1, **ITEM, arguments=PATH), over()
        )
    ),
    "arguments before the item": stream(
        data(written('{"file_path":'), begun("function_call", **ITEM), written('"a.py"}'), over())
    ),
    "arguments before the item, which is done": stream(
        data(written(PATH), ended("function_call", **ITEM, arguments=PATH), over())
    ),
    "a call without a name": stream(data(begun("function_call", id="fc_1"), written(PATH), over())),
    "null everywhere": stream(
        data(
            event("created", response=None),
            event("output_item.added", output_index=None, item=None),
            words("Hello.", item_id=None, content_index=None),
            words(None),
            ended("message", id=None, content=None),
            over(usage=None, error=None, output=None, incomplete_details=None),
        )
    ),
    "null in lists": stream(data(ended("message", content=[None, {"text": "Hello."}]), over(output=[None]))),
    "usage twice": stream(
        data(
            words("Hello."),
            event("in_progress", response={"usage": {"input_tokens": 1}}),
            over(usage={"input_tokens": 70, "output_tokens": 10}),
            over(usage={"input_tokens": 0}),
        )
    ),
    "usage that is none": stream(
        data(
            words("Hello."),
            '{"type":"response.completed","response":{"usage":{"input_tokens":-5,"output_tokens":1e30}}}',
        )
    ),
    "NaN in the usage": stream(
        data(words("Hello."), '{"type":"response.completed","response":{"usage":{"input_tokens":NaN}}}')
    ),
    "NaN in the arguments": stream(data(ended("function_call", **ITEM, arguments='{"file_path":NaN}'), over())),
    "a number too large": stream(data(ended("function_call", **ITEM, arguments='{"file_path":1e999}'), over())),
    "an error as the body": body(JSON, {"error": BUSY}),
    "an error as the body of events": body(EVENTS, {"error": BUSY}),
    "an error as plain text": body(PLAIN, {"error": "the house is on fire"}),
    "an error in the stream": stream(data(words("He"), {**BUSY, "type": "error"})),
    "an error without a type": stream(data(words("He"), {"error": BUSY})),
    "an error in words": stream(data({"type": "error", "error": "the house is on fire"})),
    "failed without a reason": stream(data(words("He"), event("failed", response={"status": "failed"}))),
    "no end": stream(data(words("Hello."), ended("message", content=[{"text": "Hello."}])), end="close"),
    "[DONE] for an end": stream(data(words("Hello."), ended("message", content=[{"text": "Hello."}])), DONE),
    "an end without a response": stream(data(words("Hello."), event("completed", response=None))),
    "an end and nothing else": stream(data(over())),
    "nothing at all": stream(),
    "a call at the end only": stream(data(words("I will look."), over(output=[{"type": "message"}, GIVEN]))),
    "arguments when done only": stream(
        data(
            begun("function_call", **ITEM),
            event("function_call_arguments.done", output_index=0, item_id="fc_1", arguments=PATH),
            over(),
        )
    ),
    "text when done only": stream(data(event("output_text.done", output_index=0, text="Hello."), over())),
    "the id changes": stream(
        data(
            begun("function_call", **ITEM),
            written(PATH),
            ended("function_call", **ITEM | {"id": "x", "call_id": "c2"}, arguments=PATH),
            over(),
        )
    ),
    "no index": stream(
        data(
            event("output_item.added", item={"type": "function_call", **ITEM}),
            event("function_call_arguments.delta", item_id="fc_1", delta=PATH),
            event("output_item.done", item=GIVEN),
            over(),
        )
    ),
    "written to as something else": stream(data(words("Hello."), written("{}"), over())),
    "text behind the end": stream(data(words("Hello."), over(), words(" And more."), over())),
    "strange names and ids": stream(
        data(ended("function_call", call_id='"\n' * 100, name="../Read\n漢" * 40, arguments="{}"), over())
    ),
    "an index of every kind": stream(data(words("Hello.", output_index="0"), over())),
    "an object for arguments": stream(data(ended("function_call", **ITEM, arguments={"file_path": "a.py"}), over())),
    "arguments for ever": stream(data(begun("function_call", **ITEM), written(FAR), over())),
    "arguments too deep": stream(data(ended("function_call", **ITEM, arguments=DEEP), over())),
    "an event too deep": stream(data('{"type":"response.created","response":' + "[" * 100_000), data(over())),
    "an object for text": stream(data(words({"text": "Hello."}), over())),
    "no JSON": stream(data("<html>502 Bad Gateway</html>")),
}

# --- Anthropic's messages ---------------------------------------------------------------------------------------

MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "m"}
START = {"type": "message_start", "message": {**MESSAGE, "usage": {"input_tokens": 7, "output_tokens": 1}}}
STOP = {"type": "message_stop"}
TEXT = {"type": "text", "text": ""}
USE = {"type": "tool_use", "id": "c1", "name": "Read", "input": {}}


def opened(block: Any, index: Any = 0) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def grows(kind: str, value: Any, index: Any = 0) -> dict[str, Any]:
    field = {"text_delta": "text", "input_json_delta": "partial_json", "thinking_delta": "thinking"}[kind]
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, field: value}}


def closed(index: Any = 0) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def stops(reason: Any, **usage: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage or {"output_tokens": 5}}


def say(text: Any, index: Any = 0) -> tuple[dict[str, Any], ...]:
    return opened(TEXT, index), grows("text_delta", text, index), closed(index)


def use(arguments: Any, **more: Any) -> tuple[dict[str, Any], ...]:
    return opened({**USE, **more}), grows("input_json_delta", arguments), closed()


HELLO = say("Hello.")
ENDS = (stops("end_turn"), STOP)
USES = (stops("tool_use"), STOP)
MESSAGES: dict[str, Reply] = {
    "cut in a character": stream(data(START), *halves(b"".join(data(*say("漢字"))), KANJI), data(*ENDS)),
    "half a character": stream(
        data(START, opened(TEXT)),
        b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\xe6\xbc"}}\n\n',
        data(closed(), *ENDS),
    ),
    "half a surrogate": stream(
        data(START, opened(TEXT), '{"type":"content_block_delta","delta":{"type":"text_delta","text":"a\\ud83d"}}'),
        data(closed(), *ENDS),
    ),
    "two calls, one index": stream(data(START, *use(PATH), *use(PATH, id="c2"), *USES)),
    "two calls, one index, at once": stream(
        data(START, opened(USE), opened({**USE, "id": "c2"}), grows("input_json_delta", PATH), closed(), *USES)
    ),
    "one id for two calls": stream(
        data(START, *use(PATH), opened(USE, 1), grows("input_json_delta", PATH, 1), closed(1), *USES)
    ),
    "arguments before the call": stream(data(START, grows("input_json_delta", PATH), opened(USE), closed(), *USES)),
    "a call without a name": stream(data(START, *use(PATH, name=""), *USES)),
    "a call without an id": stream(data(START, *use(PATH, id=""), *USES)),
    "null everywhere": stream(
        data(
            {"type": "message_start", "message": None, "usage": None, "delta": None, "error": None},
            {"type": "content_block_delta", "index": 0, "delta": None},
            opened({"type": "text", "text": None, "citations": None}),
            grows("text_delta", None),
            grows("text_delta", "Hello."),
            closed(),
            {"type": "message_delta", "delta": None, "usage": None},
            {"type": "message_delta", "delta": {"stop_reason": None}, "usage": {"output_tokens": None}},
            STOP,
        )
    ),
    "null in a call": stream(
        data(START, opened({**USE, "input": None}), grows("input_json_delta", None), grows("input_json_delta", PATH)),
        data(closed(), *USES),
    ),
    "a block of null": stream(data(START, opened(None), *HELLO, *ENDS)),
    "usage twice": stream(
        data(START, *HELLO, stops("end_turn", output_tokens=9), stops("end_turn", input_tokens=0), STOP)
    ),
    "usage that is none": stream(data(START, *HELLO, stops("end_turn", output_tokens=-5, input_tokens=1.5), STOP)),
    "NaN in the usage": stream(data(START, *HELLO, '{"type":"message_delta","usage":{"output_tokens":NaN}}', STOP)),
    "NaN in the arguments": stream(data(START, *use('{"file_path":NaN}'), *USES)),
    "a number too large": stream(data(START, *use('{"file_path":1e999}'), *USES)),
    "an error as the body": body(JSON, {"type": "error", "error": BUSY}),
    "an error as the body of events": body(EVENTS, {"type": "error", "error": BUSY}),
    "an error as plain text": body(PLAIN, {"error": "the house is on fire"}),
    "an error in the stream": stream(data(START, *HELLO, {"type": "error", "error": BUSY})),
    "an error of llama.cpp": stream(data(START, opened(TEXT), {"code": 500, **BUSY}), end="close"),
    "an error in words": stream(data(START, {"type": "error", "error": "the house is on fire"})),
    "an error without a type": stream(data(START, {"error": BUSY})),
    "the whole message at once": body(
        JSON, {**MESSAGE, "content": [{"type": "text", "text": "Hello."}], "stop_reason": "end_turn", "usage": {}}
    ),
    "no end": stream(data(START, *HELLO), end="close"),
    "[DONE] for an end": stream(data(START, *HELLO, stops("end_turn")), DONE),
    "an end in mid-block": stream(data(START, opened(TEXT), grows("text_delta", "Hello."), *ENDS)),
    "an end and nothing else": stream(data(STOP)),
    "nothing at all": stream(),
    "the id changes": stream(data(START, {**START, "message": {**MESSAGE, "id": "msg_2"}}, *HELLO, *ENDS)),
    "text behind the end": stream(data(START, *HELLO, *ENDS, *say(" And more.", 1), *ENDS)),
    "no beginning": stream(data(*HELLO, *ENDS)),
    "an index that jumps": stream(data(START, *say("Hello.", 7), *ENDS)),
    "an index of every kind": stream(data(START, *say("Hello.", "0"), *ENDS)),
    "a block of an unknown kind": stream(
        data(START, opened({"type": "weather", "rain": 1}), closed(), *say("Hello.", 1), *ENDS)
    ),
    "a reason that nobody knows": stream(data(START, *HELLO, stops("bored"), STOP)),
    "a stop for tools without any": stream(data(START, *HELLO, *USES)),
    "strange names and ids": stream(data(START, *use("{}", id='"\n' * 100, name="../Read\n漢" * 40), *USES)),
    "an object for arguments": stream(data(START, *use({"file_path": "a.py"}), *USES)),
    "arguments in the beginning": stream(data(START, opened({**USE, "input": {"file_path": "a.py"}}), closed(), *USES)),
    "arguments for ever": stream(data(START, *use(FAR), *USES)),
    "arguments too deep": stream(data(START, *use(DEEP), *USES)),
    "an event too deep": stream(data(START, '{"type":"ping","message":' + "[" * 100_000, *HELLO, *ENDS)),
    "no JSON": stream(data("<html>502 Bad Gateway</html>")),
}
