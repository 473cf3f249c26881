"""The protocols that the server speaks, by the path that is asked."""

from __future__ import annotations

from mainspring.simulator import openai_chat, openai_responses
from mainspring.simulator.protocol import COUNT, MESSAGES, ApiDialect

SPEECHES: dict[str, ApiDialect] = {
    speech.path: speech for speech in (MESSAGES, COUNT, openai_chat.SPEECH, openai_responses.SPEECH)
}
