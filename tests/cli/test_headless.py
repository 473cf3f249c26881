"""`mainspring -p` as people and programs start it: in a process of its own, against a model server on this machine."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cli.stage import COMMAND, PATIENCE, Serve, Stage, frames
from mainspring.agent.option_checks import EXAMPLE
from mainspring.context.prompt import IDENTITY
from mainspring.simulator.replies import ReceivedRequest, Refuse, Reply, Say
from mainspring.tools.builtin import FOR_PEOPLE
from mainspring.tools.catalog import SPECS

# Nobody can be asked, no skill is here, and this server does not search.
ALL = [name for name in SPECS if name not in FOR_PEOPLE and name not in ("Skill", "WebSearch")]


def tool_use(name: str, id: str = "", /, **input: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id or f"toolu_{name}", "name": name, "input": input}


def asked(stage: Stage, number: int = 0) -> str:
    """The prompt of a request, without what we add to it."""
    content = stage.requests[number].body["messages"][0]["content"]
    return content if isinstance(content, str) else "".join(said_in(content))


def said_in(content: list[dict[str, Any]]) -> list[str]:
    return [block["text"] for block in content if not block["text"].startswith("<system-reminder")]


# --- the answer -------------------------------------------------------------------------------------


@pytest.mark.covers("O-02")
def test_the_answer_and_nothing_else(serve: Serve) -> None:
    stage = serve(Say.of("Let me look.", tool_use("Read", file_path="a.py")), Say.of("It prints hello.\n"))
    (stage.folder / "a.py").write_text("print('hello')\n")
    done = stage.run("-p", "what does a.py do?")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"It prints hello.\n", b"")
    assert asked(stage) == "what does a.py do?"
    shown = stage.requests[1].body["messages"][-1]["content"][0]["content"]
    assert "print('hello')" in json.dumps(shown)


def test_a_session_that_is_not_stored(serve: Serve) -> None:
    stage = serve(Say.of("Hi."))
    done = stage.run("-p", "hello", "--no-session-persistence")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"Hi.\n", b"")
    assert stage.sessions() == []
    refused = stage.run("-p", "hello", "--no-session-persistence", "--continue")
    assert refused.returncode != 0
    assert b"'--continue' needs a stored session, and '--no-session-persistence' stores none" in refused.stderr


def test_one_object(serve: Serve) -> None:
    stage = serve(Say.of("Hi."))
    done = stage.run("-p", "hello", "--output-format", "json")
    [result] = frames(done.stdout)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (result["type"], result["result"], result["is_error"]) == ("result", "Hi.", False)


@pytest.mark.parametrize("form", ["text", "json", "stream-json"])
def test_side_calls_are_made_only_for_a_reader_who_sees_them(serve: Serve, form: str) -> None:
    """A summary of the calls and a suggestion: with stream-json both are printed, else neither is asked for."""

    def choose(received: ReceivedRequest) -> Reply:
        if "haiku" in str(received.body["model"]):
            return Say.of(
                "Looked at it" if "tool calls that a coding agent made" in received.talk.prompt else "next: go on"
            )
        if received.talk.results():
            return Say.of("Done. " * 80, pace_ms=10)
        return Say.of(tool_use("Read", file_path="a.py"))

    stage = serve(choose=choose)
    done = stage.run("-p", "go", "--output-format", form, "--tool-use-summaries", "--prompt-suggestions")
    assert (done.returncode, done.stderr) == (0, b"")
    if form != "stream-json":
        assert len(stage.requests) == 2
        return
    kinds = [frame["type"] for frame in frames(done.stdout)]
    shown = [kind for kind in kinds if kind != "system"]
    assert shown == ["assistant", "user", "tool_use_summary", "assistant", "result", "prompt_suggestion"]


@pytest.mark.covers("O-02")
def test_a_line_for_each_thing_that_happens(serve: Serve) -> None:
    stage = serve(Say.of("Look.", tool_use("Read", file_path="a.py")), Say.of("Done."))
    done = stage.run("-p", "hello", "--output-format=stream-json", "--verbose")
    shown = frames(done.stdout)
    assert (done.returncode, done.stderr) == (0, b"")
    turn, types = "mainspring_turn", [frame.get("subtype", frame["type"]) for frame in shown]
    assert types == ["init", turn, "assistant", "assistant", "user", turn, "assistant", "success"]
    assert shown[0]["tools"] == ["Task" if name == "Agent" else name for name in ALL]
    assert shown[0]["cwd"] == str(stage.folder)
    assert shown[4]["message"]["content"][0]["is_error"] is True  # there is no such file
    assert {frame["session_id"] for frame in shown} == {shown[0]["session_id"]}


def test_pieces_come_as_they_stream(serve: Serve) -> None:
    """The first piece is there long before the reply is complete."""
    stage = serve(Say.of("One two three four five.", pace_ms=200))
    with stage.start("-p", "hello", "--output-format=stream-json", "--include-partial-messages") as process:
        assert process.stdout is not None
        for line in process.stdout:
            if json.loads(line)["type"] == "stream_event" and b"text_delta" in line:
                break
        assert stage.server.open_connections == 1
        assert b'"result"' in process.stdout.read()


def test_the_session_is_written_down_with_the_ids_of_the_frames(serve: Serve) -> None:
    stage = serve(Say.of("Look.", tool_use("Read", file_path="a.py")), Say.of("Done."))
    shown = frames(stage.run("-p", "hello", "--output-format=stream-json").stdout)
    [path] = stage.sessions()
    assert path.stem == shown[0]["session_id"]
    assert path.parent.name == "".join(char if char.isalnum() else "-" for char in os.path.realpath(stage.folder))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in (stage.home, *path.parents[:2])} == {0o700}
    written = path.read_text()
    lines = [json.loads(line) for line in written.splitlines()]
    assert "mainspring" in [line["type"] for line in lines]
    told = [frame["uuid"] for frame in shown if frame["type"] in {"assistant", "user"}]
    assert len(told) == 4
    assert [line["uuid"] for line in lines if line.get("uuid") in told] == told


# --- the prompt -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "piped", "prompt"),
    [
        (["hello"], b"", "hello"),
        ([], b"hello\n", "hello\n"),
        (["say"], b"hello", "say\n\nhello"),
        ([], "\ufeffna\u00efve".encode(), "na\u00efve"),
        ([], b"caf\xe9", "caf\ufffd"),
        (["--", "--verbose"], b"", "--verbose"),
        (["demo"], b"", "demo"),
    ],
)
def test_a_prompt_is_an_argument_or_standard_input_or_both(
    arguments: list[str], piped: bytes, prompt: str, serve: Serve
) -> None:
    stage = serve(Say.of("Hi."))
    done = stage.run("-p", *arguments, input=piped)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"Hi.\n", b"")
    assert asked(stage) == prompt


def test_a_long_prompt(serve: Serve) -> None:
    stage = serve(Say.of("Hi."))
    text = "word " * 200_000
    assert stage.run("-p", input=text.encode()).returncode == 0
    assert asked(stage) == text


def test_an_argument_that_is_no_utf8(serve: Serve) -> None:
    stage = serve(Say.of("Hi."))
    done = subprocess.run(
        [os.fsencode(word) for word in COMMAND] + [b"-p", b"caf\xe9"],
        env=stage.environment,
        cwd=stage.folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert asked(stage) == "caf\ufffd"


@pytest.mark.parametrize(
    ("arguments", "piped", "words"),
    [
        ([], b"", "no prompt"),
        (["  "], b" \n", "no prompt"),
        ([], b"\x89PNG\0\0", "not text (it contains NUL bytes)"),
        ([], b"x" * 10_000_001, "more than 10,000,000 bytes"),
        (["fix", "it"], b"", "put the prompt in quotes, 'fix it ...'"),
    ],
    ids=["none", "blank", "binary", "long", "two"],
)
def test_what_is_no_prompt_is_told(arguments: list[str], piped: bytes, words: str, serve: Serve) -> None:
    stage = serve()
    done = stage.run("-p", *arguments, input=piped)
    assert (done.returncode, done.stdout) == (1, b"")
    assert words in done.stderr.decode()
    assert done.stderr.count(b"\n") == 1
    assert (stage.requests, stage.sessions()) == ([], [])


def test_a_pipe_that_nobody_writes_to_is_not_waited_for(serve: Serve) -> None:
    stage = serve(Say.of("Hi."))
    short = "import mainspring.cli.print_mode as stdin; stdin.WAIT = 1_000"
    with stage.start("-p", "hello", set_up=short, stdin=subprocess.PIPE) as process:
        assert process.wait(PATIENCE) == 0
        assert process.stderr is not None
        assert b"no data on standard input within 1 s" in process.stderr.read()
    assert asked(stage) == "hello"


def test_without_a_terminal_it_is_the_same_without_the_flag(serve: Serve) -> None:
    stage = serve(Say.of("Hi."))
    done = stage.run(input=b"hello")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"Hi.\n", b"")


# --- keys and addresses -----------------------------------------------------------------------------


def test_without_a_key_the_ways_out_are_told(serve: Serve) -> None:
    stage = serve()
    done = stage.run("-p", "hello", env={"ANTHROPIC_BASE_URL": ""})
    assert (done.returncode, done.stdout) == (1, b"")
    for way in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "mainspring demo"):
        assert way in done.stderr.decode()
    assert stage.sessions() == []


@pytest.mark.parametrize(
    ("name", "header", "value"),
    [
        ("ANTHROPIC_API_KEY", "x-api-key", "k3y"),
        ("ANTHROPIC_AUTH_TOKEN", "authorization", "Bearer k3y"),
    ],
)
def test_a_key_goes_where_it_belongs(name: str, header: str, value: str, serve: Serve) -> None:
    stage = serve(Say.of("Hi."), api_key="k3y")
    done = stage.run("-p", "hello", "--output-format=stream-json", env={name: "k3y\n"})
    assert done.returncode == 0
    assert stage.requests[0].headers[header] == value
    assert frames(done.stdout)[0]["apiKeySource"] == name
    assert b"k3y" not in done.stdout
    assert "k3y" not in stage.sessions()[0].read_text()


def test_an_address_that_is_none(serve: Serve) -> None:
    stage = serve()
    done = stage.run("-p", "hello", env={"ANTHROPIC_BASE_URL": "localhost:8080"})
    assert (done.returncode, done.stdout) == (1, b"")
    assert "'localhost:8080' is not an address" in done.stderr.decode()
    assert done.stderr.count(b"\n") == 1


# --- what goes wrong --------------------------------------------------------------------------------

REFUSED = Refuse(401, "authentication_error", "invalid x-api-key")


def test_a_failure_goes_to_standard_error(serve: Serve) -> None:
    done = serve(REFUSED).run("-p", "hello")
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.decode().startswith("mainspring: API Error: 401: invalid x-api-key")
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("form", ["json", "stream-json"])
def test_a_failure_is_in_the_result_and_in_the_exit_code(form: str, serve: Serve) -> None:
    done = serve(REFUSED).run("-p", "hello", "--output-format", form)
    assert (done.returncode, done.stderr) == (1, b"")
    result = frames(done.stdout)[-1]
    assert (result["type"], result["subtype"], result["is_error"]) == ("result", "success", True)
    assert (result["terminal_reason"], result["api_error_status"]) == ("api_error", 401)


def test_a_server_that_is_not_there(serve: Serve) -> None:
    stage = serve()
    with stage.start(
        "-p", "hello", "--output-format=stream-json", env={"ANTHROPIC_BASE_URL": "http://127.0.0.1:1"}
    ) as it:
        assert it.stdout is not None
        init, _, retry = [json.loads(it.stdout.readline()) for _ in range(3)]
        it.terminate()
        it.communicate(timeout=PATIENCE)
    assert (init["subtype"], retry["subtype"], retry["error"]) == ("init", "api_retry", "server_error")


@pytest.mark.covers("G-11")
def test_an_answer_that_stays_cut_off_is_an_error_with_what_there_is_of_it(serve: Serve) -> None:
    done = serve(*[Say.of(f"Part {n}. ", stop_reason="max_tokens") for n in range(4)]).run("-p", "hello")
    assert (done.returncode, done.stdout) == (1, b"Part 0. Part 1. Part 2. Part 3. \n")
    assert done.stderr.startswith(b"mainspring: The answer was cut off: the reply hit the output limit of ")


def test_the_count_of_a_retry_is_the_one_in_force(serve: Serve) -> None:
    """Nobody listens: four attempts on this machine, so three retries, and that is what the frames say."""
    stage = serve()
    done = stage.run("-p", "hi", "--output-format=stream-json", env={"ANTHROPIC_BASE_URL": "http://127.0.0.1:1"})
    told = [
        (frame["attempt"], frame["max_retries"]) for frame in frames(done.stdout) if frame.get("subtype") == "api_retry"
    ]
    assert told == [(1, 3), (2, 3), (3, 3)]
    done = stage.run(
        "-p",
        "hi",
        "--output-format=stream-json",
        env={"ANTHROPIC_BASE_URL": "http://127.0.0.1:1", "CLAUDE_CODE_MAX_RETRIES": "1"},
    )
    told = [
        (frame["attempt"], frame["max_retries"]) for frame in frames(done.stdout) if frame.get("subtype") == "api_retry"
    ]
    assert told == [(1, 1)]


def test_an_answer_that_was_declined_is_no_error_but_is_told(serve: Serve) -> None:
    refusal = Say.of("I cannot help with that.", stop_reason="refusal")
    done = serve(refusal, refusal).run("-p", "hello")
    assert (done.returncode, done.stdout) == (0, b"I cannot help with that.\n")
    assert done.stderr == b"mainspring: the model declined to answer\n"


def test_denied_calls_are_named_in_one_line(serve: Serve) -> None:
    """The answer may not mention them. JSON lists them (stream-json 6.4)."""
    calls = [tool_use("Bash", f"toolu_{number}", command=f"rm -rf\nbuild{number}") for number in range(5)]
    stage = serve(Say.of(*calls[:1]), Say.of("Done."), Say.of(*calls), Say.of("Done."), Say.of("Fine."))
    done = stage.run("-p", "clean up")
    more = "To allow more, use '--allowedTools' or '--permission-mode'.\n"
    assert (done.returncode, done.stdout) == (0, b"Done.\n")
    assert done.stderr.decode() == f"mainspring: 1 tool call was denied: Bash: rm -rf build0. {more}"
    named = "; ".join([f"Bash: rm -rf build{number}" for number in range(3)])
    done = stage.run("-p", "clean up")
    assert done.stderr.decode() == f"mainspring: 5 tool calls were denied: {named}; and 2 more. {more}"
    assert stage.run("-p", "hello").stderr == b""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--loud"], "unknown flag '--loud'"),
        (["--max-turns", "x"], "'--max-turns' must be a whole number"),
        (["--session-id=abc"], "Must be a valid UUID"),
        (["--resume=abc"], "No conversation found with session ID: abc"),
        (["--fork-session"], "'--fork-session' needs '--resume ID' or '--continue'"),
        (["--continue", f"--session-id={EXAMPLE}"], "with '--resume' or '--continue', add '--fork-session'"),
        ([f"--resume-drops-turn={EXAMPLE}"], "'--resume-drops-turn' needs '--resume-session-at UUID'"),
        (["--system-prompt-file", "none.md"], "'--system-prompt-file none.md' cannot be read: No such file"),
        (["--system-prompt", "a", "--system-prompt-file", "b"], "cannot be combined"),
        (["--fallback-model", "sonnet"], "'--fallback-model claude-sonnet-5-5' is the main model"),
        (["--fallback-model", "a,b,c,d,e,f"], "at most 5"),
    ],
)
def test_what_cannot_be_started_is_one_line_and_exit_code_1(arguments: list[str], words: str, serve: Serve) -> None:
    stage = serve()
    done = stage.run("-p", "hello", *arguments)
    assert (done.returncode, done.stdout) == (1, b"")
    assert words in done.stderr.decode()
    assert done.stderr.count(b"\n") == 1
    assert (stage.requests, stage.sessions()) == ([], [])


def test_a_session_id_is_used_once(serve: Serve) -> None:
    stage = serve(Say.of("Hi."), Say.of("Again."))
    chosen = "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed"
    first, second = [stage.run("-p", "hello", "--session-id", chosen, "--output-format=json") for _ in range(2)]
    assert frames(first.stdout)[0]["session_id"] == chosen
    assert (second.returncode, second.stdout) == (1, b"")
    assert f"Session ID '{chosen}' is already in use" in second.stderr.decode()


# --- flags that reach the model ---------------------------------------------------------------------


def body_of(stage: Stage, *flags: str) -> dict[str, Any]:
    done = stage.run("-p", "hello", *flags)
    assert (done.returncode, done.stderr) == (0, b"")
    body: dict[str, Any] = stage.requests[-1].body
    return body


def system_of(body: dict[str, Any]) -> list[str]:
    """Without the last block, which names the nonce of the session's reminders."""
    *blocks, last = [block["text"] for block in body["system"]]
    assert "nonce=" in last
    return blocks


