"""Whoever changes or answers something on the way of a call is held to the same checks."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mainspring.core.messages import ToolCall
from mainspring.hooks.events import HookResult
from mainspring.permissions.checker import PermissionChecker
from mainspring.tools.pipeline import InvocationResult
from mainspring.tools.toolset import Toolset
from tools.test_pipeline import ASKED, POST, PRE, Scene, cancelled, own


@pytest.mark.covers("F-24")
def test_a_hooks_reason_is_the_text_of_the_result(tmp_path: Path) -> None:
    no = own(permissionDecision="deny", permissionDecisionReason="not on a Friday")
    assert Scene(tmp_path).hook(PRE, no).bash("touch made").answer.text == "not on a Friday"


def test_a_hook_that_answers_the_question_may_change_the_input_but_not_past_a_deny_rule(tmp_path: Path) -> None:
    says = own(decision={"behavior": "allow", "updatedInput": {"command": "touch other"}})
    scene = Scene(tmp_path).hook(ASKED, says)
    assert not scene.bash("touch made").answer.is_error
    assert (scene.made(), scene.made("other")) == (False, True)
    (tmp_path / "other").unlink()
    scene = Scene(tmp_path, "deny Bash(touch other)").hook(ASKED, says)
    assert scene.bash("touch made").denied
    assert (scene.made(), scene.made("other")) == (False, False)


@pytest.mark.parametrize(
    "says",
    [
        own(decision={"behavior": "deny", "message": "stop", "interrupt": True}),
        {"continue": False, "stopReason": "stop"},
        HookResult("allow", stop="stop"),
    ],
)
def test_a_hook_that_answers_the_question_may_end_the_run(tmp_path: Path, says: Any) -> None:
    scene = Scene(tmp_path).hook(ASKED, lambda _: says)
    done = scene.bash("touch made")
    assert (done.stop, done.denied, done.answer.text) == ("stop", True, "stop")
    assert not scene.made()


def test_the_context_of_a_hook_that_answers_is_kept(tmp_path: Path) -> None:
    says = own(decision={"behavior": "allow"}, additionalContext="once")
    assert Scene(tmp_path).hook(ASKED, says).bash("touch made").context == ("once",)


def test_paths_that_a_hook_or_a_person_changed_are_made_whole(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    scene = Scene(tmp_path).hook(PRE, own(updatedInput={"file_path": "a.txt"})).hook(POST)
    assert not scene.now("Read", file_path="b.txt").answer.is_error
    assert scene.log[-1][1]["tool_input"] == {"file_path": str(tmp_path / "a.txt")}


def test_a_deep_input_of_a_person_is_refused(tmp_path: Path) -> None:
    deep = '{"a":' * 100 + "1" + "}" * 100
    scene = Scene(tmp_path, answers=(f'{{"behavior":"allow","updatedInput":{{"command":{deep}}}}}',))
    assert "is nested too deeply" in scene.bash("touch made").answer.text


def test_cancelled_while_the_hooks_after_it_are_asked_its_outcome_is_kept(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "allow Bash").hook(POST, lambda _: asyncio.Event().wait())
    done = cancelled(scene, lambda: "PostToolUse" in scene.names, "Bash", command="touch made; echo out")
    assert (done.answer.text, done.answer.is_error) == ("out", False)
    assert scene.made()


def test_of_an_input_that_cannot_be_read_nothing_is_known(tmp_path: Path) -> None:
    hands = Scene(tmp_path).hands()
    call = ToolCall("c", "Read", {"path": 5})
    assert (hands.is_concurrent(call), hands.is_repeatable(call)) == (False, False)


@pytest.mark.parametrize("rule", ["Read(.env)", "Read(./.env)", "Read(/.env)"])
def test_a_deny_rule_holds_wherever_the_shell_has_gone(tmp_path: Path, rule: str) -> None:
    (tmp_path / ".env").write_text("secret\n")
    (tmp_path / "sub").mkdir()
    scene = Scene(tmp_path, f"deny {rule}", "allow Bash")
    hands = Toolset(
        scene.kit.offers(["Read", "Bash"]),
        place=scene.kit.place,
        gate=PermissionChecker(folders=(str(tmp_path),)),
    )

    async def main() -> tuple[InvocationResult, InvocationResult]:
        await hands.run(ToolCall("1", "Bash", {"command": "cd sub"}), scene)
        assert scene.kit.place.cwd == str(tmp_path / "sub")
        read = await hands.run(ToolCall("2", "Read", {"file_path": "../.env"}), scene)
        return read, await hands.run(ToolCall("3", "Bash", {"command": "cat ../.env"}), scene)

    read, cat = scene.play(main)
    assert "secret" not in read.answer.text + cat.answer.text
    assert (read.denied, cat.denied) == (True, True)


def test_a_hook_cannot_say_yes_to_what_only_a_person_may(tmp_path: Path) -> None:
    (tmp_path / ".git" / "hooks").mkdir(parents=True)
    scene = Scene(tmp_path).hook(ASKED, own(decision={"behavior": "allow"}))
    done = scene.now("Write", file_path=".git/hooks/pre-commit", content="#!/bin/sh")
    assert done.denied or done.answer.is_error
    assert not (tmp_path / ".git/hooks/pre-commit").exists()
