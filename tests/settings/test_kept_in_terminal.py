"""'p' at a question: the rule is there next time. In a real terminal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from cli.stage import Serve, Stage, serving
from cli.terminal import CTRL_D, SitAt, sit_at, without_notes

from mainspring.settings import trust
from mainspring.simulator.replies import Reply, Say

__all__ = ["sit_at"]  # a fixture
LOCAL = ".claude/settings.local.json"
ASKED = "Allow? [y/a/p/n] "


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    with ExitStack() as stack:

        def start(*replies: Reply) -> Stage:
            return stack.enter_context(serving(replies, tmp_path / "work"))

        yield start


def bash(command: str, number: int = 1) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{number}", "name": "Bash", "input": {"command": command}}


def touching(*names: str) -> list[Say]:
    return [*[Say.of(bash(f"touch {name}", number)) for number, name in enumerate(names)], Say.of("Done.")]


def trusted(stage: Stage) -> Stage:
    without_notes(stage)
    trust.add_trusted_folder(str(stage.home), str(stage.folder), at=1)
    return stage


@pytest.mark.covers("N-11")
def test_the_next_session_does_not_ask(serve: Serve, sit_at: SitAt) -> None:
    stage = trusted(serve(*touching("a", "a"), *touching("a", "b")))
    (stage.folder / ".claude").mkdir()
    (stage.folder / LOCAL).write_text('{"model": "claude-sonnet-4-5", "permissions": {"deny": ["WebFetch"]}}')
    terminal = sit_at(stage)
    terminal.say("go")
    shown = terminal.see(ASKED)
    assert "a: don't ask again this session for `touch a`\n" in shown
    assert "p: don't ask again in this project for Bash(touch a)\n" in shown
    terminal.type("p\r")
    assert f"(saved in '{stage.folder / LOCAL}')\n" in terminal.see("Done.")  # the second call is not asked about
    kept = {"deny": ["WebFetch"], "allow": ["Bash(touch a)"]}
    assert json.loads((stage.folder / LOCAL).read_text()) == {"model": "claude-sonnet-4-5", "permissions": kept}
    terminal.see("> ")
    terminal.type(CTRL_D)
    assert terminal.end() == 0
    (stage.folder / "a").unlink()

    terminal = sit_at(stage)
    terminal.say("again")
    assert "Bash: touch b\n" in terminal.see(ASKED)  # the first question is about the other one
    assert (stage.folder / "a").exists()
    terminal.type("n\r")
    terminal.see("declined this call and stopped the run")
    terminal.see("> ")
    assert not (stage.folder / "b").exists()


def test_a_folder_that_is_not_trusted_says_so(serve: Serve, sit_at: SitAt) -> None:
    """For this session it holds; the next one asks again, and the person knows why."""
    stage = serve(*touching("a", "a"), *touching("a"))
    without_notes(stage)
    terminal = sit_at(stage)
    terminal.say("go")
    terminal.see(ASKED)
    terminal.type("Project\r")
    shown = terminal.see("Done.")
    assert "This directory is not trusted. The saved rules apply to this session; to use them in later" in shown
    assert ASKED not in shown
    assert json.loads((stage.folder / LOCAL).read_text()) == {"permissions": {"allow": ["Bash(touch a)"]}}
    terminal.see("> ")
    terminal.type(CTRL_D)
    assert terminal.end() == 0
    terminal = sit_at(stage)
    terminal.say("again")
    terminal.see(ASKED)


def test_what_cannot_be_kept_holds_for_the_session(serve: Serve, sit_at: SitAt) -> None:
    stage = trusted(serve(*touching("a", "a")))
    (stage.folder / ".claude").mkdir()
    (stage.folder / LOCAL).write_text('{"permissions": {"deny": ["WebFetch",]}}')
    terminal = sit_at(stage)
    terminal.say("go")
    terminal.see(ASKED)
    terminal.type("p\r")
    shown = terminal.see("Done.")
    place = stage.folder / LOCAL
    assert (
        f"not saved in the local settings, applies to this session only: {place}:1:38: there is an extra ','" in shown
    )
    assert ASKED not in shown
    assert place.read_text() == '{"permissions": {"deny": ["WebFetch",]}}'


def test_where_no_rule_is_offered_there_is_none_to_keep(serve: Serve, sit_at: SitAt) -> None:
    """Of a command that only a person may approve: 'p' is no answer."""
    stage = serve(Say.of(bash("touch $(date)")), Say.of("Done."))
    terminal = sit_at(stage)
    terminal.say("go")
    assert "'p'" not in terminal.see("Allow? [y/n] ")
    terminal.type("p\r")
    terminal.see("Allow? [y/n] ")
    terminal.type("n\r")
    terminal.see("declined this call and stopped the run")
    terminal.see("> ")
    assert not (stage.folder / ".claude").exists()