def test_models_and_what_they_are_told(serve: Serve) -> None:
    stage = serve(*[Say.of("Hi.")] * 5)
    assert body_of(stage)["model"] == "claude-sonnet-5-5"
    body = body_of(
        stage, "--model", "haiku", "--effort", "low", "--betas", "one-2026,two-2026", "--task-budget", "20000"
    )
    assert body["model"] == "claude-haiku-5-5"
    assert body["output_config"]["effort"] == "low"
    assert body["output_config"]["task_budget"]["total"] == 20_000
    assert {"one-2026", "two-2026"} <= set(stage.requests[-1].headers["anthropic-beta"].split(","))
    body = body_of(stage, "--model", "claude-haiku-4-5", "--max-thinking-tokens", "2000", "--context-window", "40000")
    assert (body["thinking"]["budget_tokens"], body["max_tokens"]) == (2_000, 10_000)
    assert "thinking" not in body_of(stage, "--model", "claude-haiku-4-5", "--thinking", "disabled")
    stage.run("-p", "hello", "--model", "my-own-model")
    assert stage.requests[-1].body["model"] == "my-own-model"


def test_system_prompts(serve: Serve) -> None:
    stage = serve(*[Say.of("Hi.")] * 5)
    (stage.folder / "system.md").write_text("From a file.")
    preset = system_of(body_of(stage))
    assert str(stage.folder) in preset[1]
    assert system_of(body_of(stage)) == preset
    assert system_of(body_of(stage, "--system-prompt", "")) == [IDENTITY]
    assert system_of(body_of(stage, "--system-prompt=- be brief", "--append-system-prompt", "- or not")) == [
        "- be brief",
        "- or not",
    ]
    assert system_of(body_of(stage, "--system-prompt-file", "system.md")) == ["From a file."]


