"""OpenAI's chat completions, streaming: the protocol that nearly every server speaks.

The request is made here from the conversation (`providers/projection.py`, `openai_chat_json.py`), the reply is read by
`chat_stream.py`; how a server is asked at all is in `providers/http_provider.py`, and what servers differ in, in
`provider.py`.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from mainspring.core.effects import Request
from mainspring.providers.base import Conversation
from mainspring.providers.http_provider import FixedPart, PreparedRequest, RequestBody
from mainspring.providers.message_order import ProjectionTarget
from mainspring.providers.openai.chat_stream import ChatStreamReader
from mainspring.providers.openai.openai_chat_json import (
    CLOSE,
    chat_accepts_block,
    form_of,
    make_chat_encoder,
    signs_call,
    system_json,
    takes_reasoning,
    tool_json,
)
from mainspring.providers.openai.openai_details import has_details
from mainspring.providers.openai.provider import OpenAI, system_of
from mainspring.providers.projection import ProjectedParts, RequestProjection

COMPLETION = "max_completion_tokens"
NEWER = ("gpt-5", "o1", "o3", "o4")  # models of OpenAI's that know no other name for the cap


class OpenAIChat(OpenAI):
    path = "/chat/completions"
    deployed = True

    def _projection(self) -> RequestProjection:
        return RequestProjection(make_chat_encoder(files=self.manners.files, signed=self.manners.signed_calls), form_of)

    def _target(self, request: Request, distrusted: frozenset[str]) -> ProjectionTarget:
        return ProjectionTarget(
            request.model,
            thinking=True,
            distrusted=distrusted,
            takes=takes_reasoning if self.manners.reasoning_back else chat_accepts_block,
            calls_last=True,
            of_call=signs_call,
            first=has_details,
            media_apart=True,
        )

    def _settings(self, request: Request, projected: ProjectedParts) -> dict[str, object]:  # noqa: ARG002
        settings: dict[str, object] = {"model": self._model(request), "stream": True}
        if self._model(request).startswith(NEWER):  # also behind a gateway
            self.manners = replace(self.manners, output_cap=COMPLETION)
        if "stream_options" not in self._refused:
            settings["stream_options"] = {"include_usage": True}
        if (cap := self._cap()) not in self._refused:
            settings[cap] = request.max_output
        if effort := self._effort(request, "reasoning_effort"):
            settings["reasoning_effort"] = effort
        if self.manners.cache_key and request.chain and "prompt_cache_key" not in self._refused:
            settings["prompt_cache_key"] = request.chain
        return settings

    def _cap(self) -> str:
        """By the name that the server has not refused; if it knows neither, there is none."""
        first = self.manners.output_cap
        other = "max_tokens" if first == COMPLETION else COMPLETION
        return other if first in self._refused else first

    def _optional(self) -> tuple[str, ...]:
        known = ("stream_options", self._cap(), "reasoning_effort", "prompt_cache_key")
        return tuple([name for name in known if name not in self._refused])

    def _thinking_in(self, settings: dict[str, object]) -> object:
        return settings.get("reasoning_effort")

    def _fix(self, conversation: Conversation) -> FixedPart:
        tools = [tool_json(tool) for tool in conversation.tools]
        system = [system_json(text)] if (text := system_of(conversation)) else []
        body = b',"tools":[' + b",".join(tools) + b"]" if tools else b""
        return FixedPart(tools, system, body + b',"messages":[' + b"".join([each + b"," for each in system]))

    def _body(
        self,
        settings: dict[str, object],
        fixed: FixedPart,
        projected: ProjectedParts,
        conversation: Conversation,  # noqa: ARG002  # these servers cache by themselves: there are no marks
    ) -> RequestBody:
        end = CLOSE[projected.form] if projected.form else b""
        return RequestBody([msgspec.json.encode(settings)[:-1], fixed.body], projected, [end, b"]}"])

    def _reading(self, prepared: PreparedRequest) -> ChatStreamReader:
        return ChatStreamReader(self._expected(prepared))
