"""Completion for the text before the cursor, and long pastes.

    /mo          a slash command, skill, custom command or MCP prompt: only at the very beginning
    /model op    an argument of that command, from `CompletionSources.behind`
    @src/ma      a path of the project, by its letters; '@./', '@../', '@~/' and '@/' list that folder instead
    !cat src/m   a path as a shell takes it

Listing a folder takes as long as its disk does: call `find_candidates` in a thread (`input_help.py`).

A long paste appears in the input as a placeholder, and its text replaces it when the prompt is sent:

    [Pasted text #1, 42 lines]

The placeholder has a no-break space after 'Pasted', which is not typed by accident, so typed text is never mistaken for
a placeholder. It must match exactly: if the user edits one character, it is ordinary text and is not replaced.
"""

# ruff: noqa: PTH113, PTH118  # names are plain strings here: what was typed stays as it was

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Protocol, TypeVar

from mainspring.cli.tui.files_index import PathIndex, is_typable
from mainspring.context.memory import find_mentions
from mainspring.core.value import Bundle
from mainspring.settings.load import expand_tilde
from mainspring.text import plural, strip_control_characters

MOST = 20  # candidates offered; slash commands are all offered
MOST_ASKED = 200  # paths checked against the permission rules for these
MOST_LISTED = 10_000  # folder entries that are read
LONGEST = 4_096  # characters before the cursor: the longest path on Linux
LONGEST_SHOWN = 300  # characters; the editor cuts them to its columns

_MENTION = re.compile(r'(?:(?<=[\s(])|\A)@(?:"([^"\n]*)|(?!")((?:\\ |[^\s`\\])*))\Z')  # as `context/memory.py` reads it
_SHELL_WORD = re.compile(r"""(?:(?<=\s)|\A)((?:\\.|[^\s\\'"`$|&;<>()*?!])*)\Z""")
_SHELL_ODD = re.compile(r"[^\w./~+,:@%=-]", re.ASCII)
_ARGUMENT = re.compile(r"/(\S+)\s+(.*)\Z", re.DOTALL)
_BY_FOLDER = ("./", "../", "~/", "/")  # prefixes of paths that are not in the index


class Candidate(Bundle):
    text: str  # replaces the typed text
    start: int  # where the replaced text starts, in the text before the cursor
    shown: str  # in the menu; sanitized, as is `about`
    about: str = ""


class CompletionOption(Bundle):
    """An argument of a slash command."""

    name: str
    about: str = ""


class Completable(Protocol):
    """`SlashCommand` and `SlashEntry` both match."""

    @property
    def name(self) -> str: ...
    @property
    def about(self) -> str: ...
    @property
    def hint(self) -> str: ...


class CompletionSources(Bundle):
    """Where candidates come from. Each source is called when it is needed, and returns the current state."""

    words: Callable[[], Iterable[Completable]]  # most important first
    paths: Callable[[], PathIndex]
    may_read: Callable[[str], bool]  # for an absolute path
    behind: Mapping[str, Callable[[], Iterable[CompletionOption]]]  # by command: 'model', 'resume'; called at each key
    cwd: str
    home: str = ""  # what '~' expands to; empty: it is not expanded


def find_candidates(before: str, known: CompletionSources) -> tuple[Candidate, ...]:
    """Return the candidates, best first; empty if there are none."""
    if before.startswith("/") and (found := _of_slash(before, known)):
        return found
    if before.startswith("!"):
        return _of_shell(before, known)
    return _of_mention(before, known)


# --- slash commands -------------------------------------------------------------------------------------------------


def _of_slash(before: str, known: CompletionSources) -> tuple[Candidate, ...]:
    said = _ARGUMENT.match(before)
    if said is not None:
        return _of_argument(said, known)
    if any(map(str.isspace, before)):
        return ()
    words = [word for word in known.words() if is_typable(word.name)]
    return tuple([_word(word) for word in rank_matches(before[1:], words, lambda word: (word.name,))])


def _word(word: Completable) -> Candidate:
    """Add a space if arguments may follow."""
    shown = f"/{word.name} {word.hint}".rstrip()
    return Candidate(f"/{word.name}{' ' if word.hint else ''}", 0, _line(shown), _line(word.about))


def _of_argument(said: re.Match[str], known: CompletionSources) -> tuple[Candidate, ...]:
    ask = known.behind.get(said[1])
    if ask is None:
        return ()
    choices = [choice for choice in ask() if is_typable(choice.name)]
    found = islice(rank_matches(said[2], choices, lambda choice: (choice.name, choice.about)), MOST)
    return tuple([Candidate(one.name, said.start(2), _line(one.name), _line(one.about)) for one in found])


