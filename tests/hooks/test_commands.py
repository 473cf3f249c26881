"""Commands as hooks: real shells, real processes; what they are told, what they answer, and that nothing is left."""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace
from processes.escapes import ESCAPES
from processes.traces import descriptors, new_nap, until, with_word, zombies
from tiers import parametrize_few

from mainspring.hooks import payloads
from mainspring.hooks.commands import LONGEST_NAME, MOST_PRINTED, HookShell, encode_payload, make_failing_hook
from mainspring.hooks.events import CAN_BLOCK, GUARDS, NOTHING, HookPoint, HookResult
from mainspring.hooks.invocation import HookCallError
from mainspring.hooks.results import LONGEST_TEXT
from mainspring.hooks.runner import HookRunner
from mainspring.processes.children import Children
from mainspring.processes.environment import child_environment

PRE, POST, STOP, PROMPT = HookPoint.PRE_TOOL_USE, HookPoint.POST_TOOL_USE, HookPoint.STOP, HookPoint.USER_PROMPT_SUBMIT
DENY = '{"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "no"}}'
Result = TypeVar("Result")


class Scene:
    def __init__(self, folder: Path, **settings: Any) -> None:
        self.children = Children()
        self.warnings: list[str] = []
        self.said: list[str] = []
        env = child_environment(os.environ)
        self.shell = HookShell(self.children, **{"env": env, "cwd": str(folder), "outside": (str(folder),)} | settings)

    def runner(self, *commands: str, point: HookPoint = PRE, **entry: object) -> HookRunner:
        hooks = [self.shell.hook(point, "", {"command": command, **entry}) for command in commands]
        return HookRunner(hooks, warn=self.warnings.append, say=self.said.append)

    async def ask(
        self, *commands: str, point: HookPoint = PRE, told: dict[str, Any] | None = None, **entry: object
    ) -> HookResult:
        found = await self.runner(*commands, point=point, **entry).ask(point, told or {}, "Bash")
        return replace(found, by="")  # the name is the command


def play(folder: Path, main: Callable[[Scene], Awaitable[Result]], **settings: Any) -> tuple[Result, Scene]:
    async def play() -> tuple[Result, Scene]:
        scene = Scene(folder, **settings)
        try:
            return await main(scene), scene
        finally:
            await scene.children.close()

    return asyncio.run(play())


def ask(folder: Path, *commands: str, **more: Any) -> tuple[HookResult, list[str]]:
    opinion, scene = play(folder, lambda scene: scene.ask(*commands, **more))
    return opinion, scene.warnings


# --- what it is told ----------------------------------------------------------------------------------------------


def test_the_facts_are_one_line_of_json_on_standard_input(tmp_path: Path) -> None:
    told = {"tool_name": "Bash", "tool_input": {"command": "echo 'ä'\n"}}
    ask(
        tmp_path,
        'IFS= read -r line && printf %s "$line" > told; pwd > folder; echo $CLAUDE_PROJECT_DIR > project',
        told=told,
    )
    assert json.loads((tmp_path / "told").read_text()) == {"hook_event_name": "PreToolUse", **told}
    assert (tmp_path / "folder").read_text() == (tmp_path / "project").read_text() == f"{tmp_path}\n"


FACTS: list[tuple[HookPoint, dict[str, Any], dict[str, Any]]] = [
    (
        STOP,
        payloads.make_stop_payload(active=True, last="done"),
        {"stop_hook_active": True, "last_assistant_message": "done", "background_tasks": [], "session_crons": []},
    ),
    (
        HookPoint.SUBAGENT_START,
        payloads.make_subagent_start_payload("a1", "Explore"),
        {"agent_id": "a1", "agent_type": "Explore"},
    ),
    (
        HookPoint.SUBAGENT_STOP,
        payloads.make_subagent_stop_payload("a1", "Explore", transcript="/t", active=False, last="found"),
        {
            "agent_id": "a1",
            "agent_type": "Explore",
            "agent_transcript_path": "/t",
            "stop_hook_active": False,
            "last_assistant_message": "found",
        },
    ),
    (HookPoint.PRE_COMPACT, payloads.make_compaction_payload("auto"), {"trigger": "auto", "custom_instructions": None}),
    (
        HookPoint.POST_COMPACT,
        payloads.make_summary_payload("manual", "all"),
        {"trigger": "manual", "compact_summary": "all"},
    ),
    (
        HookPoint.NOTIFICATION,
        payloads.make_notification_payload("hi", "idle_prompt"),
        {"message": "hi", "notification_type": "idle_prompt"},
    ),
]


