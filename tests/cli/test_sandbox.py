"""Commands behind walls, as the command starts them: on by default, said, never silently off."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import tempfile
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from cli.stage import COMMAND, PATIENCE, Serve, Stage, frames
from mainspring.agent.sandbox import SandboxConfig, SessionSandbox
from mainspring.engine.shared_state import EnginePolicy
from mainspring.hooks.commands import HookShell
from mainspring.hooks.events import HookPoint, HookResult
from mainspring.hooks.runner import HookRunner
from mainspring.permissions.checker import PermissionChecker, RuleText
from mainspring.processes.child import ProcessSpec, SandboxAccess
from mainspring.processes.children import Children
from mainspring.sandbox import landlock
from mainspring.sandbox.bubblewrap import SandboxError
from mainspring.settings.values import SandboxOptions as Wanted
from mainspring.simulator.replies import Say


def bash(command: str, **more: Any) -> dict[str, Any]:
    return {
        "type": "tool_use",
        "id": f"toolu_{abs(hash(command))}",
        "name": "Bash",
        "input": {"command": command, **more},
    }


def play(stage: Stage, *flags: str, env: dict[str, str] | None = None) -> list[dict[str, Any]]:
    done = stage.run("-p", "go", "--output-format=stream-json", "--verbose", "--allowedTools=Bash", *flags, env=env)
    return frames(done.stdout)


def results(shown: list[dict[str, Any]]) -> list[str]:
    parts = [part for frame in shown if frame["type"] == "user" for part in frame["message"]["content"]]
    return [json.dumps(part["content"]) for part in parts]


def settings(stage: Stage, **values: Any) -> None:
    stage.home.mkdir(parents=True, exist_ok=True)
    (stage.home / "settings.json").write_text(json.dumps(values))


@pytest.mark.needs("bwrap")
def test_a_command_writes_in_the_working_folder_and_nowhere_else(serve: Serve) -> None:
    stage = serve(Say.of(bash("touch here; touch /var/mainspring-was-here")), Say.of("Done."))
    shown = play(stage)
    assert shown[0]["sandbox"] == "sandbox: on (bubblewrap)"
    assert "sandbox: on (bubblewrap)" in stage.sessions()[0].read_text()
    assert (stage.folder / "here").exists()
    assert not Path("/var/mainspring-was-here").exists()
    [result] = results(shown)
    assert "Read-only file system" in result
    assert "dangerouslyDisableSandbox" in result


@pytest.mark.needs("bwrap")
def test_leaving_it_is_refused_where_nobody_can_be_asked(serve: Serve) -> None:
    stage = serve(Say.of(bash("touch ../there", dangerouslyDisableSandbox=True)), Say.of("Done."))
    shown = play(stage)
    assert not (stage.folder.parent / "there").exists()
    assert shown[-1]["permission_denials"]
    assert "outside of the sandbox" in results(shown)[0]


@pytest.mark.needs("bwrap")
@pytest.mark.setting("sandbox.enabled")
def test_the_user_may_switch_it_off_and_a_project_may_not(serve: Serve) -> None:
    stage = serve(Say.of(bash("touch ../there")), Say.of("Done."), Say.of(bash("touch ../third")), Say.of("Done."))
    (stage.folder / ".mainspring").mkdir()
    (stage.folder / ".mainspring" / "settings.json").write_text('{"sandbox": {"enabled": false}}')
    play(stage)
    assert not (stage.folder.parent / "there").exists()
    settings(stage, sandbox={"enabled": False})
    shown = play(stage)
    assert shown[0]["sandbox"].startswith("sandbox: off")
    assert (stage.folder.parent / "third").exists()


@pytest.mark.setting("sandbox.excludedCommands")
def test_excluded_commands_run_outside(serve: Serve) -> None:
    stage = serve(Say.of(bash("touch ../there")), Say.of("Done."))
    settings(stage, sandbox={"excludedCommands": ["touch:*"]})
    play(stage)
    assert (stage.folder.parent / "there").exists()


def without_bubblewrap(stage: Stage, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """The same system, but for that program."""
    hidden = ["bwrap", "--bind", "/", "/", "--dev-bind", "/dev", "/dev", "--ro-bind", "/dev/null", "/usr/bin/bwrap"]
    command = [*hidden, "--", *COMMAND, *arguments]
    return subprocess.run(
        command, cwd=stage.folder, env=stage.environment, input=b"", capture_output=True, timeout=PATIENCE, check=False
    )


@pytest.mark.needs("bwrap")
def test_without_bubblewrap_it_is_said_once(serve: Serve) -> None:
    stage = serve(*[Say.of(bash("touch ../there")), Say.of("Done.")] * 2)
    first = without_bubblewrap(stage, "-p", "go", "--allowedTools=Bash")
    assert b"commands run without a sandbox: bubblewrap is not installed" in first.stderr
    assert (stage.folder.parent / "there").exists()
    assert without_bubblewrap(stage, "-p", "go", "--allowedTools=Bash").stderr == b""


@pytest.mark.needs("bwrap")
@pytest.mark.setting("sandbox.failIfUnavailable")
def test_required_without_bubblewrap_landlock_stands_in_or_nothing_begins(serve: Serve) -> None:
    stage = serve(Say.of(bash("touch here /var/mainspring-was-here")), Say.of("Done."))
    settings(stage, sandbox={"failIfUnavailable": True})
    done = without_bubblewrap(stage, "-p", "go", "--allowedTools=Bash")
    if not landlock.find_landlock_problem(str(stage.home)):
        assert (done.returncode, done.stdout) == (0, b"Done.\n")
        assert b"commands run in a weaker sandbox (Landlock)" in done.stderr
        assert not Path("/var/mainspring-was-here").exists()
    else:
        assert done.returncode == 1
        assert b"a sandbox is required, but" in done.stderr
        assert stage.requests == []


def test_a_required_sandbox_works_where_nobody_has_made_a_home_yet(serve: Serve) -> None:
    stage = serve(Say.of(bash("echo $((20 + 22))")), Say.of("Done."))
    wanted = json.dumps({"sandbox": {"enabled": True, "failIfUnavailable": True}})
    shown = play(stage, "--settings", wanted, env={"MAINSPRING_HOME": str(stage.folder.parent / "not" / "yet")})
    assert "42" in results(shown)[0]


def test_git_works_in_the_sandbox_and_hooks_cannot_be_planted(serve: Serve) -> None:
    commands = ("git add -A && git commit -qm first && git log --oneline", "touch .git/hooks/pre-commit", "git status")
    stage = serve(*[Say.of(bash(command)) for command in commands], Say.of("Done."))
    for words in (["init", "-q"], ["config", "user.name", "a"], ["config", "user.email", "a@b.c"]):
        subprocess.run(["git", *words], cwd=stage.folder, check=True)
    (stage.folder / "a.txt").write_text("hello")
    made, planted, asked = results(play(stage))
    assert "first" in made
    assert "is protected" in planted  # the rules are asked first
    assert "nothing to commit" in asked
    assert not (stage.folder / ".git/hooks/pre-commit").exists()


@pytest.mark.needs("bwrap")
def test_what_a_rule_keeps_from_being_read_a_command_cannot_read_either(tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "deep").mkdir(parents=True)
    for name in (".env", "deep/secret.key", "open.txt"):
        (work / name).write_text("swordfish")
    rules = (RuleText("deny", "Read(./.env)", "user"), RuleText("deny", "Read(**/*.key)", "user"))
    gate = PermissionChecker(rules, folders=(str(work),))
    sandboxing = SessionSandbox(
        SandboxConfig(
            Wanted(),
            (str(work),),
            str(tmp_path),
            os.environ["PATH"],
            policy=lambda: gate.policy(EnginePolicy()),
            unreadable=lambda: gate.unreadable(str(work), EnginePolicy()),
        )
    )

    async def main() -> str:
        children = Children(around=sandboxing.around)
        argv = ("/bin/sh", "-c", "cat .env deep/secret.key; cat open.txt")
        ended = await children.run(ProcessSpec(argv, str(work), {"PATH": "/usr/bin:/bin"}, walls=SandboxAccess.USUAL))
        await children.close()
        await sandboxing.close()
        return ended.stdout.text

    assert asyncio.run(main()) == "swordfish"


@pytest.mark.needs("bwrap")
@pytest.mark.setting("sandbox.autoAllowBashIfSandboxed")
@pytest.mark.parametrize("wanted", [True, False])
def test_auto_allow_is_a_wish_of_the_user(serve: Serve, wanted: bool) -> None:
    stage = serve(Say.of(bash("touch here")), Say.of("Done."))
    settings(stage, sandbox={"autoAllowBashIfSandboxed": wanted})
    stage.run("-p", "go")
    assert (stage.folder / "here").exists() is wanted


# --- folders of ours that cannot be written -------------------------------------------------------------------------

HERE = ["unshare", "-rm", "sh", "-c"]  # with mounts of its own


def in_world(stage: Stage, mounts: str, *flags: str) -> subprocess.CompletedProcess[bytes]:
    """The command, after mounts that only it sees."""
    words = [*COMMAND, "-p", "go", "--output-format=stream-json", "--verbose", "--allowedTools=Bash", *flags]
    return subprocess.run(
        [*HERE, f'{mounts} && exec "$@"', "world", *words],
        cwd=stage.folder,
        env=stage.environment,
        input=b"",
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )


def escaping(serve: Serve) -> Stage:
    outside = "/var/mainspring-was-here"
    stage = serve(Say.of(bash(f"touch here; touch {outside} || echo kept in")), Say.of("Done."))
    stage.home.mkdir(parents=True, exist_ok=True)
    return stage


HOMES = {
    "read-only": "mount --bind {home} {home} && mount -o remount,bind,ro {home}",
    "without inodes": "mount -t tmpfs -o nr_inodes=1 none {home}",
    "full": "mount -t tmpfs -o size=4k none {home} && { cat /dev/zero > {home}/big 2> /dev/null; true; }",
    "no folder": "mount -t tmpfs none {home} && touch {home}/x && export MAINSPRING_HOME={home}/x/y",
    "missing in /proc": "export MAINSPRING_HOME=/proc/mainspring",
}


@pytest.mark.parametrize("home", HOMES)
@pytest.mark.needs("bwrap")
def test_a_home_that_cannot_be_written_does_not_turn_the_sandbox_off(serve: Serve, home: str) -> None:
    stage = escaping(serve)
    done = in_world(stage, HOMES[home].replace("{home}", str(stage.home)))
    shown = frames(done.stdout)
    assert shown[0]["sandbox"] == "sandbox: on (bubblewrap)", done.stderr
    assert "kept in" in results(shown)[0]
    assert not Path("/var/mainspring-was-here").exists()
    assert (stage.folder / "here").exists()
    assert b"without a sandbox" not in done.stderr
    if home != "full":  # a folder can still be made in there
        assert b"cannot be written" in done.stderr
        assert b"the sandbox uses '" in done.stderr


@pytest.mark.needs("bwrap")
def test_where_nothing_can_be_written_no_command_runs(serve: Serve) -> None:
    stage = escaping(serve)
    closed = " && ".join(f"mount -t tmpfs -o ro none {folder}" for folder in ("/tmp", "/var/tmp", "/dev/shm"))
    work = f"mkdir /mnt/work 2> /dev/null; mount --bind {stage.folder} /mnt"  # it may lie in /tmp
    done = in_world(stage, f"export MAINSPRING_HOME=/proc/mainspring && {work} && cd /mnt && {closed}")
    [result] = results(frames(done.stdout))
    assert "cannot be started: the sandbox has no writable directory" in result
    assert not (stage.folder / "here").exists()
    assert not Path("/var/mainspring-was-here").exists()


@pytest.mark.needs("bwrap")
def test_on_a_full_disk_no_protected_place_can_be_made(serve: Serve) -> None:
    """What is missing is held by a folder in its place. Where that cannot be made, a command could make room for it."""
    script = "import os; os.remove('filler'); os.mkdir('.cla' + 'ude'); print('made')"
    stage = serve(Say.of(bash(f'python3 -c "{script}"')), Say.of("Done."))
    full = f"mount -t tmpfs -o nr_inodes=2 none {stage.folder} && cd {stage.folder} && touch filler"
    done = in_world(stage, full)
    [result] = results(frames(done.stdout))
    assert "(No space left on device): free space" in result


# --- the user's own programs ----------------------------------------------------------------------------------------


@pytest.mark.needs("bwrap")
def test_a_hook_finds_the_real_temporary_folder(serve: Serve) -> None:
    """A log that it writes there stays; what the model's commands write there does not."""
    stage = serve(Say.of(bash("touch /tmp/$(cat name)-model; echo $?")), Say.of("Done."))
    log = Path(tempfile.mkdtemp(prefix="hook-log-", dir="/tmp"))
    (stage.folder / "name").write_text(log.name)
    hook = {"type": "command", "command": f"echo $TMPDIR >> {log}/log; mktemp >> {log}/log; touch /var/mainspring-hook"}
    settings(stage, hooks={"PreToolUse": [{"hooks": [hook]}]})
    try:
        shown = play(stage)
        temp, made = (log / "log").read_text().splitlines()
        assert temp == "/tmp"
        assert Path(made).is_file()
        Path(made).unlink()
        assert "0" in results(shown)[0]
        assert not Path(f"{log}-model").exists()
        assert not Path("/var/mainspring-hook").exists()
    finally:
        shutil.rmtree(log)