def test_limits(serve: Serve) -> None:
    stage = serve(*[Say.of(tool_use("Read", file_path="a.py"))] * 2)
    done = stage.run("-p", "hello", "--max-turns", "2")
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr == b"mainspring: Reached maximum number of turns (2)\n"
    done = stage.run("-p", "hello", "--max-budget-usd", "0.0001", "--output-format=json")
    assert frames(done.stdout)[0]["subtype"] == "error_max_budget_usd"
    assert len(stage.requests) == 2, "a call that could not be paid for was made"


def test_another_model_stands_in(serve: Serve) -> None:
    stage = serve(*[Refuse(529, "overloaded_error", "Overloaded")] * 3, Say.of("Hi."))
    shown = frames(stage.run("-p", "hello", "--fallback-model", "haiku", "--output-format=stream-json").stdout)
    assert [request.body["model"] for request in stage.requests] == [*["claude-sonnet-5-5"] * 3, "claude-haiku-5-5"]
    assert [frame["attempt"] for frame in shown if frame.get("subtype") == "api_retry"] == [1, 2]
    assert list(shown[-1]["modelUsage"]) == ["claude-haiku-5-5"]


# --- tools and what they may ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "most"), [("", 9), ("[api]\nmaxRetries = 1\n", 1), ('[api]\nretry = "unattended"\n', 80)]
)
def test_how_often_a_request_is_tried_again_is_told(settings: str, most: int, serve: Serve) -> None:
    stage = serve(*[Refuse(500, "api_error", "no", {"retry-after": "0"})] * (2 if most == 1 else 1), Say.of("Hi."))
    stage.home.mkdir(parents=True)
    (stage.home / "settings.toml").write_text(settings)
    done = stage.run("-p", "hello", "--output-format=stream-json", "--verbose")
    told = [frame for frame in frames(done.stdout) if frame.get("subtype") == "api_retry"]
    assert [(frame["attempt"], frame["max_retries"]) for frame in told] == [(1, most)]
    assert done.returncode == (1 if most == 1 else 0)


