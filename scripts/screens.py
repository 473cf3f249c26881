"""Screens of the terminal as text and as pictures: the real command on a pseudo-terminal, with `mainspring simulate`.

    .venv/bin/python scripts/screens.py                      # writes docs/screens
    .venv/bin/python scripts/screens.py --scene edit --into /tmp/screens
    .venv/bin/python scripts/screens.py --program claude --into /tmp/theirs    # another program, the same replies

Each scene is a prompt, the replies of the model to it, and the words that end the wait. The pictures are drawn by
Chromium from the cells of an emulated terminal; without Chromium only the text is written.
"""

from __future__ import annotations

import argparse
import fcntl
import html
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import zlib
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyte
from pyte.screens import Char

SCREENS = Path(__file__).resolve().parents[1] / "docs" / "screens"
COMMAND = str(Path(sys.executable).parent / "mainspring")
TAKE_IT = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
PATIENCE = 30.0  # seconds
QUIET = 0.7  # seconds without output: the screen is complete
KEY = "sk-ant-screens-key-000000000000"
SIZES = ((120, 36), (80, 24))
THEMES = ("dark", "light")

CALC = '''\
"""A small calculator."""


def add(a, b):
    return a + b


def div(a, b):
    return a / b
'''
TABLE = "".join([f"    {number}: {number * number},\n" for number in range(1, 61)])


class Scene(NamedTuple):
    about: str
    prompt: str
    calls: tuple[dict[str, Any], ...] = ()
    waits: str = ""  # for mainspring; other programs: until the screen is quiet
    refusal: dict[str, Any] | None = None
    arguments: tuple[str, ...] = ()
    submits: bool = True
    keys: tuple[str, ...] = ()  # after the wait, one after the other


def call(name: str, **given: object) -> dict[str, Any]:
    return {"name": name, "input": given}


