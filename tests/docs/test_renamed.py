"""Names that documentation used before the renames still work, for one release."""

from __future__ import annotations

import subprocess
import sys

import pytest

from mainspring.renamed import MOVED

FORMER = {
    "mainspring.core.events": ("Verdict",),
    "mainspring.engine.session": ("Session",),
    "mainspring.hooks.runner": ("Hook", "Runner"),
    "mainspring.sessions.resume": ("fork", "load"),
    "mainspring.simulator.faults": ("Faults", "Planned"),
    "mainspring.testing": ("Reply",),
    "mainspring.tools.base": ("Answer", "Calling", "Place"),
}


@pytest.mark.parametrize("module", [*MOVED, *FORMER])
def test_documented_names_work_under_their_former_module(module: str) -> None:
    """In a process of its own, so that no other test has loaded it."""
    names = ", ".join(MOVED[module][1] if module in MOVED else FORMER[module])
    code = f"from {module} import {names}"
    done = subprocess.run([sys.executable, "-W", "always", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert ("DeprecationWarning" in done.stderr) == (module in MOVED)


def test_a_module_that_never_was_is_an_ordinary_error() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'mainspring\.nowhere'"):
        __import__("mainspring.nowhere")
