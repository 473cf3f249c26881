"""`/memory`, `/init`, `/skills`, `/agents`: what a session knows, and from where."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.slash.sitting import Sitting, here, sat
from cli.stage import Serve, Stage
from mainspring.context.memory import TOTAL
from mainspring.settings import trust
from mainspring.simulator.replies import Say


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


# --- memory -------------------------------------------------------------------------------------------------------


@pytest.mark.covers("N-23")
def test_memory_files_in_their_order_with_sizes_and_what_was_left_out(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = serve()
    here(stage, monkeypatch, HOME=str(stage.folder.parent))
    put(stage.home / "AGENTS.md", "Mine.")
    put(stage.folder / "AGENTS.md", "See @more.md and @../outside.md")
    put(stage.folder / "more.md", "More.")
    put(stage.folder.parent / "outside.md", "Outside.")
    put(stage.folder / "CLAUDE.local.md", "x" * 70_000)

    async def play(sitting: Sitting) -> None:
        rows = (await sitting.said("/memory")).split("\n")
        own, folder = stage.home, stage.folder
        assert rows[:3] == [
            f"user     {own}/AGENTS.md  (5 characters)",
            f"project  {folder}/AGENTS.md  (31 characters)",
            f"project  {folder}/more.md  (5 characters, included by '{folder}/AGENTS.md')",
        ]
        assert rows[3].startswith(f"local    {folder}/CLAUDE.local.md  (")
        assert rows[3].endswith("characters; cut)")
        assert rows[4].startswith(f"'@../outside.md' in '{folder}/AGENTS.md' is left out: it leads to ")
        assert len(rows) == 5

    sat(play)


def test_a_file_for_which_there_is_no_room_is_told(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = serve()
    here(stage, monkeypatch, HOME=str(stage.folder.parent))
    text = "y" * 20_000
    put(stage.home / "AGENTS.md", "Mine.")
    put(stage.folder / "AGENTS.md", " ".join([f"@{number}.md" for number in range(6)]))
    for number in range(6):
        put(stage.folder / f"{number}.md", f"{number}{text}")
    assert 6 * len(text) > TOTAL

    async def play(sitting: Sitting) -> None:
        rows = (await sitting.said("/memory")).split("\n")
        assert rows[0] == f"user     {stage.home}/AGENTS.md  (5 characters; left out: no room)"
        assert rows[-1].startswith(f"project  {stage.folder}/5.md  (20,001 characters, included by")
        assert not rows[-1].endswith("room for it)")

    sat(play)


def test_how_to_change_a_memory_file(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = serve()
    here(stage, monkeypatch, EDITOR="nano -w")

    async def play(sitting: Sitting) -> None:
        assert (await sitting.said("/memory")).startswith("No memory files. Type /init to create one")
        rows = (await sitting.said("/memory edit")).split("\n")
        assert rows[0] == f"!nano -w {stage.folder}/AGENTS.md"
        assert rows[1].startswith("Enter one of these lines to edit the file.")
        assert (await sitting.said("/memory change")).startswith("Usage: /memory lists the memory files")

    sat(play)


def test_init_is_a_prompt_about_the_file_that_is_there(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = serve(Say.of("Written."))
    here(stage, monkeypatch)

    async def play(sitting: Sitting) -> None:
        assert await sitting.said("/init") == ""
        assert sitting.meant.startswith(f"Write '{stage.folder}/AGENTS.md', the file that every session")
        assert "Keep what is still true" not in sitting.meant
        assert "@" not in sitting.meant  # it would name a file
        assert len(sitting.meant) < 1_500
        await sitting.asked(sitting.meant)
        assert stage.requests[0].body["messages"][0]["content"][0]["text"] == sitting.meant
        put(stage.folder / ".claude" / "CLAUDE.md", "Old.")
        await sitting.said("/init speak of the tests")
        assert sitting.meant.startswith(f"Improve '{stage.folder}/.claude/CLAUDE.md'")
        assert "Keep what is still true" in sitting.meant
        assert sitting.meant.endswith("\n\nspeak of the tests")
        put(stage.folder / "CLAUDE.md", "Newer.")
        await sitting.said("/init")
        assert sitting.meant.startswith(f"Improve '{stage.folder}/CLAUDE.md'")

    sat(play)


# --- skills and agents --------------------------------------------------------------------------------------------


def furnish(stage: Stage) -> None:
    put(stage.home / "skills" / "deploy" / "SKILL.md", "---\ndescription: Deploys \x1b[31mit.\n---\nDeploy.")
    put(stage.home / "commands" / "git" / "fix.md", "Fix it.")
    put(stage.home / "commands" / "init.md", "My own.")
    put(stage.folder / ".claude" / "skills" / "shout" / "SKILL.md", "---\ndescription: Shouts.\n---\nShout.")
    head = "name: reviewer\ndescription: reads code\ntools: Read, Grep\nmodel: haiku"
    put(stage.home / "agents" / "reviewer.md", f"---\n{head}\n---\nYou review.")
    put(stage.folder / ".claude" / "agents" / "tester.md", "---\nname: tester\ndescription: tests\n---\nYou test.")


@pytest.mark.covers("N-22")
def test_skills_and_commands_with_where_they_lie(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = serve()
    here(stage, monkeypatch, HOME=str(stage.folder.parent))
    theirs, own = stage.folder / ".claude" / "skills", stage.home / "commands"

    async def none(sitting: Sitting) -> None:
        assert (await sitting.said("/skills")).startswith("No skills or custom commands.")

    sat(none)
    furnish(stage)

    async def play(sitting: Sitting) -> None:
        assert (await sitting.said("/skills")).split("\n") == [
            f"/deploy                 Deploys [31mit.  (user skill '{stage.home}/skills/deploy/SKILL.md')",
            f"/init                   My own.  (user command '{own}/init.md'; hidden by a built-in command)",
            f"/git:fix                Fix it.  (user command '{own}/git/fix.md')",
            f"Ignored: '{theirs}'. Type /trust to trust this folder.",
        ]

    sat(play)
    trust.add_trusted_folder(str(stage.home), str(stage.folder), at=0)

    async def trusted(sitting: Sitting) -> None:
        shown = await sitting.said("/skills")
        assert f"/shout                  Shouts.  (project skill '{theirs}/shout/SKILL.md')" in shown
        assert "Ignored" not in shown

    sat(trusted)


def test_a_long_list_is_cut_with_a_count(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = serve()
    here(stage, monkeypatch, HOME=str(stage.folder.parent))
    for number in range(60):
        put(stage.home / "commands" / f"c{number:02}.md", "Do it.")

    async def play(sitting: Sitting) -> None:
        for word in ("/skills", "/help"):
            rows = (await sitting.said(word)).split("\n")
            assert rows[-1] == "and 10 more"

    sat(play)


def test_kinds_of_agents_with_where_they_come_from(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = serve()
    here(stage, monkeypatch, HOME=str(stage.folder.parent))
    theirs = stage.folder / ".claude" / "agents"

    async def ours(sitting: Sitting) -> None:
        rows = (await sitting.said("/agents")).split("\n")
        assert rows[::2] == ["general-purpose  (built-in, all tools)", "Explore  (built-in, tools: Read, Glob, Grep)"]

    sat(ours)
    furnish(stage)

    async def play(sitting: Sitting) -> None:
        rows = (await sitting.said("/agents")).split("\n")
        mine = f"reviewer  (user: '{stage.home}/agents/reviewer.md', tools: Read, Grep, model haiku)"
        assert rows[:2] == [mine, "    reads code"]
        assert rows[-1] == f"Ignored: '{theirs}'. Type /trust to trust this folder."

    sat(play)
    trust.add_trusted_folder(str(stage.home), str(stage.folder), at=0)

    async def trusted(sitting: Sitting) -> None:
        assert f"tester  (project: '{theirs}/tester.md', all tools)" in await sitting.said("/agents")

    sat(trusted)
