"""Files of earlier versions load for ever. `PYTHONPATH=tests python -m sessions.test_golden` wrote those of this."""

from __future__ import annotations

import tempfile
from pathlib import Path

import msgspec
import pytest

from mainspring.core.pairing import find_unpaired_ids
from mainspring.core.view import view
from mainspring.sessions.decoder import LoadedSession
from mainspring.sessions.line_format import VERSION
from mainspring.sessions.resume import load_session
from mainspring.testing import virtually
from sessions.scenes import SCENES
from sessions.stage import ID, Remembering
from sessions.test_cuts import first_life

GOLDEN = Path(__file__).parent / "golden"


def words(loaded: LoadedSession) -> list[list[str]]:
    seen = view(loaded.state.history, loaded.state.edits)
    assert find_unpaired_ids(seen) == ()
    return [[type(message).__name__, message.id, message.text] for message in seen]


FILES = sorted(GOLDEN.glob("*/*.jsonl"))


def test_there_are_some_for_this_version() -> None:
    assert {file.stem for file in FILES if file.parent.name == f"v{VERSION}"} >= set(SCENES) - {"trouble"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_a_file_of_an_earlier_version_loads(file: Path, tmp_path: Path) -> None:
    expected = msgspec.json.decode(file.with_suffix(".json").read_bytes())
    loaded = load_session(file)
    assert (loaded.how, loaded.warnings) == ("checkpoint", ())
    assert words(loaded) == expected
    alone = tmp_path / file.name
    lines = file.read_bytes().splitlines(keepends=True)
    alone.write_bytes(b"".join([line for line in lines if b'"mainspring","v"' not in line]))
    if file.stem != "trouble":  # what was withdrawn is still in its conversation lines
        assert [row[2] for row in words(load_session(alone))] == [row[2] for row in expected]


if __name__ == "__main__":
    folder = GOLDEN / f"v{VERSION}"
    folder.mkdir(parents=True)
    for name, scene in SCENES.items():
        with tempfile.TemporaryDirectory() as scratch:
            written = Path(scratch) / f"{ID}.jsonl"
            virtually(first_life(scene, written, Remembering()))
            (folder / f"{name}.jsonl").write_bytes(written.read_bytes())
            (folder / f"{name}.json").write_bytes(
                msgspec.json.format(msgspec.json.encode(words(load_session(written))))
            )
