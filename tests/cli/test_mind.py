"""What the command tells the model beside the prompt: memory, skills, notes, surroundings; and what it takes away."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from cli.stage import Serve, Stage, frames
from cli.terminal import without_notes
from mainspring.core.money import Usage
from mainspring.simulator.replies import ReceivedRequest, Refuse, Reply, Say


def tool_use(name: str, id: str = "", **input: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id or f"toolu_{name}", "name": name, "input": input}


def reminders(stage: Stage, number: int = -1) -> list[str]:
    messages = stage.requests[number].body["messages"]
    texts = [block.get("text", "") for message in messages for block in message["content"]]
    return [text for text in texts if text.startswith("<system-reminder")]


@pytest.mark.covers("N-23", "D-37")
def test_memory_files_are_told_once_and_not_shown(serve: Serve) -> None:
    stage = serve(Say.of("Let me look.", tool_use("Glob", pattern="*")), Say.of("Hi."), Say.of("Again."))
    (stage.folder / "CLAUDE.md").write_text("Always speak Dutch.")
    shown = frames(stage.run("-p", "hello", "--output-format=stream-json", "--verbose").stdout)
    [memory] = [text for text in reminders(stage) if "Always speak Dutch." in text]
    assert 'kind="memory"' in memory
    assert "Dutch" not in json.dumps(shown)
    stage.run("-p", "and now?", "--continue")
    assert len([text for text in reminders(stage) if "Always speak Dutch." in text]) == 1


def test_setting_sources_choose_among_them(serve: Serve) -> None:
    stage = serve(Say.of("Hi."), Say.of("Hi."))
    (stage.folder / "AGENTS.md").write_text("From the project.")
    (stage.folder / "CLAUDE.local.md").write_text("From me.")
    stage.run("-p", "hello", "--setting-sources=local")
    assert "From me." in str(reminders(stage))
    assert "From the project." not in str(reminders(stage))
    stage.run("-p", "hello", "--setting-sources=")
    assert "From" not in str(reminders(stage))


@pytest.mark.covers("N-22")
def test_a_skill_is_listed_and_loaded(serve: Serve) -> None:
    stage = serve(Say.of(tool_use("Skill", skill="deploy", args="staging")), Say.of("Done."))
    skill = stage.home / "skills" / "deploy" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\ndescription: How we deploy.\n---\nDeploy to $ARGUMENTS, at night.")
    assert stage.run("-p", "deploy it", "--allowedTools=Skill").stdout == b"Done.\n"
    assert "- deploy: How we deploy." in str(reminders(stage, 0))
    assert "Skill" in [tool["name"] for tool in stage.requests[0].body["tools"]]
    [result] = [b for m in stage.requests[1].body["messages"] for b in m["content"] if b["type"] == "tool_result"]
    assert "Deploy to staging, at night." in str(result["content"])


def test_a_project_that_nobody_trusts_cannot_lead_out_of_its_folder(serve: Serve) -> None:
    stage = serve(Say.of("Hi."))
    (stage.folder.parent / "secret.md").write_text("the password is swordfish")
    (stage.folder / "CLAUDE.md").write_text("See @../secret.md for more.")
    done = stage.run("-p", "hello")
    assert "swordfish" not in str(stage.requests[0].body)
    assert b"mainspring: '" in done.stderr
    assert b"mainspring trust" in done.stderr


def test_a_long_session_is_made_smaller_on_its_way(serve: Serve) -> None:
    """Many reads under a small window: it goes through, results are cleared, every request is valid."""
    reads = [Say.of(f"Look {n}.", tool_use("Read", f"toolu_{n}", file_path=f"{n}.txt")) for n in range(30)]
    stage = serve(*reads, Say.of("All read."))
    for n in range(30):
        (stage.folder / f"{n}.txt").write_text(f"file {n}\n" + "words and words\n" * 500)
    done = stage.run("-p", "read all", "--context-window=40000", "--output-format=stream-json", "--verbose")
    shown = frames(done.stdout)
    assert shown[-1]["result"] == "All read."
    assert max(len(request.raw) for request in stage.requests) < 40_000 * 4
    assert "[Old tool result cleared" in str(stage.requests[-1].body)
    edits = [number for number, frame in enumerate(shown) if frame.get("subtype") == "mainspring_context_edit"]
    init = [number for number, frame in enumerate(shown) if frame.get("subtype") == "init"]
    assert edits
    assert init[0] < edits[0]
    assert {shown[number]["layer"] for number in edits} <= {"tool_results", "snip", "microcompact", "collapse"}
    boundaries = [frame["compact_metadata"] for frame in shown if frame.get("subtype") == "compact_boundary"]
    assert all(boundary["pre_tokens"] > 0 for boundary in boundaries), "only a summary is one"
    lines = [json.loads(line) for line in stage.sessions()[-1].read_text().splitlines()]
    assert len([line for line in lines if line.get("subtype") == "compact_boundary"]) == len(boundaries)


def set_up(stage: Stage, text: str) -> None:
    stage.home.mkdir(parents=True, exist_ok=True)
    (stage.home / "settings.toml").write_text(text)


@pytest.mark.covers("H-13", "H-09", "H-11", "H-15")
def test_money_in_the_settings_is_a_limit(serve: Serve) -> None:
    stage = serve()
    set_up(stage, "[api]\nmax_cost_usd = 0.000001\n")
    [result] = frames(stage.run("-p", "hello", "--output-format=json").stdout)
    assert (result["subtype"], result["is_error"]) == ("error_max_budget_usd", True)
    assert stage.requests == []


@pytest.mark.covers("H-12")
def test_tokens_in_the_settings_are_limits(serve: Serve) -> None:
    stage = serve(Say.of("Let me look.", tool_use("Glob", pattern="*")), Say.of("Never asked."))
    set_up(stage, "[limits]\nmax_tokens = 100\nmax_output_tokens = 5000\n")
    stage.run("-p", "hello")
    assert [request.body["max_tokens"] for request in stage.requests] == [5_000]


@pytest.mark.covers("H-01", "H-04", "H-06")
def test_plus_so_many_tokens_goes_on_until_they_are_written(serve: Serve) -> None:
    written = Usage(input=100, output=600)
    stage = serve(Say.of("Begun.", usage=written), Say.of("Done.", usage=written))
    assert stage.run("-p", "+1k mend it").stdout == b"Done.\n"
    assert len(stage.requests) == 2
    assert "token" in str(stage.requests[1].body["messages"][-1])


@pytest.mark.covers("D-36")
def test_a_compaction_on_request(serve: Serve) -> None:
    stage = serve(*[Say.of("Many words. " * 800)] * 4, Say.of("## Task\nmend it"), Say.of("On we go."))
    for n in range(4):
        stage.run("-p", f"question {n}", *(["--continue"] if n else []))
    done = stage.run("-p", "/compact keep the numbers", "--continue", "--output-format=stream-json", "--verbose")
    shown = frames(done.stdout)
    assert (shown[-1]["subtype"], shown[-1]["num_turns"]) == ("success", 0)
    (boundary,) = [frame["compact_metadata"] for frame in shown if frame.get("subtype") == "compact_boundary"]
    assert boundary["trigger"] == "manual"
    assert "keep the numbers" in str(stage.requests[4].body["messages"][-1])
    assert stage.run("-p", "and now?", "--continue").stdout == b"On we go.\n"
    assert len(stage.requests[5].raw) < len(stage.requests[4].raw)
    assert "mend it" in str(stage.requests[5].body["messages"][0])


@pytest.mark.covers("D-36")
def test_a_compaction_of_one_exchange(serve: Serve) -> None:
    """Who asks for it gets it: a summary that is longer than what was said is one, too."""
    stage = serve(Say.of("Hello."), Say.of("## Task\n" + "The user said hello. " * 40), Say.of("On we go."))
    stage.run("-p", "hi")
    done = stage.run("-p", "/compact", "--continue", "--output-format=stream-json", "--verbose")
    shown = frames(done.stdout)
    assert (done.returncode, shown[-1]["subtype"], shown[-1]["is_error"]) == (0, "success", False)
    (boundary,) = [frame["compact_metadata"] for frame in shown if frame.get("subtype") == "compact_boundary"]
    assert boundary["trigger"] == "manual"
    assert stage.run("-p", "and now?", "--continue").stdout == b"On we go.\n"
    assert "The user said hello." in str(stage.requests[-1].body["messages"][0])
    assert "Hello." not in str(stage.requests[-1].body["messages"])
    [line] = [
        line for line in map(json.loads, stage.sessions()[-1].read_text().splitlines()) if line.get("compactMetadata")
    ]
    assert line["compactMetadata"]["trigger"] == "manual"


LONG = "and more " * 1_000


@pytest.mark.covers("D-30")
def test_summaries_that_fail_are_not_tried_for_ever_however_often_the_session_is_resumed(serve: Serve) -> None:
    """Each prompt is a process of its own that finds the window full: three failed summaries in all of them."""
    summaries: list[str] = []

    def choose(received: ReceivedRequest) -> Reply:
        if "## Last action" in str(received.body["messages"][-1]):
            summaries.append(received.body["model"])
            return Refuse(400, "invalid_request_error", "no summaries today")
        return Say.of("Many words. " * 1_500, usage=Usage(input=39_000, output=4_000))

    stage = serve(choose=choose)
    without_notes(stage)
    usual = ["--context-window=40000"]
    for number in range(14):
        stage.run("-p", f"question {number} {LONG}", *usual, *(["--continue"] if number else []))
    assert len(summaries) == 3
    for number in range(3):
        stage.run("-p", f"and {number} {LONG}", *usual, "--continue", "--model=claude-opus-5")
    assert len(summaries) > 3, "another model may do better"
    assert set(summaries[3:]) == {"claude-opus-5"}


def test_a_compaction_of_nothing_says_so(serve: Serve) -> None:
    done = serve().run("-p", "/compact")
    assert done.returncode == 1
    assert b"not compacted: it is empty" in done.stderr


FILES = 14
TOO_LONG = Refuse(400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum")


def is_summary(received: ReceivedRequest) -> bool:
    return "has become too long and will be cut here" in received.talk.prompt


def read_all(received: ReceivedRequest) -> Reply:
    """The model: it reads one file after the other, and sums up when it is asked to."""
    if is_summary(received) or "haiku" in str(received.body["model"]):
        return Say.of("## Task\nread all")
    done = max([int(block["id"].split("_")[-1]) for block in received.talk.blocks("tool_use")], default=0)
    if done == FILES:
        return Say.of("All read.")
    return Say.of(f"Look {done + 1}.", tool_use("Read", f"toolu_{done + 1}", file_path=f"{done + 1}.txt"))


def read_with_features(stage: Stage, *more: str, **features: bool) -> set[str]:
    """The layers that act while the model reads all files."""
    for n in range(1, FILES + 1):
        (stage.folder / f"{n}.txt").write_text(f"file {n}\n" + "words and words\n" * 500)
    settings = f"--settings={json.dumps({'features': features})}"
    done = stage.run("-p", "read all", "--output-format=stream-json", "--verbose", settings, *more)
    shown = frames(done.stdout)
    assert (shown[-1]["result"], done.stderr) == ("All read.", b"")
    acted = [frame for frame in shown if frame.get("subtype") in ("compact_boundary", "mainspring_context_edit")]
    return {frame.get("layer", "summary") for frame in acted}


@pytest.mark.covers("O-10")
@pytest.mark.parametrize(
    ("off", "acting"),
    [
        ((), {"microcompact"}),
        (("microcompact", "collapse"), {"snip"}),
        (("microcompact", "snip", "collapse"), {"summary"}),
    ],
)
def test_each_layer_can_be_switched_off(serve: Serve, off: tuple[str, ...], acting: set[str]) -> None:
    """The next one acts instead."""
    stage = serve(choose=read_all)
    assert read_with_features(stage, "--context-window=30000", **dict.fromkeys(off, False)) == acting


@pytest.mark.covers("O-10")
@pytest.mark.parametrize("on", [True, False])
def test_collapse_can_be_switched_off(serve: Serve, on: bool) -> None:
    """The small model writes collapses while tools run: without them it is not asked."""
    stage = serve(choose=read_all)
    read_with_features(stage, "--context-window=30000", microcompact=False, snip=False, collapse=on)
    assert any("haiku" in str(request.body["model"]) for request in stage.requests) is on


@pytest.mark.covers("O-10")
@pytest.mark.parametrize(("on", "layer"), [(True, "summary"), (False, "trim")])
def test_reactive_compaction_can_be_switched_off(serve: Serve, on: bool, layer: str) -> None:
    """The server says that the prompt is too long. With it, the model writes a summary; without, old turns go."""

    def choose(received: ReceivedRequest) -> Reply:
        is_too_long = len(received.talk.results()) == 10 and not is_summary(received)
        return TOO_LONG if is_too_long else read_all(received)

    stage = serve(choose=choose)
    assert read_with_features(stage, reactiveCompact=on) == {layer}
    assert any(is_summary(request) for request in stage.requests) is on


@pytest.mark.covers("I-11")
def test_a_hook_archives_the_transcript_before_a_compaction(serve: Serve) -> None:
    stage = serve(*[Say.of("Many words. " * 800)] * 4, Say.of("## Task\nmend it"))
    copy = "import json, shutil, sys; shutil.copy(json.load(sys.stdin)['transcript_path'], 'archive.jsonl')"
    hook = {"hooks": [{"type": "command", "command": f'python3 -c "{copy}"'}]}
    sandbox = {"enabled": False}  # in there temporary folders are private, and the session of a test lies in one
    stage.home.mkdir()
    (stage.home / "settings.json").write_text(json.dumps({"hooks": {"PreCompact": [hook]}, "sandbox": sandbox}))
    for n in range(4):
        stage.run("-p", f"question {n}", *(["--continue"] if n else []))
    stage.run("-p", "/compact", "--continue")
    archived = (stage.folder / "archive.jsonl").read_text()
    assert all(f"question {n}" in archived for n in range(4))


@pytest.mark.covers("O-06", "D-38")
def test_the_model_is_told_its_rules_the_day_and_the_state_of_the_repository(serve: Serve) -> None:
    """The system text at once, what takes longer with the next request; and nothing of it is ever taken back."""
    look = Say.of("Let me look.", tool_use("Glob", pattern="*"), pace_ms=40)
    stage = serve(look, Say.of("One."), Say.of("Two."))
    made = ["-c", "user.name=a", "-c", "user.email=b", "commit", "-q", "--allow-empty", "-m", "first words"]
    for words in (["init", "-q", "-b", "trunk"], made):
        subprocess.run(["git", *words], cwd=stage.folder, check=True)
    (stage.folder / "new.txt").write_text("x")
    stage.run("-p", "hello")
    stage.run("-p", "and now?", "--continue")
    first, second, third = [request.body for request in stage.requests]
    assert str(stage.folder) in str(first["system"])
    assert "Today is" in str(first["messages"])
    told = str(second["messages"])
    assert all(text in told for text in ("trunk", "?? new.txt", "first words"))
    assert first["system"] == second["system"] == third["system"]
    assert first["tools"] == third["tools"]
    assert len(third["messages"]) > len(second["messages"]) > len(first["messages"])
