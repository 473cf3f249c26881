"""An answer as server-sent events, for FastAPI and Starlette. If the client disconnects, the run is cancelled.

    pip install mainspring starlette uvicorn
    uvicorn examples.fastapi_sse:app

    curl -N http://localhost:8000/ask -H 'content-type: application/json' -d '{"prompt": "Hello!"}'

FastAPI takes the same function: `app = FastAPI()`, then `@app.post("/ask")` above `answer`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import aclosing

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from mainspring.sdk import Options, ResultMessage, StreamEvent, query

# The prompt comes from a stranger: it is plain text, there are no tools, and nothing stays on disk.
OPTIONS = Options(
    tools=[],
    setting_sources=[],
    verbatim_prompts=True,
    persist=False,
    max_budget_usd=0.10,
    include_partial_messages=True,
)


def format_event(name: str, **data: object) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"


async def stream_answer(prompt: str, options: Options = OPTIONS) -> AsyncIterator[str]:
    """Leaving the block ends the session: Starlette cancels this generator when the client disconnects."""
    async with aclosing(query(prompt=prompt, options=options)) as messages:
        async for message in messages:
            if isinstance(message, StreamEvent):
                if text := message.event.get("delta", {}).get("text"):
                    yield format_event("text", text=text)
            elif isinstance(message, ResultMessage):
                yield format_event("end", is_error=message.is_error, cost_usd=message.total_cost_usd)


async def answer(request: Request) -> StreamingResponse:
    prompt = (await request.json())["prompt"]
    return StreamingResponse(stream_answer(prompt), media_type="text/event-stream")


app = Starlette(routes=[Route("/ask", answer, methods=["POST"])])
