"""What the file tools share: from a name to bytes, and an error's words for the model."""

import os
from collections.abc import Generator
from contextlib import contextmanager

from mainspring.core.errors import ToolError
from mainspring.processes.paths import PathRefused, Resolved
from mainspring.processes.safe_open import open_listing, open_read, read_all
from mainspring.tools.base import ToolContext

WHOLE = 10_000_000  # bytes; a file up to here is read whole, remembered, and may be edited
MOST_NAMES = 2_000  # of a folder that are compared with a wrong one
MOST_HINTS = 3


@contextmanager
def open_for_read(path: Resolved, calling: ToolContext) -> Generator[int]:
    """A descriptor for reading. Whatever stands in the way becomes words for the model."""
    try:
        fd = open_read(path)
    except FileNotFoundError:
        raise ToolError(describe_missing_file(path, calling)) from None
    except OSError as error:
        raise ToolError(f"'{path.asked}' cannot be read: {error.strerror}.") from None
    try:
        yield fd
    except OSError as error:
        raise ToolError(f"'{path.asked}' cannot be read: {error.strerror}.") from None
    finally:
        os.close(fd)


def read_whole_file(path: Resolved, calling: ToolContext) -> bytes:
    """All bytes of a file that may be edited."""
    with open_for_read(path, calling) as fd:
        size = os.fstat(fd).st_size
        if size > WHOLE:
            raise ToolError(
                f"'{path.asked}' has {size:,} bytes; {WHOLE:,} is the most that is changed here: use Bash for it."
            )
        return read_all(fd, path.real, WHOLE)


def get_read_digest(path: Resolved, calling: ToolContext) -> str:
    """The digest of what was read of a file that is to be changed."""
    before = calling.place.read.of(path)
    if before is None:
        raise ToolError(f"'{path.asked}' was not read yet. Nothing was done: use Read on it first.")
    return before


def file_changed_error(path: Resolved) -> ToolError:
    return ToolError(
        f"'{path.asked}' changed since it was read, by a person or a program. Nothing was done: use Read on it again."
    )


@contextmanager
def translate_write_errors(path: Resolved) -> Generator[None]:
    """Around a write."""
    try:
        yield
    except PathRefused as error:
        raise ToolError(f"{error}. Nothing was done: name a file.") from None
    except OSError as error:
        raise ToolError(f"'{path.asked}' cannot be written: {error.strerror}.") from None


# --- a file that is not there -----------------------------------------------------------------------


def describe_missing_file(path: Resolved, calling: ToolContext) -> str:
    said = f"'{path.asked}' does not exist."
    if not path.asked.startswith("/"):
        said += f" The working folder is '{calling.place.cwd}'."
    hints = _near(path.real, calling)
    return f"{said} Did you mean {' or '.join(hints)}?" if hints else said


def _near(real: str, calling: ToolContext) -> list[str]:
    """Names that look like it in the same folder, as far as they may be read."""
    folder, _, name = real.rpartition("/")
    try:
        fd = open_listing(folder)
    except (OSError, PathRefused):  # the folder is missing, too, or it is a link by now
        return []
    try:
        with os.scandir(fd) as entries:
            names = [entry.name for entry, _ in zip(entries, range(MOST_NAMES), strict=False)]
    except OSError:
        return []
    finally:
        os.close(fd)
    found = [f"{folder}/{near}" for near in _alike(name, names)]
    return [f"'{near}'" for near in found if calling.may_read(near)][:MOST_HINTS]


def _alike(name: str, names: list[str]) -> list[str]:
    from difflib import get_close_matches  # only after a failure

    stem = _stem(name)
    same = sorted(other for other in names if _stem(other) == stem)
    close = get_close_matches(name[:100], names, n=MOST_HINTS, cutoff=0.75)
    return list(dict.fromkeys([*same[:MOST_HINTS], *close]))


def _stem(name: str) -> str:
    """Without case and ending: `App.tsx` and `app.ts` are near."""
    return (name.rpartition(".")[0] or name).lower()