@pytest.mark.covers("I-01")
@pytest.mark.parametrize(("point", "told", "expected"), FACTS)
def test_what_each_point_without_a_tool_tells(
    tmp_path: Path, point: HookPoint, told: dict[str, Any], expected: dict[str, Any]
) -> None:
    opinion, warnings = ask(tmp_path, "cat > told", point=point, told=told)
    assert (opinion, warnings) == (NOTHING, [])
    assert json.loads((tmp_path / "told").read_text()) == {"hook_event_name": str(point), **expected}


def test_the_environment_holds_no_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    ask(tmp_path, "env > told")
    assert "sk-secret" not in (tmp_path / "told").read_text()


@pytest.mark.parametrize("command", ["true", "exec <&-; true", "exec 0</dev/null; sleep 0.01", "head -c 1 >/dev/null"])
def test_one_that_does_not_read_a_megabyte_of_facts_holds_up_nobody(tmp_path: Path, command: str) -> None:
    assert ask(tmp_path, command, told={"tool_input": {"content": "x" * 1_000_000}}) == (NOTHING, [])


def test_one_that_reads_it_gets_all_of_it(tmp_path: Path) -> None:
    ask(tmp_path, "wc -c > told", told={"tool_input": {"content": "x" * 1_000_000}})
    assert int((tmp_path / "told").read_text()) > 1_000_000


def test_half_a_character_does_not_get_a_call_past_a_guard(tmp_path: Path) -> None:
    guard = f"if grep -q 'rm -rf'; then echo '{DENY}'; fi"
    opinion, warnings = ask(tmp_path, guard, told={"tool_input": {"command": "rm -rf \ud800"}})
    assert (opinion.decision, warnings) == ("deny", [])


@pytest.mark.parametrize("fact", [object(), float, {"a": ["\ud800", object()]}])
def test_facts_that_cannot_be_written_are_not_left_out(fact: object) -> None:
    with pytest.raises(HookCallError, match="cannot receive its payload"):
        encode_payload({"fact": fact})


# --- what it answers ----------------------------------------------------------------------------------------------


@pytest.mark.covers("I-04")
def test_exit_code_0_and_json(tmp_path: Path) -> None:
    assert ask(tmp_path, f"echo '{DENY}'") == (HookResult("deny", reason="no"), [])
    assert ask(tmp_path, f"echo; echo '  {DENY}  '; echo") == (HookResult("deny", reason="no"), [])
    assert ask(tmp_path, "echo '{}'") == (NOTHING, [])
    assert ask(tmp_path, 'echo \'{"decision":"block","reason":"lint"}\'', point=STOP) == (
        HookResult(block=True, reason="lint"),
        [],
    )


@pytest.mark.parametrize("point", HookPoint)
def test_plain_text_is_for_the_model_only_at_a_prompt_and_a_start(tmp_path: Path, point: HookPoint) -> None:
    opinion, warnings = ask(tmp_path, "echo ' the branch is main '", point=point)
    expected = HookResult(context=("the branch is main",)) if point in (PROMPT, HookPoint.SESSION_START) else NOTHING
    assert (opinion, warnings) == (expected, [])


@pytest.mark.parametrize("point", HookPoint)
def test_exit_code_2_is_a_no_where_one_can_be_said(tmp_path: Path, point: HookPoint) -> None:
    opinion, warnings = ask(tmp_path, "echo '{}'; echo ' not here ' >&2; exit 2", point=point)
    if point in GUARDS:
        assert (opinion, warnings) == (HookResult("deny", reason="not here"), [])
    elif point in CAN_BLOCK:
        assert (opinion, warnings) == (HookResult(block=True, reason="not here"), [])
    else:
        assert opinion == NOTHING
        assert warnings[0].endswith("ended with exit code 2: not here")


def test_exit_code_2_without_a_word(tmp_path: Path) -> None:
    assert ask(tmp_path, "exit 2") == (HookResult("deny", reason="A hook blocked this without a reason."), [])


