"""What a search is asked, whoever does it. Light, because the walk in Python starts anew for each search."""

from typing import Literal

from msgspec import Struct

COLUMNS = 500  # bytes of a line that are shown
LARGEST = 100_000_000  # bytes of a file that is searched when it is not named itself
NEVER = (".git", ".hg", ".svn", ".jj", ".bzr")  # the insides of version control

Mode = Literal["names", "files", "content", "count"]


class FileSearchRequest(Struct, frozen=True):
    mode: Mode
    pattern: str = ""
    globs: tuple[str, ...] = ()
    type: str | None = None
    before: int = 0
    after: int = 0
    ignore_case: bool = False
    multiline: bool = False