def test_a_guard_whose_sandbox_fails_refuses(tmp_path: Path) -> None:
    """With bubblewrap gone in the middle of a session, say."""

    def fails(_: ProcessSpec) -> AbstractContextManager[ProcessSpec]:
        raise SandboxError("its walls cannot be built")

    async def main() -> HookResult:
        children = Children(around=fails)
        hook = HookShell(children, {"PATH": "/usr/bin:/bin"}, cwd=str(tmp_path)).hook(
            HookPoint.PRE_TOOL_USE, "", {"command": "touch ran"}
        )
        return await HookRunner([hook]).ask(HookPoint.PRE_TOOL_USE, {}, "Bash")

    opinion = asyncio.run(main())
    assert opinion.decision == "deny"
    assert "cannot be started: its walls cannot be built" in opinion.reason
    assert not (tmp_path / "ran").exists()


SINCE = "echo waited $(($(cut -d' ' -f22 /proc/$$/stat) - $(cut -d' ' -f22 /proc/1/stat)))"  # hundredths of a second


@pytest.mark.needs("bwrap")
@pytest.mark.long
def test_a_sandbox_is_set_up_while_the_model_writes_the_command(serve: Serve) -> None:
    """The shell starts long after the sandbox that it runs in: that waited for the end of the call."""
    stage = serve(Say.of(bash(SINCE), pace_ms=400), Say.of("Done."))
    (result,) = results(play(stage))
    waited = int(result.partition("waited ")[2].partition('"')[0].partition("\\")[0])
    assert waited >= 20, result
