"""The official client talks to the server whose address it is given: run by `test_official.py` with the interpreter of
`.venv-peers`, where neither pytest's settings nor our types are. It prints what it made of each answer, as JSON.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any

anthropic: Any = importlib.import_module("anthropic")  # not in the environment of the type checker

MODEL = "claude-sonnet-5-5"
TOOL = {
    "name": "weather",
    "description": "Tells the weather.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


class Talk:
    def __init__(self, url: str) -> None:
        self.client = anthropic.Anthropic(api_key="key", base_url=url, max_retries=0, timeout=20)
        self.patient = anthropic.Anthropic(api_key="key", base_url=url, max_retries=2, timeout=20)
        self.stranger = anthropic.Anthropic(api_key="another", base_url=url, max_retries=0)

    def ask(self, words: str, **more: Any) -> dict[str, Any]:
        return {
            "model": MODEL,
            "max_tokens": 2_000,
            "messages": [{"role": "user", "content": words}],
            **more,
        }

    def whole(self) -> Any:
        return self.client.messages.create(**self.ask("whole")).to_dict()

    def streamed(self) -> Any:
        with self.client.messages.stream(**self.ask("streamed")) as stream:
            texts = list(stream.text_stream)
            return {"texts": texts, "message": stream.get_final_message().to_dict()}

    def events(self) -> Any:
        return [event.type for event in self.client.messages.create(**self.ask("events"), stream=True)]

    def tool_loop(self) -> Any:
        """Thinking and a call, streamed; then the result goes back with all that the model said."""
        asked = self.ask("tools", tools=[TOOL], thinking={"type": "adaptive"})
        with self.client.messages.stream(**asked) as stream:
            first = stream.get_final_message()
        call = first.content[-1]
        result = {"type": "tool_result", "tool_use_id": call.id, "content": "sunny"}
        asked["messages"] += [
            {"role": "assistant", "content": [block.to_dict() for block in first.content]},
            {"role": "user", "content": [result]},
        ]
        second = self.client.messages.create(**asked)
        return {
            "kinds": [block.type for block in first.content],
            "input": call.input,
            "answer": second.content[-1].text,
        }

    def counted(self) -> Any:
        asked = self.ask("count")
        del asked["max_tokens"]
        return self.client.messages.count_tokens(**asked).input_tokens > 0

    def error(self, words: str, **more: Any) -> Any:
        """What a request comes to that fails."""
        try:
            self.client.messages.create(**self.ask(words, **more))
        except anthropic.APIStatusError as error:
            said = error.body["error"]
            return [type(error).__name__, error.status_code, said["type"], bool(error.request_id)]
        except anthropic.APIConnectionError as error:
            return [type(error).__name__]
        return "no error"

    def stream_error(self, words: str) -> Any:
        """How far a stream came that broke, and what its reader is told."""
        texts: list[str] = []
        try:
            with self.client.messages.stream(**self.ask(words)) as stream:
                texts.extend(stream.text_stream)
        except Exception as error:  # noqa: BLE001  # whatever it raises is what we want to know
            return ["".join(texts), type(error).__name__]
        return ["".join(texts), "no error"]

    def unknown_key(self) -> Any:
        try:
            self.stranger.messages.create(**self.ask("whole"))
        except anthropic.AuthenticationError as error:
            return error.status_code
        return "no error"

    def retried(self) -> Any:
        return self.patient.messages.create(**self.ask("twice too busy")).content[-1].text


def main(url: str) -> None:
    talk = Talk(url)
    said = {
        "whole": talk.whole(),
        "streamed": talk.streamed(),
        "events": talk.events(),
        "tool_loop": talk.tool_loop(),
        "counted": talk.counted(),
        "errors": {
            **{name: talk.error(name) for name in ("rate_limited", "overloaded", "server_error", "prompt_too_long")},
            **{name: talk.error(name) for name in ("too_large", "invalid_request", "reset")},
            "a rule is broken": talk.error("whole", extra_body={"temperature": 1}),
        },
        "streams": {
            name: talk.stream_error(name)
            for name in ("cut_in_text", "error_event", "pings", "unknown_events", "malformed_json", "drip", "huge_text")
        },
        "unknown_key": talk.unknown_key(),
        "retried": talk.retried(),
    }
    print(json.dumps(said))


if __name__ == "__main__":
    main(sys.argv[1])
