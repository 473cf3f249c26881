"""Spans and metrics of runs, as the exporter of the OpenTelemetry SDK gets them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agent.stage import Stage, play, read_until_idle
from engine.stage import CONFIG
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.trace import StatusCode

import mainspring
from mainspring.agent.options import StartError
from mainspring.context.attachments import Summary
from mainspring.core.money import Usage
from mainspring.core.reasons import Failure, Trouble
from mainspring.core.updates import CallStarted, Delta, Result
from mainspring.engine.session import EngineSession
from mainspring.providers.base import Retry
from mainspring.providers.scripted import Pause, ScriptedReply, call, fails, says
from mainspring.sdk import Client, Options
from mainspring.sessions.records import MemoryJournal
from mainspring.simulator.replies import Refuse, Say
from mainspring.telemetry import SessionTelemetry
from mainspring.testing import World, virtually
from telemetry.recording import Recording, attributes, recorded

SUMMARY = Summary(before=900, after=90, usage=Usage(input=10, output=5), cost=7_000)
SECRET = "sk-ant-api03-" + "Zq7" * 20
PROMPT = "the planted prompt"


def use(name: str, id: str, **input: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": input}


def run_world(world: World, session_id: str = "s1", **settings: Any) -> Result:
    async def main() -> Result:
        session = EngineSession(world, CONFIG, telemetry=SessionTelemetry(session_id, **settings))
        async with session.run(f"{PROMPT} {SECRET}") as run:
            async for _ in run:
                pass
        return run.result

    return virtually(main())


# --- the tree ---


def test_the_spans_of_a_run_are_a_tree(tmp_path: Path) -> None:
    """Two tools, a retry, a compaction, a subagent and an approval, through a real session."""

    async def main(stage: Stage) -> None:
        (stage.folder / "a.txt").write_text("text")
        session = stage.open()
        await session.start()
        await session.submit("much to summarize " * 4_000)
        await read_until_idle(session)
        with recorded() as recording:
            await session.submit("go")
            await read_until_idle(session)
        await session.close()
        recordings.append(recording)

    recordings: list[Recording] = []
    play(
        main,
        tmp_path,
        Say.of("I see."),
        Refuse(529, "overloaded_error", "Overloaded"),
        Say.of(use("Read", "toolu_1", file_path="a.txt"), use("Bash", "toolu_2", command="touch b")),
        Refuse(400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
        Say.of("<summary>all of it</summary>"),
        Say.of(use("Agent", "toolu_3", description="look", prompt="AWAY", subagent_type="Explore")),
        Say.of("seen"),
        Say.of("done"),
    )
    [recording] = recordings
    assert recording.tree() == [
        "invoke_agent mainspring",
        "  chat claude-sonnet-5-5 +mainspring.retry",
        "  execute_tool Read",
        "  execute_tool Bash",
        "    approval Bash",
        "  chat claude-sonnet-5-5 ERROR",
        "  compaction summary",
        "  chat claude-sonnet-5-5",
        "  execute_tool Agent",
        "    invoke_agent Explore",
        "      chat claude-sonnet-5-5",
        "  chat claude-sonnet-5-5",
    ]
    ids = {attributes(span)["gen_ai.conversation.id"] for span in recording.spans}
    assert len(ids) == 1
    for span in recording.spans:
        assert span.start_time is not None
        assert span.end_time is not None
        assert span.start_time <= span.end_time


def test_attributes_and_metrics_follow_the_conventions() -> None:
    overloaded = Retry(Failure(Trouble.OVERLOADED, "busy"), 1, 500, 10)
    usage = Usage(input=100, cache_read=50, output=20)
    world = World([
        says(overloaded, Pause(30), "Look.", call("Read", "call_a", ms=40), usage=usage),
        fails(Trouble.PROMPT_TOO_LONG),
        says(call("Bash", "call_b", ask="May I?"), call("Edit", "call_c", fails=True)),
        says("Done."),
    ], summaries=[SUMMARY], answers=["yes"])  # fmt: skip
    with recorded() as recording:
        run_world(world)
    world.check()
    model, shared = CONFIG.model.name, {"gen_ai.conversation.id": "s1"}
    run = attributes(recording.span("invoke_agent mainspring"))
    run_id = run.pop("mainspring.run.id")
    shared["mainspring.run.id"] = run_id
    assert run == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "unknown",
        "gen_ai.agent.name": "mainspring",
        "gen_ai.conversation.id": "s1",
        "gen_ai.request.model": model,
        "gen_ai.response.finish_reasons": ("end_turn",),
        "gen_ai.usage.input_tokens": 360,
        "gen_ai.usage.output_tokens": 65,
        "gen_ai.usage.cache_read.input_tokens": 50,
        "gen_ai.usage.cache_creation.input_tokens": 0,
        "mainspring.cost_usd": run["mainspring.cost_usd"],
        "mainspring.run.terminal": "completed",
        "mainspring.run.cause": "end_turn",
        "mainspring.run.turns": 3,
        "mainspring.run.requests": 5,
    }
    chats = [span for span in recording.spans if span.name == f"chat {model}"]
    assert attributes(chats[0]) == shared | {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "unknown",
        "gen_ai.request.model": model,
        "gen_ai.request.max_tokens": CONFIG.model.max_output,
        "gen_ai.response.model": model,
        "gen_ai.response.finish_reasons": ("tool_use",),
        "gen_ai.response.time_to_first_chunk": 0.03,
        "gen_ai.usage.input_tokens": 150,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.usage.cache_read.input_tokens": 50,
        "gen_ai.usage.cache_creation.input_tokens": 0,
        "mainspring.cost_usd": attributes(chats[0])["mainspring.cost_usd"],
        "mainspring.turn": 1,
        "mainspring.request.number": 1,
        "mainspring.request.retries": 1,
        "mainspring.reply.id": attributes(chats[0])["mainspring.reply.id"],
    }
    [retry] = chats[0].events
    assert dict(retry.attributes or {}) == {
        "mainspring.request.attempt": 1,
        "mainspring.request.delay_ms": 500,
        "error.type": "overloaded",
    }
    assert attributes(chats[1])["error.type"] == "prompt_too_long"
    assert attributes(recording.span("execute_tool Read")) == shared | {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "Read",
        "gen_ai.tool.call.id": "call_a",
        "gen_ai.tool.type": "function",
        "mainspring.turn": 1,
    }
    edit = recording.span("execute_tool Edit")
    assert (edit.status.status_code, attributes(edit)["error.type"]) == (StatusCode.ERROR, "tool_error")
    assert attributes(recording.span("approval Bash")) == shared | {
        "gen_ai.tool.name": "Bash",
        "gen_ai.tool.call.id": "call_b",
    }
    assert attributes(recording.span("compaction summary")) == shared | {
        "mainspring.compaction.layer": "summary",
        "mainspring.compaction.trigger": "auto",
        "mainspring.compaction.before_tokens": 900,
        "mainspring.compaction.after_tokens": 90,
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 0,
        "gen_ai.usage.cache_creation.input_tokens": 0,
        "mainspring.cost_usd": 0.000007,
    }
    labels = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "unknown", "gen_ai.request.model": model}
    replied = labels | {"gen_ai.response.model": model}
    metrics = recording.metrics()
    assert metrics.keys() == {
        "gen_ai.invoke_agent.duration",
        "gen_ai.client.operation.duration",
        "gen_ai.execute_tool.duration",
        "mainspring.approval.duration",
        "mainspring.compaction.duration",
        "gen_ai.client.operation.time_to_first_chunk",
        "gen_ai.client.token.usage",
        "mainspring.cost",
    }
    assert metrics["gen_ai.client.token.usage"] == [
        (replied | {"gen_ai.token.type": "input"}, 350),
        (replied | {"gen_ai.token.type": "output"}, 60),
    ]
    assert metrics["gen_ai.client.operation.time_to_first_chunk"] == [(replied, 0.03)]
    assert metrics["gen_ai.execute_tool.duration"] == [
        ({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "Read"}, 0.04),
        ({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "Bash"}, 0.0),
        ({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "Edit", "error.type": "tool_error"}, 0.0),
    ]
    assert sum([amount for _, amount in metrics["mainspring.cost"]]) == pytest.approx(run["mainspring.cost_usd"])


# --- content ---


def world_with_secrets() -> World:
    return World([says(f"My thoughts. {SECRET}", call("Read", "c", text=f"the result {SECRET}")), says("The answer.")])


def test_no_content_by_default() -> None:
    with recorded() as recording:
        run_world(world_with_secrets())
    everything = recording.everything()
    assert "execute_tool" in everything
    for planted in (SECRET, PROMPT, "My thoughts", "the result", "The answer"):
        assert planted not in everything


def test_content_on_request_with_secrets_redacted() -> None:
    with recorded(content=True) as recording:
        run_world(world_with_secrets())
    everything = recording.everything()
    assert SECRET not in everything
    for planted in (PROMPT, "My thoughts", "the result", "The answer"):
        assert planted in everything
    tool = attributes(recording.span("execute_tool Read"))
    assert tool["gen_ai.tool.call.arguments"].startswith('{"text":"the result ')
    assert tool["gen_ai.tool.call.result"].startswith("the result ")
    last = [span for span in recording.spans if span.name.startswith("chat")][-1]
    assert attributes(last)["gen_ai.output.messages"] == (
        '[{"role":"assistant","parts":[{"type":"text","content":"The answer."}],"finish_reason":"end_turn"}]'
    )


# --- the context ---


async def read_all(session: EngineSession) -> None:
    async with session.run("go") as run:
        async for _ in run:
            pass


def test_a_run_is_a_part_of_the_callers_span_and_a_tool_of_the_run() -> None:
    with recorded() as recording:

        class Traced(World):
            async def run_tool(self, *args: Any) -> Any:
                with recording.tracer.start_as_current_span("inside the tool"):
                    return await super().run_tool(*args)

        async def main() -> None:
            with recording.tracer.start_as_current_span("the caller"):
                await read_all(EngineSession(Traced([says(call("Read")), says("Done.")]), CONFIG))
            assert not trace.get_current_span().get_span_context().is_valid

        virtually(main())
    model = CONFIG.model.name
    assert recording.tree() == [
        "the caller",
        "  invoke_agent mainspring",
        f"    chat {model}",
        "    execute_tool Read",
        "      inside the tool",
        f"    chat {model}",
    ]


def test_a_prompt_keeps_the_span_in_which_it_was_submitted(tmp_path: Path) -> None:
    """The SDK's client reads in a task of its own, which it starts when it connects."""

    async def main(stage: Stage) -> None:
        env = stage.environment
        async with Client(Options(cwd=stage.folder, env=env, setting_sources=["user"])) as client:
            for name in ("first", "second"):
                with recording.tracer.start_as_current_span(name):
                    await client.query("hi")
                    assert [message async for message in client.receive_response()]

    with recorded() as recording:
        play(main, tmp_path, Say.of("Hi."), Say.of("Hi."))
    assert [line for line in recording.tree() if "chat" not in line] == [
        "first",
        "  invoke_agent mainspring",
        "second",
        "  invoke_agent mainspring",
    ]


