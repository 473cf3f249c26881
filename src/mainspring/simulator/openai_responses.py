"""Answers in the format of OpenAI's Responses, whole and streamed.

A block is an item: thinking a `reasoning`, text a `message` with one part, a call a `function_call`. Thinking is shown
if the request asks for a summary, and is included in encrypted form if it asks for `reasoning.encrypted_content`. An
item that follows reasoning has an id that ends with `r`: a client that sends it back by that id must send the
reasoning, too (`openai_responses_request.py`).
"""

from __future__ import annotations

from typing import Any

from msgspec.json import decode, encode

from mainspring.simulator.forms import is_list
from mainspring.simulator.openai_chat import CREATED, spell_arguments, usage_to_chat
from mainspring.simulator.openai_errors import error_of, make_openai_headers, make_openai_refusal, violation_to_error
from mainspring.simulator.openai_responses_request import find_violations, to_messages
from mainspring.simulator.protocol import ApiDialect
from mainspring.simulator.replies import Json, Refuse, ReplyStamp, Say, stream_events
from mainspring.simulator.server_quirks import RESPONSES, get_spelling_oddities

CUT_SHORT = {
    "max_tokens": "max_output_tokens",
    "model_context_window_exceeded": "max_output_tokens",
    "refusal": "content_filter",
}
NO_ID: dict[str, Json] = {"": {}, "empty": {"call_id": ""}, "null": {"call_id": None}}
KINDS = {"text": "msg", "tool_use": "fc", "thinking": "rs", "redacted_thinking": "rs"}