def test_the_flag_for_unattended_runs_wins_over_the_setting(serve: Serve) -> None:
    stage = serve(*[Refuse(529, "overloaded_error", "Overloaded"), Say.of("Hi.")] * 2)
    stage.home.mkdir(parents=True)
    (stage.home / "settings.toml").write_text('[api]\nretry = "unattended"\n')
    for flag, most in (("unattended", 80), ("default", 9)):
        done = stage.run("-p", "hello", "--output-format=stream-json", "--verbose", "--retry", flag)
        told = [frame["max_retries"] for frame in frames(done.stdout) if frame.get("subtype") == "api_retry"]
        assert (done.returncode, told) == (0, [most])
    wrong = stage.run("-p", "hello", "--retry", "unatended")
    assert wrong.returncode == 1
    assert b"'--retry' must be one of default, unattended, not 'unatended'. Did you mean 'unattended'?" in wrong.stderr


def offered(stage: Stage, *flags: str) -> list[str]:
    return [tool["name"] for tool in body_of(stage, *flags).get("tools", [])]


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        ([], ALL),
        (["--permission-mode", "plan"], ALL),
        (["--allowedTools", "Bash(git:*)"], ALL),
        (["--disallowedTools", "Bash(rm:*) Write"], [name for name in ALL if name != "Write"]),
        (["--disallowedTools", "Bash(*),Glob()"], [name for name in ALL if name not in ("Bash", "Glob")]),
        (["--tools", "Read,Glob,Bash"], ["Bash", "Read", "Glob"]),
        (["--tools", "Read,Bash", "--disallowedTools", "Bash"], ["Read"]),
        (["--tools", "default"], ALL),
        (["--tools", ""], []),
    ],
)
@pytest.mark.covers("N-10")
def test_the_model_is_told_of_all_tools_but_those_that_are_taken_away(
    flags: list[str], names: list[str], serve: Serve
) -> None:
    assert offered(serve(Say.of("Hi.")), *flags) == names


