"""NotebookEdit: one cell of a notebook. Of the file, only what stands for that cell changes."""

import os
from typing import Annotated, Any, Literal

from mainspring.core.errors import ToolError
from mainspring.core.updates import Rendering
from mainspring.processes.atomic import digest
from mainspring.processes.paths import Resolved
from mainspring.tools.aside import settled
from mainspring.tools.base import Answer, Calling, Input, Tool, answer
from mainspring.tools.coding import decode, encode, refuse_half_characters
from mainspring.tools.files import as_read, changed, whole, written

CellType = Literal["code", "markdown"]
Mode = Literal["replace", "insert", "delete"]


class NotebookInput(Input, frozen=True):
    notebook_path: Annotated[str, "The .ipynb file."]
    new_source: Annotated[str, "The cell's whole text."]
    cell_id: Annotated[str | None, "The cell, as Read names it; to insert: the one before, or none."] = None
    cell_type: Annotated[CellType | None, "Needed to insert."] = None
    edit_mode: Annotated[Mode, "'replace' unless given."] = "replace"


async def run(given: NotebookInput, calling: Calling) -> Answer:
    refuse_half_characters(new_source=given.new_source)
    if given.edit_mode == "insert" and given.cell_type is None:
        raise ToolError("To insert a cell, 'cell_type' is needed: 'code' or 'markdown'. Nothing was done.")
    if given.edit_mode != "insert" and given.cell_id is None:
        raise ToolError(f"To {given.edit_mode} a cell, 'cell_id' is needed, as Read shows it. Nothing was done.")
    path = calling.resolve(given.notebook_path)
    if not path.real.endswith(".ipynb"):
        raise ToolError(f"'{path.asked}' is no notebook: its name does not end in '.ipynb'. Use Edit for other files.")
    return await settled(lambda: _edit(given, path, calling))  # it waits for the disk


def _edit(given: NotebookInput, path: Resolved, calling: Calling) -> Answer:
    from mainspring.tools.cells import cells_in
    from mainspring.tools.notebook_text import Notebook  # json takes a while to load

    data = whole(path, calling)
    before = as_read(path, calling)
    if digest(data) != before:
        raise changed(path)
    cells_in(data, path.asked)  # or it is no notebook
    text, coding = decode(data, path.asked)
    try:
        notebook = Notebook(text)
    except RecursionError:
        raise ToolError(f"'{path.asked}' is nested too deeply. Nothing was done.") from None
    at = None if given.cell_id is None else notebook.find(given.cell_id)
    made, name = _changed(given, notebook, at)
    with written(path):
        calling.place.put(path, encode(made, coding), before=before)
    return _answered(given, path, name)


def _changed(given: NotebookInput, notebook: Any, at: int | None) -> tuple[str, str]:
    """The new text, and the cell's name."""
    if given.edit_mode == "insert":
        name = os.urandom(4).hex()
        place = 0 if at is None else at + 1
        return notebook.inserted(place, name, str(given.cell_type), given.new_source), name
    assert at is not None
    if given.edit_mode == "delete":
        return notebook.deleted(at), str(given.cell_id)
    return notebook.replaced(at, given.new_source, given.cell_type), str(given.cell_id)


_DONE = {"replace": "was replaced", "insert": "was inserted", "delete": "was deleted"}


def _answered(given: NotebookInput, path: Resolved, id: str) -> Answer:
    done = f"Cell '{id}' {_DONE[given.edit_mode]}"
    facts = {
        "notebook_path": path.real,
        "cell_id": id,
        "cell_type": given.cell_type,
        "edit_mode": given.edit_mode,
        "new_source": given.new_source,
    }
    return answer(f"{done} in '{path.asked}'.", facts, Rendering(f"{done} in {path.asked}", given.new_source))


def _summary(given: NotebookInput) -> str:
    return f"NotebookEdit {given.notebook_path}: {given.edit_mode} {given.cell_id or ''}".rstrip()


NOTEBOOK_EDIT = Tool(
    name="NotebookEdit",
    about=(
        "Replace, insert or delete one cell of a Jupyter notebook. Read the notebook first: it shows the cells' ids."
    ),
    input=NotebookInput,
    run=run,
    paths=("notebook_path",),
    summary=_summary,
)
