"""The log records of a run: ends at INFO, starts at DEBUG, and no content unless it is switched on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from engine.stage import CONFIG

import mainspring
from mainspring.context.attachments import Summary
from mainspring.core.money import Usage
from mainspring.core.reasons import Failure, Trouble
from mainspring.engine.session import EngineSession
from mainspring.providers.base import Retry
from mainspring.providers.scripted import Pause, Scripted, call, fails, says
from mainspring.telemetry import SessionTelemetry
from mainspring.testing import World, virtually
from telemetry.recording import recorded

SUMMARY = Summary(before=900, after=90, usage=Usage(input=10, output=5), cost=7_000)
SECRET = "sk-ant-api03-" + "Zq7" * 20


class Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    @property
    def lines(self) -> list[str]:
        return [f"{one.levelname} {one.name} {one.getMessage()}" for one in self.records]


@pytest.fixture
def log() -> Iterator[Kept]:
    logger, kept = logging.getLogger("mainspring"), Kept()
    before = logger.level
    logger.addHandler(kept)
    yield kept
    logger.removeHandler(kept)
    logger.setLevel(before)


def world() -> World:
    return World([
        says(Retry(Failure(Trouble.OVERLOADED, f"no {SECRET}"), 1, 500, 10), Pause(30), "A thought.",
             call("Read", "call_a", ms=40, text=f"/a/path {SECRET}")),
        fails(Trouble.PROMPT_TOO_LONG, "the detail"),
        says(call("Bash", "call_b", ask="May I?"), call("Edit", "call_c", fails=True, ms=7)),
        says("Done."),
    ], summaries=[SUMMARY], answers=["yes"])  # fmt: skip


def run(world: World) -> None:
    async def main() -> None:
        session = EngineSession(world, CONFIG, telemetry=SessionTelemetry("s1"))
        async with session.run(f"a prompt {SECRET}") as run:
            async for _ in run:
                pass

    virtually(main())
    world.check()


RUN = "session=s1 run=RUN"
MODEL = CONFIG.model.name
USED = "input_tokens=100 output_tokens=20 cache_read_tokens=0 cache_write_tokens=0 cost_usd="
AT_INFO = [
    f"mainspring.request request retry {RUN} turn=1 request=1 attempt=1 delay_ms=500 error=overloaded",
    (
        f"mainspring.request request finished {RUN} turn=1 request=1 model={MODEL} max_tokens=64000 retries=1 "
        f"first_chunk_ms=30 reply=REPLY reply_model={MODEL} stop=tool_use {USED}COST ms=30"
    ),
    f"mainspring.tools tool finished {RUN} turn=1 call=call_a tool=Read ms=40",
    (
        f"mainspring.request request finished {RUN} turn=2 request=2 model={MODEL} max_tokens=64000 input_tokens=0 "
        "output_tokens=0 cache_read_tokens=0 cache_write_tokens=0 cost_usd=0.000000 error=prompt_too_long ms=0"
    ),
    (
        f"mainspring.context compaction finished {RUN} layer=summary before_tokens=900 after_tokens=90 input_tokens=10 "
        "output_tokens=5 cache_read_tokens=0 cache_write_tokens=0 cost_usd=0.000007 trigger=auto ms=0"
    ),
    (
        f"mainspring.request request finished {RUN} turn=2 request=3 model={MODEL} max_tokens=64000 first_chunk_ms=0 "
        f"reply=REPLY reply_model={MODEL} stop=tool_use {USED}COST ms=0"
    ),
    f"mainspring.tools approval finished {RUN} call=call_b tool=Bash ms=0",
    f"mainspring.tools tool finished {RUN} turn=2 call=call_b tool=Bash ms=0",
    f"mainspring.tools tool finished {RUN} turn=2 call=call_c tool=Edit error=tool_error ms=7",
    (
        f"mainspring.request request finished {RUN} turn=3 request=4 model={MODEL} max_tokens=64000 first_chunk_ms=0 "
        f"reply=REPLY reply_model={MODEL} stop=end_turn {USED}COST ms=0"
    ),
    (
        f"mainspring.session run finished {RUN} agent=mainspring model={MODEL} terminal=completed cause=end_turn "
        "turns=3 requests=5 input_tokens=310 output_tokens=65 cache_read_tokens=0 cache_write_tokens=0 cost_usd=COST "
        "stop=end_turn ms=77"
    ),
]
AT_DEBUG = [
    f"mainspring.session run started {RUN} agent=mainspring model={MODEL}",
    f"mainspring.request request started {RUN} turn=1 request=1 model={MODEL} max_tokens=64000",
    f"mainspring.tools tool started {RUN} turn=1 call=call_a tool=Read",
    f"mainspring.request request started {RUN} turn=2 request=2 model={MODEL} max_tokens=64000",
    f"mainspring.context compaction started {RUN} layer=summary",
    f"mainspring.request request started {RUN} turn=2 request=3 model={MODEL} max_tokens=64000",
    f"mainspring.tools tool started {RUN} turn=2 call=call_b tool=Bash",
    f"mainspring.tools approval started {RUN} call=call_b tool=Bash",
    f"mainspring.tools tool started {RUN} turn=2 call=call_c tool=Edit",
    f"mainspring.request request started {RUN} turn=3 request=4 model={MODEL} max_tokens=64000",
]


def masked(log: Kept, level: str) -> list[str]:
    """Ids and prices that the test does not choose are replaced."""
    lines: list[str] = []
    for record in log.records:
        if record.levelname != level:
            continue
        fields: dict[str, Any] = record.__dict__["mainspring"]
        line = f"{record.name} {record.getMessage()}".replace(fields["run"], "RUN")
        if "reply" in fields:
            line = line.replace(fields["reply"], "REPLY")
        if fields.get("cost_usd", 0) > 0.00001:
            line = line.replace(f"{fields['cost_usd']:.6f}", "COST")
        lines.append(line)
    return lines


def test_records_at_info(log: Kept) -> None:
    logging.getLogger("mainspring").setLevel(logging.INFO)
    run(world())
    assert masked(log, "INFO") == AT_INFO
    assert masked(log, "DEBUG") == []


def test_records_at_debug(log: Kept) -> None:
    logging.getLogger("mainspring").setLevel(logging.DEBUG)
    run(world())
    assert masked(log, "INFO") == AT_INFO
    assert masked(log, "DEBUG") == AT_DEBUG


def test_records_hold_no_content(log: Kept) -> None:
    logging.getLogger("mainspring").setLevel(logging.DEBUG)
    run(world())
    everything = repr([vars(record) for record in log.records])
    for planted in (SECRET, "a prompt", "/a/path", "A thought", "May I?", "the detail", "Done."):
        assert planted not in everything


def test_content_is_at_debug_with_secrets_redacted(log: Kept) -> None:
    logging.getLogger("mainspring").setLevel(logging.DEBUG)
    with recorded(content=True):
        run(world())
    at_info = repr([vars(record) for record in log.records if record.levelname == "INFO"])
    everything = repr([vars(record) for record in log.records])
    assert SECRET not in everything
    for planted in ("a prompt", "/a/path", "A thought", "May I?", "Done."):
        assert planted in everything
        assert planted not in at_info


def test_one_logger_alone_can_be_switched_on(log: Kept) -> None:
    logging.getLogger("mainspring").setLevel(logging.WARNING)
    tools = logging.getLogger("mainspring.tools")
    tools.setLevel(logging.INFO)
    try:
        run(world())
    finally:
        tools.setLevel(logging.NOTSET)
    assert {record.name for record in log.records} == {"mainspring.tools"}


def test_open_run_is_logged_too(log: Kept) -> None:
    logging.getLogger("mainspring").setLevel(logging.INFO)

    async def main() -> None:
        async with mainspring.open_run("hi", provider=Scripted([says("Hi.")])) as run:
            async for _ in run:
                pass

    asyncio.run(main())
    assert [record.name for record in log.records] == ["mainspring.request", "mainspring.session"]