@pytest.mark.parametrize("code", [1, 3, 125, 128, 193, 255])
def test_any_other_exit_code_is_a_failure(tmp_path: Path, code: int) -> None:
    opinion, warnings = ask(tmp_path, f"echo '{DENY}'; echo oops >&2; exit {code}")
    assert opinion == NOTHING
    assert warnings[0].endswith(f"ended with exit code {code}: oops")
    opinion, warnings = ask(tmp_path, f"exit {code}", onFailure="block")
    assert opinion.decision == "deny"
    assert warnings[0].endswith(f"ended with exit code {code}")


CANNOT_START = {
    "not found": ("./no-such-guard", "cannot be started: .*No such file"),
    "no command": ("no-such-guard-xyz", "cannot be started: .*command not found"),
    "not executable": ("./plain", "cannot be started: .*Permission denied"),
    "says so": ("exit 127", "cannot be started: exit code 127"),
    "no bubblewrap": ("echo bwrap: no >&2; exit 1", "cannot be started: bwrap: no"),
    "no landlock": ("echo mainspring-landlock: no >&2; exit 70", "cannot be started: mainspring-landlock: no"),
    "a NUL": ("true\0", "cannot be started: .*null byte"),
    "killed": ("kill -KILL $$", "was ended by signal 9"),
    "its child was killed": ("echo dying >&2; bash -c 'kill -TERM $$'; exit $?", "was ended by signal 15: dying"),
}


@pytest.mark.covers("I-04")
@pytest.mark.parametrize("name", CANNOT_START)
def test_a_guard_that_cannot_be_asked_says_no(tmp_path: Path, name: str) -> None:
    command, why = CANNOT_START[name]
    (tmp_path / "plain").write_text("exit 0\n")
    opinion, warnings = ask(tmp_path, command)
    assert opinion.decision == "deny"
    assert opinion.reason.startswith("The hook '")
    assert re.search(why, warnings[0])
    assert ask(tmp_path, command, point=STOP)[0] == NOTHING
    assert ask(tmp_path, command, point=STOP, onFailure="block")[0].block


def test_so_does_one_whose_folder_is_gone_or_that_is_too_long(tmp_path: Path) -> None:
    opinion, scene = play(tmp_path, lambda scene: scene.ask("true"), cwd=str(tmp_path / "gone"))
    assert opinion.decision == "deny"
    assert "cannot be started" in scene.warnings[0]
    opinion, warnings = ask(tmp_path, "true " + "x" * 3_000_000)
    assert opinion.decision == "deny"
    assert "cannot be started" in warnings[0]
    assert len(warnings[0]) < 300


def test_and_one_for_which_there_is_no_shell(tmp_path: Path) -> None:
    everywhere = ("/bin", "/usr", "/opt", "/run", str(tmp_path))
    opinion, scene = play(tmp_path, lambda scene: scene.ask("true"), outside=everywhere, env={})
    assert opinion.decision == "deny"
    assert "neither 'bash' nor 'sh' was found outside the working folders" in scene.warnings[0]


def test_a_plain_sh_will_do(tmp_path: Path) -> None:
    """Where bash is only in the project, it is not taken; 'sh' is another program."""
    real = os.path.realpath("/bin/bash")
    opinion, scene = play(tmp_path, lambda scene: scene.ask("echo $0 > told; exit 2"), outside=("/bin/bash", real))
    assert (opinion.decision, scene.warnings) == ("deny", [])
    assert (tmp_path / "told").read_text().strip().endswith("/sh")


def test_an_entry_that_cannot_run_guards_all_the_same() -> None:
    for point in HookPoint:
        hook = make_failing_hook(point, "Bash", {"type": "http", "url": "u"}, "why", "http hook")
        assert (hook is not None) == (point in GUARDS)
        strict = make_failing_hook(point, "Bash", {"onFailure": "block"}, "why", "http hook")
        assert strict is not None
        warnings: list[str] = []
        opinion = asyncio.run(HookRunner([strict], warn=warnings.append).ask(point, {}, "Bash"))
        assert opinion.decision == "deny" if point in GUARDS else opinion.block
        assert warnings == [f"the {point} hook 'http hook' cannot be started: why"]


