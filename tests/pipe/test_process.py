"""The process itself: its flags, its lines, its end. See stream-json 1."""

from __future__ import annotations

import json
import os
import signal
import time
import uuid

import pytest
from claude_agent_sdk import AssistantMessage, ProcessError, ResultError, ResultMessage, SystemMessage
from cli.stage import until

from mainspring.simulator.replies import Refuse, Say
from pipe.raw import LIMIT, alive, prompt
from pipe.stage import Serve, bash, call

ODD = 'line\u2028para\u2029 \x85 nul\x00 bell\x07 \U0001f9ed e\u0301 "quoted" back\\slash \ufeff \ttab'
SCHEMA = '{"type":"object","properties":{"a":{"type":"integer"}}}'


# --- flags ------------------------------------------------------------------------------------------


SEPARATE = (
    "--tools default --allowedTools Read,Bash(git*) --disallowedTools WebFetch --max-turns 3 --max-budget-usd 1.5 "
    "--task-budget 20000 --model sonnet --fallback-model haiku,opus --betas context-1m-2025-08-07 "
    "--permission-prompt-tool stdio --permission-mode acceptEdits --continue --fork-session --session-mirror "
    '--settings {} --add-dir . --add-dir .. --mcp-config {"mcpServers":{}} --strict-mcp-config '
    "--include-partial-messages --include-hook-events --plugin-dir . --thinking adaptive --thinking-display summarized "
    f"--effort low --json-schema {SCHEMA} --replay-user-messages --append-system-prompt more"
).split(" ")
JOINED = (
    "--tools= --allowedTools=Read --disallowedTools=Write --max-turns=3 --max-budget-usd=1.5 --task-budget=20000 "
    "--model=haiku --fallback-model=opus --betas=context-1m-2025-08-07 --permission-prompt-tool=stdio "
    '--permission-mode=plan --setting-sources= --settings={} --add-dir=. --mcp-config={"mcpServers":{}} '
    f"--max-thinking-tokens=2000 --effort=max --json-schema={SCHEMA} --plugin-dir=. --append-system-prompt=more"
).split(" ")


@pytest.mark.parametrize("flags", [SEPARATE, JOINED, ["--debug-to-stderr"]], ids=["separate", "joined", "debug"])
@pytest.mark.covers("M-11", "M-14")
def test_every_flag_is_taken_in_both_forms(flags: list[str], serve: Serve) -> None:
    """1.2: all flags are accepted; 1.5: with nothing received it exits 0 at once and prints no result."""
    with serve().pipe(*flags) as pipe:
        assert (pipe.finish(), pipe.frames) == (0, [])


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--no-such-flag"], "--no-such-flag"),
        (["--session-id=nonsense"], "UUID"),
    ],
)
def test_a_bad_flag_ends_it_before_anything_is_said(flags: list[str], named: str, serve: Serve) -> None:
    """1.2, 1.6: exit 1, a line on stderr that names the flag, nothing on stdout."""
    with serve().pipe(*flags) as pipe:
        assert (pipe.exit(), pipe.read()) == (1, None)
    assert named in pipe.stderr.decode()


@pytest.mark.parametrize(
    ("flag", "text"),
    [
        ("--add-dir=/nowhere/at/all", "'--add-dir /nowhere/at/all': there is no such directory"),
        ("--setting-sources=mine", "'--setting-sources' has 'mine'; valid values are user, project, local"),
        ("--settings={", "'--settings' cannot be read in line 1, column 2: "),
        ("--mcp-config={", "'--mcp-config' cannot be read in line 1, column 2: "),
        ("--json-schema={", "'--json-schema' cannot be understood: "),
        ("--agents=[]", "'--agents' cannot be understood: it is not an object of agents by name"),
    ],
)
def test_a_wrong_option_is_told_as_a_result_and_spelled_as_a_flag(flag: str, text: str, serve: Serve) -> None:
    with serve().pipe(flag) as pipe:
        assert pipe.exit() == 1
        [frame] = pipe.rest()
    assert frame["errors"][0].startswith(text)
    assert f"mainspring: {text}" in pipe.stderr.decode()


def test_an_id_in_use_is_refused_and_the_client_raises(serve: Serve) -> None:
    """1.2, 1.6: `--session-id` is the session's id; the second time it is in use and the client gets `ProcessError`."""
    stage = serve(Say.of("Hi."))
    id = str(uuid.uuid4())
    first, second = stage.ask("hello", session_id=id), stage.ask("hello", session_id=id)
    assert (first.error, first.result.session_id, first.init["session_id"]) == (None, id, id)
    assert isinstance(second.error, ProcessError)
    assert not isinstance(second.error, ResultError)
    assert (second.error.exit_code, second.messages) == (1, [])
    assert id in "\n".join(second.stderr)


# --- lines ------------------------------------------------------------------------------------------