def test_a_hundred_sessions_at_once_do_not_mix() -> None:
    def world() -> World:
        return World([says(call("Read", ms=5)), says(call("Grep", ms=3)), says("Done.", pace=2)])

    async def main() -> None:
        async def one(number: int) -> None:
            with recording.tracer.start_as_current_span(f"caller {number}"):
                await read_all(EngineSession(world(), CONFIG, telemetry=SessionTelemetry(f"session {number}")))

        await asyncio.gather(*[one(number) for number in range(100)])

    with recorded() as recording:
        virtually(main())
    by_trace: dict[int, list[ReadableSpan]] = {}
    for span in recording.spans:
        by_trace.setdefault(span.context.trace_id, []).append(span)
    assert len(by_trace) == 100
    for spans in by_trace.values():
        [caller] = [span for span in spans if span.parent is None]
        others = [span for span in spans if span is not caller]
        assert len(others) == 6
        assert {attributes(span)["gen_ai.conversation.id"] for span in others} == {
            caller.name.replace("caller", "session")
        }


# --- errors and interrupts ---


def test_an_error_sets_the_status() -> None:
    with recorded() as recording:
        run_world(World([fails(Trouble.AUTH, f"{SECRET} is wrong")]))
    run, chat = recording.spans
    for span in (run, chat):
        assert (span.status.status_code, attributes(span)["error.type"]) == (StatusCode.ERROR, "auth")
    assert SECRET not in recording.everything()


