"""NotebookEdit: change one cell of a notebook, and only the part of the file that represents that cell.

The second half renders a notebook for the model: its cells, each with its outputs, within limits.
"""

import os
import re
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Struct

from mainspring import tools
from mainspring.core.errors import ToolError
from mainspring.core.messages import Content, Image, Text
from mainspring.core.updates import Rendering
from mainspring.processes.atomic_write import digest
from mainspring.processes.paths import Resolved
from mainspring.providers.projection import LARGEST_IMAGE
from mainspring.text import plural
from mainspring.tools.base import Input, Tool, ToolAnswer, ToolContext, make_answer
from mainspring.tools.files import (
    decode_text,
    encode_text,
    file_changed_error,
    get_read_digest,
    read_whole_file,
    refuse_half_characters,
    run_in_thread_to_end,
    translate_write_errors,
)

CellType = Literal["code", "markdown"]
Mode = Literal["replace", "insert", "delete"]


class NotebookInput(Input, frozen=True):
    notebook_path: Annotated[str, "The .ipynb file."]
    new_source: Annotated[str, "The cell's whole text."]
    cell_id: Annotated[str | None, "The cell, as Read names it; to insert: the one before, or none."] = None
    cell_type: Annotated[CellType | None, "Needed to insert."] = None
    edit_mode: Annotated[Mode, "'replace' unless given."] = "replace"


async def run_notebook_edit(given: NotebookInput, calling: ToolContext) -> ToolAnswer:
    path = _resolve(given, calling)
    return await run_in_thread_to_end(lambda: _edit(given, path, calling))  # it waits for the disk


async def preview_notebook_edit(given: NotebookInput, calling: ToolContext) -> str:
    """Whether the edit fits the notebook. There is no diff: the input says all."""
    path = _resolve(given, calling)
    await run_in_thread_to_end(lambda: _made(given, path, calling))
    return ""


def _resolve(given: NotebookInput, calling: ToolContext) -> Resolved:
    refuse_half_characters(new_source=given.new_source)
    if given.edit_mode == "insert" and given.cell_type is None:
        raise ToolError("To insert a cell, set 'cell_type' to 'code' or 'markdown'. Nothing was done.")
    if given.edit_mode != "insert" and given.cell_id is None:
        raise ToolError(f"To {given.edit_mode} a cell, 'cell_id' is needed, as Read shows it. Nothing was done.")
    path = calling.resolve(given.notebook_path)
    if not path.real.endswith(".ipynb"):
        raise ToolError(f"'{path.asked}' is not a notebook: it does not end in '.ipynb'. Use Edit for other files.")
    return path


class ChangedNotebook(NamedTuple):
    data: bytes
    before: str  # the digest of the content that was read
    cell: str


def _edit(given: NotebookInput, path: Resolved, calling: ToolContext) -> ToolAnswer:
    made = _made(given, path, calling)
    with translate_write_errors(path):
        calling.place.put(path, made.data, before=made.before)
    return _answered(given, path, made.cell)


def _made(given: NotebookInput, path: Resolved, calling: ToolContext) -> ChangedNotebook:
    data = read_whole_file(path, calling)
    before = get_read_digest(path, calling)
    if digest(data) != before:
        raise file_changed_error(path)
    cells_in(data, path.asked)  # raises if it is not a notebook
    text, coding = decode_text(data, path.asked)
    try:
        notebook = tools.Notebook(text)
    except RecursionError:
        raise ToolError(f"'{path.asked}' is nested too deeply. Nothing was done.") from None
    at = None if given.cell_id is None else notebook.find(given.cell_id)
    made, name = _changed(given, notebook, at)
    return ChangedNotebook(encode_text(made, coding), before, name)


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
    preview=preview_notebook_edit,
)


MOST_OUTPUT = 10_000  # characters of one cell's outputs
MOST_IMAGES = 10  # of a notebook

_ANSI = r"\x1b\[[0-9;]*[A-Za-z]"


