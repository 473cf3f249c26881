"""The tools that come with us: what the model is told of them, and that they are there when they are called."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from mainspring.core.errors import UsageError
from mainspring.permissions import READERS, WRITERS
from mainspring.tools.base import Workspace
from mainspring.tools.builtin import FOR_PEOPLE, BuiltinTools
from mainspring.tools.catalog import SPECS

ROOT = Path(__file__).parents[2]
MOST_TOKENS = 4_000


def test_the_catalog_says_what_the_tools_say() -> None:
    spec = importlib.util.spec_from_file_location("tool_catalog", ROOT / "scripts/tool_catalog.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    current = script.page() == (ROOT / "src/mainspring/tools/catalog.py").read_text()
    assert current, "run 'make docs'"


def test_every_tool_can_be_had_under_its_name() -> None:
    kit = BuiltinTools(Workspace("/"), {})
    for name, (about, schema) in SPECS.items():
        tool = kit.tool(name)
        assert (tool.name, tool.spec.description, tool.spec.schema) == (name, about, schema)
        assert kit.tool(name) is tool, "made twice: what they share would be lost"


def test_what_the_model_is_told_is_short() -> None:
    """At three characters a token, which is more tokens than any tokenizer makes of this."""
    said = [
        {"name": name, "description": about, "input_schema": schema}
        for name, (about, schema) in SPECS.items()
        if name not in ("Skill", "WebSearch")  # which are there only with skills, and with somebody who searches
    ]
    assert len(msgspec.json.encode(said)) / 3 < MOST_TOKENS


def test_offers_keep_our_order_and_name_what_there_is_not() -> None:
    kit = BuiltinTools(Workspace("/"), {})
    assert [offer.spec.name for offer in kit.offers(["Read", "Bash"])] == ["Bash", "Read"]
    assert set(SPECS) >= FOR_PEOPLE
    with pytest.raises(UsageError, match="there is no tool 'Reed'"):
        kit.offers(["Reed"])


def test_nothing_is_loaded_for_an_offer() -> None:
    code = (
        "import sys; from mainspring.tools.builtin import BuiltinTools; from mainspring.tools.base import Workspace; "
    )
    code += "BuiltinTools(Workspace('/'), {}).offers(['Read', 'Bash']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], env={}, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not {"mainspring.tools.read", "mainspring.tools.bash", "mainspring.processes.children"} & loaded


def test_rules_about_files_know_every_tool_that_takes_a_path() -> None:
    """A tool whose path no table of the rules names would be free where `Read` or `Edit` is denied."""
    kit = BuiltinTools(Workspace("/"), {})
    fields = {name: kit.tool(name).paths for name in SPECS if kit.tool(name).paths}
    known = READERS | WRITERS
    assert fields == {name: (known.get(name),) for name in fields}
