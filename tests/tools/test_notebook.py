"""NotebookEdit: one cell, and not a byte beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mainspring.core.errors import ToolError
from mainspring.testing.world import FakeToolContext
from mainspring.tools.notebook import NOTEBOOK_EDIT
from mainspring.tools.read import READ

# Odd on purpose: spaces, key order, numbers that a decoder would write in another way, keys that nobody knows.
NOTEBOOK = """{
 "cells": [
  {
   "cell_type": "markdown",
   "id": "intro",
   "metadata": {"odd":   1.50e2},
   "source": [
    "# Title\\n",
    "caf\u00e9"
   ]
  },
  {
   "cell_type": "code",
   "execution_count": 7,
   "id": "sum",
   "metadata": {},
   "unknown": {"z": 1, "a": [ ]},
   "outputs": [
    {"output_type": "stream", "text": "2\\n"}
   ],
   "source": "1 + 1"
  }
 ],
 "metadata": {
  "language_info": {"name": "python"}
 },
 "nbformat": 4,
 "nbformat_minor": 5
}
"""


def edited(folder: Path, text: str, **input: str) -> str:
    file = folder / "n.ipynb"
    file.write_bytes(text.encode())
    calling = FakeToolContext(str(folder))
    calling.now(READ, file_path="n.ipynb")
    calling.now(NOTEBOOK_EDIT, notebook_path="n.ipynb", **input)
    return file.read_bytes().decode()


def test_replace_markdown(tmp_path: Path) -> None:
    made = edited(tmp_path, NOTEBOOK, cell_id="intro", new_source="# New\n\nend")
    old = '   "source": [\n    "# Title\\n",\n    "caf\u00e9"\n   ]'
    new = '   "source": [\n    "# New\\n",\n    "\\n",\n    "end"\n   ]'
    assert made == NOTEBOOK.replace(old, new)


def test_replace_code(tmp_path: Path) -> None:
    """Its outputs go: they are not those of the new text."""
    made = edited(tmp_path, NOTEBOOK, cell_id="sum", new_source="2 + 2")
    wanted = NOTEBOOK.replace('"1 + 1"', '"2 + 2"').replace('"execution_count": 7', '"execution_count": null')
    wanted = wanted.replace('[\n    {"output_type": "stream", "text": "2\\n"}\n   ]', "[]")
    assert made == wanted


def test_replace_by_another_kind(tmp_path: Path) -> None:
    made = json.loads(edited(tmp_path, NOTEBOOK, cell_id="sum", new_source="words", cell_type="markdown"))
    assert made["cells"][1] == {
        "cell_type": "markdown",
        "id": "sum",
        "metadata": {},
        "unknown": {"z": 1, "a": []},
        "source": "words",
    }
    made = json.loads(edited(tmp_path, NOTEBOOK, cell_id="intro", new_source="1", cell_type="code"))
    assert made["cells"][0]["outputs"] == []


def cells(text: str) -> list[Any]:
    return [cell["source"] for cell in json.loads(text)["cells"]]


@pytest.mark.parametrize("text", [NOTEBOOK, NOTEBOOK.replace("\n", "\r\n"), json.dumps(json.loads(NOTEBOOK))])
def test_insert_and_delete(tmp_path: Path, text: str) -> None:
    first = edited(tmp_path, text, new_source="a\nb", cell_type="code", edit_mode="insert")
    assert cells(first) == [["a\n", "b"], ["# Title\n", "caf\u00e9"], "1 + 1"]
    after = edited(tmp_path, text, cell_id="intro", new_source="", cell_type="markdown", edit_mode="insert")
    assert cells(after) == [["# Title\n", "caf\u00e9"], [], "1 + 1"]
    last = edited(tmp_path, text, cell_id="sum", new_source="x", cell_type="code", edit_mode="insert")
    assert cells(last) == [["# Title\n", "caf\u00e9"], "1 + 1", ["x"]]
    assert cells(edited(tmp_path, text, cell_id="intro", new_source="", edit_mode="delete")) == ["1 + 1"]
    gone = edited(tmp_path, text, cell_id="sum", new_source="", edit_mode="delete")
    assert cells(gone) == [["# Title\n", "caf\u00e9"]]
    empty = edited(tmp_path, gone, cell_id="intro", new_source="", edit_mode="delete")
    assert cells(empty) == []
    assert cells(edited(tmp_path, empty, new_source="x", cell_type="code", edit_mode="insert")) == [["x"]]
    if "\n" in text.strip():
        assert all(line.endswith("\r\n") == ("\r\n" in text) for line in last.splitlines(keepends=True))


def test_what_is_inserted_and_deleted_again_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    made = edited(tmp_path, NOTEBOOK, cell_id="intro", new_source="x", cell_type="code", edit_mode="insert")
    id = json.loads(made)["cells"][1]["id"]
    assert edited(tmp_path, made, cell_id=id, new_source="", edit_mode="delete") == NOTEBOOK


def test_a_cell_by_its_place(tmp_path: Path) -> None:
    without = NOTEBOOK.replace('   "id": "sum",\n', "")
    assert cells(edited(tmp_path, without, cell_id="cell-1", new_source="x"))[1] == "x"


@pytest.mark.parametrize(
    ("input", "said"),
    [
        (
            {"cell_id": "nope", "new_source": "x"},
            "There is no cell 'nope'. Nothing was done. The cells are: 'intro', 'sum'.",
        ),
        ({"cell_id": "cell-99", "new_source": "x"}, "There is no cell 'cell-99'"),
        ({"new_source": "x"}, "To replace a cell, 'cell_id' is needed"),
        ({"new_source": "x", "edit_mode": "delete"}, "To delete a cell, 'cell_id' is needed"),
        ({"new_source": "x", "edit_mode": "insert"}, "To insert a cell, set 'cell_type'"),
        ({"new_source": "\ud800", "cell_id": "sum"}, "half a character"),
    ],
)
def test_what_is_refused(tmp_path: Path, input: dict[str, str], said: str) -> None:
    with pytest.raises(ToolError) as error:
        edited(tmp_path, NOTEBOOK, **input)
    assert said in str(error.value)
    assert (tmp_path / "n.ipynb").read_text() == NOTEBOOK


def test_only_a_notebook_that_was_read(tmp_path: Path) -> None:
    (tmp_path / "n.ipynb").write_text(NOTEBOOK)
    (tmp_path / "n.txt").write_text(NOTEBOOK)
    with pytest.raises(ToolError, match="was not read yet"):
        FakeToolContext(str(tmp_path)).now(NOTEBOOK_EDIT, notebook_path="n.ipynb", cell_id="sum", new_source="x")
    with pytest.raises(ToolError, match="it does not end in"):
        FakeToolContext(str(tmp_path)).now(NOTEBOOK_EDIT, notebook_path="n.txt", cell_id="sum", new_source="x")
    calling = FakeToolContext(str(tmp_path))
    calling.now(READ, file_path="n.ipynb")
    (tmp_path / "n.ipynb").write_text(NOTEBOOK + " ")
    with pytest.raises(ToolError, match="changed since it was read"):
        calling.now(NOTEBOOK_EDIT, notebook_path="n.ipynb", cell_id="sum", new_source="x")


def test_one_that_is_nested_too_deeply(tmp_path: Path) -> None:
    """For our reader of it, or for the one that finds the places: it is told, or done."""
    for depth in (100, 900, 5_000):
        deep = NOTEBOOK.replace('"z": 1', '"z": ' + "[" * depth + "]" * depth)
        try:
            made = edited(tmp_path, deep, cell_id="sum", new_source="x")
        except ToolError:
            assert (tmp_path / "n.ipynb").read_text() == deep
            assert depth > 100
        else:
            assert '"source": "x"' in made
