"""What stands behind a summary and is on the disk need not stay in memory; without a disk, nothing is let go."""

from __future__ import annotations

from pathlib import Path

from mainspring.core.view import view
from mainspring.engine.session import EngineSession
from mainspring.sessions.resume import load_session
from mainspring.testing import World, virtually
from sessions.scenes import SCENES
from sessions.stage import ID, Remembering, consume
from sessions.test_cuts import first_life


def test_a_stored_session_lets_go_of_what_no_view_will_show(tmp_path: Path) -> None:
    file = tmp_path / f"{ID}.jsonl"
    session = virtually(first_life(SCENES["compaction"], file, Remembering()))
    state = session.state
    assert 0 < state.history.begin < len(state.history)
    assert len(list(state.history)) == len(state.history) - state.history.begin
    loaded = load_session(file)
    assert view(loaded.state.history, loaded.state.edits) == view(state.history, state.edits)


def test_a_session_without_a_file_keeps_everything() -> None:
    async def main() -> World:
        world = SCENES["compaction"].world()
        session = EngineSession(world, SCENES["compaction"].config)
        for prompt in SCENES["compaction"].prompts:
            await consume(session, prompt)
        assert session.state.history.begin == 0
        assert session.state.edits
        return world

    virtually(main())
