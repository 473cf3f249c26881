"""Bytes of a file and the text in them, so that what is not changed comes back byte for byte.

UTF-8 with or without a byte order mark, UTF-16 with one. In UTF-8, bytes that are none are kept as half characters
(`surrogateescape`), which no text of a model may hold.
"""

import codecs
from typing import NamedTuple

from mainspring.core.errors import ToolError

HEAD = 8_000  # bytes that are looked at for a NUL, as git does

_UTF_32 = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


class FileEncoding(NamedTuple):
    name: str = "utf-8"
    mark: bytes = b""

    @property
    def wide(self) -> bool:
        return self.name != "utf-8"

    @property
    def errors(self) -> str:
        return "surrogatepass" if self.wide else "surrogateescape"


UTF_8 = FileEncoding()


def coding_of(head: bytes, name: str) -> FileEncoding:
    """By the first bytes. What is no text is refused by the name of its file."""
    if head.startswith(_UTF_32):
        raise ToolError(f"'{name}' is UTF-32, which is not read here: convert it with iconv, in Bash.")
    for mark, coding in _MARKS:
        if head.startswith(mark):
            return FileEncoding(coding, mark)
    if b"\0" in head[:HEAD]:
        raise ToolError(f"'{name}' is a binary file, not text: look at it with a program made for it, in Bash.")
    return UTF_8


def decode_text(data: bytes, name: str) -> tuple[str, FileEncoding]:
    """The text, without its mark, from which `encode_text` makes the same bytes again."""
    coding = coding_of(data[:HEAD], name)
    try:
        text = data[len(coding.mark) :].decode(coding.name, coding.errors)
    except UnicodeDecodeError:
        raise ToolError(f"'{name}' begins as UTF-16 and is none: it cannot be edited as text.") from None
    return text, coding


def encode_text(text: str, coding: FileEncoding) -> bytes:
    return coding.mark + text.encode(coding.name, coding.errors)


def refuse_half_characters(**texts: str) -> None:
    """What a model sent may be written only if it is Unicode: a half character would become any byte."""
    for name, text in texts.items():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ToolError(f"'{name}' holds half a character (a lone surrogate). Nothing was done.") from None


# --- line ends --------------------------------------------------------------------------------------


def normalize_newlines(text: str) -> str:
    """As the model sees it: every line ends in a single line feed."""
    return text.replace("\r\n", "\n")


def all_crlf(text: str) -> bool:
    """Whether each line ends as on Windows, and there is one."""
    count = text.count("\r\n")
    return count > 0 and count == text.count("\n")


def mark_half_characters(text: str) -> str:
    """With a sign in place of each half character; all else keeps its place."""
    try:
        text.encode()
    except UnicodeEncodeError:
        import re

        return re.sub("[\ud800-\udfff]", "\ufffd", text)
    return text
