"""NotebookEdit: one cell of a notebook. Of the file, only what stands for that cell changes."""

import os
from typing import Annotated, Any, Literal

from mainspring.core.errors import ToolError
from mainspring.core.updates import Rendering
from mainspring.processes.atomic_write import digest
from mainspring.processes.paths import Resolved
from mainspring.tools.aside import run_in_thread_to_end
from mainspring.tools.base import Input, Tool, ToolAnswer, ToolContext, make_answer
from mainspring.tools.coding import decode_text, encode_text, refuse_half_characters
from mainspring.tools.files import file_changed_error, get_read_digest, read_whole_file, translate_write_errors

CellType = Literal["code", "markdown"]
Mode = Literal["replace", "insert", "delete"]


class NotebookInput(Input, frozen=True):
    notebook_path: Annotated[str, "The .ipynb file."]
    new_source: Annotated[str, "The cell's whole text."]
    cell_id: Annotated[str | None, "The cell, as Read names it; to insert: the one before, or none."] = None
    cell_type: Annotated[CellType | None, "Needed to insert."] = None
    edit_mode: Annotated[Mode, "'replace' unless given."] = "replace"


async def run_notebook_edit(given: NotebookInput, calling: ToolContext) -> ToolAnswer:
    refuse_half_characters(new_source=given.new_source)
    if given.edit_mode == "insert" and given.cell_type is None:
        raise ToolError("To insert a cell, 'cell_type' is needed: 'code' or 'markdown'. Nothing was done.")
    if given.edit_mode != "insert" and given.cell_id is None:
        raise ToolError(f"To {given.edit_mode} a cell, 'cell_id' is needed, as Read shows it. Nothing was done.")
    path = calling.resolve(given.notebook_path)
    if not path.real.endswith(".ipynb"):
        raise ToolError(f"'{path.asked}' is no notebook: its name does not end in '.ipynb'. Use Edit for other files.")
    return await run_in_thread_to_end(lambda: _edit(given, path, calling))  # it waits for the disk


def _edit(given: NotebookInput, path: Resolved, calling: ToolContext) -> ToolAnswer:
    from mainspring.tools.cells import cells_in
    from mainspring.tools.notebook_text import Notebook  # json takes a while to load

    data = read_whole_file(path, calling)
    before = get_read_digest(path, calling)
    if digest(data) != before:
        raise file_changed_error(path)
    cells_in(data, path.asked)  # or it is no notebook
    text, coding = decode_text(data, path.asked)
    try:
        notebook = Notebook(text)
    except RecursionError:
        raise ToolError(f"'{path.asked}' is nested too deeply. Nothing was done.") from None
    at = None if given.cell_id is None else notebook.find(given.cell_id)
    made, name = _changed(given, notebook, at)
    with translate_write_errors(path):
        calling.place.put(path, encode_text(made, coding), before=before)
    return _answered(given, path, name)


def _changed(given: NotebookInput, notebook: Any, at: int | None) -> tuple[str, str]:
    """The new text, and the cell's name."""
    if given.edit_mode == "insert":
        name = os.urandom(4).hex()
        place = 0 if at is None else at + 1
        return notebook.insert_cell(place, name, str(given.cell_type), given.new_source), name
    assert at is not None
    if given.edit_mode == "delete":
        return notebook.delete_cell(at), str(given.cell_id)
    return notebook.replace_cell(at, given.new_source, given.cell_type), str(given.cell_id)


_DONE = {"replace": "was replaced", "insert": "was inserted", "delete": "was deleted"}


def _answered(given: NotebookInput, path: Resolved, id: str) -> ToolAnswer:
    done = f"Cell '{id}' {_DONE[given.edit_mode]}"
    facts = {
        "notebook_path": path.real,
        "cell_id": id,
        "cell_type": given.cell_type,
        "edit_mode": given.edit_mode,
        "new_source": given.new_source,
    }
    return make_answer(f"{done} in '{path.asked}'.", facts, Rendering(f"{done} in {path.asked}", given.new_source))


def _summary(given: NotebookInput) -> str:
    return f"NotebookEdit {given.notebook_path}: {given.edit_mode} {given.cell_id or ''}".rstrip()


NOTEBOOK_EDIT = Tool(
    name="NotebookEdit",
    about=(
        "Replace, insert or delete one cell of a Jupyter notebook. Read the notebook first: it shows the cells' ids."
    ),
    input=NotebookInput,
    run=run_notebook_edit,
    paths=("notebook_path",),
    summary=_summary,
)
