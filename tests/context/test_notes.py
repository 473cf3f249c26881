"""Notes of earlier sessions: the index at the start, the rest when a prompt is about it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.context.attachments import AttachmentKind
from mainspring.context.notes import BESIDE, INDEX_LINES, INDEX_SIZE, LARGEST, MOST_FOUND, MemoryNotes, word_stems


def found(notes: MemoryNotes, prompt: str) -> list[str]:
    return [Path(attachment.name).name for attachment in asyncio.run(notes.recall(prompt))]


def test_the_index_is_read_to_its_limits(tmp_path: Path) -> None:
    notes = MemoryNotes(str(tmp_path))
    assert notes.index is None
    (tmp_path / "MEMORY.md").write_text("- deploy.md: how we deploy\n")
    index = notes.index
    assert index is not None
    assert index.kind is AttachmentKind.NOTES
    assert index.text.endswith("- deploy.md: how we deploy")
    assert str(tmp_path) in index.text
    (tmp_path / "MEMORY.md").write_text("line\n" * 1_000)
    index = notes.index
    assert index is not None
    assert index.text.count("line\n") == INDEX_LINES
    assert "[Cut: " in index.text
    (tmp_path / "MEMORY.md").write_text("x" * 1_000_000)
    index = notes.index
    assert index is not None
    assert len(index.text) < INDEX_SIZE + 500
    (tmp_path / "MEMORY.md").unlink()
    os.mkfifo(tmp_path / "MEMORY.md")
    assert notes.index is None


@pytest.mark.covers("N-20", "B-30")
def test_notes_are_found_by_name_and_by_description(tmp_path: Path) -> None:
    (tmp_path / "MEMORY.md").write_text("deploy")
    (tmp_path / "deploy_steps.md").write_text("First this.")
    (tmp_path / "x1.md").write_text("---\ndescription: Database migration and its pitfalls\n---\nBody.")
    (tmp_path / "x2.md").write_text("# Flaky tests of the database\n\nBody.")
    (tmp_path / "other.txt").write_text("deploy")
    notes = MemoryNotes(str(tmp_path))
    assert found(notes, "Please deploy it") == ["deploy_steps.md"]
    assert found(notes, "The deployment failed") == ["deploy_steps.md"]  # 'deploy' begins both
    assert found(notes, "a migration of the database") == ["x1.md"]  # one word alone says little
    assert found(notes, "Why are the database tests flaky?") == ["x2.md"]
    assert found(notes, "the and for with") == []
    assert found(MemoryNotes(str(tmp_path), is_read=lambda path: "deploy" in path), "Please deploy it") == []
    assert found(MemoryNotes("/nonexistent"), "deploy") == []


def test_few_are_sent_and_short_ones(tmp_path: Path) -> None:
    for n in range(20):
        (tmp_path / f"deploy-{n}.md").write_text("words " * 10_000)
    os.mkfifo(tmp_path / "deploy.md")
    (tmp_path / "deploy-link.md").symlink_to("/dev/zero")
    attachments = asyncio.run(MemoryNotes(str(tmp_path)).recall("deploy"))
    assert len(attachments) == MOST_FOUND
    assert all(len(attachment.text) < LARGEST + 100 for attachment in attachments)
    assert all("[Cut: the note has 60,000 bytes." in attachment.text for attachment in attachments)


@pytest.mark.covers("N-20")
def test_others_run_while_notes_are_looked_through(tmp_path: Path) -> None:
    for n in range(10 * BESIDE):
        (tmp_path / f"n{n}.md").write_text("text")

    async def main() -> int:
        task = asyncio.create_task(MemoryNotes(str(tmp_path)).recall("deploy"))
        rounds = 0
        while not task.done():
            rounds += 1
            await asyncio.sleep(0)
        return rounds

    assert asyncio.run(main()) >= 10


@given(st.text())
def test_words_of_any_text(text: str) -> None:
    assert all(2 < len(word) <= 6 for word in word_stems(text))