def test_a_tool_that_there_is_not(serve: Serve) -> None:
    done = serve().run("-p", "hello", "--tools", "Reed")
    assert (done.returncode, done.stdout) == (1, b"")
    assert "'--tools Reed': there is no such tool" in done.stderr.decode()


@pytest.mark.covers("N-16")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root is refused")
def test_root_must_say_that_nothing_can_be_harmed(serve: Serve) -> None:
    done = serve().run("-p", "hello", "--dangerously-skip-permissions", env={"IS_SANDBOX": ""})
    assert (done.returncode, done.stdout) == (1, b"")
    assert "IS_SANDBOX=1" in done.stderr.decode()


def test_a_command_runs_without_our_secrets(serve: Serve) -> None:
    stage = serve(Say.of(tool_use("Bash", command="env; echo made > made.txt")), Say.of("Done."))
    done = stage.run("-p", "hello", "--allowedTools", "Bash", env={"ANTHROPIC_API_KEY": "s3cret", "EDITOR": "yes"})
    assert done.returncode == 0
    printed = json.dumps(stage.requests[1].body["messages"][-1])
    assert "EDITOR=yes" in printed
    assert "CLAUDECODE=1" in printed
    assert "s3cret" not in printed
    assert (stage.folder / "made.txt").read_text() == "made\n"