class ResponsesStreamWriter:
    """Encodes event by event. `response` is the answer so far, and the whole answer at the end."""

    def __init__(self, say: Say, stamp: ReplyStamp, asked: Json) -> None:
        self._say = say
        self._odd = get_spelling_oddities(say)
        self._number = stamp.id.removeprefix("msg_").lstrip("0")
        self._sequence = 0
        self._at: dict[int, int] = {}  # the index of an item, by its block
        self._item: Json = {}  # the current item
        reasoning: Json = asked.get("reasoning") or {}
        self._summarizes = bool(reasoning.get("summary"))
        self._query = ""  # of the current search, as JSON
        self._lists_sources = "web_search_call.action.sources" in (asked.get("include") or ())
        self._encrypts = "reasoning.encrypted_content" in (asked.get("include") or ())
        self._part = ("refusal", "refusal") if "refusal_field" in self._odd else ("output_text", "text")
        self.response = empty_response(stamp, asked)

    def __call__(self, event: Json) -> bytes:
        match event["type"]:
            case "message_start":
                created = self._tell("response.created", response=self.response)
                return created + self._tell("response.in_progress", response=self.response)
            case "content_block_start" if event["content_block"]["type"] == "server_tool_use":
                return self._search_begun(event["index"])
            case "content_block_start" if event["content_block"]["type"] == "web_search_tool_result":
                return self._search_done(event["content_block"]["content"])
            case "content_block_start" if event["content_block"]["type"] in KINDS:
                return self._begun(event["index"], event["content_block"])
            case "content_block_delta" if event["index"] in self._at:
                return self._more(event["delta"])
            case "content_block_stop" if event["index"] in self._at:
                return self._done(event["index"])
            case "message_stop":
                return self._ended()
            case "error":
                return self._failed(event["error"])
            case _:
                return b""

    # --- items ---

    def _begun(self, index: int, block: Json) -> bytes:
        place = len(self._at)
        prefix = KINDS[block["type"]]
        led = prefix != "rs" and place > 0 and self.response["output"][-1]["type"] == "reasoning"
        self._at[index] = place
        self._item = self._new_item(f"{prefix}_{self._number}_{place}{'r' if led else ''}", block)
        said = self._tell("response.output_item.added", output_index=place, item=self._item)
        if self._item["type"] == "message":
            said += self._tell("response.content_part.added", **self._here(content_index=0), part=self._new_part(""))
        elif self._thinks_aloud:
            part = {"type": "summary_text", "text": ""}
            said += self._tell("response.reasoning_summary_part.added", **self._here(summary_index=0), part=part)
        self.response["output"].append(self._item)
        return said

    def _search_begun(self, index: int) -> bytes:
        """A search and its result are one item. Its query is complete when its result begins."""
        place = len(self._at)
        self._at[index] = place
        self._query = ""
        self._item = {"id": f"ws_{self._number}_{place}", "type": "web_search_call", "status": "in_progress"}
        self.response["output"].append(self._item)
        said = self._tell("response.output_item.added", output_index=place, item=self._item)
        said += self._tell("response.web_search_call.in_progress", **self._here())
        return said + self._tell("response.web_search_call.searching", **self._here())

    def _search_done(self, found: Any) -> bytes:
        pages: list[Json] = found if is_list(found) else []
        sources = {"sources": [{"type": "url", "url": page["url"]} for page in pages]} if self._lists_sources else {}
        query: str = decode(self._query).get("query", "") if self._query else ""
        action = {"type": "search", "query": query, "queries": [query], **sources}
        self._item |= {"status": "completed" if is_list(found) else "failed", "action": action}
        done = self._tell("response.web_search_call.completed", **self._here()) if is_list(found) else b""
        return done + self._tell("response.output_item.done", output_index=len(self._at) - 1, item=self._item)

    def _new_item(self, id: str, block: Json) -> Json:
        match block["type"]:
            case "text":
                return {"id": id, "type": "message", "status": "in_progress", "role": "assistant", "content": []}
            case "tool_use":
                called = NO_ID[self._odd["no_ids"]] if "no_ids" in self._odd else {"call_id": block["id"]}
                name = {"name": block["name"], "arguments": ""}
                return {"id": id, "type": "function_call", "status": "in_progress", **called, **name}
            case _:
                hidden = {"encrypted_content": block.get("data")} if "data" in block and self._encrypts else {}
                return {"id": id, "type": "reasoning", "summary": [], **hidden}

    def _more(self, delta: Json) -> bytes:
        match delta["type"]:
            case "input_json_delta" if self._item["type"] == "web_search_call":
                self._query += delta["partial_json"]
            case "citations_delta":
                return self._cited(delta["citation"])
            case "text_delta":
                content = self._item["content"] or [self._new_part("")]
                self._item["content"] = [self._new_part(content[0][self._part[1]] + delta["text"])]
                here = {**self._here(content_index=0), "delta": delta["text"], **self._logprobs}
                return self._tell(f"response.{self._part[0]}.delta", **here)
            case "thinking_delta" if self._thinks_aloud:
                words = "".join([part["text"] for part in self._item["summary"]]) + delta["thinking"]
                self._item["summary"] = [{"type": "summary_text", "text": words}]
                here = self._here(summary_index=0)
                return self._tell("response.reasoning_summary_text.delta", **here, delta=delta["thinking"])
            case "signature_delta" if self._encrypts:
                self._item["encrypted_content"] = delta["signature"]
            case "input_json_delta" if delta["partial_json"]:
                self._item["arguments"] += delta["partial_json"]
                if "object_arguments" not in self._odd:
                    piece = {"delta": delta["partial_json"]}
                    return self._tell("response.function_call_arguments.delta", **self._here(), **piece)
            case _:
                pass
        return b""

    def _done(self, index: int) -> bytes:
        said = b""
        kind = self._item["type"]
        if kind == "web_search_call":
            return b""  # it is done with its result
        if kind == "message":
            said = self._text_done()
        elif kind == "function_call":
            said = self._call_done()
        elif self._thinks_aloud:
            said = self._summary_done()
        if kind != "reasoning":
            cut = self._say.stopped in CUT_SHORT and index == len(self._say.blocks) - 1
            self._item["status"] = "incomplete" if cut else "completed"
        return said + self._tell("response.output_item.done", output_index=self._at[index], item=self._item)

    def _cited(self, citation: Json) -> bytes:
        part: Json = self._item["content"][0]
        where = {"start_index": 0, "end_index": len(part["text"])}
        noted = {"type": "url_citation", **where, "url": citation["url"], "title": citation.get("title") or ""}
        part["annotations"].append(noted)
        here = self._here(content_index=0, annotation_index=len(part["annotations"]) - 1)
        return self._tell("response.output_text.annotation.added", **here, annotation=noted)

    def _text_done(self) -> bytes:
        kind, field = self._part
        part = (self._item["content"] or [self._new_part("")])[0]
        self._item["content"] = [part]
        here = self._here(content_index=0)
        done = self._tell(f"response.{kind}.done", **here, **{field: part[field]}, **self._logprobs)
        return done + self._tell("response.content_part.done", **here, part=part)

    def _call_done(self) -> bytes:
        self._item["arguments"] = spell_arguments(self._item["arguments"] or "{}", self._odd)
        here = self._here()
        more = {"name": self._item["name"], "arguments": self._item["arguments"]}
        return self._tell("response.function_call_arguments.done", **here, **more)

    def _summary_done(self) -> bytes:
        part = {"type": "summary_text", "text": "".join([part["text"] for part in self._item["summary"]])}
        self._item["summary"] = [part]
        here = self._here(summary_index=0)
        done = self._tell("response.reasoning_summary_text.done", **here, text=part["text"])
        return done + self._tell("response.reasoning_summary_part.done", **here, part=part)

    # --- the end ---

    def _ended(self) -> bytes:
        reason = CUT_SHORT.get(self._say.stopped)
        self.response["status"] = "incomplete" if reason else "completed"
        self.response["incomplete_details"] = {"reason": reason} if reason else None
        self.response["usage"] = None if "no_usage" in self._odd else usage_of(self._say)
        return self._tell(f"response.{self.response['status']}", response=self.response)

    def _failed(self, error: Json) -> bytes:
        """Before the first event an error is sent alone; later the response fails."""
        said = error_of(Refuse(500, error["type"], error["message"]))
        if "nested_error" in self._odd:
            return self._tell("error", error=said)
        if not self._sequence:
            return self._tell("error", code=said["code"], message=said["message"], param=None)
        self.response["status"] = "failed"
        self.response["error"] = {"code": said["code"] or "server_error", "message": said["message"]}
        return self._tell("response.failed", response=self.response)

    # --- pieces ---

    @property
    def _thinks_aloud(self) -> bool:
        return self._item["type"] == "reasoning" and self._summarizes

    @property
    def _logprobs(self) -> Json:
        return {"logprobs": []} if self._part[0] == "output_text" else {}

    def _new_part(self, words: str) -> Json:
        kind, field = self._part
        return {"type": kind, field: words, **({"annotations": []} if self._logprobs else {}), **self._logprobs}

    def _here(self, **more: int) -> Json:
        return {"item_id": self._item["id"], "output_index": len(self._at) - 1, **more}

    def _tell(self, kind: str, **data: Any) -> bytes:
        body = encode({"type": kind, "sequence_number": self._sequence, **data})
        self._sequence += 1
        return b"event: %s\ndata: %s\n\n" % (kind.encode(), body)