def _line(text: str) -> str:
    """One line, without control characters."""
    return strip_control_characters(" ".join(text[: 2 * LONGEST_SHOWN].split()))[:LONGEST_SHOWN]


# --- ranking of short lists -------------------------------------------------------------------------------------------

T = TypeVar("T")


def rank_matches(query: str, among: Iterable[T], texts: Callable[[T], Iterable[str]]) -> list[T]:
    """Return the matches, best first; ties keep their order. For large lists use `files_index.PathIndex`."""
    low = query.lower()
    ranks = [(min([_rank(low, text.lower()) for text in texts(one)]), one) for one in among]
    return [one for rank, one in sorted(ranks, key=lambda pair: pair[0]) if rank < NO_FIT]


NO_FIT = 5


def _rank(query: str, text: str) -> int:
    if text == query:
        return 0
    if text.startswith(query):
        return 1
    at = text.find(query)
    if at > 0:
        begins = any(not text[place - 1].isalnum() for place in _places(query, text, at))
        return 2 if begins else 3
    rest = iter(text)
    return 4 if all(letter in rest for letter in query) else NO_FIT


def _places(part: str, text: str, at: int) -> Iterator[int]:
    while at > 0:
        yield at
        at = text.find(part, at + 1)


# --- paths ------------------------------------------------------------------------------------------------------------


def _of_mention(before: str, known: CompletionSources) -> tuple[Candidate, ...]:
    line = before[max(before.rfind("\n") + 1, len(before) - LONGEST) :]
    said = _MENTION.search(line)
    if said is None:
        return ()
    quoted, plain = said.groups()
    query = quoted if quoted is not None else plain.replace("\\ ", " ")
    start = len(before) - (len(line) - said.start())
    found = (path for path in _paths(query, known) if path != query or not path.endswith("/"))
    made = ((path, format_mention(path)) for path in found)
    return tuple([Candidate(text, start, path) for path, text in islice(made, MOST) if text])


def _paths(query: str, known: CompletionSources) -> Iterator[str]:
    """Only paths that the permission rules allow to read."""
    if query in ("..", "~"):
        yield f"{query}/"
        return
    ranked = list_folder_entries(query, known) if query.startswith(_BY_FOLDER) else _of_project(query, known)
    for path in islice(ranked, MOST_ASKED):
        if known.may_read(_absolute(path, known).rstrip("/") or "/"):
            yield path


def _of_project(query: str, known: CompletionSources) -> Iterator[str]:
    """Skip a folder named '~': the path would expand to the home folder."""
    return (path for path in known.paths().rank(query) if not path.startswith("~/"))


def list_folder_entries(query: str, known: CompletionSources) -> Iterator[str]:
    """List the folder that the query names, spelled as in the query. Hidden entries only if asked for, as in shells."""
    folder, slash, name = query.rpartition("/")
    hidden = name.startswith(".")
    entries = [one for one in _entries(_absolute(folder + slash, known)) if hidden or not one.startswith(".")]
    yield from [folder + slash + one for one in rank_matches(name, sorted(entries), lambda one: (one,))]


def _entries(folder: str) -> list[str]:
    """Folders end with a slash, and so do links to folders."""
    try:
        with os.scandir(folder) as entries:
            few = islice(entries, MOST_LISTED)
            return [f"{one.name}/" if one.is_dir() else one.name for one in few if is_typable(one.name)]
    except (OSError, ValueError):  # not a folder, or not readable; a NUL in its name
        return []


def _absolute(path: str, known: CompletionSources) -> str:
    return os.path.join(known.cwd, expand_tilde(path, known.home) if known.home else path)


def format_mention(path: str) -> str:
    """Format a path as `context/memory.py` reads it; empty if that is impossible. A folder is spelled so that the user
    can continue typing after it; a file is followed by a space."""
    spellings = (f"@{path}", "@" + path.replace(" ", "\\ ") if path.endswith("/") else f'@"{path}"', f'@"{path}"')
    if "`" in path or "\n" in path:  # a backquote starts code
        return ""
    text = next((text for text in spellings if find_mentions(text) == (path,)), "")
    return text + " " if text and not path.endswith("/") else text


# --- shell commands ---------------------------------------------------------------------------------------------------