CHANGE = {
    "old_string": "def div(a, b):\n    return a / b\n",
    "new_string": 'def div(a, b):\n    if b == 0:\n        raise ValueError("division by zero")\n    return a / b\n',
}
PLAN = """# Add a parser

1. Write `parse.py` with a **recursive descent** parser.
2. Call it from `calc.py`:

```python
from parse import parse

def evaluate(text):
    return parse(text).value()
```

3. Add tests for precedence and for errors.

| step | file | risk |
| --- | --- | --- |
| parser | parse.py | none: a new file |
| call | calc.py | small |
"""
QUESTIONS = [
    {
        "question": "Which database should the service use?",
        "header": "Database",
        "multiSelect": False,
        "options": [
            {"label": "PostgreSQL", "description": "A server of its own; what the team knows best"},
            {"label": "SQLite", "description": "One file, no server; enough for a single machine"},
            {"label": "None yet", "description": "Keep everything in memory until there is a reason"},
        ],
    },
    {
        "question": "Which checks should run before each commit?",
        "header": "Checks",
        "multiSelect": True,
        "options": [
            {"label": "Formatter", "description": "ruff format"},
            {"label": "Types", "description": "mypy and pyright"},
            {"label": "Tests", "description": "the quick ones"},
        ],
    },
]
REWOUND = (
    call("Read", file_path="{work}/calc.py"),
    call("Edit", file_path="{work}/calc.py", **CHANGE),
    call("Bash", command="mkdir -p tests && echo 'from calc import div' > tests/test_div.py", description="Add a test"),
)
SCENES = {
    "start": Scene("A first start without a key", "", (), "Which model do you want to use?", None, (), submits=False),
    "edit": Scene(
        "An edit needs approval",
        "make div safe",
        (call("Read", file_path="{work}/calc.py"), call("Edit", file_path="{work}/calc.py", **CHANGE)),
        "Make this edit",
    ),
    "write": Scene(
        "A new file needs approval",
        "write a test",
        (
            call(
                "Write",
                file_path="{work}/tests/test_calc.py",
                content="import pytest\n\nfrom calc import add, div\n\n\ndef test_add():\n    assert add(1, 2) == 3\n\n"
                "\ndef test_div_by_zero():\n    with pytest.raises(ValueError):\n        div(1, 0)\n",
            ),
        ),
        "Write test_calc.py?",
    ),
    "command": Scene(
        "A command needs approval",
        "commit it",
        (
            call(
                "Bash", command='git add calc.py && git commit -m "Check the divisor"', description="Commit the change"
            ),
        ),
        "Run this command?",
    ),
    "plan": Scene(
        "A plan",
        "plan a parser",
        (call("ExitPlanMode", plan=PLAN),),
        "Carry out this plan?",
        None,
        ("--permission-mode", "plan"),
    ),
    "question": Scene(
        "A question of the model", "set it up", (call("AskUserQuestion", questions=QUESTIONS),), "Which database"
    ),
    "board": Scene(
        "The board, with a command in the background",
        "watch the tests",
        (call("Bash", command="echo collecting; sleep 600", description="Run the tests", run_in_background=True),),
        "What you can do next",
        None,
        ("--allowed-tools", "Bash"),
        keys=("\x1b[B",),
    ),
    "transcript": Scene(
        "The transcript (Ctrl-O)",
        "what is in it?",
        (call("Bash", command="cat calc.py", description="Show the file"),),
        "What you can do next",
        None,
        ("--allowed-tools", "Bash"),
        keys=("\x0f",),
    ),
    "trust": Scene("A folder with hooks and servers, at the start", "", (), "Do you trust", None, (), submits=False),
    "palette": Scene("The palette, after `/`", "/", (), "/compact", None, (), submits=False),
    "permissions": Scene("The panel `/permissions`", "/permissions", (), "Denied calls"),
    "config": Scene("The panel `/config`", "/config", (), "limits.maxTurns"),
    "mcp": Scene("The panel `/mcp`", "/mcp", (), "✓ notes"),
    "model": Scene("The panel `/model`", "/model", (), "More models"),
    "failure": Scene(
        "Failures: a command, a hook, the server",
        "run the checks",
        (
            call("Bash", command="cat missing.txt; false", description="Look at a file"),
            call("Edit", file_path="{work}/calc.py", old_string="def mul(", new_string="def times("),
        ),
        "too long",
        {
            "reply": "refuse",
            "status": 400,
            "type": "invalid_request_error",
            "message": "prompt is too long: 213462 tokens > 200000 maximum",
        },
    ),
    "long_diff": Scene(
        "A change that is longer than the screen",
        "add a table of squares",
        (
            call("Read", file_path="{work}/calc.py"),
            call(
                "Edit",
                file_path="{work}/calc.py",
                old_string="def add(a, b):\n",
                new_string="SQUARES = {\n" + TABLE + "}\n\n\ndef add(a, b):\n",
            ),
        ),
        "Make this edit",
    ),
    "rewind": Scene(
        "Rewind: which prompt",
        "guard the division and test it",
        REWOUND,
        "What you can do next",
        None,
        ("--allowedTools", "Edit,Bash"),
        keys=("\x1b\x1b",),
    ),
    "rewind_files": Scene(
        "Rewind: what changes back",
        "guard the division, then test it",
        REWOUND,
        "What you can do next",
        None,
        ("--allowedTools", "Edit,Bash"),
        keys=("\x1b\x1b", "\r"),
    ),
    "answer": Scene("An answer, and the prompt below it", "say something nice", (), "What you can do next"),
}
ANSWER = """Here is **what changed** in `calc.py`:

- `div` raises `ValueError` for a zero divisor
- a test covers it

| function | before | after |
| --- | --- | ---: |
| `add` | 1 | 1 |
| `div` | 1 | 3 |

```python
def div(a, b):
    if b == 0:
        raise ValueError("division by zero")
    return a / b
```

### What you can do next

Run `pytest -q`.
"""


# --- the model --------------------------------------------------------------------------------------------------------


def script_replies(work: Path) -> list[dict[str, Any]]:
    """For `mainspring simulate --script`: one call after the other, then an answer or an error."""
    scripts: list[dict[str, Any]] = []
    for scene in SCENES.values():
        if not scene.submits:
            continue
        replies: list[dict[str, Any]] = []
        for number, one in enumerate(scene.calls):
            given = json.loads(json.dumps(one["input"]).replace("{work}", str(work)))
            block = {"type": "tool_use", "id": f"toolu_{number}", "name": one["name"], "input": given}
            replies.append({"reply": "say", "blocks": [block]})
        replies += [scene.refusal] * 8 if scene.refusal else []
        replies.append({"reply": "say", "blocks": [{"type": "text", "text": ANSWER}]})
        scripts.append({"prompt": scene.prompt, "replies": replies})
    return scripts


