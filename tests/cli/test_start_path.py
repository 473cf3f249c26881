"""What the shortest command loads. A start that grows slow does so one import at a time."""

from __future__ import annotations

import subprocess
import sys

HEAVY = {"asyncio", "msgspec", "subprocess", "typing_extensions", "uuid", "tempfile"}


def test_version_loads_nothing_heavy() -> None:
    """With an empty environment: coverage, which measures child processes too, would load half of the list itself."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "mainspring", "--version"],
        env={},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "mainspring.cli.main" in loaded
    assert loaded & HEAVY == set()
    assert [name for name in loaded if name.startswith("mainspring.core")] == []