def empty_response(stamp: ReplyStamp, asked: Json) -> Json:
    """The request's parameters are repeated, with defaults."""
    return {
        "id": stamp.id.replace("msg_", "resp_"),
        "object": "response",
        "created_at": CREATED,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "instructions": asked.get("instructions"),
        "max_output_tokens": asked.get("max_output_tokens"),
        "model": stamp.model,
        "output": [],
        "parallel_tool_calls": asked.get("parallel_tool_calls", True),
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None, **(asked.get("reasoning") or {})},
        "store": asked.get("store", True),
        "temperature": asked.get("temperature", 1.0),
        "text": {"format": {"type": "text"}, **(asked.get("text") or {})},
        "tool_choice": asked.get("tool_choice", "auto"),
        "tools": asked.get("tools") or [],
        "top_p": asked.get("top_p", 1.0),
        "truncation": asked.get("truncation") or "disabled",
        "usage": None,
        "metadata": asked.get("metadata") or {},
    }


def usage_of(say: Say) -> Json:
    usage = usage_to_chat(say)
    details: Json = usage["prompt_tokens_details"]
    return {
        "input_tokens": usage["prompt_tokens"],
        "input_tokens_details": {name: details[name] for name in ("cached_tokens", "cache_write_tokens")},
        "output_tokens": usage["completion_tokens"],
        "output_tokens_details": {"reasoning_tokens": usage["completion_tokens_details"]["reasoning_tokens"]},
        "total_tokens": usage["total_tokens"],
    }


def make_response_object(say: Say, stamp: ReplyStamp, asked: Json) -> Json:
    teller = ResponsesStreamWriter(say, stamp, asked)
    for event in stream_events(say, stamp):
        teller(event)
    return teller.response


DELTA = b"event: response.output_text.delta\ndata: "
SPEECH = ApiDialect(
    path=RESPONSES,
    judge=find_violations,
    hear=to_messages,
    complain=violation_to_error,
    refuse=make_openai_refusal,
    headers=make_openai_headers,
    whole=make_response_object,
    teller=ResponsesStreamWriter,
    ping=b": PROCESSING\n\n",
    broken_json=b'%s{"type":"response.output_text.delta","item_id":"msg_1","del\n\n' % DELTA,
    broken_sse=b'%s{"type":"response.output_text.delta",\n"delta":""}\n\n' % DELTA,
    strange=(
        b": a comment\n\n",
        b'event: response.weather\ndata: {"type":"response.weather","sequence_number":0,"rain":"drops"}\n\n',
        b"retry: 10\nid: 7\n\n",
        b"event: nothing\n\n",
    ),
    without=frozenset({"paused"}),
)
