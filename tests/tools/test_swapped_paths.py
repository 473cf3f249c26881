"""What the permission rules decided on is what is opened, whatever is swapped in between (F1)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tools.swapping import CALLS, Pipeline, Swapped, leaks, told


def played(stage: Swapped, pipeline: Pipeline, name: str, input: dict[str, Any]) -> Any:
    """A call, with all that was read before it."""

    async def main() -> Any:
        field = "notebook_path" if name == "NotebookEdit" else "file_path"
        if name in ("Write", "Edit", "NotebookEdit") and (stage.work / input[field]).exists():
            await Pipeline.call(reader, "Read", {"file_path": input[field]})
        return await pipeline.call(name, input)

    reader = Pipeline(stage.work)
    reader.hands = pipeline.hands
    return asyncio.run(main())


@pytest.mark.parametrize("what", CALLS)
def test_a_swap_while_a_person_is_asked(tmp_path: Path, what: str) -> None:
    """The rules have decided already, and the answer is about what they saw."""
    name, input = CALLS[what]
    stage = Swapped(tmp_path / "stage")
    done = played(stage, Pipeline(stage.work, stage.swap, f"ask {name}"), name, input)
    assert (stage.work / "d").is_symlink(), "nobody was asked"
    assert stage.untouched()
    assert not leaks(done), told(done)
    if "d" in (Path(str(value)).parts[0] for value in input.values() if value) and what != "Glob below":
        assert done.answer.is_error
        assert "changed after the permission check" in done.answer.text


@pytest.mark.parametrize("what", CALLS)
def test_without_a_swap_everything_works(tmp_path: Path, what: str) -> None:
    name, input = CALLS[what]
    stage = Swapped(tmp_path / "stage")
    done = played(stage, Pipeline(stage.work, lambda: None, f"ask {name}"), name, input)
    assert done.answer.is_error is (what == "Read what is missing"), done.answer.text
    assert not leaks(done)


@pytest.mark.parametrize("what", CALLS)
def test_a_link_that_was_there_is_followed_and_decided_on_where_it_leads(tmp_path: Path, what: str) -> None:
    """To the same folder under another name: nobody is asked in mode acceptEdits. To one outside: somebody is."""
    name, input = CALLS[what]
    stage = Swapped(tmp_path / "stage")
    (stage.work / "d").rename(stage.work / "real")
    (stage.work / "d").symlink_to("real")
    asked: list[str] = []
    pipeline = Pipeline(stage.work, lambda: asked.append(what), mode="acceptEdits")
    done = played(stage, pipeline, name, input)
    assert done.answer.is_error is (what == "Read what is missing"), done.answer.text
    assert asked == []
