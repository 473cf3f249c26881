"""`ToolSearch`: finds deferred tools, which the model knows by name only, and shows it their schemas.

The schemas are the result of the call and so at the end of the conversation. Adding the tools to the list at its
beginning would make everything after it cost its full price again (law 4).
"""

from collections.abc import Callable, Iterable
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from mainspring.core.errors import ToolError
from mainspring.core.updates import Rendering
from mainspring.providers.base import ToolSpec
from mainspring.tools.base import MOST_SHOWN, Input, Tool, ToolAnswer, ToolContext, make_answer

FEW, MOST = 5, 50  # results
MOST_NAMED = 300  # tools that the description names, at some eight tokens each
MOST_TEXT = MOST_SHOWN - 2_000  # characters of schemas; the rest is for notes
SELECT = "select:"

# The weights of a word. A name says what a tool is; its description may mention anything.
WHOLE_NAME, NAME_PART, IN_NAME, ABOUT_WORD, IN_ABOUT = 20, 10, 5, 2, 1


class ToolSearchInput(Input, frozen=True):
    query: Annotated[
        str, Meta(min_length=1, max_length=1_000), "'select:Name,Name', or words; '+word' must be in the name."
    ]
    max_results: Annotated[int, Meta(ge=1, le=MOST), f"For words: how many tools; {FEW} unless given."] = FEW


Reveal = Callable[[tuple[str, ...]], object]


def search_tool(deferred: Iterable[Tool | ToolSpec], reveal: Reveal) -> Tool:
    """`reveal` gets the names of tools that the model may call from now on: it has seen their schemas."""
    specs = {spec.name: spec for spec in [tool.spec if isinstance(tool, Tool) else tool for tool in deferred]}

    async def run(given: ToolSearchInput, calling: ToolContext) -> ToolAnswer:  # noqa: ARG001  # every tool gets it
        found, missing = find_tools(given, specs)
        blocks, left_out = fit_schemas(found)
        names = tuple([spec.name for spec in found[: len(blocks)]])
        if names:
            reveal(names)
        facts = {"matches": list(names), "query": given.query, "total_deferred_tools": len(specs)}
        said = list_search_notes(given, names, missing, left_out)
        if not names and not given_words(given):
            raise ToolError("\n".join(said))
        lines = [enclose_schemas(blocks), *said] if blocks else said
        return make_answer("\n".join(lines), facts, Rendering(summarize_tool_search(given), ", ".join(names)))

    return Tool(
        name="ToolSearch",
        about=describe_deferred_tools(tuple(specs)),
        input=ToolSearchInput,
        run=run,
        read_only=True,
        summary=summarize_tool_search,
    )


def describe_deferred_tools(names: tuple[str, ...]) -> str:
    listed = ", ".join(sorted(names)[:MOST_NAMED]) or "none"
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return (
        "Get the schemas of tools that are known by name only, so that you can call them. A call with a guessed input "
        f"fails if it does not fit. They are: {listed}{more}."
    )


def summarize_tool_search(given: ToolSearchInput) -> str:
    return f"Look for tools: {given.query}"


# --- selection ----------------------------------------------------------------------------------------------------


def find_tools(given: ToolSearchInput, specs: dict[str, ToolSpec]) -> tuple[list[ToolSpec], list[str]]:
    """The tools, best first, and names without a tool."""
    query = given.query.strip()
    if not given_words(given):
        names = list(dict.fromkeys([name.strip() for name in query[len(SELECT) :].split(",") if name.strip()]))
        if not names:
            raise ToolError("No name was given. Write 'select:Name', or words to look for.")
        return [specs[name] for name in names if name in specs], [name for name in names if name not in specs]
    return search_by_words(query, given.max_results, specs), []


def given_words(given: ToolSearchInput) -> bool:
    return not given.query.strip().lower().startswith(SELECT)


def search_by_words(query: str, most: int, specs: dict[str, ToolSpec]) -> list[ToolSpec]:
    asked = query.split()
    must = [word for text in asked if text.startswith("+") for word in words_of(text)]
    words = list(dict.fromkeys([word for text in asked for word in words_of(text)]))
    if not words:
        raise ToolError(f"There is no word in '{query[:100]}'. Write what the tool should do, or 'select:Name'.")
    rated = [(sum(score_word(word, spec) for word in words), spec) for spec in specs.values() if has_all(must, spec)]
    best = sorted([(-points, spec.name) for points, spec in rated if points])[:most]
    return [specs[name] for _, name in best]


def has_all(must: list[str], spec: ToolSpec) -> bool:
    return all(word in spec.name.lower() for word in must)


def score_word(word: str, spec: ToolSpec) -> int:
    name, about = spec.name.lower(), spec.description.lower()
    if word == name:
        return WHOLE_NAME
    if word in words_of(spec.name):
        return NAME_PART
    if word in name:
        return IN_NAME
    if word in words_of(spec.description):
        return ABOUT_WORD
    return IN_ABOUT if word in about else 0


def words_of(text: str) -> list[str]:
    """Words in lower case; `mcp__git__listBranches` has four."""
    before_each = f" {text}"[:-1]
    spaced = "".join(
        [f" {c}" if c.isupper() and not before.isupper() else c for before, c in zip(before_each, text, strict=True)]
    )
    return "".join([c if c.isalnum() else " " for c in spaced]).lower().split()


# --- the result ---------------------------------------------------------------------------------------------------


def show_schemas(specs: Iterable[ToolSpec]) -> str:
    return enclose_schemas(fit_schemas(list(specs))[0])


def enclose_schemas(blocks: list[str]) -> str:
    return "\n".join(["<functions>", *blocks, "</functions>"])


def fit_schemas(found: list[ToolSpec]) -> tuple[list[str], list[str]]:
    """As many schemas as fit, and the names of the others."""
    room = MOST_TEXT
    blocks: list[str] = []
    for spec in found:
        block = encode_spec(spec)
        room -= len(block) + 1
        if room < 0:
            break
        blocks.append(block)
    return blocks, [spec.name for spec in found[len(blocks) :]]


def encode_spec(spec: ToolSpec) -> str:
    """A line of JSON. The text of an external tool cannot end the tag: JSON can do without '<'."""
    fields: dict[str, Any] = {"description": spec.description, "name": spec.name, "parameters": spec.schema}
    return f"<function>{msgspec.json.encode(fields).decode().replace('<', BRACKET)}</function>"


BRACKET = "\\u003c"


def list_search_notes(
    given: ToolSearchInput, names: tuple[str, ...], missing: list[str], left_out: list[str]
) -> list[str]:
    said: list[str] = []
    if not names and not missing and not left_out:
        said.append(
            f"No tool matches '{given.query[:100]}'. Use other words, or a name from the description of ToolSearch."
        )
    if missing:
        said.append(f"Not among the tools known by name only: {quote_names(missing)}. If you have it already, call it.")
    if left_out:
        said.append(f"There was no room for {quote_names(left_out)}: ask for fewer at once.")
    return said


def quote_names(names: list[str]) -> str:
    shown = ", ".join([f"'{name[:100]}'" for name in names[:10]])
    return f"{shown} and {len(names) - 10} more" if len(names) > 10 else shown