def test_a_tool_that_is_not_offered_cannot_be_called(serve: Serve) -> None:
    stage = serve(Say.of(tool_use("Bash", command="touch harm")), Say.of("Pity."))
    assert stage.run("-p", "hello", "--disallowedTools", "Bash").returncode == 0
    assert not (stage.folder / "harm").exists()
    assert "There is no tool 'Bash'" in json.dumps(stage.requests[1].body)


def test_other_folders_are_out_of_reach_unless_they_are_added(serve: Serve) -> None:
    stage = serve(*[Say.of(tool_use("Read", file_path="../other/x.txt")), Say.of("Done.")] * 2)
    other = stage.folder.parent / "other"
    other.mkdir()
    (other / "x.txt").write_text("found")
    stage.run("-p", "hello")
    stage.run("-p", "hello", "--add-dir", "../other")
    first, second = [json.dumps(request.body["messages"][-1]) for request in stage.requests[1::2]]
    assert "needs permission" in first
    assert "found" in second


# --- a world that is not in order -------------------------------------------------------------------


@contextmanager
def shell(stage: Stage, line: str) -> Iterator[subprocess.CompletedProcess[bytes]]:
    """The command with redirections that only a shell can make."""
    command = " ".join(COMMAND)
    yield subprocess.run(
        ["/bin/sh", "-c", line.replace("mainspring", command)],
        env=stage.environment,
        cwd=stage.folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )


def test_closed_output(serve: Serve) -> None:
    stage = serve(Say.of("Hi."))
    with shell(stage, "mainspring -p hello >&-") as done:
        assert (done.returncode, done.stdout) == (1, b"")
        assert b"standard output is closed" in done.stderr
    assert (stage.requests, stage.sessions()) == ([], [])


