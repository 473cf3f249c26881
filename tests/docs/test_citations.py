"""Citations resolve inside the repository. docs/spec/README.md says what they look like and which page answers each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from operator import itemgetter
from pathlib import Path

import pytest
from checklist_page import ROOT

SPEC = ROOT / "docs/spec"
FOLDERS = ("src", "tests", "scripts", "bench", "docs", "examples")
SUFFIXES = (".py", ".md", ".sh", ".c", ".jsonl")
FIXTURES = ("test_citations.py", "test_checklist_page.py")  # they cite unknown numbers on purpose

# A list names its page once: "settled 9 to 14", "security S2, S5 and S7". A comment may break it.
GAP = r"\s+(?:# )?"
JOIN = rf"(?:,|,? and| to){GAP}"


def listed(one: str) -> str:
    return rf"{one}(?:{JOIN}{one})*"


NUMBER = r"\d+\b(?![.,]?\d)"
RULE = r"[PSFTXDNKV]\d{1,2}\b(?!-)"  # in reliability-security.md
SECTION = rf"\d{{1,2}}(?:\.\d{{1,2}})?\b(?!\.\d)(?: (?:rules|steps) {listed(NUMBER)}| (?:rule|step) {NUMBER})?"

# Each begins with plain letters and looks back for the rest: a search for letters is ten times as fast.
CITATIONS = {
    "settled": re.compile(rf"ettled(?<=\b[Ss]ettled){GAP}({listed(NUMBER)})"),
    "law": re.compile(rf"aw(?<=\b[Ll]aw)s?{GAP}({listed(NUMBER)})"),
    "decision": re.compile(rf"ecision(?<=\b[Dd]ecision)s?(?:/|{GAP})(\d{{1,4}})\b"),
    "section": re.compile(rf"tream-json(?<=\b[Ss]tream-json){GAP}({listed(SECTION)})"),
    "rule": re.compile(rf"ecurity(?<=\b[Ss]ecurity){GAP}({listed(RULE)})"),
    "why": re.compile(rf'"why": "({listed(RULE)})'),  # in a row of the permission corpus
    "checklist": re.compile(r"-(?<=[A-Z]-)(?<![\w.-]..)(\d\d)\b(?![\w-])"),
    "bare": re.compile(rf"\(({listed(RULE)})[),:;]"),
    "bare at the start": re.compile(rf'"""({listed(RULE)}):'),
    "bare in a heading": re.compile(rf"--- ({listed(RULE)}):"),
}
# At the start of a docstring or comment, in a module whose first docstring cites stream-json: `"""6.4, 1.5: ..."""`.
BARE_SECTIONS = re.compile(rf'(?:"""|# (?=\d+\.))({listed(SECTION)})(?=:|, security| \[[MSO]\]| `)')


@cache
def known() -> frozenset[str]:
    """Every number that can be cited, with the name of its page."""
    pages = {page.name: page.read_text("utf-8") for page in SPEC.glob("*.md")}
    spec = {anchor for text in pages.values() for anchor in re.findall(r'<a id="([^"]+)">', text)}
    rows = re.findall(r"^\| ([A-Z]-\d\d) \|", (ROOT / "docs/checklist.md").read_text("utf-8"), re.MULTILINE)
    decisions = {f"decision-{int(page.name[:4])}" for page in (ROOT / "docs/decisions").glob("[0-9]*.md")}
    return frozenset(spec | {row.lower() for row in rows} | decisions)


def each(found: str, one: str) -> Iterator[str]:
    """`S2 to S4` is S2, S3, S4; `7 rules 1 to 3` is three rules; `0060` is 60."""
    last = ""
    for join, item in re.findall(rf"({JOIN}|)({one})", found):
        base, *inner = item.split(" ", 2)
        if inner:
            yield from (f"{base}-{number}" for number in each(inner[1], NUMBER))
        elif "to" in join and (between := numbers(last, item)):
            yield from between
        else:
            yield item.lstrip("0") or item
        last = item


def numbers(first: str, last: str) -> list[str]:
    """What lies behind `first` up to `last`, or nothing if only the ends can be told."""
    letter = last.rstrip("0123456789")
    if not first.startswith(letter) or not (start := first.removeprefix(letter)).isdecimal():
        return []
    return [f"{letter}{number}" for number in range(int(start) + 1, int(last.removeprefix(letter)) + 1)]


