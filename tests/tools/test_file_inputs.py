"""Everything that a file tool can be sent: a clear error, and nothing done."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from processes.steps import names_in

from mainspring.core.errors import ToolError
from mainspring.testing.world import FakeToolContext
from mainspring.tools.base import Tool
from mainspring.tools.edit import EDIT
from mainspring.tools.glob import GLOB
from mainspring.tools.grep import GREP
from mainspring.tools.notebook import NOTEBOOK_EDIT
from mainspring.tools.read import READ
from mainspring.tools.write import WRITE

TOOLS = (READ, WRITE, EDIT, NOTEBOOK_EDIT, GLOB, GREP)

FINE: dict[str, dict[str, Any]] = {
    "Read": {"file_path": "f"},
    "Write": {"file_path": "f", "content": "x"},
    "Edit": {"file_path": "f", "old_string": "a", "new_string": "b"},
    "NotebookEdit": {"notebook_path": "n.ipynb", "new_source": "x", "cell_id": "c"},
    "Glob": {"pattern": "*"},
    "Grep": {"pattern": "x"},
}


def nested(depth: int) -> Any:
    made: Any = "x"
    for _ in range(depth):
        made = [made]
    return made


WRONG: dict[str, Any] = {
    "nothing": None,
    "a number": 7,
    "a list": ["f"],
    "an object": {"a": "b"},
    "true": True,
    "nested": nested(50),
    "nested deeply": nested(50_000),
    "an enormous object": {str(number): number for number in range(50_000)},
}


def snapshot(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in names_in(folder)}


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_kinds(tmp_path: Path, tool: Tool, wrong: str) -> None:
    (tmp_path / "f").write_text("a")
    before = snapshot(tmp_path)
    for name in FINE[tool.name]:
        input = FINE[tool.name] | {name: WRONG[wrong]}
        if name == "cell_id" and wrong == "nothing":
            continue
        with pytest.raises(ToolError, match=f"^The input of '{tool.name}' ") as error:
            FakeToolContext(str(tmp_path)).now(tool, **input)
        assert len(str(error.value)) < 500
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_missing_and_extra_fields(tmp_path: Path, tool: Tool) -> None:
    required = tool.spec.schema["required"]
    assert required
    for name in required:
        input = {key: value for key, value in FINE[tool.name].items() if key != name}
        with pytest.raises(ToolError, match=f"is invalid: .*{name}.*Nothing was done: call it again"):
            FakeToolContext(str(tmp_path)).now(tool, **input)
    assert tool.parse({**FINE[tool.name], "surprise": 1}) == tool.parse(FINE[tool.name])
    with pytest.raises(ToolError, match="is invalid"):
        FakeToolContext(str(tmp_path)).now(tool)
    assert names_in(tmp_path) == []


PATHS = {"empty": "", "NUL": "a\0b", "half a character": "\ud800", "enormous": "x" * 10_000_000, "a loop": "loop/f"}


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
@pytest.mark.parametrize("path", PATHS)
def test_paths_that_lead_nowhere(tmp_path: Path, tool: Tool, path: str) -> None:
    (tmp_path / "loop").symlink_to("loop")
    name = tool.paths[0]
    if name == "path" and not PATHS[path]:
        return  # no folder given: the working folder
    with pytest.raises(ToolError) as error:
        FakeToolContext(str(tmp_path)).now(tool, **FINE[tool.name] | {name: PATHS[path]})
    assert len(str(error.value)) < 1_000
    assert names_in(tmp_path) == ["loop"]


@pytest.mark.parametrize(
    ("tool", "name", "value"),
    [
        (READ, "offset", -1),
        (READ, "offset", 1.5),
        (READ, "offset", "1"),
        (READ, "limit", 0),
        (READ, "limit", -3),
        (GREP, "-A", -1),
        (GREP, "-C", 10**9),
        (GREP, "head_limit", -1),
        (GREP, "output_mode", "nope"),
        (GREP, "multiline", "yes"),
        (EDIT, "replace_all", 1),
        (NOTEBOOK_EDIT, "edit_mode", "nope"),
    ],
)
def test_values_out_of_bounds(tmp_path: Path, tool: Tool, name: str, value: object) -> None:
    with pytest.raises(ToolError, match=rf"is invalid: .*`\$\.{name}`"):
        FakeToolContext(str(tmp_path)).now(tool, **FINE[tool.name] | {name: value})


TEXTS = [
    (tool, name) for tool in TOOLS for name, kind in tool.spec.schema["properties"].items() if kind["type"] == "string"
]


@pytest.mark.parametrize(("tool", "name"), TEXTS, ids=[f"{tool.name}-{name}" for tool, name in TEXTS])
def test_half_characters_and_nul_in_any_text(tmp_path: Path, tool: Tool, name: str) -> None:
    """A model may send them. They are the input's fault, not the tool's: nothing but a `ToolError` may come of them."""
    (tmp_path / "f").write_text("a\nb\n")
    calling = FakeToolContext(str(tmp_path))
    calling.now(READ, file_path="f")
    for text in ("a\ud800", "\udcff", "\ud800\0"):
        with pytest.raises(ToolError, match=f"is invalid: '{name}' contains half a character .*Nothing was done"):
            calling.now(tool, **FINE[tool.name] | {name: text})
    if name not in ("content", "new_string"):  # which may hold it
        answered(calling, tool, FINE[tool.name] | {name: "a\0"})
    assert snapshot(tmp_path) == {"f": b"a\nb\n"}


def answered(calling: FakeToolContext, tool: Tool, input: dict[str, Any]) -> str:
    try:
        return calling.now(tool, **input).text
    except ToolError as error:
        return str(error)


@pytest.mark.parametrize(
    ("tool", "more"),
    [
        (READ, {"offset": 10**18}),
        (READ, {"limit": 10**18}),
        (GREP, {"offset": 10**18}),
        (GREP, {"head_limit": 10**18}),
        (GREP, {"-C": 1_000}),
        (GLOB, {"pattern": "x" * 100_000}),
        (GREP, {"pattern": "(" * 15_000}),
        (GREP, {"pattern": "(a{1,1000}){1,1000}"}),
        (EDIT, {"old_string": "y" * 5_000_000}),
        (EDIT, {"old_string": "y\n" * 500_000}),
    ],
)
def test_enormous_values(tmp_path: Path, tool: Tool, more: dict[str, Any]) -> None:
    """They are answered, one way or the other, and nothing is done."""
    (tmp_path / "f").write_text("a\nb\n")
    calling = FakeToolContext(str(tmp_path))
    calling.now(READ, file_path="f")
    assert len(answered(calling, tool, FINE[tool.name] | more)) < 50_000
    assert snapshot(tmp_path) == {"f": b"a\nb\n"}


# --- what the model is told -------------------------------------------------------------------------


@pytest.mark.covers("N-08")
def test_fields_are_those_that_callers_name() -> None:
    fields = {tool.name: list(tool.spec.schema["properties"]) for tool in TOOLS}
    assert fields == {
        "Read": ["file_path", "offset", "limit", "pages"],
        "Write": ["file_path", "content"],
        "Edit": ["file_path", "old_string", "new_string", "replace_all"],
        "NotebookEdit": ["notebook_path", "new_source", "cell_id", "cell_type", "edit_mode"],
        "Glob": ["pattern", "path"],
        "Grep": [
            "pattern", "path", "glob", "type", "output_mode", "-A", "-B", "-C", "-n", "-i", "multiline", "head_limit",
            "offset",
        ],
    }  # fmt: skip
    assert [tool.spec.schema["required"] for tool in TOOLS] == [
        ["file_path"],
        ["file_path", "content"],
        ["file_path", "old_string", "new_string"],
        ["notebook_path", "new_source"],
        ["pattern"],
        ["pattern"],
    ]


LENGTHS = {"Read": 1_000, "Write": 600, "Edit": 900, "NotebookEdit": 800, "Glob": 700, "Grep": 1_650}


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_words_for_the_model_are_few(tool: Tool) -> None:
    """In characters, with the schema: about four make a token."""
    spec = tool.spec
    assert len(msgspec.json.encode([spec.name, spec.description, spec.schema])) <= LENGTHS[tool.name]


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_what_is_known_before_it_runs(tool: Tool) -> None:
    given = tool.parse(FINE[tool.name])
    reads = tool.name in ("Read", "Glob", "Grep")
    assert (tool.is_read_only(given), tool.is_concurrent(given), tool.is_repeatable(given)) == (reads, reads, reads)
    assert tool.line(given).startswith(tool.name)


def test_they_load_nothing_heavy() -> None:
    import subprocess

    code = (
        "import sys, asyncio, msgspec, mainspring.tools.base; before = set(sys.modules);"
        "import mainspring.tools.read, mainspring.tools.write, mainspring.tools.edit, mainspring.tools.notebook,"
        "mainspring.tools.glob, mainspring.tools.grep;"
        "print(sorted(name for name in set(sys.modules) - before if not name.startswith('mainspring')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