def test_closed_input_and_closed_errors(serve: Serve) -> None:
    stage = serve(Say.of("Hi."), Say.of("Hi."), REFUSED)
    with shell(stage, "mainspring -p hello <&-") as done:
        assert (done.returncode, done.stdout, done.stderr) == (0, b"Hi.\n", b"")
    with shell(stage, "mainspring -p hello <&- 2>&-") as done:
        assert (done.returncode, done.stdout) == (0, b"Hi.\n")
    with shell(stage, "mainspring -p hello 2>&-") as done:
        assert (done.returncode, done.stdout) == (1, b"")
    written = [json.loads(line) for path in stage.sessions() for line in path.read_text().splitlines()]
    assert all(isinstance(record, dict) for record in written), "something else was written to the journal"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
def test_output_that_cannot_be_written(serve: Serve) -> None:
    with shell(serve(Say.of("Hi.")), "mainspring -p hello >/dev/full") as done:
        assert done.returncode == 1
        assert done.stderr == b"mainspring: cannot write the output: No space left on device\n"


@pytest.mark.parametrize("home", ["/dev/null/home", "/proc/none"])
def test_where_nothing_can_be_stored_the_run_goes_on_and_says_so(home: str, serve: Serve) -> None:
    done = serve(Say.of("Hi.")).run("-p", "hello", env={"MAINSPRING_HOME": home})
    assert (done.returncode, done.stdout) == (0, b"Hi.\n")
    assert f"'{home}/projects" in done.stderr.decode()
    assert "from here on nothing of this session is stored" in done.stderr.decode()
    assert done.stderr.count(b"\n") == 1


UNMEASURED = "unset COVERAGE_PROCESS_START COVERAGE_PROCESS_CONFIG"  # its own files would not fit either


def test_a_disk_that_is_full_in_mid_run_is_told_once_and_the_run_goes_on(serve: Serve) -> None:
    """A limit on the size of files is the same to us: the write of a record fails."""
    stage = serve(Say.of("word " * 1_000, tool_use("Read", file_path="a.py")), Say.of("Done."))
    with shell(stage, f"{UNMEASURED}; ulimit -f 1; mainspring -p hello --output-format=stream-json") as done:
        shown = frames(done.stdout)
        assert (done.returncode, shown[-1]["result"]) == (0, "Done.")
        assert done.stderr.count(b"\n") == 1
        assert b"File too large" in done.stderr


def test_a_required_journal_ends_the_run_when_the_disk_is_full(serve: Serve) -> None:
    stage = serve(Say.of("word " * 1_000))
    command = "mainspring -p hello --require-journal --output-format=stream-json"
    with shell(stage, f"{UNMEASURED}; ulimit -f 1; {command}") as done:
        shown = frames(done.stdout)
        assert done.returncode == 1
        assert shown[-1]["type"] == "result"
        assert "--require-journal" in shown[-1]["errors"][0]


@pytest.mark.covers("L-05")
def test_a_session_is_taken_up_again(serve: Serve) -> None:
    stage = serve(Say.of("One."), Say.of("Two."), Say.of("Three."), Say.of("Four."))
    first = frames(stage.run("-p", "a", "--output-format=json").stdout)[0]
    stage.run("-p", "b", "--continue")
    again = frames(stage.run("-p", "c", "--resume", first["session_id"], "--output-format=json").stdout)[0]
    assert [len(request.body["messages"]) for request in stage.requests] == [1, 3, 5]
    assert again["session_id"] == first["session_id"]
    assert again["total_cost_usd"] == pytest.approx(3 * first["total_cost_usd"])
    forked = frames(stage.run("-p", "d", "--continue", "--fork-session", "--output-format=json").stdout)[0]
    assert forked["session_id"] != first["session_id"]
    assert len(stage.requests[-1].body["messages"]) == 7
    assert len(stage.sessions()) == 2


