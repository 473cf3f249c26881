"""A notebook as a model reads it: its cells, each with what it printed, within bounds."""

import re
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from mainspring.core.errors import ToolError
from mainspring.core.messages import Content, Image, Text
from mainspring.providers.projection import LARGEST_IMAGE

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
    """What is read of one; there is more in it."""

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
        raise ToolError(f"'{name}' is no notebook of version 4: {error}.") from None
    return [_cell(raw, at, found.metadata.language_info.name) for at, raw in enumerate(found.cells)]


def _cell(raw: _RawCell, at: int, language: str) -> NotebookCell:
    outputs = [_output(one) for one in raw.outputs]
    output = _bounded("".join([text for text, _ in outputs]))
    images = [image for _, found in outputs for image in found]
    kind = raw.cell_type if raw.cell_type != "code" or language == "python" else f"code, {language}"
    return NotebookCell(raw.id or f"cell-{at}", kind, join_lines(raw.source), output, images)


def join_lines(text: Lines) -> str:
    """What stands there as one string or as a list of lines."""
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
    return f"{text[:half]}\n[... {len(text) - MOST_OUTPUT:,} characters left out ...]\n{text[-half:]}"


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
    """For the model. Not more than so many characters; the notes say what was left out."""
    parts: list[Content] = []
    text = ""
    images = 0
    for at, cell in enumerate(cells):
        words = f'<cell id="{cell.id}" type="{cell.kind}">\n{cell.source}\n</cell>\n'
        if cell.output:
            words += f"<output>\n{cell.output}</output>\n"
        if len(text) + len(words) > most:
            text += f"[{len(cells) - at} more cells were left out: it is too long. Use Bash with jq to see them.]\n"
            break
        text += words
        for image in cell.images[: MOST_IMAGES - images]:
            images += 1
            text += f"[image {images} is below]\n"
            parts.append(image)
    return (Text(text or "[The notebook has no cells.]"), *parts)
