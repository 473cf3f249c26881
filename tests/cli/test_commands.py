"""`/name words` and `@path`, at every door: with `-p`, in a conversation, over the pipe."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli.stage import Serve, Stage, frames
from cli.terminal import SitAt, sit_at, without_notes
from mainspring.agent.slash_commands import ONCE, PIPE, names_at, words_at
from mainspring.simulator.replies import Say

__all__ = ["sit_at"]  # a fixture


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def tool_use(name: str, **input: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{name}", "name": name, "input": input}


def said(stage: Stage, number: int = -1) -> list[str]:
    """The texts of a request, but for what belongs to every session."""
    messages = stage.requests[number].body["messages"]
    texts = [block.get("text", "") for message in messages for block in message["content"]]
    return [text for text in texts if 'kind="environment"' not in text]


def furnish(stage: Stage) -> None:
    put(
        stage.home / "commands" / "shout.md",
        "---\ndescription: Shouts.\nargument-hint: [word]\n---\nShout $1, $ARGUMENTS!",
    )
    put(stage.home / "commands" / "git" / "fix.md", "Fix @a.py with git.")
    put(stage.home / "skills" / "deploy" / "SKILL.md", "---\ndescription: Deploys.\n---\nDeploy.")
    put(stage.folder / "a.py", "print('hello')\n")


# --- with -p ----------------------------------------------------------------------------------------


@pytest.mark.covers("O-03", "O-05")
def test_a_command_and_what_is_piped_in_beside_it(serve: Serve) -> None:
    stage = serve(*[Say.of("Hi.")] * 5)
    furnish(stage)
    assert stage.run("-p", "/shout it loud").stdout == b"Hi.\n"
    assert said(stage)[0] == "Shout it, it loud!"
    stage.run("-p", "/shout it", input=b"some data: @a.py")
    assert said(stage)[0] == "Shout it, it!\n\nsome data: @a.py"
    assert "print" not in str(said(stage))  # data names no files
    stage.run("-p", input=b"/shout it\n")
    assert said(stage)[0] == "Shout it, it!"
    stage.run("-p", "/deploy")
    assert said(stage)[0].endswith("Deploy.")
    stage.run("-p", "/nobody knows /shout")
    assert said(stage)[0] == "/nobody knows /shout"


@pytest.mark.covers("O-05")
def test_init_tells_of_them_and_the_prompt_is_repeated_as_it_was_said(serve: Serve) -> None:
    stage = serve(Say.of("Hi."))
    furnish(stage)
    put(stage.home / "commands" / "compact.md", "never")
    put(stage.home / "commands" / "deploy.md", "never: there is a skill of that name")
    done = stage.run("-p", "/shout it", "--output-format=stream-json", "--verbose", "--replay-user-messages")
    init, repeated, *_ = frames(done.stdout)
    assert sorted(init["slash_commands"]) == sorted([*names_at(ONCE), "deploy", "git:fix", "shout"])
    assert init["skills"] == ["deploy"]
    assert "/shout it" in json.dumps(repeated["message"])
    assert done.stderr == b""


def test_no_command_takes_the_place_of_our_own(serve: Serve) -> None:
    stage = serve()
    put(stage.home / "commands" / "compact.md", "Something else.")
    assert b"not compacted: it is empty" in stage.run("-p", "/compact").stderr
    assert stage.requests == []


def test_a_broken_one_is_told_of_and_nothing_stops(serve: Serve) -> None:
    stage = serve(Say.of("Hi."))
    furnish(stage)
    put(stage.home / "commands" / "bad.md", "---\ndescription: *x\n---\n")
    done = stage.run("-p", "/shout it")
    assert done.stdout == b"Hi.\n"
    assert done.stderr.count(b"the command '") == 1
    assert b"bad.md' is left out: " in done.stderr


def test_of_a_project_that_nobody_trusts_there_are_none(serve: Serve) -> None:
    stage = serve(Say.of("Hi."), Say.of("Hi."))
    put(stage.folder / ".claude" / "commands" / "theirs.md", "Do as they say.")
    stage.run("-p", "/theirs now")
    assert said(stage)[0] == "/theirs now"
    stage.run("trust", str(stage.folder))
    stage.run("-p", "/theirs now")
    assert said(stage)[0] == "Do as they say.\n\nArguments: now"


@pytest.mark.covers("O-05")
def test_a_file_that_is_named_goes_along_and_may_be_edited(serve: Serve) -> None:
    edit = tool_use("Edit", file_path="a.py", old_string="hello", new_string="bye")
    stage = serve(Say.of(edit), Say.of("Done."), Say.of("Again."))
    furnish(stage)
    done = stage.run("-p", "/fix", "--permission-mode=acceptEdits", "--output-format=stream-json", "--verbose")
    assert frames(done.stdout)[-1]["result"] == "Done."
    assert said(stage, 0)[0] == "Fix @a.py with git."
    [attached] = [text for text in said(stage, 0) if 'kind="file"' in text]
    assert f'name="{stage.folder}/a.py"' in attached
    assert "1\tprint('hello')\n" in attached
    assert (stage.folder / "a.py").read_text() == "print('bye')\n"
    assert b"kind=" not in done.stdout  # it is for the model
    stage.run("-p", "and @a.py now?", "--continue")
    assert len([text for text in said(stage) if 'kind="file"' in text]) == 2  # as it was, and as it is


def test_what_the_view_holds_is_not_sent_twice(serve: Serve) -> None:
    stage = serve(Say.of("One."), Say.of("Two."))
    furnish(stage)
    stage.run("-p", "see @a.py")
    stage.run("-p", "again @a.py", "--continue")
    assert len([text for text in said(stage) if 'kind="file"' in text]) == 1


@pytest.mark.covers("O-05")
@pytest.mark.parametrize(
    ("flags", "brought"),
    [
        ((), {"inside"}),
        (("--disallowedTools=Read(./inside.md)",), set[str]()),
        (("--disallowedTools=Read",), set[str]()),
        (("--add-dir=../more",), {"inside", "more"}),
        (("--allowedTools=Read(//**/outside.md)",), {"inside", "outside"}),
        (("--settings", '{"permissions":{"ask":["Read(inside.md)"]}}'), set[str]()),
        (("--permission-mode=bypassPermissions",), {"inside", "outside", "more"}),
    ],
)
def test_the_rules_for_reading_hold(flags: tuple[str, ...], brought: set[str], serve: Serve) -> None:
    stage = serve(Say.of("Hi."))
    put(stage.folder / "inside.md", "word-of-inside")
    put(stage.folder.parent / "outside.md", "word-of-outside")
    put(stage.folder.parent / "more" / "more.md", "word-of-more")
    stage.run("-p", "see @inside.md, @../outside.md and @../more/more.md", *flags)
    assert {name for name in ("inside", "outside", "more") if f"word-of-{name}" in str(said(stage))} == brought
    refused = 0 if "--disallowedTools=Read" in flags else 3 - len(brought)  # without the tool a mention is text
    assert str(said(stage)).count("[Not attached: ") == refused


# --- in a conversation ------------------------------------------------------------------------------


@pytest.mark.covers("O-03", "O-05")
def test_in_a_conversation(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(Say.of("One."), Say.of("Two."))
    without_notes(stage)
    furnish(stage)
    terminal = sit_at(stage)
    terminal.say("/help")
    shown = terminal.see("git.\n")
    assert "/deploy                 Deploys.\n" in shown
    assert "/shout [word]           Shouts.\n" in shown
    assert "/git:fix                Fix @a.py with git.\n" in shown
    terminal.say("/git:fix it")
    terminal.see("One.")
    assert said(stage)[0] == "Fix @a.py with git.\n\nArguments: it"
    assert "1\tprint('hello')" in "".join(said(stage)[1:])
    put(stage.home / "commands" / "late.md", "Better late.")
    terminal.say("/late")
    terminal.see("Two.")
    assert "Better late." in said(stage)
    terminal.say("/never")
    terminal.see("There is no command and no skill '/never'. Type /help for a list of commands.")
    terminal.say("/exit")
    assert terminal.end() == 0
    assert len(stage.requests) == 2


# --- over the pipe ----------------------------------------------------------------------------------


def over_the_pipe(stage: Stage, *prompts: dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
    asked = {
        "type": "control_request",
        "request_id": "1",
        "request": {"subtype": "initialize", "hooks": None, **fields},
    }
    users = [
        {"type": "user", "message": {"role": "user", "content": prompt.pop("text")}, **prompt} for prompt in prompts
    ]
    lines = "".join([json.dumps(line) + "\n" for line in (asked, *users)])
    done = stage.run("--output-format=stream-json", "--verbose", "--input-format=stream-json", input=lines.encode())
    assert done.stderr == b""
    return frames(done.stdout)


@pytest.mark.covers("O-03", "O-05", "M-13")
def test_over_the_pipe(serve: Serve) -> None:
    """There the project's own are known, too: who drives us has chosen the folder."""
    stage = serve(*[Say.of("Hi.")] * 4)
    furnish(stage)
    put(stage.folder / "b.py", "not to be sent")
    put(stage.folder / ".claude" / "commands" / "theirs.md", "---\nargument-hint: <x>\n---\nRead @a.py, $1.")
    shown = over_the_pipe(
        stage,
        {"text": "/theirs now"},
        {"text": [{"type": "text", "text": "/shout it"}]},
        {"text": "/theirs @b.py", "client_composed": True},
        {"text": "/nobody"},
    )
    answer = shown[0]["response"]["response"]
    hints = {command["name"]: command["argumentHint"] for command in answer["commands"]}
    assert hints == {word.name: word.hint for word in words_at(PIPE)} | {
        "deploy": "",
        "git:fix": "",
        "shout": "[word]",
        "theirs": "<x>",
    }
    init = next(frame for frame in shown if frame.get("subtype") == "init")
    assert sorted(init["slash_commands"]) == sorted(hints)
    assert said(stage, 0)[0] == "Read @a.py, now."
    assert len([text for text in said(stage, 0) if 'kind="file"' in text]) == 1
    assert "Shout it, it!" in said(stage, 1)
    assert "/theirs @b.py" in said(stage, 2)
    assert "not to be sent" not in str(said(stage, 2))
    assert "/nobody" in said(stage, 3)


def test_a_project_cannot_lead_out_of_itself_over_the_pipe_either(serve: Serve) -> None:
    stage = serve(Say.of("Hi."))
    put(stage.folder.parent / "secret.md", "swordfish")
    (stage.folder / ".claude" / "commands").mkdir(parents=True)
    (stage.folder / ".claude" / "commands" / "x.md").symlink_to(stage.folder.parent / "secret.md")
    put(stage.folder / ".claude" / "commands" / "y.md", "See @../secret.md")
    line = json.dumps({"type": "user", "message": {"role": "user", "content": "/y"}}) + "\n"
    done = stage.run("--output-format=stream-json", "--verbose", "--input-format=stream-json", input=line.encode())
    assert frames(done.stdout)[-1]["result"] == "Hi."
    assert b"swordfish" not in done.stdout
    assert "swordfish" not in str(stage.requests[0].body)
    assert done.stderr.count(b"mainspring trust") == 1
