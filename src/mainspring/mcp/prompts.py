"""Prompts of a server: words with a slash for the person, `/mcp__server__prompt one "two words"`.

The arguments are positional, in the order in which the server lists them; what is said beyond the last one belongs to
it. What the server makes of them goes to the model beside what the person said.
"""

from __future__ import annotations

from typing import Any

from mainspring.core.errors import ToolError
from mainspring.core.messages import Content, Text
from mainspring.core.value import Bundle
from mainspring.tools.base import MOST_SHOWN
from mainspring.tools.results import as_objects, build_mcp_answer, clean_mcp_text, shorten_content, text_or_empty

LONGEST_ABOUT = 300  # characters; 400 descriptions have to fit into one line of a pipe (stream-json 1.4)
MOST_ARGUMENTS = 20


class PromptArgument(Bundle):
    name: str
    required: bool = False


class McpPrompt(Bundle):
    """As its server tells of it."""

    name: str
    about: str
    arguments: tuple[PromptArgument, ...] = ()


def parse_prompt(given: dict[str, Any]) -> McpPrompt:
    about = clean_mcp_text(given.get("description")) or clean_mcp_text(given.get("title"))
    arguments = [
        PromptArgument(text_or_empty(one.get("name")), one.get("required") is True)
        for one in as_objects(given.get("arguments"))[:MOST_ARGUMENTS]
        if text_or_empty(one.get("name"))
    ]
    return McpPrompt(text_or_empty(given.get("name")), " ".join(about.split())[:LONGEST_ABOUT], tuple(arguments))


def format_prompt_hint(prompt: McpPrompt) -> str:
    return " ".join([one.name if one.required else f"[{one.name}]" for one in prompt.arguments])


def fill_prompt_arguments(prompt: McpPrompt, word: str, said: str) -> dict[str, str]:
    """What is said behind the word, argument by argument. Raises `ToolError` if one is missing."""
    wanted = prompt.arguments
    words = split_prompt_arguments(said)
    if len(words) > len(wanted) > 0:
        words = [*words[: len(wanted) - 1], " ".join(words[len(wanted) - 1 :])]
    missing = [one.name for one in wanted[len(words) :] if one.required]
    if missing:
        raise ToolError(f"'/{word}' needs '{missing[0]}': write '/{word} {format_prompt_hint(prompt)}'")
    return {one.name: given for one, given in zip(wanted, words, strict=False)}


def split_prompt_arguments(said: str) -> list[str]:
    """At blanks, but for what stands in double quotes. One that nobody closes is a letter."""
    import shlex

    words = shlex.shlex(said, posix=True)
    words.whitespace_split, words.quotes, words.escape, words.commenters = True, '"', "", ""
    try:
        return list(words)
    except ValueError:
        return said.split()


def build_prompt_content(word: str, server: str, result: dict[str, Any]) -> tuple[Content, ...]:
    """What the model gets. Who is said to speak is told where it is not the user all the time."""
    messages = as_objects(result.get("messages"))
    mixed = any(message.get("role") != "user" for message in messages)
    parts: list[dict[str, Any]] = []
    for message in messages:
        if mixed:
            parts.append({"type": "text", "text": f"[{clean_mcp_text(message.get('role'))[:20] or 'nobody'}]"})
        content = message.get("content")
        parts += as_objects(content) or as_objects([content])
    if not parts:
        raise ToolError(f"The prompt '/{word}' of the MCP server '{server}' is empty.")
    made = shorten_content(build_mcp_answer({"content": parts}, "").content, MOST_SHOWN)
    opening = (
        f"<mcp-prompt name=\"{word}\">\nThe user chose this prompt of the MCP server '{server}'. Do what it says.\n\n"
    )
    return wrap_in_tag(made, opening, "mcp-prompt")


def wrap_in_tag(parts: tuple[Content, ...], opening: str, tag: str) -> tuple[Content, ...]:
    """Within a tag that nothing inside can close."""
    safe = [Text(part.text.replace(f"</{tag}", f"<\\/{tag}")) if isinstance(part, Text) else part for part in parts]
    if len(safe) == 1 and isinstance(safe[0], Text):
        return (Text(f"{opening}{safe[0].text}\n</{tag}>"),)
    return (Text(opening), *safe, Text(f"</{tag}>"))