@pytest.mark.covers("M-15")
def test_a_plain_question(serve: Serve) -> None:
    """1.1, 1.5, 17.2: no `-p`; input ends before the first model call; a clean run leaves stderr alone; no echo of the
    prompt (6.3) and no pieces (6.5) unless asked."""
    stage = serve(Say.of("Hi."))
    told = stage.ask("hello")
    assert (told.result.result, told.error, told.stderr) == ("Hi.", None, [])
    assert told.init["cwd"] == os.path.realpath(stage.folder)
    assert len(stage.requests) == 1
    assert [type(message) for message in told.messages if not isinstance(message, SystemMessage)] == [
        AssistantMessage,
        ResultMessage,
    ]


def test_odd_characters_and_large_lines_in_both_directions(serve: Serve) -> None:
    """1.4: UTF-8, one object per line, odd characters as they are; a prompt of 300 kB is normal."""
    stage = serve(Say.of(ODD), Say.of("x" * 400_000))
    with stage.pipe() as pipe:
        pipe.initialize()
        pipe.send(prompt(ODD))
        assert pipe.until("assistant")["message"]["content"] == [{"type": "text", "text": ODD}]
        assert pipe.result()["result"] == ODD
        pipe.turn("word " * 60_000)
        assert pipe.finish() == 0
    assert json.dumps(ODD, ensure_ascii=False) in stage.said(0)
    assert "word " * 60_000 in stage.said(1)
    assert pipe.of("result")[-1]["result"] == "x" * 400_000
    assert all(line.startswith(b"{") and line.endswith(b"}\n") for line in pipe.lines)


def test_no_line_passes_the_limit_of_the_client(serve: Serve) -> None:
    """1.4, 17.3: output that is larger is cut or spilled before it reaches a frame."""
    print_much = "import sys; sys.stdout.write('y' * 3_000_000)"
    stage = serve(
        Say.of(bash(f'python3 -c "{print_much}"', "much"), call("Read", "big", file_path="big.txt")), Say.of("Done.")
    )
    (stage.folder / "big.txt").write_text("z" * 2_500_000)
    with stage.pipe("--permission-mode", "bypassPermissions", "--session-mirror") as pipe:
        pipe.initialize()
        assert pipe.turn("look")["result"] == "Done."
        assert pipe.finish() == 0
    assert len(pipe.outcomes) == 2
    assert max(len(line.decode()) for line in pipe.lines) <= LIMIT


def test_what_it_does_not_know_is_passed_over(serve: Serve) -> None:
    """1.4: blank lines, unknown types and fields, keep-alives, answers that nobody waits for."""
    stage = serve(Say.of("Hi."))
    with stage.pipe() as pipe:
        pipe.write(b"\n  \n\r\n")
        pipe.send(
            {"type": "keep_alive"},
            {"type": "weather", "sunny": True},
            {"type": "control_response", "response": {"subtype": "success", "request_id": "nobody", "response": {}}},
            {"type": "control_cancel_request", "request_id": "nobody"},
        )
        pipe.initialize(strange={"a": 1})
        assert pipe.turn("hello", strange=[1])["result"] == "Hi."
        assert (pipe.finish(), pipe.stderr) == (0, b"")


@pytest.mark.parametrize(
    "line", [b"no json\n", b'{"type":"user"\n', b'{"type":"user","message":{"role":"assistant","content":"x"}}\n']
)
def test_a_line_that_cannot_be_read_ends_it(line: bytes, serve: Serve) -> None:
    """1.4: no JSON, or a prompt by someone who is no user: one line on stderr, exit 1."""
    with serve().pipe() as pipe:
        pipe.initialize()
        pipe.write(line)
        assert pipe.exit() == 1
    assert len(pipe.stderr.strip().splitlines()) == 1


# --- the end ----------------------------------------------------------------------------------------


def test_the_end_of_input_is_no_stop(serve: Serve) -> None:
    """1.5: everything received is finished, all queued prompts, before it exits."""
    stage = serve(Say.of(bash("sleep 0.2; echo slept")), Say.of("One."), Say.of("Two."))
    with stage.pipe("--permission-mode", "bypassPermissions") as pipe:
        pipe.initialize()
        pipe.send(prompt("first"), prompt("second"))
        pipe.rest()
        assert pipe.exit() == 0
    assert "second" in stage.said(-1)
    assert "slept" in json.dumps(pipe.outcomes)


@pytest.mark.parametrize(("replies", "status"), [(("bad", "good"), 0), (("good", "bad"), 1)])
def test_the_exit_status_is_that_of_the_last_result(replies: tuple[str, str], status: int, serve: Serve) -> None:
    """1.5, 17.7: 1 if the last result was an error, else 0."""
    said = {"bad": Refuse(401, "authentication_error", "invalid x-api-key"), "good": Say.of("Hi.")}
    stage = serve(*[said[name] for name in replies])
    with stage.pipe() as pipe:
        pipe.initialize()
        assert [pipe.turn("hello")["is_error"] for _ in replies] == [name == "bad" for name in replies]
        assert pipe.finish() == status


