"""Redacts secrets in logs, errors, traces and crash reports (security K3).

Known values first, then patterns. For transcripts see `held.mask_secrets`.

It is linear in the text, whatever the text. A pattern begins at a fixed word, or at the beginning of a run of its
characters (a lookbehind checks that), and never backtracks (`*+`), so no run is read more than a few times. A row is
tried, and compiled, only if one of its words is in the text: most texts have none, and all the rows take 5 ms to
compile. Only the match of a private key goes beyond its line, which `RedactedStream` relies on.

`print_crash` prints the traceback of an unexpected error, without secrets:

    sys.excepthook = print_crash

`secrets_in` finds secrets by name: variables and headers in settings, used or not. Those that settings pass to a
server or to the commands of tools are redacted in everything that we store and show, as our own keys are. A name alone
is not enough: `MAX_TOKENS` is a number, `SSH_KEY_PATH` a path, and redacting such a value everywhere would spoil the
files of a session.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from types import TracebackType
from typing import NamedTuple

from mainspring.processes.environment import sounds_secret
from mainspring.secrets import held
from mainspring.secrets.held import LEAST_KEY, spell_password

REDACTED = "[redacted]"


class SecretPattern(NamedTuple):
    words: tuple[str, ...]  # in lower case; one of them is in every match
    pattern: str  # its groups are kept, so that the reader still sees the context
    ignore_case: bool = False


_NAME = r"[A-Za-z0-9_-]"
_ODD_NAME = r"(?:api[_-]?key|token(?!s)|secret|passw(?:or)?d)"  # in the name of a variable or field: a secret follows
_START = r"(?<![A-Za-z0-9])"

ROWS: tuple[SecretPattern, ...] = (
    SecretPattern(
        ("private key",),
        r"-----BEGIN [A-Z0-9 ]*+(?:(?<=PRIVATE KEY)|(?<=PRIVATE KEY BLOCK))-----"
        r"[\s\S]*?(?:-----END [A-Z0-9 ]*+-----|\Z)",
    ),
    SecretPattern(("sk-",), rf"{_START}sk-[A-Za-z0-9_-]{{16,}}+"),  # Anthropic, OpenAI and vendors with the same format
    SecretPattern(("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), rf"{_START}gh[pousr]_[A-Za-z0-9]{{20,}}+"),
    SecretPattern(("github_pat_",), rf"{_START}github_pat_[A-Za-z0-9_]{{20,}}+"),
    SecretPattern(("glpat-",), rf"{_START}glpat-[A-Za-z0-9_-]{{16,}}+"),
    SecretPattern(("xox", "xapp-"), rf"{_START}(?:xox[abceoprs]|xapp)-[A-Za-z0-9-]{{10,}}+"),
    SecretPattern(("akia", "asia"), rf"{_START}A[KS]IA[A-Z0-9]{{16}}(?![A-Za-z0-9])"),
    SecretPattern(("aiza",), rf"{_START}AIza[A-Za-z0-9_-]{{30,}}+"),
    SecretPattern(("hf_",), rf"{_START}hf_[A-Za-z0-9]{{20,}}+"),
    SecretPattern(("npm_",), rf"{_START}npm_[A-Za-z0-9]{{30,}}+"),
    # A signed token. After a dash its first part is bounded: there may be many dashes.
    SecretPattern(
        ("eyj",),
        rf"(?:(?<!{_NAME})eyJ{_NAME}{{8,}}+|(?<=[_-])eyJ{_NAME}{{8,500}}+)\.{_NAME}{{8,}}+\.{_NAME}*+",
    ),
    # With a digit, or long: "bearer authentication" is not a secret.
    SecretPattern(("bearer",), r"(\bbearer[ \t]++)(?=[^\s\d]*+\d|\S{20})[A-Za-z0-9._~+/=-]{8,}+", ignore_case=True),
    SecretPattern(("basic",), r"(\bauthorization\W{1,8}basic[ \t]++)[A-Za-z0-9._~+/=-]{4,}+", ignore_case=True),
    SecretPattern(("x-api-key",), r"(\bx-api-key\\?['\"]?[ \t]*+[:=][ \t]*+\\?['\"]?)[^\s'\",;\\]++", ignore_case=True),
    SecretPattern(
        ("key", "token", "secret", "passw"),
        rf"((?<!{_NAME})(?={_NAME}*?{_ODD_NAME}){_NAME}++(?:\\?['\"])?[ \t]*+[:=][ \t]*+)"
        r"(?:(\\\")[^\"\\\n]{6,}+|(\")(?:[^\"\\\n]|\\.){6,}+|(')(?:[^'\\\n]|\\.){6,}+|[^\s'\",;\\]{6,}+)",
        ignore_case=True,
    ),
    # In a URL: a password, or a user name that is long enough to be a token. The last '@' before the path counts.
    SecretPattern(("://",), r"(://)(?:([^\s/:@'\"<>]*+:)[^\s/'\"<>]+|[^\s/:@'\"<>]{20,})(?=@)"),
)


def redact(text: str) -> str:
    for secret in held.find_secrets_in(text):
        text = text.replace(secret, REDACTED)
    for pattern in _patterns_for(text):
        text = pattern.sub(_without, text)
    return text


def _patterns_for(text: str) -> Iterator[re.Pattern[str]]:
    small = text.lower()
    for number, row in enumerate(ROWS):
        if any(word in small for word in row.words):
            yield _compiled(number)


@cache
def _compiled(number: int) -> re.Pattern[str]:
    return re.compile(ROWS[number].pattern, re.IGNORECASE if ROWS[number].ignore_case else re.NOFLAG)


def _without(match: re.Match[str]) -> str:
    return "".join([group or "" for group in match.groups()]) + REDACTED


# --- text in chunks -----------------------------------------------------------------------------------------------

LONGEST_LINE = 64 * 1024  # buffered characters of a line without an end
LONGEST_SECRET = 8 * 1024  # of a line that must be cut, this much waits for the next chunk
_BEGIN, _END = "-----BEGIN ", "-----END "
_MARK = 100  # characters; the line that begins or ends a private key has fewer


class RedactedStream:
    """For a log: takes chunks and returns whole lines, so that no secret is missed because it was cut."""

    def __init__(self) -> None:
        self._kept = ""
        self._new: list[str] = []  # not examined yet: of a line without an end so far
        self._size = 0  # of both
        self._in_key = False  # in a private key that is too long for the buffer: no output until it ends

    def feed(self, text: str) -> str:
        self._new.append(text)
        self._size += len(text)
        if "\n" not in text and self._size <= LONGEST_LINE:
            return ""
        self._join()
        if self._in_key and not self._leave_key():
            return ""
        cut = self._whole_lines()
        if not cut and len(self._kept) > LONGEST_LINE:
            cut = self._cut_line()
        ready = self._kept[:cut]
        self._keep(self._kept[cut:])
        return redact(ready)

    def finish(self) -> str:
        self._join()
        ready = "" if self._in_key and not self._leave_key() else self._kept
        self._keep("")
        return redact(ready)

    def _join(self) -> None:
        self._keep(self._kept + "".join(self._new))
        self._new.clear()

    def _keep(self, text: str) -> None:
        self._kept, self._size = text, len(text)

    def _whole_lines(self) -> int:
        """Up to the last newline, but not beyond the beginning of an unfinished private key."""
        cut = self._kept.rfind("\n") + 1
        begin = self._kept.rfind(_BEGIN, 0, cut)
        mark = self._kept[begin : begin + _MARK].partition("\n")[0]
        if begin < 0 or "PRIVATE KEY" not in mark or self._kept.find(_END, begin, cut) >= 0:
            return cut
        return begin

    def _cut_line(self) -> int:
        """Somewhere in the line, outside of every secret and possible beginning of one."""
        if self._kept.startswith(_BEGIN):
            self._in_key = True  # it is redacted to its end, which may already be here, or half of it
            end = self._kept.find(_END)
            return end if end >= 0 else len(self._kept) - len(_END)
        cut = len(self._kept) - LONGEST_SECRET
        for start, end in sorted(self._spans(), reverse=True):
            if start < cut < end:
                cut = start
        return cut or len(self._kept)

    def _spans(self) -> Iterator[tuple[int, int]]:
        for secret in held.find_secrets_in(self._kept):
            at = self._kept.find(secret)
            while at >= 0:
                yield at, at + len(secret)
                at = self._kept.find(secret, at + 1)
        for pattern in _patterns_for(self._kept):
            for match in pattern.finditer(self._kept):
                yield match.span()

    def _leave_key(self) -> bool:
        before, found, after = self._kept.partition(_END)
        dashes = after.find("-----")
        if found and dashes >= 0:
            self._in_key = False
            self._keep(after[dashes + 5 :])
            return True
        self._keep(found + after if found and len(after) < _MARK else before[-len(_END) :])
        return False


def print_crash(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Loads nothing before it happens. If even this fails, it prints only the type."""
    try:
        from traceback import format_exception

        words = redact("".join(format_exception(kind, error, trace)))
    except Exception:  # noqa: BLE001  # no memory, too deep: whatever it is, the message may hold a key
        words = f"{kind.__name__} (traceback not available)\n"
    sys.stderr.write(words)


SHORT_KEY = 12  # characters of a value with letters and something else
HEADERS = ("authorization", "proxy-authorization")


def secrets_in(named: Mapping[str, str]) -> list[str]:
    """Of variables and headers. In a header, the secret follows the scheme."""
    words = [value.split()[-1] for name, value in named.items() if value.strip() and is_secret(name)]
    return [word for word in words if looks_secret(word)]


def is_secret(name: str) -> bool:
    return sounds_secret(name) or name.lower() in HEADERS


def looks_secret(word: str) -> bool:
    if word.startswith(("/", "~", "./", "../", "${")) or "://" in word or word.replace(".", "").isdecimal():
        return False
    return len(word) >= LEAST_KEY or (len(word) >= SHORT_KEY and not word.isalpha())


def passwords_in(addresses: Iterable[str]) -> list[str]:
    """Of `https://name:password@host`."""
    users = [one.partition("://")[2].partition("/")[0].rpartition("@")[0] for one in addresses]
    return [word for user in users if user for word in spell_password(user)]