def test_names_are_short_and_timeouts_and_failures_as_written() -> None:
    shell = HookShell(Children(), {}, cwd="/")
    hook = shell.hook(PRE, None, {"command": "x" * 1_000, "timeout": 5, "onFailure": "block", "async": True})
    assert (len(hook.name), hook.seconds, hook.blocks, hook.aside) == (LONGEST_NAME, 5.0, True, True)
    plain = shell.hook(PRE, "Bash", {"command": "x"})
    assert (plain.seconds, plain.blocks, plain.aside, plain.matcher) == (60.0, False, False, "Bash")


# --- rubbish ------------------------------------------------------------------------------------------------------

RUBBISH = {
    "invalid json": ("echo '{\"decision\": block}'", "printed invalid JSON"),
    "half of it": ("printf '{\"decision\"'", "printed invalid JSON"),
    "wrong types": ("echo '{\"hookSpecificOutput\": 5}'", "gave an invalid answer"),
    "deep": (f'{sys.executable} -c "print(\'{{\\"a\\":\' * 100000)"', "nested too deeply"),
    "binary": ("printf '{\\377\\376\\000\\001}'", "printed invalid JSON"),
    "huge": (
        f"printf '{{'; head -c {MOST_PRINTED + 100_000} /dev/zero | tr '\\0' ' '; echo '}}'",
        "bytes; the limit is",
    ),
}


@pytest.mark.parametrize("name", RUBBISH)
def test_rubbish_is_no_opinion_and_is_named(tmp_path: Path, name: str) -> None:
    command, why = RUBBISH[name]
    opinion, warnings = ask(tmp_path, command)
    assert opinion == NOTHING
    assert why in warnings[0]
    assert ask(tmp_path, command, onFailure="block")[0].decision == "deny"


@pytest.mark.parametrize(
    "command", ["head -c 100000 /dev/urandom | tr -d '{'", "echo '[1]'", "echo '\"deny\"'", "true"]
)
def test_what_is_no_object_is_ignored(tmp_path: Path, command: str) -> None:
    assert ask(tmp_path, command) == (NOTHING, [])


def test_text_for_the_model_is_bounded_and_readable(tmp_path: Path) -> None:
    (context,) = ask(tmp_path, "printf 'a\\000b\\377c'", point=PROMPT)[0].context
    assert context == "a\N{SYMBOL FOR NULL}b\ufffdc"
    (context,) = ask(tmp_path, "head -c 3000000 /dev/zero | tr '\\0' x", point=PROMPT)[0].context
    assert len(context) == LONGEST_TEXT