def _of_shell(before: str, known: CompletionSources) -> tuple[Candidate, ...]:
    """Complete the last word if it may be a path: the first word names a program, unless it has a slash. Match prefixes
    only, as shells do. Read rules do not apply: it is the user's own command."""
    line = before[1:][-LONGEST:]
    said = _SHELL_WORD.search(line)
    if said is None or not said[1] or ("/" not in said[1] and not line[: said.start()].strip()):
        return ()
    query, start = re.sub(r"\\(.)", r"\1", said[1]), len(before) - len(said[1])
    low = query.lower()
    found = (path for path in list_folder_entries(query, known) if path != query and path.lower().startswith(low))
    return tuple([Candidate(_SHELL_ODD.sub(_escaped, path), start, path) for path in islice(found, MOST)])


def _escaped(odd: re.Match[str]) -> str:
    return odd[0] if odd[0].isalnum() else f"\\{odd[0]}"


MOST_LINES = 10  # a longer paste becomes a placeholder
MOST_CHARACTERS = 2_000
MOST_KEPT = 100  # pastes, besides those in the input: the user may recall an earlier prompt
IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".webp")  # formats that models accept
LONGEST_PATH = 4_096

_STANDS = re.compile(r"\[Pasted\u00a0(?:text #\d+, [\d,]+ lines?|image #\d+)\]")


class PastedTexts:
    """The pastes of one session."""

    def __init__(self, cwd: str, home: str = "") -> None:
        """Image paths are relative to `cwd`; '~' expands to `home`."""
        self._cwd, self._home = cwd, home
        self._texts: dict[str, str] = {}  # by placeholder, oldest first
        self._number = 0

    def put(self, pasted: str, before: str = "", after: str = "") -> str:
        """Return what to insert into the input, given the text before and after the cursor."""
        text = clean_paste(pasted)
        if image := self._image(text):
            blank = " " if before and not before[-1].isspace() else ""
            return blank + (image.rstrip(" ") if after[:1].isspace() else image)
        if text.count("\n") + (not text.endswith("\n")) <= MOST_LINES and len(text) <= MOST_CHARACTERS:
            return text
        return self._keep(text, before + after)

    def put_image(self, path: str) -> str:
        """A placeholder for the mention of an image."""
        self._number += 1
        name = f"[Pasted\u00a0image #{self._number}]"
        self._texts[name] = format_mention(path).rstrip(" ")
        return f"{name} "

    def expand(self, text: str) -> str:
        """Replace each placeholder with its text; placeholders inside that text are left as they are."""
        return _STANDS.sub(lambda found: self._texts.get(found[0], found[0]), text)

    def before(self, text: str, cursor: int) -> int:
        """How many characters Backspace deletes: one, or a whole placeholder."""
        start, end = self.around(text, cursor - 1)
        return cursor - max(start, 0) if end == cursor else min(1, cursor)

    def after(self, text: str, cursor: int) -> int:
        """The same for the Delete key."""
        start, end = self.around(text, cursor)
        return min(end, len(text)) - cursor if start == cursor else min(1, len(text) - cursor)

    def around(self, text: str, at: int) -> tuple[int, int]:
        """Return the span to delete for the character at `at`: the placeholder around it, else the character itself."""
        begin = text.rfind("[", 0, at + 1)
        found = _STANDS.match(text, begin) if begin >= 0 else None
        if found is not None and at < found.end() and found[0] in self._texts:
            return found.span()
        return at, at + 1

    def _keep(self, text: str, there: str) -> str:
        self._number += 1
        lines = plural(text.count("\n") + (not text.endswith("\n")), "line")
        name = f"[Pasted\u00a0text #{self._number}, {lines}]"
        self._texts[name] = text
        for old in list(self._texts)[:-MOST_KEPT]:
            if old not in there:
                del self._texts[old]
        return name

    def _image(self, text: str) -> str:
        """Return the mention if this is the path of an existing image, else an empty string."""
        said = text.strip()
        if len(said) > LONGEST_PATH or "\n" in said or not said.rstrip("'\"").lower().endswith(IMAGES):
            return ""
        for path in dict.fromkeys((said, _bare(said))):
            seen = expand_tilde(path, self._home) if self._home else path
            if os.path.isfile(os.path.join(self._cwd, seen)):
                return format_mention(path)
        return ""


def _bare(said: str) -> str:
    """Undo how terminals write a dropped file: in quotes, with backslashes, or as a file URL."""
    if said.startswith("file://"):
        from urllib.parse import unquote

        return unquote(said.removeprefix("file://").removeprefix("localhost"))
    if said[0] in "'\"" and said[-1] == said[0] and len(said) > 1:
        return said[1:-1]
    return re.sub(r"\\(.)", r"\1", said)


def clean_paste(text: str) -> str:
    """Normalize line ends to line feeds, and remove control characters and invalid characters."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return strip_control_characters(lines.encode(errors="ignore").decode())