@pytest.mark.covers("L-08")
def test_a_session_of_the_demo_is_not_continued_by_another_model(serve: Serve) -> None:
    stage = serve(Say.of("Hello."), Say.of("Again."))
    assert stage.run("-p", "look around", "--model", "demo/tour").returncode == 0
    assert stage.run("-p", "hello", "--continue").returncode == 0
    assert "look around" not in json.dumps(stage.requests[0].body)
    first, second = sorted(stage.sessions(), key=lambda file: file.stat().st_mtime)
    assert stage.run("-p", "look again", "--continue", "--model", "demo/tour").returncode == 0
    assert "look again" in second.read_text()  # the demo's model may continue any
    assert stage.run("-p", "once more", "--resume", first.stem).returncode == 0
    assert "look around" in json.dumps(stage.requests[1].body)


def test_after_the_turn_limit_the_session_goes_on_with_a_higher_one(serve: Serve) -> None:
    look = tool_use("Read", file_path="a.py")
    stage = serve(Say.of("One.", look), Say.of("Two."))
    limited = frames(stage.run("-p", "go", "--max-turns=1", "--output-format=json").stdout)[0]
    assert (limited["subtype"], limited["is_error"]) == ("error_max_turns", True)
    done = stage.run("-p", "go on", "--continue", "--max-turns=5")
    assert (done.returncode, done.stdout) == (0, b"Two.\n")


def test_up_to_a_message(serve: Serve) -> None:
    stage = serve(Say.of("One."), Say.of("Two."), Say.of("Other."))
    first = frames(stage.run("-p", "a", "--output-format=stream-json").stdout)
    stage.run("-p", "b", "--continue")
    [at] = [frame["uuid"] for frame in first if frame["type"] == "assistant"]
    stage.run("-p", "c", "--continue", f"--resume-session-at={at}")
    texts = [text for message in stage.requests[-1].body["messages"] for text in said_in(message["content"])]
    assert texts == ["a", "One.", "c"]


def test_a_session_that_is_not_there_is_told_as_a_result_too(serve: Serve) -> None:
    stage = serve()
    done = stage.run("-p", "a", f"--resume={EXAMPLE}", "--output-format=stream-json")
    [result] = frames(done.stdout)
    assert done.returncode == 1
    assert (result["type"], result["is_error"]) == ("result", True)
    assert result["errors"] == [f"No conversation found with session ID: {EXAMPLE}"]
    assert EXAMPLE in done.stderr.decode()


def test_sessions_are_listed_and_shown(serve: Serve) -> None:
    stage = serve(Say.of("Look.", tool_use("Read", file_path="a.py")), Say.of("Done."))
    assert b"no sessions" in stage.run("sessions").stdout
    stage.run("-p", "what is in a.py?")
    listed = stage.run("sessions").stdout.decode()
    [path] = stage.sessions()
    assert path.stem in listed
    assert "2 turns" in listed
    assert "what is in a.py?" in listed
    assert "newest" not in listed
    for number in range(60):
        copy = path.with_name(f"{number:08x}-0000-4000-8000-000000000000.jsonl")
        copy.write_bytes(path.read_bytes())
    many = stage.run("sessions").stdout.decode()
    assert many.count(" turns ") == 50
    assert f"(newest 50 only; older ones are in '{path.parent}')" in many
    told = stage.run("sessions", "show", path.stem).stdout.decode()
    assert [words in told for words in ("> what is in a.py?", "Look.", "* Read", "Done.")] == [True] * 4
    assert b"No conversation found" in stage.run("sessions", "show", EXAMPLE).stderr
    assert b"No conversation found with session ID: shwo" in stage.run("sessions", "shwo").stderr


def test_a_folder_that_is_gone(serve: Serve) -> None:
    stage = serve()
    with shell(stage, "mkdir gone && cd gone && rmdir ../gone && mainspring -p hello") as done:
        assert (done.returncode, done.stdout) == (1, b"")
        assert b"the working directory no longer exists" in done.stderr


def test_a_command_that_fails_leaves_its_siblings_alone(serve: Serve) -> None:
    """Settled 21."""
    commands = {"toolu_1": "ls /nowhere", "toolu_2": "echo two", "toolu_3": "touch made"}
    calls = [
        {"type": "tool_use", "id": name, "name": "Bash", "input": {"command": command}}
        for name, command in commands.items()
    ]
    stage = serve(Say.of(*calls), Say.of("Done."))
    assert stage.run("-p", "go", "--allowedTools=Bash").stdout == b"Done.\n"
    content = stage.requests[-1].body["messages"][-1]["content"]
    results = [block for block in content if block["type"] == "tool_result"]
    assert [block.get("is_error", False) for block in results] == [True, False, False]
    assert (stage.folder / "made").exists()
