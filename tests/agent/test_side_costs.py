"""What a session spends beside its turns is in its file: side calls after the last result, and prefix breaks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from agent.stage import Stage, play, read_until_idle
from mainspring.agent.loop_notices import list_prefix_breaks
from mainspring.agent.session import AgentSession
from mainspring.agent.usage import UsageMeter
from mainspring.core.models import DEFAULT_MODEL
from mainspring.core.money import Usage
from mainspring.sessions.line_format import CheckpointExtras, note_agent, note_break
from mainspring.sessions.records import AgentRecord, PrefixRecord
from mainspring.sessions.resume import load_session
from mainspring.simulator.replies import ReceivedRequest, Reply, Say, blocks_of

CALL = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "echo hello"}}
FREE: dict[str, Any] = {"permission_mode": "bypassPermissions"}


def choose(received: ReceivedRequest) -> Reply:
    if "haiku" in str(received.body["model"]):
        return Say.of("next: now run the tests", usage=Usage(input=3_000, output=100))
    return Say.of("Done.") if received.talk.results() else Say.of(CALL)


async def run(session: AgentSession, prompt: str = "go") -> None:
    await session.submit(prompt)
    await read_until_idle(session)


def spent(session: AgentSession) -> int:
    return session.world.session.shared.ledger.account.spent


def without_checkpoints(file: Path) -> None:
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([line for line in lines if b'"checkpoint":' not in line]))


@pytest.mark.covers("B-31")
@pytest.mark.parametrize("has_checkpoints", [True, False])
def test_a_suggestion_after_the_last_result_is_counted_by_the_next_process(
    tmp_path: Path, has_checkpoints: bool
) -> None:
    async def main(stage: Stage) -> None:
        session = stage.open(**FREE, prompt_suggestions=True)
        await session.start()
        await run(session)
        await stage.server.until(lambda: len(stage.server.answers) == 3)
        await session.close()
        assert "haiku" in str(stage.server.requests[-1].body["model"])
        assert spent(session) == stage.server.cost
        assert session.opened.journal is not None
        file = Path(session.opened.journal.file)
        if not has_checkpoints:
            without_checkpoints(file)
        for _ in range(2):  # the second time, an event has reported what the first process spent last
            again = stage.open(**FREE, resume=session.opened.session_id)
            await again.start()
            assert spent(again) == stage.server.cost
            await run(again, "go on")
            await again.close()
            assert again.usage.cost == spent(again) == stage.server.cost
        loaded = load_session(file)
        assert loaded.spent + loaded.standing.unbooked == stage.server.cost

    play(main, tmp_path, choose=choose)


@pytest.mark.covers("D-39")
@pytest.mark.parametrize("has_checkpoints", [True, False])
def test_prefix_breaks_of_the_whole_session_are_shown_after_a_resume(tmp_path: Path, has_checkpoints: bool) -> None:
    async def main(stage: Stage) -> None:
        session = stage.open(**FREE, model="claude-sonnet-4-5")
        await session.start()
        await run(session)
        await session.set_model("claude-opus-4-5")
        await run(session, "go on")
        before = session.usage.breaks
        assert before["model_changed"][0] == 1
        await session.close()
        assert session.opened.journal is not None
        if not has_checkpoints:
            without_checkpoints(Path(session.opened.journal.file))
        again = stage.open(**FREE, resume=session.opened.session_id)
        await again.start()
        assert again.usage.breaks == before
        assert list(list_prefix_breaks(again.usage)) == list(list_prefix_breaks(session.usage)) != []
        await again.close()

    play(main, tmp_path, choose=choose)


def test_breaks_of_subagents_add_up_with_those_of_the_session() -> None:
    standing = CheckpointExtras()
    first = PrefixRecord(1, "block 1", "why", 10, 5, 0, "model_changed")
    for record in (first, replace(first, price=6), replace(first, reason="context_edited", layers=("snip", "clear"))):
        note_break(standing, record)
    note_agent(
        standing, AgentRecord("a", False, 0, ended=True, breaks=(("model_changed", 2, 7), ("tools_changed", 1, 1)))
    )
    assert standing.breaks == (("model_changed", 4, 18), ("snip, clear", 1, 5), ("tools_changed", 1, 1))
    usage = UsageMeter(DEFAULT_MODEL, lambda: 0, breaks=standing.breaks)
    assert usage.break_cost == 24


@pytest.mark.covers("K-03")
@pytest.mark.parametrize(("thinks", "switched"), [(True, {}), (False, {"thinking_changed": 5})])
def test_a_thinking_budget_costs_a_break_only_if_the_model_does_not_think(
    tmp_path: Path, thinks: bool, switched: dict[str, int]
) -> None:
    """Three prompts with a tool loop each. A script that never thinks: off in each loop, and on with the next prompt
    (decision 87)."""
    numbers = iter(range(100))

    def choose(received: ReceivedRequest) -> Reply:
        first = [{"type": "thinking", "thinking": "hm"}] if thinks else []
        if blocks_of(received.talk.messages[-1])[0]["type"] == "tool_result":
            return Say.of(*first, "Done.")
        return Say.of(*first, {**CALL, "id": f"toolu_{next(numbers)}"})

    async def main(stage: Stage) -> None:
        session = stage.open(**FREE, model="claude-sonnet-4-5")
        await session.start()
        for prompt in ("one", "two", "three"):
            await run(session, prompt)
        assert {event: times for event, (times, _) in session.usage.breaks.items()} == switched
        assert stage.server.violations == []
        await session.close()

    play(main, tmp_path, choose=choose)