def test_a_flood_takes_no_memory_and_its_exit_code_counts(tmp_path: Path) -> None:
    """300 MB on each output; both ends of a megabyte are kept."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    opinion, warnings = ask(tmp_path, "head -c 300000000 /dev/zero; head -c 300000000 /dev/zero >&2; exit 2")
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert (opinion.decision, warnings) == ("deny", [])
    assert len(opinion.reason) <= 2_000
    assert grown < 32_000, f"{grown} KB"


def test_an_answer_may_be_large(tmp_path: Path) -> None:
    (tmp_path / "answer").write_text(json.dumps({"hookSpecificOutput": {"updatedToolOutput": "x" * 900_000}}))
    opinion, warnings = ask(tmp_path, "cat answer", point=POST)
    assert (opinion, warnings) == (HookResult(output="x" * 900_000), [])


# --- nothing is left ----------------------------------------------------------------------------------------------


def test_one_that_takes_too_long_is_ended_and_refuses(tmp_path: Path) -> None:
    nap = new_nap()
    began = time.monotonic()
    opinion, warnings = ask(tmp_path, f"sleep {nap}", timeout=0.2)
    took = time.monotonic() - began
    assert opinion.decision == "deny"
    assert warnings[0].endswith("took longer than 0.2 seconds")
    assert (with_word(nap), zombies()) == ([], [])
    assert took < 20, f"{took:.2f} s"  # it would sleep for 100


def test_the_mark_is_in_force_before_its_first_word(tmp_path: Path) -> None:
    """So what it leaves behind is known as its own, however soon it was started."""
    ask(tmp_path, "ulimit -q > limit; tr '\\0' '\\n' < /proc/$$/cmdline > words; echo $MAINSPRING_CALL > mark")
    limit = (tmp_path / "limit").read_text().strip()
    assert f"ulimit -q {limit} 2>/dev/null; " in (tmp_path / "words").read_text()
    assert (tmp_path / "mark").read_text().strip()


@parametrize_few("name", ESCAPES, keep=4)
def test_nothing_is_left_behind(tmp_path: Path, name: str) -> None:
    nap = new_nap()
    command = ESCAPES[name].replace("NAP", nap) + f"\nuntil pgrep -f {nap}; do :; done >/dev/null; exit 2"
    assert ask(tmp_path, command)[0].decision == "deny"
    assert with_word(nap) == []


@parametrize_few("name", ESCAPES, keep=4)
def test_nothing_is_left_of_a_cancelled_run(tmp_path: Path, name: str) -> None:
    nap = new_nap()

    async def main(scene: Scene) -> None:
        before = descriptors()
        command = ESCAPES[name].replace("NAP", nap) + f"\nsleep {nap}; true"
        task = asyncio.ensure_future(scene.ask(command, command))
        await until(lambda: len(with_word(nap)) >= 6)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert descriptors() == before
        assert len(asyncio.all_tasks()) == 1

    play(tmp_path, main)
    assert (with_word(nap), zombies()) == ([], [])


# --- those that nobody waits for ----------------------------------------------------------------------------------

ASYNC = 'echo \'{"async": true, "asyncTimeout": 60000}\''


def test_a_first_line_may_let_us_go_on(tmp_path: Path) -> None:
    async def main(scene: Scene) -> None:
        runner = scene.runner(f"{ASYNC}; until test -e go; do sleep 0.01; done; echo '{DENY}'; touch done; exit 2")
        assert await runner.ask(PRE, {}) == NOTHING
        assert not (tmp_path / "done").exists()
        (tmp_path / "go").touch()
        await runner.close()
        assert (tmp_path / "done").exists()

    assert play(tmp_path, main)[1].warnings == []


def test_it_has_a_time_of_its_own_and_ends_with_the_session(tmp_path: Path) -> None:
    short, long = new_nap(), new_nap()

    async def main(scene: Scene) -> None:
        runner = scene.runner(f'echo \'{{"async":true,"asyncTimeout":100}}\'; sleep {short}', f"{ASYNC}; sleep {long}")
        assert await runner.ask(PRE, {}) == NOTHING
        await until(lambda: scene.warnings)
        await until(lambda: with_word(long))
        await runner.close(grace=0.01)
        assert len(asyncio.all_tasks()) == 1

    warnings = play(tmp_path, main)[1].warnings
    assert len(warnings) == 1
    assert warnings[0].endswith("' took longer than 0.1 seconds")
    assert (with_word(short), with_word(long), zombies()) == ([], [], [])


def test_one_that_ends_at_once_is_understood_all_the_same(tmp_path: Path) -> None:
    assert ask(tmp_path, ASYNC) == (NOTHING, [])


NOT_ASYNC = {
    "false": "echo '{\"async\": false}'",
    "wrong type": "echo '{\"async\": 1}'",
    "not the first": "echo text; echo '{\"async\": true}'",
    "no json": "echo '{async}'",
    "deep": f'{sys.executable} -c "print(\'{{\\"a\\":\' * 300)"',
    "in pieces": "printf '{\"asy'; sleep 0.05; printf 'nc\": fal'; sleep 0.05; echo 'se}'; echo more",
    "a long line": "head -c 3000 /dev/zero | tr '\\0' '{'",
}


@pytest.mark.parametrize("name", NOT_ASYNC)
def test_what_is_no_such_line_is_waited_for(tmp_path: Path, name: str) -> None:
    ask(tmp_path, f"{NOT_ASYNC[name]}; sleep 0.1; touch done")
    assert (tmp_path / "done").exists()


def test_aside_by_the_settings(tmp_path: Path) -> None:
    async def main(scene: Scene) -> None:
        entry = {"command": "until test -e go; do sleep 0.01; done; touch done", "async": True}
        runner = HookRunner([scene.shell.hook(PRE, "", entry)], warn=scene.warnings.append)
        assert await runner.ask(PRE, {}) == NOTHING
        assert not (tmp_path / "done").exists()
        (tmp_path / "go").touch()
        await runner.close()
        assert (tmp_path / "done").exists()

    assert play(tmp_path, main)[1].warnings == []
