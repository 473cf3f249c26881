"""OpenAI's own client talks to the server whose address it is given: run by `test_official_openai.py` with the
interpreter of `.venv-peers`. It prints what it made of each answer, as JSON.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any

openai: Any = importlib.import_module("openai")  # not in the environment of the type checker

MODEL = "gpt-6-sol"
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
FUNCTION = {"name": "weather", "description": "Tells the weather.", "parameters": SCHEMA, "strict": True}
STREAMS = ("cut_in_text", "error_event", "pings", "unknown_events", "malformed_json", "drip", "huge_text")
ERRORS = ("rate_limited", "overloaded", "server_error", "prompt_too_long", "too_large", "invalid_request", "reset")


class Chat:
    """Over Chat Completions."""

    def __init__(self, client: Any) -> None:
        self.create = client.chat.completions.create
        self.stream = client.chat.completions.stream

    def asked(self, words: str, **more: Any) -> dict[str, Any]:
        return {"model": MODEL, "user": "chat", "messages": [{"role": "user", "content": words}], **more}

    def whole(self) -> Any:
        return self.create(**self.asked("whole")).to_dict()

    def streamed(self) -> Any:
        """Put together by the client itself."""
        with self.stream(**self.asked("streamed"), stream_options={"include_usage": True}) as stream:
            texts = [event.delta for event in stream if event.type == "content.delta"]
            return {"texts": texts, "whole": stream.get_final_completion().to_dict()}

    def tool_loop(self) -> Any:
        asked = self.asked("tools", tools=[{"type": "function", "function": FUNCTION}])
        with self.stream(**asked) as stream:
            first = stream.get_final_completion().choices[0]
        calls = first.message.tool_calls
        asked["messages"] += [
            first.message.to_dict() | {"tool_calls": [plain(call) for call in calls]},
            *[{"role": "tool", "tool_call_id": call.id, "content": "sunny"} for call in calls],
        ]
        asked["messages"][1].pop("parsed", None)  # the stream helper's own
        second = self.create(**asked).choices[0]
        return {
            "finish": [first.finish_reason, second.finish_reason],
            "inputs": [json.loads(call.function.arguments) for call in calls],
            "answer": second.message.content,
        }

    def text_of_stream(self, words: str, into: list[str]) -> None:
        for chunk in self.create(**self.asked(words), stream=True):
            into.extend([choice.delta.content or "" for choice in chunk.choices])


def plain(call: Any) -> dict[str, Any]:
    function = {"name": call.function.name, "arguments": call.function.arguments}
    return {"id": call.id, "type": "function", "function": function}


class Responses:
    """Over Responses."""

    def __init__(self, client: Any) -> None:
        self.create = client.responses.create
        self.stream = client.responses.stream

    def asked(self, words: str, **more: Any) -> dict[str, Any]:
        return {"model": MODEL, "user": "responses", "input": [{"role": "user", "content": words}], **more}

    def whole(self) -> Any:
        return self.create(**self.asked("whole")).to_dict()

    def streamed(self) -> Any:
        with self.stream(**self.asked("streamed")) as stream:
            texts = [event.delta for event in stream if event.type == "response.output_text.delta"]
            return {"texts": texts, "whole": stream.get_final_response().to_dict()}

    def tool_loop(self) -> Any:
        """Reasoning and calls go back as they came."""
        asked = self.asked(
            "tools",
            tools=[{"type": "function", **FUNCTION}],
            store=False,
            include=["reasoning.encrypted_content"],
            reasoning={"summary": "auto"},
        )
        with self.stream(**asked) as stream:
            first = stream.get_final_response()
        calls = [item for item in first.output if item.type == "function_call"]
        asked["input"] += [
            *[without_scraps(item.to_dict()) for item in first.output],
            *[{"type": "function_call_output", "call_id": call.call_id, "output": "sunny"} for call in calls],
        ]
        second = self.create(**asked)
        return {
            "kinds": [item.type for item in first.output],
            "thought": "".join([part.text for part in first.output[0].summary]),
            "inputs": [json.loads(call.arguments) for call in calls],
            "answer": second.output_text,
        }

    def text_of_stream(self, words: str, into: list[str]) -> None:
        for event in self.create(**self.asked(words), stream=True):
            if event.type == "response.output_text.delta":
                into.append(event.delta)
            elif event.type in ("response.failed", "error"):
                raise RuntimeError(event.type)

    def events(self) -> Any:
        """The types that it knows them by: one that it does not know would have none."""
        asked = self.asked("events", reasoning={"summary": "auto"})
        return [type(event).__name__ for event in self.create(**asked, stream=True)]


def without_scraps(item: dict[str, Any]) -> dict[str, Any]:
    """What the client adds to the items for its own use."""
    parts = [{name: value for name, value in part.items() if name != "parsed"} for part in item.get("content") or ()]
    kept = {name: value for name, value in item.items() if not name.startswith("parsed")}
    return kept | ({"content": parts} if item["type"] == "message" else {})


def error(create: Any, asked: dict[str, Any]) -> Any:
    """What a request comes to that fails."""
    try:
        create(**asked)
    except openai.APIStatusError as caught:
        return [type(caught).__name__, caught.status_code, caught.code, bool(caught.request_id)]
    except openai.APIConnectionError as caught:
        return [type(caught).__name__]
    return "no error"


def stream_error(door: Any, words: str) -> Any:
    """How far a stream came that broke, and what its reader is told."""
    texts: list[str] = []
    try:
        door.text_of_stream(words, texts)
    except Exception as caught:  # noqa: BLE001  # whatever it raises is what we want to know
        return ["".join(texts), type(caught).__name__]
    return ["".join(texts), "no error"]


def talk(kind: Any, url: str) -> dict[str, Any]:
    client = openai.OpenAI(api_key="key", base_url=f"{url}/v1", max_retries=0, timeout=20)
    patient = openai.OpenAI(api_key="key", base_url=f"{url}/v1", max_retries=2, timeout=20)
    stranger = openai.OpenAI(api_key="another", base_url=f"{url}/v1", max_retries=0)
    door = kind(client)
    retried = kind(patient).create(**door.asked("twice too busy")).to_dict()
    return {
        "whole": door.whole(),
        "streamed": door.streamed(),
        "tool_loop": door.tool_loop(),
        "errors": {
            **{name: error(door.create, door.asked(name)) for name in ERRORS},
            "a rule is broken": error(door.create, door.asked("whole", temperature=0.5)),
            "unknown key": error(kind(stranger).create, door.asked("whole")),
        },
        "streams": {name: stream_error(door, name) for name in STREAMS},
        "retried": json.dumps(retried),
    }


def main(url: str) -> None:
    said: dict[str, Any] = {"chat": talk(Chat, url), "responses": talk(Responses, url)}
    client = openai.OpenAI(api_key="key", base_url=f"{url}/v1", max_retries=0, timeout=20)
    said["responses"]["events"] = Responses(client).events()
    said["models"] = [model.id for model in client.models.list()]
    print(json.dumps(said))


if __name__ == "__main__":
    main(sys.argv[1])
