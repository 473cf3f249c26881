"""What is left out or does nothing is told: agents, skills and commands of one name, fields without effect."""

from __future__ import annotations

from pathlib import Path

import pytest

from mainspring.context.agent_types import LEFT_OUT, find_agent_types, parse_agent_types
from mainspring.context.custom_commands import CustomCommands
from mainspring.context.project_files import ConfigFolders
from mainspring.context.skills import Skills
from mainspring.core.errors import UsageError

TOOLS = ("Read", "Bash", "Grep")


def put(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def agent(file: Path, name: str, more: str = "") -> Path:
    return put(file, f"---\nname: {name}\ndescription: It looks.\n{more}---\nYou look.")


@pytest.fixture
def places(tmp_path: Path) -> ConfigFolders:
    return places_in(tmp_path, "agents")


def places_in(base: Path, sort: str) -> ConfigFolders:
    (base / "work").mkdir(exist_ok=True)
    return ConfigFolders(str(base / "user"), str(base / "home"), (str(base / "work"),), trusted=True, sort=sort)


def test_two_agents_of_one_name(tmp_path: Path, places: ConfigFolders) -> None:
    first = agent(tmp_path / "home/agents/a.md", "looker")
    second = agent(tmp_path / "home/agents/b.md", "looker")
    given = parse_agent_types({"poet": {"description": "d", "prompt": "p"}})
    third = agent(tmp_path / "home/agents/c.md", "poet")
    found = find_agent_types(places, given, TOOLS, "--agents")
    assert found.kinds["looker"].path == str(first)
    assert found.problems == (
        f"the agent '{second}' is left out: '{first}' has an agent 'looker', too",
        f"the agent '{third}' is left out: '--agents' has an agent 'poet', too",
    )


def test_the_same_file_by_another_way_is_no_second_one(tmp_path: Path, places: ConfigFolders) -> None:
    first = agent(tmp_path / "home/agents/a.md", "looker")
    (tmp_path / "home/agents/b.md").symlink_to(first)
    assert find_agent_types(places, {}, TOOLS).problems == ()


def test_fields_without_effect(tmp_path: Path, places: ConfigFolders) -> None:
    more = "skills: deploy\npermissionMode: plan\ncolor: red\nmodell: opus\ntools: Read, Bash(git *)\n"
    path = agent(tmp_path / "home/agents/a.md", "looker", more)
    assert sorted(find_agent_types(places, {}, TOOLS).problems) == sorted([
        f"the agent '{path}': {LEFT_OUT.format('Bash(git *)')}",
        f"the agent '{path}': nobody knows 'modell'. Did you mean 'model'?",
        f"the agent '{path}': 'permissionmode' has no effect here yet",
        f"the agent '{path}': 'skills' has no effect here yet",
    ])  # fmt: skip


def test_the_same_of_those_that_a_program_gives() -> None:
    entry = {"description": "d", "prompt": "p", "skills": ["deploy"], "memory": None, "mcpServers": [], "maxTurnz": 3}
    problems: list[str] = []
    assert list(parse_agent_types({"a": entry}, problems)) == ["a"]
    assert problems == [
        "the agent 'a': 'skills' has no effect here yet",
        "the agent 'a': nobody knows 'maxTurnz'. Did you mean 'maxturns'?",
    ]


def test_what_is_no_object_of_agents() -> None:
    with pytest.raises(UsageError, match="it must be an object with agents by name"):
        parse_agent_types([])


def test_two_skills_and_two_commands_of_one_name(tmp_path: Path) -> None:
    text = "---\ndescription: d\n---\nDo it."
    ours = put(tmp_path / "work/.mainspring/skills/deploy/SKILL.md", text)
    theirs = put(tmp_path / "work/.claude/skills/deploy/SKILL.md", text)
    skills = Skills(places_in(tmp_path, "skills"))
    assert skills.problems == [f"the skill '{theirs}' is left out: '{ours}' has the name 'deploy', too"]
    theirs.unlink()
    skills.refresh()
    assert skills.problems == []
    first = put(tmp_path / "work/.mainspring/commands/go.md", text)
    second = put(tmp_path / "work/.claude/commands/go.md", text)
    commands = CustomCommands(places_in(tmp_path, "commands"))
    assert commands.problems == [f"the command '{second}' is left out: '{first}' has the name 'go', too"]
