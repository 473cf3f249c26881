"""OpenAI's Responses, streaming. Nothing is kept on the server: each request holds the whole conversation, and what the
model thought travels encrypted.

The request is made here from the conversation (`providers/projection.py`, `openai_responses_json.py`), the reply is
read by `responses_stream.py`; how a server is asked at all is in `providers/http_provider.py`, what servers differ in,
in `provider.py`.
"""

from __future__ import annotations

import msgspec

from mainspring.core.effects import Request
from mainspring.providers.base import Conversation
from mainspring.providers.http_provider import FixedPart, PreparedRequest, RequestBody
from mainspring.providers.message_order import ProjectionTarget
from mainspring.providers.openai.openai_responses_json import (
    CLOSE,
    form_of,
    make_responses_encoder,
    responses_accepts_block,
    tool_json,
)
from mainspring.providers.openai.provider import OpenAI, system_of
from mainspring.providers.openai.responses_stream import ResponsesStreamReader
from mainspring.providers.projection import ProjectedParts, RequestProjection

ENCRYPTED = "reasoning.encrypted_content"
LEAST_OUTPUT = 16  # tokens; less is refused


class OpenAIResponses(OpenAI):
    path = "/responses"

    def _projection(self) -> RequestProjection:
        return RequestProjection(make_responses_encoder(files=self.manners.files), form_of)

    def _target(self, request: Request, distrusted: frozenset[str]) -> ProjectionTarget:
        return ProjectionTarget(request.model, thinking=True, distrusted=distrusted, takes=responses_accepts_block)

    def _settings(self, request: Request, projected: ProjectedParts) -> dict[str, object]:  # noqa: ARG002
        settings: dict[str, object] = {"model": self._model(request), "stream": True}
        reasoning: dict[str, object] = {}
        if effort := self._effort(request, "reasoning.effort"):
            reasoning["effort"] = effort
        if self.manners.summaries and "reasoning.summary" not in self._refused:
            reasoning["summary"] = "auto"
        optional: dict[str, object] = {
            "store": False,
            "max_output_tokens": max(request.max_output, LEAST_OUTPUT),
            "include": [ENCRYPTED],
            "reasoning": reasoning or None,
            "prompt_cache_key": request.chain if self.manners.cache_key and request.chain else None,
        }
        known = {name: value for name, value in optional.items() if value is not None and name not in self._refused}
        return settings | known

    def _optional(self) -> tuple[str, ...]:
        known = ("include", "reasoning.summary", "reasoning.effort", "reasoning", "store", "max_output_tokens")
        return tuple([name for name in (*known, "prompt_cache_key") if name not in self._refused])

    def _thinking_in(self, settings: dict[str, object]) -> object:
        return settings.get("reasoning")

    def _fix(self, conversation: Conversation) -> FixedPart:
        tools = [tool_json(tool) for tool in conversation.tools]
        system = [msgspec.json.encode(text)] if (text := system_of(conversation)) else []
        body = b',"tools":[' + b",".join(tools) + b"]" if tools else b""
        body += b"".join([b',"instructions":' + each for each in system])
        return FixedPart(tools, system, body + b',"input":[')

    def _body(
        self,
        settings: dict[str, object],
        fixed: FixedPart,
        projected: ProjectedParts,
        conversation: Conversation,  # noqa: ARG002  # these servers cache by themselves: there are no marks
    ) -> RequestBody:
        end = CLOSE[projected.form] if projected.form else b""
        return RequestBody([msgspec.json.encode(settings)[:-1], fixed.body], projected, [end, b"]}"])

    def _reading(self, prepared: PreparedRequest) -> ResponsesStreamReader:
        return ResponsesStreamReader(self._expected(prepared))
