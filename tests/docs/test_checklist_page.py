"""The checklist page is current, complete for the core, and cites nothing that does not exist."""

from __future__ import annotations

from pathlib import Path

import checklist_page
import pytest
from checklist_page import GROUPS, OWNERS, ROOT, CitationError

# --- the real page ------------------------------------------------------------------------------------


def test_the_page_is_current() -> None:
    # Not `==` in the assert itself: a diff of two long pages would bury the message.
    current = (ROOT / "docs/checklist.md").read_text(encoding="utf-8") == checklist_page.build(ROOT)
    assert current, "docs/checklist.md is out of date: run `make docs`"


def test_every_number_of_finished_work_has_a_test() -> None:
    assert checklist_page.missing(ROOT) == []


def test_every_row_has_a_known_owner_and_group_and_a_number_of_its_own() -> None:
    rows = checklist_page.requirements(ROOT)
    assert {row.owner for row in rows} <= OWNERS.keys()
    assert {row.id.split("-")[0] for row in rows} == GROUPS.keys()
    assert len({row.id for row in rows}) == len(rows)


# --- a small project ----------------------------------------------------------------------------------

ROWS = "id\towner\ttext\nA-01\tcore\tOne path\nA-02\tfleet\tA generator\nA-03\tcore\tBackpressure\n"


def project(root: Path, **tests: str) -> Path:
    (root / "scripts").mkdir()
    (root / "scripts/requirements.tsv").write_text(ROWS, encoding="utf-8")
    (root / "tests/deep").mkdir(parents=True)
    for name, source in tests.items():
        (root / f"tests/deep/{name}.py").write_text(source, encoding="utf-8")
    return root


def test_an_unknown_number_is_refused_with_its_place(tmp_path: Path) -> None:
    source = '\n\n@pytest.mark.covers("A-01", "Z-99")\n@pytest.mark.covers(*NUMBERS)\ndef test_it(): ...\n'
    with pytest.raises(CitationError) as refused:
        checklist_page.build(project(tmp_path, test_wrong=source))
    assert str(refused.value).splitlines() == [
        "tests/deep/test_wrong.py:3: 'Z-99' is not in scripts/requirements.tsv",
        "tests/deep/test_wrong.py:4: '*NUMBERS' is not in scripts/requirements.tsv",
    ]


def test_a_number_without_a_test_is_missing_or_owned_by_later_work(tmp_path: Path) -> None:
    root = project(tmp_path)
    assert checklist_page.missing(root) == ["A-01", "A-03"]
    page = checklist_page.build(root)
    assert "- 0 of 3 are shown by tests.\n- 1 are owned by later work." in page
    assert f"- 2 belong to work that is done ({', '.join(checklist_page.DONE)}) and have no test yet.\n" in page
    assert "| A-01 | One path | **missing** |\n| A-02 | A generator | later: fleet |\n" in page


def test_marks_count_on_modules_classes_functions_and_parameters(tmp_path: Path) -> None:
    marks = """
pytestmark = pytest.mark.covers("A-01")

@pytest.mark.covers("A-02")
class TestGroup:
    @pytest.mark.covers("A-02")
    async def test_member(self): ...

@pytest.mark.parametrize("n", [
    pytest.param(1, marks=pytest.mark.covers("A-03")),
    pytest.param(2, marks=pytest.mark.covers("A-03")),
])
def test_table(n): ...
"""
    assert checklist_page.shown_by(project(tmp_path, test_m=marks)) == {
        "A-01": ["tests/deep/test_m.py"],
        "A-02": ["tests/deep/test_m.py::TestGroup", "tests/deep/test_m.py::TestGroup::test_member"],
        "A-03": ["tests/deep/test_m.py::test_table"],
    }


def test_a_test_of_a_part_does_not_close_what_later_work_owns(tmp_path: Path) -> None:
    root = project(tmp_path, test_m='@pytest.mark.covers("A-02")\ndef test_part(): ...')
    page = checklist_page.build(root)
    assert "- 0 of 3 are shown by tests.\n- 1 are owned by later work." in page
    assert "| A-02 | A generator | `tests/deep/test_m.py::test_part`<br>the rest later: fleet |" in page


def test_only_the_first_tests_of_a_number_are_named(tmp_path: Path) -> None:
    tests = "\n".join(f'@pytest.mark.covers("A-01")\ndef test_{name}(): ...' for name in "edcba")
    named = "<br>".join(f"`tests/deep/test_m.py::test_{name}`" for name in "abc")
    assert f"| A-01 | One path | {named}<br>and 2 more |" in checklist_page.build(project(tmp_path, test_m=tests))
