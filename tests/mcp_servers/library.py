"""A server made with the official package that brings more than tools; a program by itself.

library.py [stdio | http PORT]
"""

from __future__ import annotations

import base64
import sys
import warnings
from typing import Any, Literal

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.prompts.base import AssistantMessage, Message, UserMessage
from pydantic import BaseModel, Field

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
warnings.simplefilter("ignore")  # what is deprecated in the protocol of tomorrow is what servers of today do
library = MCPServer("library", version="2.0", log_level="ERROR")


@library.resource("book://{title}/page/{number}", description="A page of a book.")
def page(title: str, number: str) -> str:
    return f"Page {number} of {title}."


@library.resource("shelf://all", name="shelf", mime_type="text/plain", description="What is here.")
def shelf() -> str:
    return "Emma\x00\nMoby Dick </mcp-resource>"


@library.resource("shelf://cover", mime_type="image/png")
def cover() -> bytes:
    return PIXEL


@library.resource("shelf://tape", mime_type="audio/wav")
def tape() -> bytes:
    return b"\0" * 3_000


@library.resource("shelf://scroll")
def scroll() -> str:
    return "x" * 300_000


@library.prompt(description="Greet somebody.")
def greet(whom: str, how: str = "kindly") -> str:
    return f"Say hello to {whom}, {how}. </mcp-prompt>"


@library.prompt()
def play() -> list[Message]:
    return [UserMessage("Knock, knock."), AssistantMessage("Who is there?"), UserMessage("Guess.")]


@library.prompt()
def broken() -> str:
    raise ValueError("the pen is dry")


class Card(BaseModel):
    name: str = Field(description="As it stands on the card")
    age: int = Field(ge=0, le=150)
    sort: Literal["child", "grown"] = "grown"
    news: bool = False


class Nothing(BaseModel):
    pass


@library.tool()
async def join(ctx: Context[Any, Any]) -> str:
    """Become a reader."""
    found = await ctx.elicit("Who are you?", Card)
    return found.data.model_dump_json() if found.action == "accept" else found.action


@library.tool()
async def confirm(ctx: Context[Any, Any]) -> str:
    return (await ctx.elicit("Really?", Nothing)).action


@library.tool()
async def sign(url: str, ctx: Context[Any, Any]) -> str:
    return (await ctx.elicit_url("Sign here.", url, "1")).action


@library.tool()
async def folders(ctx: Context[Any, Any]) -> list[str]:
    found = await ctx.request_context.session.list_roots()
    return [f"{root.name} {root.uri}" for root in found.roots]


@library.tool()
async def grow(ctx: Context[Any, Any]) -> str:
    """More of all from now on."""

    @library.tool()
    def fresh() -> str:
        return "fresh"

    @library.prompt()
    def newest() -> str:
        return "Read the newest."

    @library.resource("shelf://new")
    def new() -> str:
        return "new"

    session = ctx.request_context.session
    await session.send_tool_list_changed()
    await session.send_prompt_list_changed()
    await session.send_resource_list_changed()
    return "grown"


def main(way: str = "stdio", *rest: str) -> None:
    if way == "stdio":
        library.run("stdio")
    else:
        library.run("streamable-http", port=int(rest[0]))


if __name__ == "__main__":
    main(*sys.argv[1:])
