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
from mainspring.tools.mcp.results import answered, clean, objects, shortened, text

LONGEST_ABOUT = 300  # characters; 400 descriptions have to fit into one line of a pipe (stream-json 1.4)
MOST_ARGUMENTS = 20


class Argument(Bundle):
    name: str
    required: bool = False


class Prompt(Bundle):
    """As its server tells of it."""

    name: str
    about: str
    arguments: tuple[Argument, ...] = ()


def prompted(given: dict[str, Any]) -> Prompt:
    about = clean(given.get("description")) or clean(given.get("title"))
    arguments = [
        Argument(text(one.get("name")), one.get("required") is True)
        for one in objects(given.get("arguments"))[:MOST_ARGUMENTS]
        if text(one.get("name"))
    ]
    return Prompt(text(given.get("name")), " ".join(about.split())[:LONGEST_ABOUT], tuple(arguments))


def hint(prompt: Prompt) -> str:
    return " ".join([one.name if one.required else f"[{one.name}]" for one in prompt.arguments])


def filled(prompt: Prompt, word: str, said: str) -> dict[str, str]:
    """What is said behind the word, argument by argument. Raises `ToolError` if one is missing."""
    wanted = prompt.arguments
    words = split(said)
    if len(words) > len(wanted) > 0:
        words = [*words[: len(wanted) - 1], " ".join(words[len(wanted) - 1 :])]
    missing = [one.name for one in wanted[len(words) :] if one.required]
    if missing:
        raise ToolError(f"'/{word}' needs '{missing[0]}': write '/{word} {hint(prompt)}'")
    return {one.name: given for one, given in zip(wanted, words, strict=False)}


def split(said: str) -> list[str]:
    """At blanks, but for what stands in double quotes. One that nobody closes is a letter."""
    import shlex

    words = shlex.shlex(said, posix=True)
    words.whitespace_split, words.quotes, words.escape, words.commenters = True, '"', "", ""
    try:
        return list(words)
    except ValueError:
        return said.split()


def contents(word: str, server: str, result: dict[str, Any]) -> tuple[Content, ...]:
    """What the model gets. Who is said to speak is told where it is not the user all the time."""
    messages = objects(result.get("messages"))
    mixed = any(message.get("role") != "user" for message in messages)
    parts: list[dict[str, Any]] = []
    for message in messages:
        if mixed:
            parts.append({"type": "text", "text": f"[{clean(message.get('role'))[:20] or 'nobody'}]"})
        content = message.get("content")
        parts += objects(content) or objects([content])
    if not parts:
        raise ToolError(f"The prompt '/{word}' of the MCP server '{server}' is empty.")
    made = shortened(answered({"content": parts}, "").content, MOST_SHOWN)
    opening = (
        f"<mcp-prompt name=\"{word}\">\nThe user chose this prompt of the MCP server '{server}'. Do what it says.\n\n"
    )
    return tagged(made, opening, "mcp-prompt")


def tagged(parts: tuple[Content, ...], opening: str, tag: str) -> tuple[Content, ...]:
    """Within a tag that nothing inside can close."""
    safe = [Text(part.text.replace(f"</{tag}", f"<\\/{tag}")) if isinstance(part, Text) else part for part in parts]
    if len(safe) == 1 and isinstance(safe[0], Text):
        return (Text(f"{opening}{safe[0].text}\n</{tag}>"),)
    return (Text(opening), *safe, Text(f"</{tag}>"))