@pytest.mark.parametrize("reply", [says("A long text, slowly.", pace=50), says(call("Read", ms=5_000))])
@pytest.mark.parametrize("leave", ["interrupt", "break"])
def test_an_interrupted_run_ends_its_spans(reply: ScriptedReply, leave: str) -> None:
    async def main() -> None:
        async with EngineSession(World([reply]), CONFIG).run("go") as run:
            async for update in run:
                if isinstance(update, Delta if reply.pace else CallStarted):
                    if leave == "break":
                        break
                    run.interrupt()

    with recorded() as recording:
        virtually(main())
    run, second, *more = recording.spans
    assert attributes(run)["mainspring.interrupted"] is True
    assert run.status.is_unset
    cut = second if reply.pace else more[0]
    assert cut.name == (f"chat {CONFIG.model.name}" if reply.pace else "execute_tool Read")
    assert cut.end_time == run.end_time


def test_an_unanswered_approval_ends_with_its_call() -> None:
    async def main() -> None:
        async with EngineSession(World([says(call("Bash", ask="May I?"))]), CONFIG).run("go") as run:
            async for update in run:
                if isinstance(update, CallStarted):
                    asyncio.get_running_loop().call_later(1, run.interrupt)

    with recorded() as recording:
        virtually(main())
    assert recording.tree() == [
        "invoke_agent mainspring",
        f"  chat {CONFIG.model.name}",
        "  execute_tool Bash ERROR",
        "    approval Bash",
    ]
    approval = recording.span("approval Bash")
    assert attributes(approval)["mainspring.interrupted"] is True
    assert (approval.end_time or 0) - (approval.start_time or 0) == 1_000_000_000