@contextmanager
def simulate(work: Path, folder: Path) -> Generator[str]:
    file = folder / "replies.json"
    file.write_text(json.dumps(script_replies(work)), encoding="utf-8")
    server = subprocess.Popen([COMMAND, "simulate", "--script", str(file)], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        yield server.stdout.readline().strip()
    finally:
        server.terminate()
        server.wait()


# --- the terminal -----------------------------------------------------------------------------------------------------


class EmulatedScreen(pyte.Screen):
    """pyte has no dim text: it is stored as blinking text, which we never write. And it has no alternate screen: a
    scene ends in it, so the normal one need not be kept."""

    def set_mode(self, *modes: int, **more: bool) -> None:
        super().set_mode(*modes, **more)
        if 1049 in modes:
            self.erase_in_display(2)

    def select_graphic_rendition(self, *attributes: int, private: bool = False) -> None:  # noqa: ARG002  # as pyte has it
        changed, rest = list[int](), list(attributes)
        while rest:
            one = rest.pop(0)
            changed.append(5 if one == 2 else one)
            if one in (38, 48) and rest:
                count = 4 if rest[0] == 2 else 2
                changed += rest[:count]
                rest = rest[count:]
            elif one == 22:
                changed.append(25)
        super().select_graphic_rendition(*changed)


class EmulatedTerminal:
    def __init__(self, command: Sequence[str], env: dict[str, str], cwd: Path, columns: int, rows: int) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.screen = EmulatedScreen(columns, rows)
        self._stream = pyte.ByteStream(self.screen)
        self.process = subprocess.Popen(
            [sys.executable, "-ISBc", TAKE_IT, *command],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=cwd,
            env=env,
            start_new_session=True,
        )
        os.close(theirs)

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.screen.display]

    def wait(self, words: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not any(words in line for line in self.lines):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{words!r} did not appear:\n" + "\n".join(self.lines))
            self._read(0.5)

    def rest(self, seconds: float = QUIET) -> None:
        """Until the screen has not changed for so long; a clock on it may tick."""
        deadline = time.monotonic() + 3 * seconds
        changed, shown = time.monotonic(), self.lines
        while time.monotonic() < min(deadline, changed + seconds):
            self._read(0.1)
            if self.lines != shown:
                changed, shown = time.monotonic(), self.lines

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def _read(self, seconds: float) -> bool:
        if not select.select([self._ours], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self._ours, 65_536)
        except OSError:
            return False
        # sequences that pyte would print
        data = re.sub(rb"\x1b\[[<>=][0-9;]*[a-z]", b"", data)
        self._stream.feed(data)
        return True

    def close(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        os.close(self._ours)


def prepare(folder: Path, scene: str, theme: str) -> Path:
    """A home and a project. Questions for new users of Claude Code are answered in advance."""
    work, home = folder / "proj", folder / ".mainspring"
    shutil.rmtree(work, ignore_errors=True)
    for place in (work, home, folder / ".claude"):
        place.mkdir(exist_ok=True)
    (home / "settings.toml").write_text(f'theme = "{theme}"\nautoMemoryEnabled = false\n', encoding="utf-8")
    (work / "calc.py").write_text(CALC, encoding="utf-8")
    git = ["git", "-c", "user.name=me", "-c", "user.email=me@example.com", "-C", str(work)]
    subprocess.run([*git, "init", "-q", "-b", "main"], check=True)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "Begin"], check=True)
    known: dict[str, Any] = {"hasCompletedOnboarding": True, "theme": theme, "bypassPermissionsModeAccepted": True}
    known |= {"customApiKeyResponses": {"approved": [KEY[-20:]], "rejected": []}}
    trusts = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
    known |= {"projects": {str(work): trusts} if scene != "trust" else {}}
    for place in (folder / ".claude" / ".claude.json", folder / ".claude.json"):
        place.write_text(json.dumps(known), encoding="utf-8")
    if scene in ("trust", "palette"):
        settings = work / ".claude"
        (settings / "commands").mkdir(parents=True)
        (settings / "commands" / "review.md").write_text("---\ndescription: review the changes\n---\nReview.\n")
        if scene == "trust":
            hook = {"hooks": [{"type": "command", "command": "make lint"}]}
            told = {"hooks": {"PostToolUse": [hook]}, "permissions": {"allow": ["Bash(make:*)"]}}
            (settings / "settings.json").write_text(json.dumps(told))
            servers = {
                "database": {"command": "uvx", "args": ["postgres-mcp", "--read-only"]},
                "tickets": {"type": "http", "url": "https://tickets.example.com/mcp"},
            }
            (work / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
    if scene in PANELS:
        prepare_panels(folder, work)
    if scene == "palette" or scene in PANELS:
        subprocess.run([COMMAND, "trust"], cwd=work, env=environment(folder, ""), check=True, capture_output=True)
    return work


PANELS = ("permissions", "config", "mcp", "model")


def prepare_panels(folder: Path, work: Path) -> None:
    """Settings of the user and of the project, and two servers, one of which does not start."""
    rules: dict[str, Any] = {"allow": ["Bash(make test)", "Read(~/notes/**)"], "ask": ["Bash(git push:*)"]}
    (work / ".claude").mkdir()
    (work / ".claude" / "settings.json").write_text(json.dumps({"permissions": rules, "limits": {"maxTurns": 40}}))
    mine = {"allow": ["WebFetch(domain:docs.python.org)"], "deny": ["Bash(curl:*)", "Read(.env)"]}
    (folder / ".mainspring" / "settings.json").write_text(json.dumps({"permissions": mine, "effortLevel": "high"}))
    server = folder / "notes-server"
    library = SCREENS.parents[1] / "tests" / "mcp_servers" / "library.py"
    server.write_text(f"#!/bin/sh\nexec '{sys.executable}' '{library}' \"$@\"\n")
    server.chmod(0o755)
    servers = {"notes": {"command": str(server)}, "database": {"command": "postgres-mcp", "args": ["--read-only"]}}
    (work / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))


