"""`/copy`, `/btw`, `/review`, `/effort`, `/theme`, `/fork` and `/usage`."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from cli.slash.sitting import Sitting, here, sat
from cli.stage import Serve, Stage
from mainspring.agent.slash.answers import find_code_blocks
from mainspring.providers.rate_limits import RateLimit, read_rate_limits
from mainspring.simulator.replies import Say

ANSWER = "First:\n\n```python\nprint(1)\n```\n\nand\n\n~~~\ntwo\n~~~\n"


def body(stage: Stage, number: int = -1) -> str:
    return json.dumps(stage.requests[number].body)


def clipboard_program(folder: Path, name: str) -> Path:
    """Writes what it gets to a file."""
    program = folder / name
    program.write_text(f"#!/bin/sh\ncat >'{folder}/copied'\nenv >'{folder}/env'\n")
    program.chmod(0o755)
    return folder / "copied"


# --- /copy --------------------------------------------------------------------------------------------------------


def test_code_blocks() -> None:
    assert find_code_blocks(ANSWER) == ["print(1)\n", "two\n"]
    assert find_code_blocks("````\n```\nin\n```\n````") == ["```\nin\n```\n"]
    assert find_code_blocks("```\ncut off") == ["cut off"]
    assert find_code_blocks("no `code` here") == []


def test_an_answer_is_copied_to_the_terminal_and_to_a_program(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stage = serve(Say.of(ANSWER))
    programs = tmp_path / "bin"
    programs.mkdir()
    copied = clipboard_program(programs, "wl-copy")
    here(stage, monkeypatch, WAYLAND_DISPLAY="wayland-0", PATH=f"{programs}:/usr/bin:/bin", MY_API_KEY="sk-very-secret")
    written: list[str] = []

    async def play(sitting: Sitting) -> None:
        assert await sitting.said("/copy") == "Nothing to copy yet."
        await sitting.asked("go")
        sitting.talk.write_sequence = written.append
        assert (
            await sitting.said("/copy")
            == "Copied the last answer (11 lines, 49 characters) with wl-copy and the terminal."
        )
        assert copied.read_text() == ANSWER
        assert (
            await sitting.said("/copy 2") == "Copied code block 2 (1 line, 4 characters) with wl-copy and the terminal."
        )
        assert await sitting.said("/copy 3") == "No code block '3' in the last answer. It has 2 code blocks."

    sat(play)
    assert [base64.b64decode(one[7:-1]).decode() for one in written] == [ANSWER, "two\n"]
    assert "sk-very-secret" not in (programs / "env").read_text()


def test_nothing_takes_a_copy(serve: Serve, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stage = serve(Say.of("Hi."))
    here(stage, monkeypatch, PATH=str(tmp_path))
    for name in ("WAYLAND_DISPLAY", "DISPLAY"):
        monkeypatch.delenv(name, raising=False)

    async def play(sitting: Sitting) -> None:
        await sitting.asked("go")
        assert (await sitting.said("/copy")).startswith("Cannot copy here: install")

    sat(play)


# --- /btw ---------------------------------------------------------------------------------------------------------


def test_a_side_question_sees_the_conversation_and_leaves_no_trace(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = serve(Say.of("Blue it is."), Say.of("You said blue."), Say.of("Done."))
    here(stage, monkeypatch)

    async def play(sitting: Sitting) -> None:
        assert (
            await sitting.said("/btw")
            == "Usage: /btw QUESTION asks beside the task; nothing of it enters the conversation."
        )
        await sitting.asked("my colour is blue")
        before = sitting.talk.world.session.shared.ledger.account.spent
        shown = await sitting.said("/btw which colour?")
        assert shown.startswith("You said blue.\n(beside the conversation, $0.0")
        assert sitting.talk.world.session.shared.ledger.account.spent > before
        assert "my colour is blue" in body(stage)
        assert "which colour?" in body(stage)
        assert stage.requests[-1].body["tools"] == stage.requests[0].body["tools"], "the prefix is read from the cache"
        await sitting.asked("go on")
        assert "which colour?" not in body(stage)
        assert "You said blue" not in body(stage)

    sat(play)
    [file] = stage.sessions()
    assert "which colour?" not in file.read_text()


def test_a_side_question_needs_money(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = serve(Say.of("Hi."))
    here(stage, monkeypatch)

    async def play(sitting: Sitting) -> None:
        assert await sitting.said("/btw why?") == "No answer: there is no money left"

    sat(play, "--max-budget-usd", "0.0001")
    assert not stage.requests


# --- /review, /effort, /theme -------------------------------------------------------------------------------------


def test_a_review_is_a_prompt(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    here(serve(), monkeypatch)

    async def play(sitting: Sitting) -> None:
        await sitting.said("/review")
        assert sitting.meant.startswith("Review the changes of this branch.\n\nFind the branch")
        await sitting.said("/review HEAD~2..HEAD only the parser")
        assert sitting.meant.startswith("Review 'HEAD~2..HEAD'.\n\nIt may be a commit")
        assert sitting.meant.endswith("\n\nonly the parser")

    sat(play)


def test_the_effort_holds_from_the_next_prompt_and_in_the_next_conversation(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = serve(*[Say.of("Hi.")] * 4)
    here(stage, monkeypatch)

    def sent() -> object:
        return stage.requests[-1].body.get("output_config", {}).get("effort")

    async def play(sitting: Sitting) -> None:
        assert (await sitting.said("/effort")).startswith(
            "Effort: the model's default. Type /effort LEVEL: default, low,"
        )
        assert await sitting.said("/effort hihg") == (
            "Effort not changed: no effort level 'hihg': choose one of low, medium, high, xhigh, max"
        )
        await sitting.asked("one")
        assert sent() is None
        assert await sitting.said("/effort low") == "Effort: low, from the next prompt."
        await sitting.asked("two")
        assert sent() == "low"
        await sitting.said("/clear")
        await sitting.asked("three")
        assert sent() == "low"
        assert await sitting.said("/effort default") == "Effort: default, from the next prompt."
        await sitting.asked("four")
        assert sent() is None

    sat(play)


def test_a_cap_of_the_settings_holds(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = serve()
    here(stage, monkeypatch)
    (stage.home / "settings.toml").write_text('maxEffortLevel = "medium"\n')

    async def play(sitting: Sitting) -> None:
        assert await sitting.said("/effort max") == (
            "Effort: medium, from the next prompt. Your settings allow at most 'medium'."
        )

    sat(play)


def test_a_theme_is_kept(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = serve()
    here(stage, monkeypatch)

    async def play(sitting: Sitting) -> None:
        assert (await sitting.said("/theme")).startswith("Theme: auto. Type /theme NAME: auto, dark,")
        assert (await sitting.said("/theme drak")).startswith("No theme 'drak'. Did you mean 'dark'?")
        assert await sitting.said("/theme light") == "Theme: light. Kept in your settings."
        assert sitting.talk.config.settings.theme == "light"

    async def again(sitting: Sitting) -> None:
        assert sitting.talk.config.settings.theme == "light"

    sat(play)
    sat(again)


# --- /fork --------------------------------------------------------------------------------------------------------


def test_a_branch_keeps_the_original(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = serve(*[Say.of(f"Answer {number}.") for number in range(4)])
    here(stage, monkeypatch)

    async def play(sitting: Sitting) -> None:
        assert await sitting.said("/fork") == "Nothing to fork yet."
        for words in ("one", "two"):
            await sitting.asked(words)
        first = sitting.talk.world.about.session_id
        assert await sitting.said("/fork 3") == "No prompt '3': 2 prompts so far; 1 is the last one."
        assert await sitting.said("/fork") == (
            f"Forked here. This is a new session; the original is unchanged. Type /resume {first[:8]} to go back."
        )
        assert sitting.talk.world.about.session_id != first
        await sitting.asked("three, in the branch")
        assert all(f'"{words}"' in body(stage) for words in ("one", "two", "three, in the branch"))
        await sitting.said(f"/resume {first[:8]}")
        shown = await sitting.said("/fork 1")
        assert shown.startswith("Forked before that prompt.")
        assert sitting.talk.draft == "two"
        await sitting.asked("another two")
        assert '"one"' in body(stage)
        assert not [words for words in ('"two"', "three, in the branch") if words in body(stage)]

    sat(play)
    assert len(stage.sessions()) == 3


def test_without_a_file_nothing_is_forked(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    here(serve(), monkeypatch)

    async def play(sitting: Sitting) -> None:
        assert await sitting.said("/fork") == "Cannot fork: this session is not stored."

    sat(play, "--no-session-persistence")


# --- /usage -------------------------------------------------------------------------------------------------------


def test_limits_of_both_kinds_of_headers() -> None:
    assert read_rate_limits(
        {
            "anthropic-ratelimit-input-tokens-limit": "2000",
            "anthropic-ratelimit-input-tokens-remaining": "1500",
            "anthropic-ratelimit-input-tokens-reset": "2026-11-19T20:00:00Z",
            "anthropic-ratelimit-unified-5h-utilization": "0.25",
            "x-ratelimit-remaining-requests": "59",
            "x-ratelimit-limit-requests": "60",
            "content-type": "text/html",
            "x-ratelimit-": "",
        }
    ) == (
        RateLimit("input tokens", "2000", "1500", "2026-11-19T20:00:00Z"),
        RateLimit("unified 5h", used="0.25"),
        RateLimit("requests", "60", "59"),
    )


def test_usage_shows_what_is_left(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = serve(Say.of("Hi."))
    here(stage, monkeypatch)

    async def play(sitting: Sitting) -> None:
        shown = await sitting.said("/usage")
        assert shown.startswith("Nothing spent yet.")
        assert "the provider has reported none" in shown
        await sitting.asked("go")
        shown = await sitting.said("/usage")
        assert "left." in shown
        assert "tokens in" in shown

    sat(play, "--max-budget-usd", "1")
