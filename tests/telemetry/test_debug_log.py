"""The debug log of a process: categories, redaction, rights and size."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainspring.telemetry.debug_log import (
    CATEGORIES,
    MOST_FILES,
    DebugLog,
    new_log_file,
    parse_categories,
    start_debug_log,
)

KEY = "sk-ant-api03-" + "a" * 40


@pytest.fixture(autouse=True)
def loggers() -> Iterator[None]:
    yield
    for name in CATEGORIES.values():
        logger = logging.getLogger(name)
        logger.setLevel(logging.NOTSET)
        logger.propagate = True
        for handler in list(logger.handlers):
            logger.removeHandler(handler)
            handler.close()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("api", ("api",)),
        ("tools, api", ("api", "tools")),
        ("!api,!mcp", ("tools", "hooks", "permissions", "context", "session")),
        ("api,network", None),
        ("fix the bug", None),
        ("", None),
    ],
)
def test_which_categories(text: str, found: tuple[str, ...] | None) -> None:
    assert parse_categories(text) == found


def test_only_the_categories_asked_for_and_no_secrets(tmp_path: Path) -> None:
    path = tmp_path / "debug.log"
    assert start_debug_log(("api",), path=str(path)) == str(path)
    logging.getLogger("mainspring.request").debug("sent with %s\nin two\x1b[31m lines", KEY)
    logging.getLogger("mainspring.tools").debug("not asked for")
    [line] = path.read_text().splitlines()
    assert " api sent with " in line
    assert "in two" in line
    assert KEY not in line
    assert "\x1b" not in line
    assert path.stat().st_mode & 0o777 == 0o600


def test_its_size_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "debug.log"
    log = DebugLog(str(path), most=1_000)
    for number in range(200):
        log.handle(logging.LogRecord("mainspring.tools", logging.DEBUG, "", 0, "line %s", (number,), None))
    log.close()
    assert sorted([one.name for one in tmp_path.iterdir()]) == ["debug.log", "debug.log.1"]
    assert all(one.stat().st_size <= 1_000 and one.stat().st_mode & 0o777 == 0o600 for one in tmp_path.iterdir())
    assert path.read_text().endswith("line 199\n")


def test_the_number_of_logs_is_bounded(tmp_path: Path) -> None:
    folder = tmp_path / "debug"
    folder.mkdir()
    for number in range(MOST_FILES + 5):
        (folder / f"20260101-0000{number:02}-1.log").touch()
    (folder / "20260101-000000-1.log.1").touch()
    Path(new_log_file(str(folder))).touch()
    assert len(list(folder.iterdir())) == MOST_FILES
    assert not (folder / "20260101-000000-1.log.1").exists()
