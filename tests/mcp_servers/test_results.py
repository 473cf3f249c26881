"""What servers answer, and what their schemas may be: values alone, no server."""

from __future__ import annotations

from typing import Any

import pytest

from mainspring.core.errors import UsageError
from mainspring.core.messages import Content, Document, Image, Text
from mainspring.mcp.base import ListedTool, clip_instructions, make_tool_name, normalize_server_name
from mainspring.mcp.tools import compile_input_schema, most_shown
from mainspring.tools.results import build_mcp_answer


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


CONTENT: list[tuple[dict[str, Any], tuple[Content, ...]]] = [
    ({"content": [text("a"), text("b")]}, (Text("a\nb"),)),
    ({"content": []}, (Text("(nothing)"),)),
    ({}, (Text("(nothing)"),)),
    ({"content": "damaged"}, (Text("(nothing)"),)),
    ({"content": [], "structuredContent": {"a": 1}}, (Text('{"a":1}'),)),
    ({"content": [text("half \ud83d \x00")]}, (Text("half ? \N{SYMBOL FOR NULL}"),)),
    ({"content": [{"type": "image", "mimeType": "image/png", "data": "AAAA"}]}, (Image("image/png", "AAAA"),)),
    (
        {"content": [{"type": "image", "mimeType": "image/png", "data": "no base64!"}]},
        (Text("[This image cannot be shown: its data is damaged.]"),),
    ),
    (
        {"content": [{"type": "image", "mimeType": "image/svg+xml", "data": "AAAA"}]},
        (
            Text(
                "[This image cannot be shown: its type is 'image/svg+xml', not image/jpeg, image/png, image/gif, "
                "image/webp.]"
            ),
        ),
    ),
    (
        {"content": [{"type": "audio", "mimeType": "audio/wav", "data": "AAAA"}]},
        (Text("[Sound of the type 'audio/wav' was here: it cannot be shown.]"),),
    ),
    (
        {"content": [{"type": "resource_link", "uri": "file:///a", "name": "a\nb"}]},
        (Text("[A resource: file:///a; a b]"),),
    ),
    (
        {"content": [{"type": "resource", "resource": {"uri": "x:1", "mimeType": "application/pdf", "blob": "AAAA"}}]},
        (Text("[The resource x:1]"), Document("application/pdf", "AAAA")),
    ),
    (
        {"content": [{"type": "resource", "resource": {"uri": "x:1", "mimeType": "font/ttf", "blob": "AAAA"}}]},
        (Text("[The resource x:1, of the type 'font/ttf' and 3 bytes: it cannot be shown]"),),
    ),
    ({"content": [{"type": "hologram"}]}, (Text("[Content of the type 'hologram' was here: it cannot be shown.]"),)),
]


@pytest.mark.parametrize(("result", "content"), CONTENT)
def test_content(result: dict[str, Any], content: tuple[Content, ...]) -> None:
    made = build_mcp_answer(result, "a call")
    assert made.content == content
    assert not made.is_error


def test_errors_and_data() -> None:
    made = build_mcp_answer({"content": [text("no")], "isError": True, "structuredContent": {"why": 1}}, "a call")
    assert (made.is_error, made.data) == (True, {"why": 1})
    assert build_mcp_answer({"content": [], "structuredContent": {"a": "x" * 200_000}}, "a call").data is None


def test_there_is_an_end_to_images() -> None:
    image = {"type": "image", "mimeType": "image/png", "data": "AAAA"}
    many = [{**image, "data": f"AAA{n:05d}AAAA"} for n in range(30)]
    made = build_mcp_answer({"content": many}, "a call").content
    assert [type(part) for part in made] == [Image] * 20 + [Text]
    assert made[-1] == Text("[10 more images and documents were left out.]")


def test_a_server_may_ask_for_more_room_but_not_for_all() -> None:
    asked = {"none": None, "little": 5, "more": 300_000, "too much": 10**9, "yes": True, "text": "300000"}
    got = {
        name: most_shown(ListedTool("t", "", {}, {}, {"anthropic/maxResultSizeChars": value}))
        for name, value in asked.items()
    }
    assert got == {
        "none": 100_000, "little": 100_000, "more": 300_000, "too much": 500_000, "yes": 100_000, "text": 100_000
    }  # fmt: skip


def test_instructions_have_an_end() -> None:
    assert clip_instructions(" short ") == "short"
    assert len(clip_instructions("x" * 10_000)) == 2_000 + len("\n[the rest was left out]")


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({}, "does not say"),
        ({"type": "string"}, "does not say"),
        ({"type": "object", "oneOf": []}, "'oneOf' at the top"),
        ({"type": "object", "properties": {"a": {"type": "number?"}}}, "invalid schema"),
        ({"type": "object", "properties": {"a": {"enum": ["x" * 200_000]}}}, "has 200,0"),
    ],
)
def test_schemas_that_are_refused(schema: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        compile_input_schema(schema)


def test_regular_expressions_are_left_to_the_server() -> None:
    schema = {
        "type": "object",
        "properties": {"pattern": {"type": "string", "pattern": "\\p{L}("}, "b": {"items": {"pattern": "("}}},
        "patternProperties": {"^x-": {"type": "integer"}},
        "additionalProperties": False,
    }
    checked = compile_input_schema(schema)
    assert checked.violations({"pattern": "anything", "b": ["c"], "x-1": 1}) == []
    assert checked.violations({"pattern": 1}) == ["`$.pattern` must be of type string, not integer"]


def test_names() -> None:
    assert make_tool_name("shop", "a.b c/d") == "mcp__shop__a_b_c_d"
    long = [make_tool_name("shop", "x" * 80 + end) for end in "ab"]
    assert [len(name) for name in long] == [64, 64]
    assert long[0] != long[1]
    assert normalize_server_name("my server") == "my_server"
    for name in ("a__b", "a_", "_a", "", "é", "a..b"):
        with pytest.raises(UsageError, match="could be mistaken"):
            normalize_server_name(name)