def cited(text: str) -> Iterator[tuple[int, str, str]]:
    """Position, words and anchor of each citation."""
    for kind, pattern in CITATIONS.items():
        for match in pattern.finditer(text):
            at, found = match.start(), match[1]
            match kind:
                case "bare" | "bare at the start" | "bare in a heading":
                    yield at, f"{found} (write 'security {found}')", ""
                case "checklist":
                    yield at, f"{text[at - 1]}-{found}", f"{text[at - 1].lower()}-{found}"
                case "rule" | "why":
                    yield from ((at, f"security {found}", one.lower()) for one in each(found, RULE))
                case "section":
                    yield from ((at, f"stream-json {found}", f"stream-json-{one}") for one in each(found, SECTION))
                case _:
                    yield from ((at, f"{kind} {found}", f"{kind}-{one}") for one in each(found, NUMBER))
    if text.startswith('"""') and re.search(r"[Ss]tream-json\s+\d", text[: text.index('"""', 3)]):
        for match in BARE_SECTIONS.finditer(text):
            yield from ((match.start(), match[1], f"stream-json-{one}") for one in each(match[1], SECTION))


def unresolved(text: str) -> list[str]:
    return [f"{text.count(chr(10), 0, at) + 1}: {words}" for at, words, anchor in cited(text) if anchor not in known()]


def files() -> Iterator[Path]:
    yield from ROOT.glob("*.md")
    for folder in FOLDERS:
        yield from (path for path in (ROOT / folder).rglob("*") if path.suffix in SUFFIXES and path.is_file())


# --- the repository -----------------------------------------------------------------------------------


def test_every_citation_resolves() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in files()
        if path.name not in FIXTURES
        for line in unresolved(path.read_text("utf-8", "replace"))
    ]
    assert wrong == []


def test_every_link_of_the_specification_leads_somewhere() -> None:
    for page in SPEC.glob("*.md"):
        for target in re.findall(r"\]\(([^)]+)\)", page.read_text("utf-8")):
            name, _, anchor = target.partition("#")
            assert (page.parent / name).exists(), f"{page.name}: '{target}'"
            assert not anchor or f'<a id="{anchor}">' in (page.parent / name).read_text("utf-8"), (
                f"{page.name}: '{target}'"
            )


# --- what is found ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "settled 45", "(settled 23 and 99)", "Settled 40 to 46 say so", "(laws 2 and 7)", "law 0", "decision 9999",
        "docs/decisions/0011-none.md", "stream-json 6.9", "stream-json 1.4, 2 and 3.3", "stream-json 18",
        "stream-json 7 rule 9", "stream-json 9 steps 3 to 6", "stream-json 17.20", "security F7", "security S2 to S11",
        "security T1, T2 and X7", "A-99", "(Z-35)", "C-19", "(T1)", "(S2, S5 to S7)",
        '"""V3: so."""', "# --- S5 and S6: wrappers ---", '{"why": "S11: no such rule"}',
        '"""Frames (stream-json 6).\n"""\ndef test(): """6.8: none."""', '"""See stream-json 7."""\n# 17.20: none',
        "# goes on in the next line (settled\n    # 99)",
    ],
)  # fmt: skip
def test_an_unknown_number_is_found(text: str) -> None:
    assert len(unresolved(text)) >= 1


@pytest.mark.parametrize(
    ("text", "anchors"),
    [
        ("(settled 9, Z-10)", ["settled-9", "z-10"]),
        ("settled 9 to 11, 14", ["settled-9", "settled-10", "settled-11", "settled-14"]),
        ("Laws 2 and 4", ["law-2", "law-4"]),
        ("(docs/decisions/0060), decision 4", ["decision-60", "decision-4"]),
        ("stream-json 1.4, 2 and 3.2", ["stream-json-1.4", "stream-json-2", "stream-json-3.2"]),
        ("stream-json 7 rules 3, 4 and 6", ["stream-json-7-3", "stream-json-7-4", "stream-json-7-6"]),
        ("stream-json 7 rule 5, 4", ["stream-json-7-5", "stream-json-4"]),
        ("stream-json 6.1 to 6.3", ["stream-json-6.1", "stream-json-6.2", "stream-json-6.3"]),
        ("(security S9 to S10, F5; K-06)", ["s9", "s10", "f5", "k-06"]),
        ('"""See stream-json 6.4."""\n"""1.5 [O]: so."""', ["stream-json-6.4", "stream-json-1.5"]),
        ("with stream-json: 5 lines, a law, 2 laws; UTF-16 and 2A-01x", []),
        ('"""Results."""\n"""6.8: not a citation here."""', []),
    ],
)
def test_a_citation_is_read_with_all_its_numbers(text: str, anchors: list[str]) -> None:
    assert [anchor for _, _, anchor in sorted(cited(text), key=itemgetter(0))] == anchors
    assert unresolved(text) == []
