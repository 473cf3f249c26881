"""Which files a memory file asks for."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.context.memory import MOST, find_absent_mentions, find_mentions


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("See @docs/style.md and @~/notes.md.", ("docs/style.md", "~/notes.md")),
        ("@a.md", ("a.md",)),
        ("(@a.md)", ("a.md",)),
        ("write to me@example.com", ()),
        ("`@a.md` and ``x ` @b.md``", ()),
        ("` @a.md and ``@b.md`` c", ("a.md",)),  # one tick alone opens nothing; two and two do
        ("an odd ` tick, @a.md", ("a.md",)),
        ("```\n@a.md\n```\n@b.md", ("b.md",)),
        ("~~~py\n@a.md\n```\n@c.md\n~~~\n@b.md", ("b.md",)),
        ("````\n```\n@a.md\n````\n@b.md", ("b.md",)),
        ("```\n@never.md", ()),
        ("@with\\ blank.md", ("with blank.md",)),
        ('@"with blank.md" and @"a.py"#L2-3, (@"b.md")', ("with blank.md", "a.py#L2-3", "b.md")),
        ('@"never closed.md\n"', ('"never',)),
        ("@a.md @a.md\n- @b.md", ("a.md", "b.md")),
        ("@", ()),
    ],
)
def test_mentions(text: str, found: tuple[str, ...]) -> None:
    assert find_mentions(text) == found


def test_there_is_an_end_to_them() -> None:
    assert len(find_mentions(" ".join([f"@{n}.md" for n in range(10 * MOST)]))) == MOST


@given(st.text(alphabet="`~@a \n\\.", max_size=300))
def test_any_text_can_be_read(text: str) -> None:
    for name in find_mentions(text):
        assert name
        assert "`" not in name
        assert "\n" not in name


@pytest.mark.parametrize("piece", ["`" * 3 + " ", "``` `` ` ", "@\\ ", "`a``b```c", "~~~", "@`", '@"', ' @"a'])
def test_a_hostile_line_takes_no_longer_than_a_friendly_one(piece: str) -> None:
    """256 KB, the most that is read of a file. A quadratic search would take minutes."""
    start = time.process_time()
    find_mentions(" " + "".join([piece + "`" * (n % 700) for n in range(2_000)])[:256_000])
    assert time.process_time() - start < 1


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see @missing.md, please", ("missing.md",)),
        ("see @there.md", ()),
        ("see @docs/missing and @docs/there.md", ("docs/missing",)),
        ("see @docs", ()),
        ("@~/nowhere/at-all and @/nowhere/at-all.txt", ("~/nowhere/at-all", "/nowhere/at-all.txt")),
        ("@../missing.py", ("../missing.py",)),
        ("ask @alice, or @types/node, or @org/team", ()),
        ("@app.route('/x')\n@pytest.mark.skip\n@app.get('/')\n@property", ()),
        ("me@example.com wrote `@missing.md`", ()),
        ("@with\\ blank.md", ("with blank.md",)),
        ("@broken-link.md", ()),
        ("@a.py:10 @a.py#L3 @*.py", ()),
    ],
)
def test_files_that_are_not_there(text: str, found: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "there.md").touch()
    (tmp_path / "docs" / "there.md").touch()
    (tmp_path / "broken-link.md").symlink_to("nowhere")
    assert find_absent_mentions(text, str(tmp_path)) == found


@given(st.text(max_size=200).map(lambda text: f"@{text} @{text}.md"))
def test_any_prompt_is_looked_through_without_harm(text: str) -> None:
    assert set(find_absent_mentions(text, "/")) <= set(find_mentions(text))
