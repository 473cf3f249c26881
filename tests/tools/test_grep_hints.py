"""Grep: what ripgrep complains of comes with a way out that the tool has, not with flags of a program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mainspring.core.errors import ToolError
from mainspring.testing.world import FakeToolContext
from mainspring.tools.grep import GREP


@pytest.mark.parametrize(
    ("input", "said", "hint"),
    [
        ({"pattern": "f("}, "error: unclosed group", "Put '\\' before each sign that is meant as it is."),
        ({"pattern": "(?=x)"}, "look-around", "Search without it, and choose among what is found."),
        ({"pattern": r"(a)\1"}, "backreferences", "Search without them, and choose among what is found."),
        ({"pattern": "a\\nb"}, "not allowed in a regex", "Set 'multiline': then matches may span lines."),
        ({"pattern": "a", "type": "zz"}, "unrecognized file type: zz", "Use 'glob' instead, such as '*.ext'."),
    ],
)
def test_a_way_out(tmp_path: Path, input: dict[str, Any], said: str, hint: str) -> None:
    (tmp_path / "f").write_text("f(x)\n")
    with pytest.raises(ToolError) as error:
        FakeToolContext(str(tmp_path)).now(GREP, **input)
    text = str(error.value)
    assert text.startswith("The search failed: ")
    assert said in text
    assert text.endswith(f"\n{hint}")
    assert "--" not in text
    assert "rg:" not in text
