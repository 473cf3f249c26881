"""Undo, whatever a session did: random edits by tools, by commands in the real sandbox and by subagents, and by the
user between two runs. After a rewind to any prompt the workspace is what it was then, with modes and links; and each
rewind can be undone."""

from __future__ import annotations

import os
from collections import deque
from pathlib import Path
from random import Random
from shlex import quote
from typing import Any

import pytest
from checkpoints.stage import RandomChanges, Shape, shape_of

from agent.stage import ScriptedHost, Stage, play, read_until_idle
from mainspring.agent.session import AgentSession
from mainspring.core.messages import ToolResult
from mainspring.simulator.replies import Json, ReceivedRequest, Reply, Say

PROMPTS = 5
# Only in the workspace, also through links: nobody approves anything else.
ON: dict[str, Any] = {"checkpoints": True, "permission_mode": "acceptEdits", "allowed_tools": ("Bash", "Agent")}
SANDBOXED = "autoMemoryEnabled = false\n[sandbox]\nenabled = true\n"
NAMES = ("a", "b", "c.py", "with space", "d", "\u00fc", "e.md")
MODES = ("600", "644", "755", "1755", "400")


class RandomModel:
    """Calls tools on what it finds in the workspace. Some calls fail, as those of a model do."""

    def __init__(self, work: Path, chance: Random) -> None:
        self._work, self._chance = work, chance
        self._coming: deque[Json] = deque()
        self._left = {False: 0, True: 0}  # steps of the session itself, and of a subagent
        self._number = 0

    def begin(self) -> None:
        self._left[False] = self._chance.randrange(1, 5)

    def choose(self, received: ReceivedRequest) -> Reply:
        agent = "Work for me." in str(received.talk.messages[0])
        if self._coming:
            return Say.of(self._coming.popleft())
        if not self._left[agent]:
            return Say.of("Done.")
        self._left[agent] -= 1
        steps = [self._write, self._edit, self._command, self._command, self._command]
        self._chance.choice(steps if agent else [*steps, self._agent])()
        return Say.of(self._coming.popleft())

    def _call(self, name: str, **input: object) -> None:
        self._number += 1
        self._coming.append({"type": "tool_use", "id": f"toolu_{self._number}", "name": name, "input": input})

    def _agent(self) -> None:
        self._left[True] = self._chance.randrange(1, 4)
        self._call("Agent", description="work", prompt="Work for me.", subagent_type="general-purpose")

    def _write(self) -> None:
        path = self._work / "plain"
        if self._is_inside(new := self._new()):
            path = new
        if path.is_file():
            self._call("Read", file_path=str(path))
        self._call("Write", file_path=str(path), content=self._text())

    def _edit(self) -> None:
        path = self._chance.choice([self._work / "plain", *[one for one in self._paths() if one.is_file()]])
        self._call("Read", file_path=str(path))
        try:
            old = path.read_text()
        except (OSError, UnicodeDecodeError):
            old = "nothing"
        self._call("Edit", file_path=str(path), old_string=old or "nothing", new_string=f"{old}{self._text()}")

    def _command(self) -> None:
        some, other, new = quote(str(self._any())), quote(str(self._any())), quote(str(self._new()))
        text, mode = self._text(), self._chance.choice(MODES)
        self._call("Bash", command=self._chance.choice([
            f"printf %s {quote(text)} > {new}",
            f"printf %s {quote(text)} >> {some}",
            f"mv {some} {new}",
            f"mv {some} {other}",
            f"cp -r {some} {new}",
            f"rm -rf {some}",
            f"rm -rf {some}; mkdir -p {some}/x/y; echo in > {some}/x/y/z",
            f"rm -rf {some}; ln -s {quote(text[:20])} {some}",
            f"ln -s {some} {new}",
            f"mkdir -m 711 {new}",
            f"chmod {mode} {some}",
            f"chmod 700 {quote(str(self._work))}/*",
            f"printf '\\0\\377' > {new}",
            f"touch {quote(str(self._work))}/\"$(printf 'odd \\377')\"",
            "find . -type f -exec sed -i '$a more' {} +",
            f"truncate -s 70000 {new}; truncate -s 0 {some}",
            "find . -type d -empty -delete",
        ]))  # fmt: skip

    def _text(self) -> str:
        return self._chance.choice(["one\n", "two\nlines\n", "\u00fc no newline", "long " * self._chance.randrange(99)])

    def _paths(self) -> list[Path]:
        """Those that a call can name."""
        return [one for one in sorted(self._work.rglob("*")) if str(one).isprintable() and self._is_inside(one)]

    def _new(self) -> Path:
        folders = [self._work, *[one for one in self._paths() if one.is_dir() and not one.is_symlink()]]
        return self._chance.choice(folders) / self._chance.choice(NAMES)

    def _is_inside(self, path: Path) -> bool:
        """A link may lead anywhere, and tools that write files follow it."""
        return os.path.realpath(path).startswith(f"{self._work}/")

    def _any(self) -> Path:
        return self._chance.choice([*self._paths(), self._new()])


def shape(stage: Stage) -> Shape:
    return shape_of(os.fsencode(stage.folder))


def results_of(session: AgentSession) -> list[ToolResult]:
    return [one for one in session.world.session.state.history if isinstance(one, ToolResult)]


@pytest.mark.needs("bwrap")
@pytest.mark.long
@pytest.mark.parametrize("seed", range(40))
def test_any_prompt_can_be_gone_back_to_and_that_be_undone(tmp_path: Path, seed: int) -> None:
    chance = Random(seed)
    tmp_path = tmp_path.resolve()
    (tmp_path / "work").mkdir()
    model = RandomModel(tmp_path / "work", chance)

    async def main(stage: Stage) -> None:
        (stage.home / "settings.toml").write_text(SANDBOXED)
        users, everything = RandomChanges(os.fsencode(stage.folder), chance), [str(stage.folder)]
        users.some(8)
        session = stage.open(ScriptedHost("never"), **ON)
        assert "bubblewrap" in session.config.sandboxing.words
        shapes: dict[str, Shape] = {}
        for number in range(PROMPTS):
            before = shape(stage)
            model.begin()
            shapes[(await session.submit(f"prompt {number}")).id] = before
            await read_until_idle(session)
            if chance.random() < 0.5:
                await session.checkpoints()
                users.some(3)
        assert any(not one.is_error for one in results_of(session)), "nothing was done"
        if chance.random() < 0.5:  # another process
            named = session.world.about.session_id
            await session.close()
            session = stage.open(ScriptedHost("never"), resume=named, **ON)
        for turn in range(4):
            aim, before = chance.choice(list(shapes)), shape(stage)
            report = await session.rewind(aim, conversation=turn == 3, files=True, include=everything)
            assert report.failed == report.kept == ()
            assert shape(stage) == shapes[aim], (seed, turn)
            if chance.random() < 0.7:
                undone = await session.undo_rewind(report)
                assert undone.failed == undone.kept == ()
                assert shape(stage) == before, (seed, turn, "undone")
        assert not [name for name in shape(stage) if b".mainspring" in name]
        await session.close()

    play(main, tmp_path, choose=model.choose)
