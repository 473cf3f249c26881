"""The documentation site: it builds without a warning, loads nothing from elsewhere, and its search finds pages."""

from __future__ import annotations

import functools
import http.server
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from time import monotonic

import commands_page
import pytest
from programs import MUST_BE_THERE, need
from viewer.chromium import PATIENCE, Chromium, Tab

ROOT = Path(__file__).parents[2]
MKDOCS = ROOT / ".venv-site/bin/mkdocs"
LOADED = {"script": "src", "img": "src", "iframe": "src", "link": "href"}


def test_the_page_of_subcommands_is_up_to_date() -> None:
    assert commands_page.PAGE.read_text("utf-8") == commands_page.build(), "run `make docs`"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not MKDOCS.exists():
        (pytest.fail if os.environ.get(MUST_BE_THERE) else pytest.skip)("needs '.venv-site': make site")
    folder = tmp_path_factory.mktemp("site")
    command = [str(MKDOCS), "build", "--strict", "-d", str(folder)]  # with -q, warnings would not count
    ended = subprocess.run(
        command, cwd=ROOT, env={"NO_MKDOCS_2_WARNING": "1", "PATH": f"{MKDOCS.parent}:/usr/bin:/bin"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return folder


class Loads(HTMLParser):
    """What a page loads when it is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if address := given.get(LOADED.get(tag, "")):
            self.addresses.append(address)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 60
    for page in pages:
        loads = Loads()
        loads.feed(page.read_text("utf-8"))
        assert [one for one in loads.addresses if re.match(r"(https?:)?//", one)] == [], page


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_page_reads_without_javascript(site: Path) -> None:
    page = (site / "tutorial/own-tool.html").read_text("utf-8")
    text = re.sub(r"<script.*?</script>|<[^>]+>", "", page, flags=re.DOTALL)
    assert "A tool is a function with type hints and a docstring." in text


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_page_links_to_the_decisions_behind_it(site: Path) -> None:
    page = (site / "sessions.html").read_text("utf-8")
    targets = re.findall(r'href="(decisions/[^"]+)"', page)
    assert targets
    assert [target for target in targets if not (site / target).exists()] == []


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.long
@pytest.mark.timeout(300)
def test_search_finds_a_page_and_nothing_is_asked_of_others(address: str) -> None:
    need("chromium")
    with Chromium() as browser, browser.tab() as tab:
        tab.call("Page.navigate", url=f"{address}/index.html?q=reserved")
        found = tab.until("document.querySelector('.md-search-result__link')?.href")
        assert found.startswith(address)
        assert [asked for asked in tab.requests if not asked.startswith((address, "data:", "blob:"))] == []
        assert tab.complaints == []


def open_without_scripts(tab: Tab, address: str, path: str) -> None:
    """`Tab.until` needs timers of the page, which are off."""
    tab.call("Page.navigate", url=address + path)
    until = monotonic() + PATIENCE
    while tab.get("location.pathname + document.readyState") != f"{path}complete":
        assert monotonic() < until, path


@pytest.mark.long
@pytest.mark.timeout(300)
def test_every_page_fits_a_narrow_screen_without_javascript(site: Path, address: str) -> None:
    need("chromium")
    paths = [
        "/" + page.relative_to(site).as_posix() for page in sorted(site.rglob("*.html")) if page.name != "404.html"
    ]
    with Chromium() as browser, browser.tab() as tab:
        tab.look_like(400, 800)
        tab.call("Emulation.setScriptExecutionDisabled", value=True)
        for path in paths:
            open_without_scripts(tab, address, path)
            assert tab.get("document.documentElement.scrollWidth") == 400, path
            assert len(tab.get("document.querySelector('article').innerText")) > 100, path
