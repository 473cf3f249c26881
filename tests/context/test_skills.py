"""Skills: found, listed by name and description, loaded on demand; nothing in them runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.context.attachments import MANNERS, Attachment, AttachmentKind, render_attachment
from mainspring.context.custom_commands import CustomCommands, SlashCatalog
from mainspring.context.frontmatter import LARGEST, split_frontmatter
from mainspring.context.project_files import ConfigFolders
from mainspring.context.skills import Skill, Skills, format_skill_list
from mainspring.core.errors import ToolError, UsageError

PLAIN = "---\nname: {name}\ndescription: {about}\n---\n{body}"


def put(folder: Path, name: str, about: str = "About it.", body: str = "Do it.") -> Path:
    path = folder / name / "SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text(PLAIN.format(name=name, about=about, body=body))
    return path


# --- the head of a file -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("head", "fields"),
    [
        ("name: a\ndescription: Some words: more # a comment", {"name": "a", "description": "Some words: more"}),
        ("description: \"a \\\"b\\\" # c\"\nname: 'it''s'", {"description": 'a "b" # c', "name": "it's"}),
        ("description: >-\n  one\n  two\nmodel: x", {"description": "one two", "model": "x"}),
        ("description: |\n  one\n\n  two", {"description": "one\n\ntwo"}),
        ("description: one\n  two", {"description": "one two"}),
        ("allowed-tools:\n  - Read\n  - Bash(git *)", {"allowed-tools": "Read, Bash(git *)"}),
        ("allowed-tools: [Read, 'Grep']", {"allowed-tools": "Read, Grep"}),
        ("metadata:\n  author: x\n  deep:\n    a: 1\nname: a", {"metadata": "", "name": "a"}),
        ("# words\n\n%odd\nname: a", {"name": "a"}),
        ("name: a\nname: b", {"name": "b"}),
        ("", {}),
    ],
)
def test_heads(head: str, fields: dict[str, str]) -> None:
    found = split_frontmatter(f"---\n{head}\n---\nbody\n---\nmore")
    assert found.fields == fields
    assert found.body == "body\n---\nmore"


@pytest.mark.parametrize(
    "head", ["name: *other", "name: &a b", "name: !!python/object:os.system x", "allowed-tools:\n- *x", "a: [*b]"]
)
def test_aliases_anchors_and_tags_are_refused(head: str) -> None:
    with pytest.raises(UsageError, match="alias"):
        split_frontmatter(f"---\n{head}\n---\n")


def test_a_head_has_an_end() -> None:
    assert split_frontmatter("text\n---\nname: a\n---").fields == {}
    with pytest.raises(UsageError, match="not closed"):
        split_frontmatter("---\nname: a\n")
    with pytest.raises(UsageError, match="not closed"):
        split_frontmatter("---\n" + "a: b\n" * LARGEST + "---\n")


@given(st.text(alphabet="-:|>[]*&!'\"# \nab,\\", max_size=200))
def test_any_head_is_read_or_refused(text: str) -> None:
    try:
        found = split_frontmatter(f"---\n{text}\n---\nbody")
    except UsageError:
        return
    assert all(key == key.lower() for key in found.fields)
    assert sum(map(len, found.fields.values())) <= len(text) * 2


# --- which there are --------------------------------------------------------------------------------


@pytest.mark.covers("N-22")
def test_a_projects_skills_come_with_trust_and_never_replace_the_users(tmp_path: Path) -> None:
    user, cwd = tmp_path / "home", tmp_path / "work"
    put(user / ".mainspring/skills", "ours", "Ours.")
    put(user / ".claude/skills", "ours", "Theirs.")
    put(user / ".claude/skills", "theirs")
    put(cwd / ".mainspring/skills", "both", "Ours in the project.")
    put(cwd / ".claude/skills", "both", "Theirs in the project.")
    put(cwd / ".claude/skills", "theirs", "The project's.")
    place = ConfigFolders(str(user), str(user / ".mainspring"), (str(cwd),))
    before = Skills(place)
    assert {name: skill.about for name, skill in before.by_name.items()} == {"ours": "Ours.", "theirs": "About it."}
    after = Skills(ConfigFolders(str(user), str(user / ".mainspring"), (str(cwd),), trusted=True))
    assert {name: skill.about for name, skill in after.by_name.items()} == {
        "ours": "Ours.",
        "theirs": "About it.",
        "both": "Ours in the project.",
    }
    assert after.by_name["both"].project
    assert not after.by_name["theirs"].project
    only = Skills(ConfigFolders(str(user), None, (str(cwd),), trusted=True, sources=("project",)))
    assert set(only.by_name) == {"both", "theirs"}


def test_broken_ones_are_named_and_the_others_stay(tmp_path: Path) -> None:
    folder = tmp_path / "skills"
    put(folder, "good")
    put(folder, "alias", about="*x")
    put(folder, "odd", body="x").write_text("---\nname: ../../etc\n---\n")
    (folder / "huge").mkdir()
    (folder / "huge" / "SKILL.md").write_text("---\n" + "a: b\n" * 50_000)
    (folder / "pipe").mkdir()
    os.mkfifo(folder / "pipe" / "SKILL.md")
    (folder / "empty").mkdir()
    (folder / "a file").write_text("")
    (folder / "loop").symlink_to("loop")
    put(folder, "bytes").write_bytes(b"---\ndescription: caf\xe9\n---\n")
    found = Skills(ConfigFolders(home=str(tmp_path)))
    assert {name: skill.about for name, skill in found.by_name.items()} == {"good": "About it.", "bytes": "caf\ufffd"}
    named = sorted([problem.split("'")[1].split("/")[-2] for problem in found.problems])
    assert named == ["alias", "huge", "odd", "pipe"]


def test_looking_again_finds_what_is_new_and_reads_only_that(tmp_path: Path) -> None:
    path = put(tmp_path / "skills", "one")
    os.utime(path, ns=(0, 0))  # one that was written just now is read again
    skills = Skills(ConfigFolders(home=str(tmp_path)))
    assert not skills.refresh()
    put(tmp_path / "skills", "two")
    assert skills.refresh()
    assert set(skills.by_name) == {"one", "two"}
    path.chmod(0)  # who reads it again fails, unless it is root
    assert not skills.refresh()
    assert skills.problems == []
    path.parent.rename(tmp_path / "gone")
    assert skills.refresh()
    assert set(skills.by_name) == {"two"}


# --- what the model is told -------------------------------------------------------------------------


def test_only_names_and_descriptions_are_listed(tmp_path: Path) -> None:
    put(tmp_path / "skills", "deploy", "How to deploy.", "SECRET BODY")
    attachment = Skills(ConfigFolders(home=str(tmp_path))).attachment
    assert attachment is not None
    assert attachment.text == "- deploy: How to deploy."
    assert Skills(ConfigFolders()).attachment is None


@pytest.mark.parametrize("count", [1, 30, 100, 200, 3_000])
def test_however_many_the_list_fits(count: int) -> None:
    skills = tuple([Skill(f"skill-{n}", "words " * 100, "/x") for n in range(count)])
    text = render_attachment(Attachment(AttachmentKind.SKILLS, "", format_skill_list(skills))).text
    assert len(text) < MANNERS[AttachmentKind.SKILLS].most + 400
    if count <= 200:
        assert all(f"- {skill.name}" in text for skill in skills)
    else:
        assert "[Cut: " in text


@pytest.mark.covers("N-22")
def test_the_model_can_be_told_of_some_alone(tmp_path: Path) -> None:
    """By name or by folder; the others it cannot load, and is not told that they exist."""
    put(tmp_path / "skills", "one")
    put(tmp_path / "skills", "two")
    put(tmp_path / "skills", "folder").write_text(PLAIN.format(name="three", about="Three.", body="x"))
    skills = Skills(ConfigFolders(home=str(tmp_path)), only=("one", "folder", "nobody"))
    assert list(skills.told) == ["three", "one"]
    assert skills.attachment == Attachment(AttachmentKind.SKILLS, "", "- three: Three.\n- one: About it.")
    assert skills.load("one").skill.name == "one"
    with pytest.raises(ToolError, match=r"There is no skill 'two'\. There are: three, one\."):
        skills.load("two")
    assert set(skills.by_name) == {"one", "two", "three"}
    none = Skills(ConfigFolders(home=str(tmp_path)), only=())
    assert (none.told, none.attachment) == ({}, None)


# --- loading ----------------------------------------------------------------------------------------


def test_a_body_is_loaded_with_its_arguments_and_nothing_in_it_runs(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    body = f"Deploy $ARGUMENTS now, $ARGUMENTS.\n!`touch {mark}`\n$(touch {mark})\n```!\ntouch {mark}\n```"
    put(tmp_path / "skills", "deploy", body=body)
    put(tmp_path / "skills", "plain", body="Just so.")
    skills = Skills(ConfigFolders(home=str(tmp_path)))
    loaded = skills.load("deploy", "to $ARGUMENTS")
    assert f"Deploy to $ARGUMENTS now, to $ARGUMENTS.\n!`touch {mark}`" in loaded.text
    assert loaded.text.startswith(f"Folder of this skill: {tmp_path}/skills/deploy\n\n")
    assert not mark.exists()
    assert skills.load("/plain", "x").text.endswith("Just so.\n\nArguments: x")
    assert skills.load("plain").text.endswith("Just so.")


def test_what_cannot_be_loaded_is_told_in_words(tmp_path: Path) -> None:
    path = put(tmp_path / "skills", "one")
    skills = Skills(ConfigFolders(home=str(tmp_path)))
    with pytest.raises(ToolError, match=r"There is no skill 'two'\. There are: one\."):
        skills.load("two")
    path.unlink()
    with pytest.raises(ToolError, match="'one' cannot be read"):
        skills.load("one")
    os.mkfifo(path)
    with pytest.raises(ToolError, match="no regular file"):
        skills.load("one")


def test_twenty_skills(tmp_path: Path) -> None:
    for n in range(20):
        put(tmp_path / "skills", f"skill-{n}", body="words " * 1_000)
    assert len(Skills(ConfigFolders(home=str(tmp_path))).by_name) == 20


@pytest.mark.parametrize("start", ["", "\n", "\ufeff", "\r\n"])
def test_one_that_only_a_person_may_load(tmp_path: Path, start: str) -> None:
    path = tmp_path / "skills/deploy/SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text(f"{start}---\ndescription: d\ndisable-model-invocation: true\n---\nDo it.")
    skills = Skills(ConfigFolders(home=str(tmp_path)))
    assert skills.attachment is None
    with pytest.raises(ToolError, match="There is no skill 'deploy'"):
        skills.load("deploy")
    slash = SlashCatalog(skills, CustomCommands(ConfigFolders(sort="commands")))
    assert [entry.name for entry in slash.entries()] == ["deploy"]
    assert "Do it." in slash.text("deploy")


def test_one_that_only_the_model_may_load(tmp_path: Path) -> None:
    path = tmp_path / "skills/style/SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text("---\ndescription: d\nuser-invocable: false\n---\nDo it.")
    skills = Skills(ConfigFolders(home=str(tmp_path)))
    assert "Do it." in skills.load("style").text
    slash = SlashCatalog(skills, CustomCommands(ConfigFolders(sort="commands")))
    assert slash.entries() == ()
    with pytest.raises(ToolError, match="There is no command and no skill '/style'"):
        slash.text("style")
