"""Money, mode, rules and folders belong to the process: whatever commands change the session, they stay."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from msgspec.structs import replace

from cli.slash.sitting import Sitting, here, sat
from cli.stage import Serve
from mainspring.cli.terminal_session import TerminalSession
from mainspring.core.money import NANOS_PER_USD
from mainspring.engine.shared_state import Ledger
from mainspring.sessions.resume import load_session
from mainspring.simulator.replies import Say

LIMIT = 100
STEPS = 14


class Account:
    """What must be true of the process, kept beside it."""

    def __init__(self, sitting: Sitting, foreign: str, foreign_spent: int) -> None:
        self.sitting, self.foreign, self.foreign_spent = sitting, foreign, foreign_spent
        self.spent, self.sessions = 0, list[str]()

    @property
    def talk(self) -> TerminalSession:
        return self.sitting.talk

    def check(self, done: str) -> None:
        shared = self.talk.world.session.shared
        assert shared.ledger.account.spent == self.spent, done
        assert shared.ledger.account.reserved == 0, done
        assert shared.ledger.account.limit == LIMIT * NANOS_PER_USD, done
        assert shared.ledger.funds == LIMIT * NANOS_PER_USD - self.spent, done

    async def ask(self, _: random.Random) -> None:
        await self.sitting.asked("hello")
        self.spent = self.talk.world.session.shared.ledger.account.spent
        self._note_session()

    def _note_session(self) -> None:
        current = self.talk.world.about.session_id
        if current not in self.sessions:
            self.sessions.append(current)

    async def clear(self, _: random.Random) -> None:
        await self.sitting.said("/clear")

    async def resume(self, random_: random.Random) -> None:
        chosen = random_.choice([*self.sessions, self.foreign])
        if chosen == self.foreign and chosen not in self.sessions:
            self.spent += self.foreign_spent  # once
            self.sessions.append(chosen)
        await self.sitting.said(f"/resume {chosen}")

    async def rewind(self, random_: random.Random) -> None:
        await self.sitting.said(f"/rewind {random_.randrange(1, 4)}")
        if self.talk.world.session.state.history:
            self._note_session()

    async def reload(self, _: random.Random) -> None:
        await self.talk.session.reload()

    async def trust(self, _: random.Random) -> None:
        await self.sitting.said("/trust")

    async def distrust(self, _: random.Random) -> None:
        await self.sitting.said("/trust remove")

    async def allow(self, random_: random.Random) -> None:
        session = self.talk.world.session
        policy = session.shared.policy
        mode = random_.choice(("acceptEdits", "plan"))
        rules = (*policy.rules, f"allow Bash(echo {len(policy.rules)})")
        await session.change(replace(policy, mode=mode, rules=rules))


@pytest.mark.parametrize("seed", range(8))
def test_nothing_is_lost_by_any_sequence_of_commands(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, seed: int
) -> None:
    random_ = random.Random(seed)
    stage = serve(*[Say.of("Hi. " * 50)] * 60)
    here(stage, monkeypatch)
    (stage.folder / ".claude" / "commands").mkdir(parents=True)
    (stage.folder / ".claude" / "commands" / "review.md").write_text("Review it.\n")
    (tmp_path / "more").mkdir()

    async def before(sitting: Sitting) -> None:
        await sitting.asked("in another process")

    sat(before)
    [file] = stage.sessions()

    async def play(sitting: Sitting) -> None:
        account = Account(sitting, file.stem, load_session(file).spent)
        await sitting.said(f"/add-dir {tmp_path / 'more'}")
        steps = [random_.choice(sorted(ACTIONS)) for _ in range(STEPS)]
        for number, name in enumerate(["ask", *steps]):
            talk = sitting.talk
            policy, folders = talk.world.session.shared.policy, talk.world.kit.place.folders
            await ACTIONS[name](account, random_)
            done = f"seed {seed}: {['ask', *steps][: number + 1]}"
            account.check(done)
            assert talk.world.kit.place.folders == folders, done
            if name != "allow":
                assert talk.world.session.shared.policy == policy, done

    sat(play, "--max-budget-usd", str(LIMIT))


ACTIONS = {
    name: getattr(Account, name)
    for name in ("ask", "clear", "resume", "rewind", "reload", "trust", "distrust", "allow")
}


def test_a_limit_that_is_used_up_stays_so_after_resume(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """$5 of $6 spent, then '/resume': one dollar is left, not six."""
    stage = serve(*[Say.of("Hi.")] * 5)
    here(stage, monkeypatch)

    async def play(sitting: Sitting) -> None:
        await sitting.asked("first")
        first = sitting.talk.world.about.session_id
        await sitting.said("/clear")
        await sitting.asked("second")
        ledger = sitting.talk.world.session.shared.ledger
        ledger.settle(0, 5 * NANOS_PER_USD)
        spent = ledger.account.spent
        await sitting.said(f"/resume {first}")
        assert sitting.talk.world.session.shared.ledger.account.spent == spent
        assert (sitting.talk.world.session.shared.ledger.funds or 0) < NANOS_PER_USD

    sat(play, "--max-budget-usd", "6")


def test_cost_tells_what_counts_against_the_limit(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """`/cost` after `/clear`: nothing of this conversation, and what the process has spent of its limit."""
    stage = serve(*[Say.of("Hi.")] * 5)
    here(stage, monkeypatch)

    async def play(sitting: Sitting) -> None:
        await sitting.asked("first")
        spent = sitting.talk.world.session.shared.ledger.account.spent / NANOS_PER_USD
        left = 6 - spent
        assert f"Limit: ${spent:.4f} of $6.0000 spent, ${left:.4f} left." in await sitting.said("/cost")
        await sitting.said("/clear")
        said = await sitting.said("/cost")
        assert "Nothing spent yet." in said
        assert f"Limit: all conversations since the start, ${spent:.4f} of $6.0000 spent" in said

    sat(play, "--max-budget-usd", "6")


def test_cost_without_a_limit(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = serve(*[Say.of("Hi.")] * 5)
    here(stage, monkeypatch)

    async def play(sitting: Sitting) -> None:
        await sitting.asked("first")
        spent = sitting.talk.world.session.shared.ledger.account.spent / NANOS_PER_USD
        assert "all conversations" not in await sitting.said("/cost")
        await sitting.said("/clear")
        assert f"All conversations since the start: ${spent:.4f}." in await sitting.said("/cost")

    sat(play)


def test_a_ledger_counts_each_session_once() -> None:
    ledger = Ledger()
    ledger.begin_session("a", 5, limit=100)
    ledger.settle(0, 3)
    ledger.begin_session("b", 0, limit=100)
    ledger.settle(0, 1)
    ledger.begin_session("a", 8, limit=100)
    assert ledger.account.spent == 9
    ledger.begin_session("fork of a", 6, source="a", limit=100)
    assert ledger.account.spent == 9
    ledger.begin_session("a", 10, limit=50)  # another process went on with it
    assert (ledger.account.spent, ledger.funds) == (11, 39)


def test_permissions_names_the_source_of_every_rule(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = serve()
    here(stage, monkeypatch)

    async def play(sitting: Sitting) -> None:
        permissions = sitting.talk.session.permissions
        await permissions.add_rules(("Bash(ls)",))
        await permissions.add_rules(("Bash(make)",))
        await permissions.keep_rules(("Bash(make)",))
        rule = {"toolName": "Bash", "ruleContent": "pwd"}
        added = {"type": "addRules", "behavior": "deny", "rules": [rule], "destination": "userSettings"}
        await permissions.apply([added])
        rows = [
            "deny  Bash(pwd)  (saved in your settings)",
            "allow Bash(ls)  (this session)",
            "allow Bash(make)  (saved in local settings)",
        ]
        assert (await sitting.said("/permissions")).splitlines()[1:-1] == rows
        await sitting.said("/clear")  # reads the settings again; the folder is not trusted
        rows[0] = "deny  Bash(pwd)  (your settings)"
        assert (await sitting.said("/permissions")).splitlines()[1:-1] == rows

    sat(play)


def test_an_explicit_model_wins_over_the_one_chosen_in_the_session(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = serve(*[Say.of("Hi.")] * 3)
    here(stage, monkeypatch)

    async def choose(sitting: Sitting) -> None:
        await sitting.said("/model haiku")
        await sitting.asked("first")

    async def ask(sitting: Sitting) -> None:
        await sitting.asked("again")

    sat(choose)
    sat(ask, "--continue", "--model", "claude-opus-5")
    sat(ask, "--continue")
    models = [request.body["model"] for request in stage.requests]
    assert models == ["claude-haiku-5-5", "claude-opus-5", "claude-haiku-5-5"]
