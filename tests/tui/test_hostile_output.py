"""In a real terminal: nothing that models, tools, files, hooks and titles say controls it."""

from __future__ import annotations

import json
import re

from cli.stage import Serve, Stage

from mainspring.simulator.replies import Say
from tui.person import ESCAPE, Person, SitAt
from tui.test_terminal import tool_use

# The clipboard, a link, a title, a device's answer, a cleared screen, another font, C1 in both spellings.
MARK = "Zq9"
EVIL = (
    f"\x1b]52;c;{MARK}\x07\x1b]8;;http://{MARK}\x1b\\\x1b]0;{MARK}\x07\x1b[6n\x1b[2J\x1b[8;{MARK}\x1bP{MARK}\x1b\\"
    f"\x1b_{MARK}\x1b\\\x9d52;c;{MARK}\x9c\x9b2J\u202e\x7f\x08\x0e"
)
# What nobody of ours writes, whatever stands in it. Our own is checked by what it may hold: nothing of MARK.
FOREIGN = re.compile(rb"\x1b\]52|\x1b\]8;;http|\x1b\[6n\x1b|\x1b\[8;Z|\x1bP|\x1b_|\x1b\^|\xc2[\x80-\x9f]|\x7f|\x0e")
SEQUENCE = re.compile(rb"\x1b\][^\x07\x1b]*|\x1b\[[0-?]*[ -/]*[@-~]")


def check(person: Person, why: str) -> None:
    found = FOREIGN.search(person.raw)
    assert found is None, f"{why}: {person.raw[max(0, found.start() - 80) : found.end() + 80]!r}"
    own = [one for one in SEQUENCE.findall(person.raw) if MARK.encode() in one]
    assert own == [], why
    assert "\u202e".encode() not in person.raw, why


def plant(stage: Stage) -> None:
    """Hooks that say it, a server that is named so, and a file."""
    stage.home.mkdir(parents=True, exist_ok=True)
    evil = json.dumps(EVIL)
    (stage.folder / "say.py").write_text(f"print({evil}); import sys; print({evil}, file=sys.stderr); sys.exit(1)\n")
    hook = [{"hooks": [{"type": "command", "command": f"python3 {stage.folder}/say.py"}]}]
    events = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop")
    settings = {"hooks": dict.fromkeys(events, hook), "autoMemoryEnabled": False}
    (stage.home / "settings.json").write_text(json.dumps(settings))
    servers = {"mcpServers": {f"bad{EVIL}": {"command": "false", "args": [EVIL]}}}
    (stage.folder.parent / "servers.json").write_text(json.dumps(servers))
    name = f"file{EVIL.replace('/', '_')}"[:200]
    (stage.folder / name).write_text(f"content {EVIL}\n")
    (stage.folder / "plain.txt").write_text(f"content {EVIL}\n")


def test_a_session_full_of_them(serve: Serve, sit_at: SitAt) -> None:
    calls = [
        tool_use("Bash", "toolu_1", command="cat plain.txt; ls; cat plain.txt >&2"),
        tool_use("Read", "toolu_2", file_path="plain.txt"),
        tool_use("Grep", "toolu_3", pattern="content", output_mode="content"),
        tool_use("Glob", "toolu_4", pattern="*"),
        tool_use("Read", "toolu_5", file_path=f"missing{EVIL}"),
        tool_use(f"Unknown{EVIL}", "toolu_6", x=EVIL),
        tool_use("TodoWrite", "toolu_7", todos=[{"content": EVIL, "status": "pending", "activeForm": EVIL}]),
    ]
    edit = tool_use("Edit", "toolu_8", file_path="plain.txt", old_string=f"content {EVIL}", new_string=f"new {EVIL}")
    asked = tool_use("Bash", "toolu_9", command=f"touch 'x{EVIL}'", description=f"does {EVIL}")
    stage = serve(
        Say.of(f"I say {EVIL}", *calls), Say.of(edit), Say.of(asked), *[Say.of(f"```py\n{EVIL}\n```\nDone{EVIL}.")] * 9
    )
    plant(stage)
    servers = ("--mcp-config", str(stage.folder.parent / "servers.json"), "--permission-mode", "default")
    person = sit_at(stage, *servers, rows=60, columns=160)  # all of a question is seen
    person.say("begin with it")
    person.see("Edit(plain.txt)", "1. Yes")
    person.type(ESCAPE)
    person.see("2 turns")
    person.say("go on")
    person.see("touch 'x", "1. Yes")
    person.type(ESCAPE)
    person.see("1 turn")
    person.say("and now")
    person.see("Done")
    check(person, "tools")
    person.say("/mcp")
    person.see("bad")
    check(person, "/mcp")


