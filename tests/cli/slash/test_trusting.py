"""`/trust`: what a folder brings takes effect in the conversation that is under way; and what waits for it is known."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from cli.slash.sitting import Sitting, here, sat
from cli.slash.test_conversations import id_of, sent
from cli.stage import Serve, Stage
from mainspring.cli import trust
from mainspring.core.errors import UsageError
from mainspring.settings.trust import is_trusted
from mainspring.simulator.replies import Say

HOOK = {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": "echo from the hook"}]}]}


def bring(folder: Path) -> None:
    """All that a folder can bring."""
    texts = {
        ".claude/commands/review.md": "Look at the change.",
        ".claude/commands/git/fix.md": "Fix it.",
        ".claude/skills/deploy/SKILL.md": "---\nname: deploy\ndescription: How it is done\n---\nDo it.",
        ".claude/agents/critic.md": "---\nname: critic\ndescription: Finds faults\n---\nFind.",
        ".mcp.json": json.dumps({"mcpServers": {"files": {"command": "no-such-server"}}}),
        ".claude/settings.json": json.dumps(
            {"hooks": HOOK, "permissions": {"allow": ["Bash(ls)"], "deny": ["Read(x)"]}, "effortLevel": "low"}
        ),
    }
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


HELD = [
    "hooks",
    "allow rules",
    "settings (effortLevel)",
    "MCP server 'files' (no-such-server)",
    "agents (critic)",
    "skills (/deploy)",
    "commands (/review, /git:fix)",
]


def trusts(stage: Stage) -> bool:
    return is_trusted(str(stage.home), str(stage.folder))


def test_what_waits_for_trust_is_known_by_its_sort_and_name(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = serve()
    here(stage, monkeypatch)

    async def nothing(sitting: Sitting) -> None:
        assert trust.list_untrusted_content(sitting.talk) == []

    sat(nothing)
    bring(stage.folder)

    async def play(sitting: Sitting) -> None:
        assert trust.list_untrusted_content(sitting.talk) == HELD

    sat(play)
    (stage.folder / "AGENTS.md").symlink_to("../outside.md")
    (stage.folder.parent / "outside.md").write_text("x")
    odd = {"mcpServers": {"a\x1b[2J\nb": {"command": "x"}, "c" * 500: {"command": "x"}}}
    (stage.folder / ".mcp.json").write_text(json.dumps(odd))

    async def oddly(sitting: Sitting) -> None:
        held = trust.list_untrusted_content(sitting.talk)
        assert "MCP server 'a[2J b' (x)" in held
        assert f"MCP server '{'c' * 37}...' (x)" in held

    sat(oddly)
    (stage.folder / ".mcp.json").write_text("{")  # broken: trust would not help
    for number in range(7):
        (stage.folder / f".claude/commands/{number}.md").write_text("x")

    async def more(sitting: Sitting) -> None:
        held = trust.list_untrusted_content(sitting.talk)
        assert held[-2:] == ["commands (/0, /1, /2, /3, /4 and 4 more)", "memory files outside the folder"]
        assert not any("MCP" in one for one in held)

    sat(more)

    async def of_the_user_alone(sitting: Sitting) -> None:
        assert trust.list_untrusted_content(sitting.talk) == []

    sat(of_the_user_alone, "--setting-sources", "user")


def test_a_word_that_is_held_back_says_so(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = serve()
    here(stage, monkeypatch)
    bring(stage.folder)

    async def play(sitting: Sitting) -> None:
        for word in ("review", "git:fix", "fix", "deploy"):
            told = f"/{word} is disabled because this folder is not trusted. Run /trust to enable it."
            assert await sitting.said(f"/{word} it") == told
            assert sitting.meant == ""
        assert (await sitting.said("/nobody")).startswith("There is no command and no skill '/nobody'")
        await sitting.said("/trust")
        await sitting.said("/review")
        assert sitting.meant == "Look at the change."
        await sitting.said("/deploy")
        assert sitting.meant.endswith("Do it.")
        assert (await sitting.said("/nobody")).startswith("There is no command and no skill '/nobody'")

    sat(play)


def test_trust_takes_effect_in_the_same_conversation_and_can_be_taken_back(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = serve(*[Say.of(f"Answer {number}.") for number in range(3)])
    here(stage, monkeypatch)
    bring(stage.folder)
    (stage.folder / ".mcp.json").unlink()

    async def play(sitting: Sitting) -> None:
        talk = sitting.talk
        await sitting.asked("one")
        before, spent = id_of(talk), talk.world.session.shared.ledger.account.spent
        await sitting.said("/model haiku")
        shown = await sitting.said("/trust")
        held = ", ".join([one for one in HELD if "MCP" not in one])
        assert shown == f"'{stage.folder}' is trusted. Now enabled: {held}."
        assert trusts(stage)
        assert (id_of(talk), talk.world.session.shared.ledger.account.spent) == (before, spent)
        assert [hook.event for hook in talk.config.settings.hooks] == ["UserPromptSubmit"]
        assert "critic" in talk.world.kinds
        assert trust.list_untrusted_content(talk) == []

        await sitting.asked("two")
        assert sent(stage) == ["one", "two", "from the hook"]
        assert stage.requests[-1].body["model"] == "claude-haiku-5-5"  # what was chosen stays
        told = f"'{stage.folder}' is trusted. Type /trust remove to undo it."
        assert await sitting.said("/trust") == told

        assert await sitting.said("/trust remove") == f"'{stage.folder}' is no longer trusted."
        assert (trusts(stage), id_of(talk), talk.config.settings.hooks) == (False, before, ())
        await sitting.asked("three")
        assert sent(stage)[-1] == "three"
        assert await sitting.said("/trust remove") == f"'{stage.folder}' is not trusted. Type /trust to trust it."

    sat(play)
    assert len(stage.sessions()) == 1


def test_before_anything_was_said_it_is_a_new_conversation(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = serve(Say.of("Hi."))
    here(stage, monkeypatch)

    async def play(sitting: Sitting) -> None:
        assert await sitting.said("/trust now") == "Usage: /trust trusts this folder, /trust remove stops trusting it."
        assert not trusts(stage)
        shown = await sitting.said("/trust")
        assert shown == f"'{stage.folder}' is trusted. It has no configuration to enable."
        await sitting.asked("hello")
        assert sent(stage) == ["hello"]

    sat(play)
    assert len(stage.sessions()) == 1


def test_the_mode_that_somebody_chose_stays_and_another_is_the_folder_s(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = serve(Say.of("Hi."), Say.of("Ho."))
    here(stage, monkeypatch)
    bring(stage.folder)
    (stage.folder / ".mcp.json").unlink()
    settings = {"permissions": {"defaultMode": "plan"}}
    (stage.folder / ".claude/settings.json").write_text(json.dumps(settings))

    async def by_default(sitting: Sitting) -> None:
        await sitting.asked("hello")
        await sitting.said("/trust")
        assert sitting.talk.world.session.shared.policy.mode == "plan"
        await sitting.said("/trust remove")
        assert sitting.talk.world.session.shared.policy.mode == "default"

    sat(by_default)

    async def chosen(sitting: Sitting) -> None:
        session = sitting.talk.world.session
        await session.change(type(session.shared.policy)("acceptEdits"))
        await sitting.said("/trust")
        assert sitting.talk.world.session.shared.policy.mode == "acceptEdits"

    sat(chosen)


def test_settings_that_cannot_be_used_leave_the_conversation_as_it_is(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = serve(Say.of("Hi."), Say.of("Ho."))
    here(stage, monkeypatch)

    async def play(sitting: Sitting) -> None:
        await sitting.asked("hello")
        world = sitting.talk.world
        with (stage.home / "settings.toml").open("a") as settings:
            settings.write('[env]\nANTHROPIC_BASE_URL = "nowhere"\n')
        told = await sitting.said("/trust")
        assert "Takes effect in the next conversation: " in told
        assert (trusts(stage), sitting.talk.world is world) == (True, True)
        await sitting.asked("more")
        assert sent(stage) == ["hello", "more"]

    sat(play)


def test_a_file_that_is_gone_is_told_and_a_new_conversation_begins(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = serve(Say.of("Hi."), Say.of("Ho."))
    here(stage, monkeypatch)

    async def play(sitting: Sitting) -> None:
        await sitting.asked("hello")
        [file] = stage.sessions()
        file.unlink()
        told = await sitting.said("/trust")
        assert "The session cannot be resumed: No conversation found" in told
        await sitting.asked("more")
        assert sent(stage) == ["more"]

    sat(play)


def test_a_list_that_cannot_be_written_changes_nothing(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = serve()
    here(stage, monkeypatch)
    with pytest.raises(UsageError):
        trust.trust_folder(str(stage.folder / "nowhere"), os.environ)

    async def play(sitting: Sitting) -> None:
        world = sitting.talk.world
        (stage.home / "trusted.json").write_text("{")
        assert (await sitting.said("/trust")).startswith("Nothing changed: ")
        assert sitting.talk.world is world

    sat(play)


def test_a_look_at_what_waits_does_nothing(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a hook nor a server of the folder has run, and nothing leads out of it."""
    stage = serve()
    here(stage, monkeypatch)
    bring(stage.folder)
    outside = stage.folder.parent / "elsewhere"
    outside.mkdir()
    (outside / "secret.md").write_text("---\ndescription: secret\n---\nx")
    (stage.folder / ".claude/commands/out").symlink_to(outside)
    (stage.folder / ".claude/commands/link.md").symlink_to(outside / "secret.md")
    touch = {"hooks": [{"type": "command", "command": f"touch {outside}/ran"}]}
    settings = {"hooks": {"SessionStart": [touch], "UserPromptSubmit": [touch]}}
    (stage.folder / ".claude/settings.json").write_text(json.dumps(settings))

    async def play(sitting: Sitting) -> None:
        held = await asyncio.to_thread(trust.list_untrusted_content, sitting.talk)
        assert held[-1] == "commands (/review, /git:fix)"
        assert not (outside / "ran").exists()

    sat(play)
