"""A model server for bench/openai.py, in a separate process: the replies of bench/wire_server.py, in three protocols.

The first part of the path selects the manner of the reply, the last one the protocol. Chunks contain what OpenAI's own
servers put into them, including the padding against eavesdroppers: they are longer than Anthropic's events.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, only this directory's files would be found
from bench import wire_server
from bench.wire_server import HEAD, LAST_CHUNK, MANY

PADDING = "aB3dE5fG"


def chunk(data: str) -> bytes:
    framed = data.encode()
    return b"%x\r\n%s\r\n" % (len(framed), framed)


def compact(fields: dict[str, object]) -> str:
    return json.dumps(fields, separators=(",", ":"))


# --- chat completions ---------------------------------------------------------------------------------


def chat(delta: dict[str, object], finished: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finished}
    head = {"id": "chatcmpl-bench", "object": "chat.completion.chunk", "created": 1_794_700_000, "model": "gpt-5.5"}
    more = {"service_tier": "default", "system_fingerprint": None, "choices": [choice], "usage": None}
    return chunk(f"data: {compact({**head, **more, 'obfuscation': PADDING})}\n\n")


def chat_reply(count: int) -> bytes:
    usage = {"prompt_tokens": 40_400, "completion_tokens": 300, "prompt_tokens_details": {"cached_tokens": 40_000}}
    spent = chunk(f"data: {compact({'choices': [], 'usage': usage})}\n\n")
    begun = chat({"role": "assistant", "content": "", "refusal": None})
    deltas = [chat({"content": f" word{number}"}) for number in range(count)]
    return b"".join([HEAD, begun, *deltas, chat({}, "stop"), spent, chunk("data: [DONE]\n\n"), LAST_CHUNK])


# --- responses ------------------------------------------------------------------------------------------


def responses_reply(count: int) -> bytes:
    sequence = 0

    def event(kind: str, **fields: object) -> bytes:
        nonlocal sequence
        sequence += 1
        return chunk(f"event: {kind}\ndata: {compact({'type': kind, 'sequence_number': sequence, **fields})}\n\n")

    here: dict[str, object] = {"item_id": "msg_bench", "output_index": 0}
    item = {"id": "msg_bench", "type": "message", "status": "in_progress", "role": "assistant", "content": []}
    usage = {"input_tokens": 40_400, "input_tokens_details": {"cached_tokens": 40_000}, "output_tokens": 300}
    deltas = [
        event(
            "response.output_text.delta",
            **here,
            content_index=0,
            delta=f" word{number}",
            logprobs=[],
            obfuscation=PADDING,
        )
        for number in range(count)
    ]
    return b"".join(
        [
            HEAD,
            event("response.created", response={"id": "resp_bench", "status": "in_progress"}),
            event("response.output_item.added", output_index=0, item=item),
            *deltas,
            event("response.output_item.done", output_index=0, item=item),
            event("response.completed", response={"id": "resp_bench", "status": "completed", "usage": usage}),
            LAST_CHUNK,
        ]
    )


REPLIES: dict[tuple[str, str], bytes] = {
    ("burst", "messages"): wire_server.BURST,
    ("once", "messages"): wire_server.ONCE,
    ("burst", "completions"): chat_reply(MANY),
    ("once", "completions"): chat_reply(1),
    ("burst", "responses"): responses_reply(MANY),
    ("once", "responses"): responses_reply(1),
}


class Request(wire_server.Request):
    def _read_head(self, head: str, length: int) -> None:
        super()._read_head(head, length)
        parts = head.split()[1].split("/")
        reply = REPLIES[parts[1], parts[-1]]
        self._answer = lambda transport: transport.write(reply)


async def serve() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Request, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    left = asyncio.Event()  # the parent process has closed its end of our standard input
    loop.add_reader(sys.stdin, left.set)
    await left.wait()


if __name__ == "__main__":
    asyncio.run(serve())
