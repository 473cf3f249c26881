"""Pieces of requests to OpenAI's two protocols, and requests that are right."""

from __future__ import annotations

from typing import Any

from simulator.bodies import PIXEL, Json

MODEL = "gpt-6-sol"
PLAIN = "llama-3.3"  # nothing is known of it
SCHEMA: Json = {"type": "object", "properties": {"file_path": {"type": "string"}}, "required": ["file_path"]}
CLOSED: Json = {**SCHEMA, "additionalProperties": False}
IMAGE = f"data:image/png;base64,{PIXEL}"

# --- Chat Completions ---


def says(words: Any = "Hello.", role: str = "user", **more: Any) -> Json:
    return {"role": role, "content": words, **more}


def calling(*ids: str, arguments: Any = '{"file_path":"a.py"}', name: str = "Read", **more: Any) -> Json:
    function = {"name": name, "arguments": arguments}
    calls = [{"id": id, "type": "function", "function": function} for id in ids or ("call_1",)]
    return {"role": "assistant", "content": None, "tool_calls": calls, **more}


def answers(id: str = "call_1", content: Any = "x = 1") -> Json:
    return {"role": "tool", "tool_call_id": id, "content": content}


def function(name: str = "Read", parameters: Any = SCHEMA, **more: Any) -> Json:
    held = {"name": name, "description": "Reads a file.", "parameters": parameters, **more}
    return {"type": "function", "function": held}


def chat(*messages: Json, **more: Any) -> Json:
    return {"model": MODEL, "messages": list(messages or [says()]), **more}


# --- Responses ---


def item(words: Any = "Hello.", role: str = "user", **more: Any) -> Json:
    return {"type": "message", "role": role, "content": words, **more}


def thought(id: str = "rs_1_0", model: str = MODEL, **more: Any) -> Json:
    return {"type": "reasoning", "id": id, "summary": [], "encrypted_content": f"sig:{model}:1", **more}


def called(call: str = "call_1", arguments: Any = '{"file_path":"a.py"}', name: str = "Read", **more: Any) -> Json:
    return {"type": "function_call", "call_id": call, "name": name, "arguments": arguments, **more}


def output(call: str = "call_1", words: Any = "x = 1") -> Json:
    return {"type": "function_call_output", "call_id": call, "output": words}


def flat(name: str = "Read", parameters: Any = SCHEMA, **more: Any) -> Json:
    return {"type": "function", "name": name, "parameters": parameters, "strict": False, **more}


def respond(*items: Json, **more: Any) -> Json:
    return {"model": MODEL, "input": list(items or [item()]), **more}
