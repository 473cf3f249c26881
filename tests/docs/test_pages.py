"""Every code block of the pages runs, as a reader would run it (pages.py says how), and settings on them are valid."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tiers import long

from docs.pages import DOCS, SHOWN, CodeBlock, find_blocks, find_pages
from mainspring.settings.keys import KEYS
from mainspring.settings.load import load_settings
from mainspring.simulator.scripts import play_page
from mainspring.testing.plugin import LiveServer, model_server

__all__ = ["model_server"]

MUST_HAVE_CODE = ("tutorial", "guides")
MOST_NOT_RUN = 30  # of all blocks; each says why


NOT_KEPT = ("ANTHROPIC_", "OPENAI_", "MAINSPRING_", "CLAUDE_", "XDG_")


def is_quick(page: Path) -> bool:
    return page.parent.name == "tutorial" or "```sh" not in page.read_text("utf-8")


PAGES = [
    page if is_quick(page) else long(page)
    for page in find_pages()
    if page.parent.name in MUST_HAVE_CODE or find_blocks(page.read_text("utf-8"))
]


def run_block(block: CodeBlock, folder: Path, environment: dict[str, str]) -> None:
    if block.title:
        file = folder / block.title.replace("~", environment["HOME"])
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(block.code, "utf-8")
        return
    command = [sys.executable, "-c", block.code] if block.language == "python" else ["bash", "-euc", block.code]
    ended = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    # A callback that raises denies a call and is logged; here it is a mistake of the page.
    assert (ended.returncode, "Traceback" in ended.stderr) == (0, False), (
        f"{block.code}\n{ended.stdout}\n{ended.stderr}"
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}/{page.stem}")
def test_the_blocks_of_a_page_run(page: Path, model_server: LiveServer, tmp_path: Path) -> None:
    text = page.read_text("utf-8")
    model_server.rule(play_page(page))
    kept = {name: value for name, value in os.environ.items() if not name.startswith(NOT_KEPT)}
    work = tmp_path / "work"
    work.mkdir()
    environment = {
        **kept,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "ANTHROPIC_API_KEY": "k",
        "ANTHROPIC_BASE_URL": model_server.url,
        "IS_SANDBOX": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    blocks = find_blocks(text)
    assert blocks, "a page without code shows nothing"
    for block in blocks:
        if not block.why:
            run_block(block, work, environment)


def test_few_blocks_do_not_run_and_each_says_why() -> None:
    blocks = [block for page in find_pages() for block in find_blocks(page.read_text("utf-8"))]
    not_run = [block for block in blocks if block.why]
    assert len(not_run) <= MOST_NOT_RUN
    assert len(not_run) * 3 <= len(blocks)


def test_every_code_block_is_found() -> None:
    """A block that is marked in another way would not run unnoticed."""
    for page in find_pages():
        text = page.read_text("utf-8")
        fences = len(re.findall(rf"^ *```(?:python|sh\b|bash|(?:{'|'.join(SHOWN)}) title)", text, re.MULTILINE))
        assert fences == len(find_blocks(text)), page.relative_to(DOCS)


def test_every_fence_names_its_language_and_every_link_its_subject() -> None:
    """A block without a language would not run unnoticed; a reader is not told the name of a file."""
    for page in find_pages():
        text = page.read_text("utf-8")
        fences = re.findall(r"^ *```(.*)$", text, re.MULTILINE)
        assert [opening for opening in fences[::2] if not opening] == [], page.relative_to(DOCS)
        outside = re.sub(r"^ *```.*?^ *```$|<!--.*?-->", "", text, flags=re.DOTALL | re.MULTILINE)
        assert re.findall(r"\[[a-z/-]+\.md\]\(", outside) == [], page.relative_to(DOCS)
        assert re.findall(r"\n\n {4}(?:\$ )?mainspring .*", outside) == [], page.relative_to(DOCS)


# --- settings that pages show ---------------------------------------------------------------------

SETTINGS_BLOCK = re.compile(r"^```(json|toml)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
TOP = {key.name.split(".")[0] for key in KEYS} | {"models", "hooks", "mcpServers", "permissions"}
NOT_A_FILE = (DOCS / "spec", DOCS / "decisions")


def settings_blocks() -> list[Any]:
    found: list[Any] = []
    for page in sorted(DOCS.rglob("*.md")):
        if page.is_relative_to(NOT_A_FILE[0]) or page.is_relative_to(NOT_A_FILE[1]):
            continue
        for number, (language, text) in enumerate(SETTINGS_BLOCK.findall(page.read_text("utf-8"))):
            if language == "toml" or is_settings(text):
                found.append(pytest.param(language, text, id=f"{page.stem}-{number}"))
    return found


def is_settings(text: str) -> bool:
    try:
        value = json.loads(text)
    except ValueError:
        return False  # several lines of JSON
    return isinstance(value, dict) and bool(value) and set(value) <= TOP


@pytest.mark.parametrize(("language", "text"), settings_blocks())
def test_settings_of_a_page_are_valid(language: str, text: str, tmp_path: Path) -> None:
    name = "config.toml" if language == "toml" else "settings.json"
    (tmp_path / "home").mkdir(mode=0o700)
    (tmp_path / "home" / name).write_text(text, "utf-8")
    environment = {"HOME": str(tmp_path), "MAINSPRING_HOME": str(tmp_path / "home")}
    assert [str(problem) for problem in load_settings(str(tmp_path), environment, administrator=()).problems] == []


def test_settings_are_found() -> None:
    assert len(settings_blocks()) >= 10
