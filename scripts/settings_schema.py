"""Lists the settings keys of Claude Code, read from the program that claude-agent-sdk bundles.

    python scripts/settings_schema.py                 # every key, one per line
    python scripts/settings_schema.py --compare       # keys that our table lacks, and keys that the program lacks

It reads names only: the schema in the program is one object literal with an arrow function for each key. The script
follows nested tables through the functions that make them. Lists and free-form tables have no keys of their own.
"""

from __future__ import annotations

import argparse
import mmap
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ANCHOR = b"return{$schema:()=>"
AROUND = 300_000  # characters on each side of the schema that contain its functions
DEEPEST = 6

_MEMBER = re.compile(r'"?([\w$-]+)"?:')
_BEFORE_REGEX = frozenset("(,=:[!&|?{};")
_LAZY = re.compile(r"(?:\(\)=>)*")
_CALL = re.compile(r"([\w$]+)\(")
_TABLE_IN_BODY = re.compile(r"let [\w$]+=(?=[\w$]+\()")


def bundled_program() -> Path:
    import claude_agent_sdk

    return Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"


def schema_text(program: Path) -> tuple[str, int]:
    """The text around the schema, and where its object begins in it."""
    with program.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        at = data.find(ANCHOR)
        if at < 0:
            raise SystemExit(f"'{program}' has no settings schema that this script knows: look for '$schema' in it")
        text = data[max(0, at - AROUND) : at + AROUND].decode(errors="replace")
    return text, text.index(ANCHOR.decode()) + len("return")


class Schema:
    def __init__(self, text: str, start: int) -> None:
        self.text, self.start = text, start
        found = re.search(r"([\w$]+)\(\{allow:", text)
        if found is None:
            raise SystemExit("the schema of 'permissions' was not found")
        self.table_maker = found[1]  # the minified name of z.object

    def keys(self) -> list[str]:
        found = {*self._inner(self.text, self.start, "", 0), *self._of_features()}
        return sorted(found | {name for name in self._restrictions() if not covers(found, name)})

    def _of_features(self) -> Iterator[str]:
        """Features of a build add their own keys: `shape: () => ({...})`."""
        for shape in re.finditer(r"shape:\(\)=>\((?=\{)", self.text):
            yield from self._inner(self.text, shape.end(), "", 0)

    def _restrictions(self) -> Iterator[str]:
        """The program has a list of keys that restrict, by path; some of them appear nowhere else."""
        for entry in re.finditer(r'\{path:\[([\w",]+)\],restrictive:', self.text):
            yield entry[1].replace('"', "").replace(",", ".")

    def _inner(self, text: str, at: int, prefix: str, depth: int) -> Iterator[str]:
        for name, value in members(text, at):
            if name == "...":
                brace = value.find("{")  # of '...condition&&{...}'
                if brace >= 0 and "(" not in value[:brace]:
                    yield from self._inner(value, brace, prefix, depth)
                continue
            table = self._table(value, depth)
            if table is None:
                yield prefix + name
            else:
                yield from self._inner(*table, f"{prefix}{name}.", depth + 1)

    def _table(self, value: str, depth: int) -> tuple[str, int] | None:
        """Where the object of a value that is a table begins."""
        if depth > DEEPEST:
            return None
        at = _LAZY.match(value).end()  # type: ignore[union-attr]
        if value.startswith("{", at) and (body := _TABLE_IN_BODY.search(value, at)):
            at = body.end()
        call = _CALL.match(value, at)
        if call is None:
            return None
        inside = call.end()
        if call[1] == self.table_maker:
            return (value, inside) if value.startswith("{", inside) else None
        if value.startswith("()=>", inside):  # lazy(() => maker())
            return self._table(value[inside:], depth + 1)
        if value.startswith((")", "e)"), inside):  # a function of its own
            return self._defined(call[1], depth)
        return None

    def _defined(self, name: str, depth: int) -> tuple[str, int] | None:
        name = re.escape(name)
        made = re.search(rf"(?:[ ,;]{name}=[\w$]+\(\(\)=>|function {name}\([\w$]*\)\{{return )", self.text)
        return self._table(self.text[made.end() : made.end() + 60_000], depth + 1) if made else None


# --- a minimal JavaScript parser --------------------------------------------------------------------


def members(text: str, at: int) -> Iterator[tuple[str, str]]:
    """Names and values of an object literal; '...' for a spread one."""
    end = after_group(text, at) - 1
    at += 1
    while at < end:
        named = _MEMBER.match(text, at)
        name, at = ("...", at + 3) if text.startswith("...", at) else (named[1], named.end()) if named else ("?", at)
        start = at
        while at < end and text[at] != ",":
            at = after(text, at)
        yield name, text[start:at]
        at += 1


def after(text: str, at: int) -> int:
    """Past a string, a regular expression, a group in brackets, or one character."""
    if text[at] in "\"'`":
        return after_string(text, at)
    if text[at] in "([{":
        return after_group(text, at)
    if text[at] == "/" and text[at - 1] in _BEFORE_REGEX:
        return after_regex(text, at)
    return at + 1


def after_group(text: str, at: int) -> int:
    at += 1
    while text[at] not in ")]}":
        at = after(text, at)
    return at + 1


def after_string(text: str, at: int) -> int:
    quote = text[at]
    at += 1
    while text[at] != quote:
        if text[at] == "\\":
            at += 2
        elif quote == "`" and text.startswith("${", at):
            at = after_group(text, at + 1)
        else:
            at += 1
    return at + 1


def after_regex(text: str, at: int) -> int:
    at += 1
    in_class = False
    while in_class or text[at] != "/":
        in_class = {"[": True, "]": False}.get(text[at], in_class)
        at += 2 if text[at] == "\\" else 1
    return at + 1


def covers(found: set[str], name: str) -> bool:
    """Whether a key, the table it is in or the tables in it are known."""
    return any(name == one or name.startswith(f"{one}.") or one.startswith(f"{name}.") for one in found)


def bundled_keys() -> list[str]:
    return Schema(*schema_text(bundled_program())).keys()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compare", action="store_true", help="compare with our table instead of printing the keys")
    found = bundled_keys()
    if not parser.parse_args().compare:
        print("\n".join(found))
        return 0
    from mainspring.settings.claude_code_keys import CLAUDE_CODE_KEYS

    ours = {key.name for key in CLAUDE_CODE_KEYS}
    for name in sorted(set(found) ^ ours):
        print(f"{'missing in our table' if name in found else 'not in the program'}: {name}")
    return int(set(found) != ours)


if __name__ == "__main__":
    sys.exit(main())