class BrokenJournal(MemoryJournal):
    """Its disk is full after the first reply."""

    async def append(self, record: Any) -> None:
        if type(record).__name__ == "IntentRecord":
            raise OSError("/secret/path is full")
        await super().append(record)


def test_a_crash_ends_the_spans_with_its_class() -> None:
    with recorded() as recording, pytest.raises(OSError, match="full"):
        run_world(World([says(call("Read"))], journal=BrokenJournal()))
    run = recording.span("invoke_agent mainspring")
    assert (run.status.status_code, attributes(run)["error.type"]) == (StatusCode.ERROR, "OSError")
    assert "/secret/path" not in recording.everything()


class BrokenProcessor(SpanProcessor):
    def on_start(self, span: Any, parent_context: Any = None) -> None:
        raise RuntimeError("a bug of the program")


def test_a_broken_span_processor_does_not_end_the_run() -> None:
    with recorded() as recording:
        recording.tracer_provider.add_span_processor(BrokenProcessor())
        assert run_world(World([says(call("Read")), says("Done.")])).text == "Done."


# --- switching it on ---


@pytest.mark.parametrize(("instrumented", "tracing", "spans"), [
    (False, None, False), (False, True, True), (False, False, False),
    (True, None, True), (True, True, True), (True, False, False),
])  # fmt: skip
def test_tracing_of_a_session(
    monkeypatch: pytest.MonkeyPatch, instrumented: bool, tracing: bool | None, spans: bool
) -> None:
    recording = Recording()
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", recording.tracer_provider)  # as a program sets it, once
    monkeypatch.setattr("mainspring.telemetry._recorders", {})
    if instrumented:
        mainspring.instrument()
    run_world(World([says("Hi.")]), tracing=tracing)
    assert bool(recording.spans) is spans


def test_the_option_of_the_sdk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = Recording()
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", recording.tracer_provider)
    monkeypatch.setattr("mainspring.telemetry._recorders", {})

    async def main(stage: Stage) -> None:
        options = Options(cwd=stage.folder, env=stage.environment, setting_sources=["user"], tracing=True)
        assert [message async for message in mainspring.query(prompt="hi", options=options)]

    play(main, tmp_path, Say.of("Hi."))
    assert recording.tree() == ["invoke_agent mainspring", "  chat claude-sonnet-5-5"]


def test_without_opentelemetry_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find: Callable[..., Any] = lambda name: None  # noqa: E731  # as on a machine without it
    monkeypatch.setattr("importlib.util.find_spec", find)
    with pytest.raises(ImportError, match=r"OpenTelemetry is not installed. Run: pip install 'mainspring\[otel\]'"):
        mainspring.instrument()

    async def main(stage: Stage) -> None:
        with pytest.raises(StartError, match=r"'tracing' needs OpenTelemetry. Run: pip install 'mainspring\[otel\]'"):
            stage.open(tracing=True)

    play(main, tmp_path)