def name_of(sort: str) -> str:
    """A name of a file that begins plainly, and holds as much of it as a name can."""
    return f"{sort}{EVIL.replace('/', '_')}"[:120]


def hostile_sessions(stage: Stage) -> None:
    """One that is named by its first prompt, one by a client, one by a model."""
    for title in ("", "custom-title", "ai-title"):
        known = set(stage.sessions())
        assert stage.run("-p", f"prompted {EVIL}").returncode == 0
        (file,) = set(stage.sessions()) - known
        if title:
            field = "customTitle" if title == "custom-title" else "aiTitle"
            with file.open("a") as end:
                line = {"type": title, field: f"{title} {EVIL}", "sessionId": file.stem}
                end.write(json.dumps(line, separators=(",", ":")) + "\n")


def test_titles_of_sessions(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(*[Say.of("Fine.")] * 9)
    hostile_sessions(stage)
    person = sit_at(stage, rows=40, columns=160)
    person.see("? for shortcuts")
    person.type("/resume ")
    person.see("prompted", "custom-title")
    check(person, "completion of /resume")
    person.type("\x15")
    person.say("/resume")
    person.see("Resume a session", "prompted", "custom-title")
    check(person, "/resume")
    person.type("custom")
    one = "1 turn"  # of each row; the preview below may show the prompt of the other session, too
    person.until(lambda: sum(one in line for line in person.screen) == 1, "the filter leaves one row")
    person.answer("\r", "Resume a session")
    person.see("Fine.")
    check(person, "a resumed session")
    person.say("/status")
    person.see("Session")
    check(person, "/status")


def test_names_of_files_that_are_completed(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(Say.of("Fine."), Say.of("Fine."))
    (stage.folder / name_of("folder")).mkdir()
    (stage.folder / name_of("folder") / name_of("inner")).write_text("x")
    (stage.folder / "plain").mkdir()
    for place in (stage.folder, stage.folder / "plain"):
        (place / name_of("hostile")).write_text("x")
        (place / "hostess.txt").write_text("x")
    person = sit_at(stage, rows=40, columns=160)
    person.see("? for shortcuts")
    for typed, seen in {
        "@host": "hostess.txt",
        "@./host": "hostess.txt",
        "@plain/": "hostess.txt",
        "@fold": "@fold",
        "!cat plain/": "!cat plain/",  # Tab alone completes there
    }.items():
        person.type(typed)
        person.see(seen)
        person.type("\t")
        check(person, typed)
        person.type("\x15")
        person.see_no(typed)
        person.type("\x15")
    person.say("@plain/hostess.txt please")
    person.see("Fine.")
    check(person, "a mention")


def test_names_of_skills_and_commands_that_are_completed(serve: Serve, sit_at: SitAt) -> None:
    """Completion reads them in a thread: what is wrong with one is told from there, and the others are offered."""
    stage = serve(Say.of("Fine."))
    bad, about = json.dumps(EVIL), json.dumps(f"about {EVIL}")
    for file, name in {
        f"commands/{name_of('word')}.md": bad,
        f"skills/{name_of('skilled')}/SKILL.md": bad,
        "commands/wordy.md": "wordy",
        "skills/skillful/SKILL.md": "skillful",
    }.items():
        path = stage.home / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"---\nname: {name}\ndescription: {about}\n---\nDo {EVIL}.\n")
    person = sit_at(stage, rows=40, columns=160)
    person.see("? for shortcuts")
    for typed, seen in {"/word": "wordy", "/skill": "skillful"}.items():
        person.type(typed)
        person.see(seen, "about")
        check(person, typed)
        person.type("\x15")
        person.see_no(f"❯ {typed}")
    person.see("is left out: its name")
    assert "Background work failed" not in person.text