def test_a_question_that_nobody_can_answer_any_more(serve: Serve) -> None:
    """1.5: with input closed an open permission request is a denial, a hook has no opinion, and the run ends."""
    stage = serve(Say.of(bash("touch made")), Say.of("Oh."))
    with stage.pipe("--permission-prompt-tool", "stdio") as pipe:
        pipe.initialize(hooks={"Stop": [{"matcher": None, "hookCallbackIds": ["hook_0"]}]})
        pipe.send(prompt("make it"))
        pipe.asked("can_use_tool")
        pipe.rest()
        assert pipe.exit() == 0
    assert pipe.of("result")[-1]["result"] == "Oh."
    assert pipe.outcomes[0]["is_error"] is True
    assert not (stage.folder / "made").exists()


def test_terminated_in_a_tool(serve: Serve) -> None:
    """1.5: on SIGTERM tools are stopped, the transcript is flushed, it exits 143 within a second or two."""
    stage = serve(Say.of("Wait.", bash("touch began; sleep 61.125")))
    with stage.pipe("--permission-mode", "bypassPermissions") as pipe:
        pipe.initialize()
        pipe.send(prompt("wait"))
        until(lambda: (stage.folder / "began").exists() and alive("61.125"))
        began = time.monotonic()
        pipe.process.send_signal(signal.SIGTERM)
        assert pipe.exit() == 143
        assert time.monotonic() - began < 30  # the command would sleep for 61
    until(lambda: not alive("61.125"))
    assert "toolu_Bash" in json.dumps(stage.lines())


@pytest.mark.covers("M-03")
def test_terminated_in_a_model_call(serve: Serve) -> None:
    """1.5: the model call is given up, too."""
    stage = serve(Say.of("One two three four five six seven.", pace_ms=3_000))
    with stage.pipe() as pipe:
        pipe.initialize()
        pipe.send(prompt("hello"))
        stage.until(lambda: len(stage.server.answers) == 1)
        pipe.process.send_signal(signal.SIGTERM)
        assert pipe.exit() == 143
        kinds = [frame.get("subtype") for frame in (*pipe.frames, *pipe.rest())]
        assert kinds.index("worker_shutting_down") < kinds.index("error_during_execution")
    stage.until(lambda: stage.server.aborted == 1)


def test_ctrl_c(serve: Serve) -> None:
    """1.5 [O]: SIGINT interrupts the turn, then it exits 0."""
    stage = serve(Say.of("One two three four five six seven.", pace_ms=3_000))
    with stage.pipe() as pipe:
        pipe.initialize()
        pipe.send(prompt("hello"))
        stage.until(lambda: len(stage.server.answers) == 1)
        pipe.process.send_signal(signal.SIGINT)
        assert pipe.exit() == 0


# --- failing at the start ------------------------------------------------------------------------------


def test_a_refused_resume(serve: Serve) -> None:
    """1.6, 17.9: one result frame with the text in `errors`, the text on stderr, exit 1, no answer to `initialize`."""
    stage = serve()
    unknown = str(uuid.uuid4())
    text = f"No conversation found with session ID: {unknown}"
    with stage.pipe(f"--resume={unknown}") as pipe:
        assert pipe.exit() == 1
        [frame] = pipe.rest()
    assert text in pipe.stderr.decode()
    assert (frame["type"], frame["subtype"], frame["is_error"]) == ("result", "error_during_execution", True)
    assert (frame["num_turns"], frame["duration_ms"], frame["total_cost_usd"]) == (0, 0, 0)
    assert frame["errors"] == [text]
    told = stage.ask("hello", resume=unknown)
    assert isinstance(told.error, ResultError)
    assert text in str(told.error)


# --- the environment ------------------------------------------------------------------------------------


def test_shells_see_the_callers_variables(serve: Serve) -> None:
    """1.3: shell tools inherit `options.env`, and `CLAUDECODE=1`."""
    stage = serve(Say.of(bash("echo [$CLAUDECODE] [$MINE] [$PWD]")), Say.of("Done."))
    told = stage.ask("look", permission_mode="bypassPermissions", env={"MINE": "yes"})
    assert f"[1] [yes] [{os.path.realpath(stage.folder)}]" in str(told.outcomes[0].content)


@pytest.mark.of_the_pipe
def test_who_drives_is_told_to_the_server(serve: Serve) -> None:
    """1.3: the versions of the client go into the User-Agent; the caller's app does, too [O]."""
    stage = serve(Say.of("Hi."))
    stage.ask("hello", client_app="my-app/1.0")
    agent = stage.requests[0].headers["user-agent"]
    assert "0.2.182" in agent
    assert "my-app/1.0" in agent