Lines = str | list[str]


class _Output(Struct, frozen=True):
    output_type: str = ""
    text: Lines = ""  # of a stream
    traceback: list[str] = []
    ename: str = ""
    evalue: str = ""
    data: dict[str, Any] = {}  # by media type


class _RawCell(Struct, frozen=True):
    cell_type: str
    source: Lines = ""
    id: str = ""
    outputs: list[_Output] = []


class _Language(Struct, frozen=True):
    name: str = "python"


class _Metadata(Struct, frozen=True):
    language_info: _Language = _Language()


class _Notebook(Struct, frozen=True):
    """The keys that are read; a notebook has more."""

    cells: list[_RawCell]
    metadata: _Metadata = _Metadata()


class NotebookCell(NamedTuple):
    id: str
    kind: str
    source: str
    output: str
    images: list[Image]


def cells_in(data: bytes, name: str) -> list[NotebookCell]:
    try:
        found = msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"), type=_Notebook)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise ToolError(f"'{name}' is not a version 4 notebook: {error}.") from None
    return [_cell(raw, at, found.metadata.language_info.name) for at, raw in enumerate(found.cells)]


def _cell(raw: _RawCell, at: int, language: str) -> NotebookCell:
    outputs = [_output(one) for one in raw.outputs]
    output = _bounded("".join([text for text, _ in outputs]))
    images = [image for _, found in outputs for image in found]
    kind = raw.cell_type if raw.cell_type != "code" or language == "python" else f"code, {language}"
    return NotebookCell(raw.id or f"cell-{at}", kind, join_lines(raw.source), output, images)


def join_lines(text: Lines) -> str:
    """Notebooks store text as one string or as a list of lines."""
    return text if isinstance(text, str) else "".join(text)


def _of_kind(data: dict[str, Any], kind: str) -> str:
    try:
        return join_lines(msgspec.convert(data.get(kind, ""), Lines))
    except msgspec.ValidationError:  # JSON of some other kind
        return ""


def _bounded(text: str) -> str:
    if len(text) <= MOST_OUTPUT:
        return text
    half = MOST_OUTPUT // 2
    return f"{text[:half]}\n[... {plural(len(text) - MOST_OUTPUT, 'character')} left out ...]\n{text[-half:]}"


def _output(raw: _Output) -> tuple[str, list[Image]]:
    if raw.output_type == "stream":
        return _line(join_lines(raw.text)), []
    if raw.output_type == "error":
        return _line(re.sub(_ANSI, "", "\n".join(raw.traceback)) or f"{raw.ename}: {raw.evalue}"), []
    kinds = ("image/png", "image/jpeg")
    images = [image for kind in kinds if (image := _image(kind, _of_kind(raw.data, kind)))]
    return _line(_of_kind(raw.data, "text/plain")), images


def _image(kind: str, data: str) -> Image | None:
    data = "".join(data.split())
    return Image(kind, data) if 0 < len(data) <= LARGEST_IMAGE else None


def _line(text: str) -> str:
    return text if not text or text.endswith("\n") else text + "\n"


def render_cells(cells: list[NotebookCell], most: int) -> tuple[Content, ...]:
    """Render the cells for the model, with at most `most` characters; notes say what was left out."""
    parts: list[Content] = []
    text = ""
    images = 0
    for at, cell in enumerate(cells):
        words = f'<cell id="{cell.id}" type="{cell.kind}">\n{cell.source}\n</cell>\n'
        if cell.output:
            words += f"<output>\n{cell.output}</output>\n"
        if len(text) + len(words) > most:
            text += f"[{plural(len(cells) - at, 'more cell')} left out: too long. Use Bash with jq to see them.]\n"
            break
        text += words
        for image in cell.images[: MOST_IMAGES - images]:
            images += 1
            text += f"[image {images} is below]\n"
            parts.append(image)
    return (Text(text or "[The notebook has no cells.]"), *parts)