def environment(folder: Path, url: str) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
        "LANG": "C.UTF-8",
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": KEY,
        "IS_SANDBOX": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }


def show_scene(name: str, program: str, place: tuple[Path, str], theme: str, size: tuple[int, int]) -> EmulatedScreen:
    """`place`: the home folder, and the address of the model."""
    folder, url = place
    scene, ours = SCENES[name], Path(program).name == "mainspring"
    work = prepare(folder, name, theme)
    command = [
        program,
        *scene.arguments,
        *(() if ours else ("--model", "claude-sonnet-5-5", "--permission-mode", "default")),
    ]
    env = environment(folder, url)
    if name == "start":  # as on a machine with a local server and nothing else
        env = {key: value for key, value in env.items() if not key.startswith("ANTHROPIC_")} | {"OLLAMA_BASE_URL": url}
    terminal = EmulatedTerminal(command, env, work, *size)
    try:
        if name not in ("start", "trust"):
            terminal.wait("❯")
            if ours:
                terminal.wait("? for shortcuts" if "plan" not in scene.arguments else "plan mode")
            terminal.rest()
        if scene.prompt:
            terminal.type(scene.prompt)
            terminal.rest()
        if scene.submits:
            terminal.type("\r")
        if ours:
            terminal.wait(scene.waits)
        terminal.rest(QUIET if ours else 3 * QUIET)
        for keys in scene.keys:
            terminal.type(keys)
            terminal.rest()
        return terminal.screen
    finally:
        terminal.close()


# --- pictures ---------------------------------------------------------------------------------------------------------

PALETTES = {  # text, background, and the sixteen colours as terminals usually have them
    "dark": ("#d4d4d4", "#16181d"),
    "light": ("#24292f", "#ffffff"),
}
# fmt: off
SIXTEEN = {
    "dark": {
        "black": "#3b4048", "red": "#e06c75", "green": "#98c379", "brown": "#e5c07b", "blue": "#61afef",
        "magenta": "#c678dd", "cyan": "#56b6c2", "white": "#d4d4d4",
    },
    "light": {
        "black": "#24292f", "red": "#cf222e", "green": "#116329", "brown": "#7d4e00", "blue": "#0969da",
        "magenta": "#8250df", "cyan": "#1b7c83", "white": "#6e7781",
    },
}
# fmt: on


def draw_html(screen: EmulatedScreen, theme: str) -> str:
    text, paper = PALETTES[theme]
    rows: list[str] = []
    for row in range(screen.lines):
        line, at = screen.buffer[row], 0
        spans: list[str] = []
        while at < screen.columns:
            cell, begin = line[at], at
            while at < screen.columns and line[at]._replace(data="") == cell._replace(data=""):
                at += 1
            words = "".join([line[column].data for column in range(begin, at)])
            spans.append(f'<span style="{style_of(cell, theme)}">{html.escape(words.replace("⎿", "└"))}</span>')
        rows.append("".join(spans))
    font = "font: 14px/17px 'DejaVu Sans Mono', monospace; white-space: pre; margin: 0; padding: 8px"
    body = "\n".join(rows)
    rules = "<style>span { display: inline-block; height: 17px }</style>"
    return f'<meta charset="utf-8">{rules}<body style="background: {paper}; color: {text}; {font}">{body}</body>'


def style_of(cell: Char, theme: str) -> str:
    text, paper = PALETTES[theme]
    front, back = colour(cell.fg, theme, text), colour(cell.bg, theme, paper)
    if cell.reverse:
        front, back = back, front
    parts = [f"color: {front}"] if front != text else []
    parts += [f"background: {back}"] if back != paper else []
    parts += ["font-weight: bold"] if cell.bold else []
    parts += ["font-style: italic"] if cell.italics else []
    parts += ["opacity: 0.6"] if cell.blink and back == paper else []
    lines = [word for word, is_on in (("underline", cell.underscore), ("line-through", cell.strikethrough)) if is_on]
    return "; ".join([*parts, *([f"text-decoration: {' '.join(lines)}"] if lines else [])])


def colour(name: str, theme: str, default: str) -> str:
    if name == "default":
        return default
    return SIXTEEN[theme].get(name.removeprefix("bright")) or f"#{name}"


def take_picture(page: str, file: Path, size: tuple[int, int]) -> None:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        return
    width, height = 16 + round(size[0] * 8.43), 16 + size[1] * 17
    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / "screen.html"
        source.write_text(page, encoding="utf-8")
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={name}/profile"]
        subprocess.run(
            [chromium, *flags, f"--window-size={width},{height}", f"--screenshot={file}", f"file://{source}"],
            check=True,
            capture_output=True,
            timeout=60,
        )
    shrink_picture(file)


def shrink_picture(file: Path) -> None:
    """With a palette of at most 256 colours: a third of the size. Chromium writes 8 bits for each of 3 channels."""
    data, at, packed, size = file.read_bytes(), 8, b"", (0, 0)
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        body = data[at + 8 : at + 8 + length]
        at += 12 + length
        if kind == b"IHDR":
            size = struct.unpack(">II", body[:8])
            if body[8:10] != b"\x08\x02":
                return
        packed += body if kind == b"IDAT" else b""
    palette: dict[bytes, int] = {}
    rows = bytearray()
    for row in unfilter(zlib.decompress(packed), size[0] * 3):
        rows.append(0)
        for pixel in range(0, len(row), 3):
            colour = bytes([channel & 0xF0 | channel >> 4 for channel in row[pixel : pixel + 3]])
            rows.append(palette.setdefault(colour, len(palette)) if len(palette) < 256 else palette.get(colour, 0))
    head = struct.pack(">IIBBBBB", *size, 8, 3, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"PLTE", b"".join(palette)), (b"IDAT", zlib.compress(bytes(rows), 9)), (b"IEND", b""))
    file.write_bytes(data[:8] + b"".join([pack_chunk(kind, body) for kind, body in chunks]))


def pack_chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def unfilter(data: bytes, width: int) -> Iterator[bytes]:
    """The rows of a PNG of three bytes per pixel."""
    above = bytes(width)
    for begin in range(0, len(data), width + 1):
        kind, row = data[begin], bytearray(data[begin + 1 : begin + 1 + width])
        for at in range(width):
            left, up, corner = (row[at - 3], above[at], above[at - 3]) if at >= 3 else (0, above[at], 0)
            row[at] = (row[at] + (0, left, up, (left + up) // 2, nearest(left, up, corner))[kind]) & 0xFF
        above = bytes(row)
        yield above


def nearest(left: int, up: int, corner: int) -> int:
    """Paeth's predictor, as PNG defines it."""
    return min((left, up, corner), key=lambda one: abs(left + up - corner - one))


# --- the files --------------------------------------------------------------------------------------------------------


def write_screens(names: Sequence[str], program: str, into: Path, themes: Sequence[str], *, pictures: bool) -> None:
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with simulate(folder / "proj", folder) as url:
            for scene in names:
                for size in SIZES:
                    for theme in themes if size == SIZES[0] else themes[:1]:
                        screen = show_scene(scene, program, (folder, url), theme, size)
                        if theme == themes[0]:
                            text = "\n".join([line.rstrip() for line in screen.display]).strip("\n") + "\n"
                            text = text.replace(str(folder), "~")
                            (into / f"{scene}-{size[0]}x{size[1]}.txt").write_text(text, encoding="utf-8")
                        if pictures and size == SIZES[0]:
                            take_picture(draw_html(screen, theme), into / f"{scene}-{theme}.png", size)
                        print(scene, theme, *size, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scene", action="append", choices=list(SCENES), help="one scene (repeat for more)")
    parser.add_argument("--program", default=COMMAND, help="the program to show")
    parser.add_argument("--into", type=Path, default=SCREENS, help="the folder to write to")
    parser.add_argument("--no-pictures", action="store_true", help="write only the text")
    told = parser.parse_args()
    write_screens(told.scene or list(SCENES), told.program, told.into, THEMES, pictures=not told.no_pictures)


if __name__ == "__main__":
    main()
