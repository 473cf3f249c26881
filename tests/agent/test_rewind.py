"""Rewinding a session: its files, whatever has changed them, its conversation, or both; and taking that back."""

from __future__ import annotations

import asyncio
import json
import stat
import subprocess
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sandbox.walls import seen_folder

from agent.stage import Stage, play, read_until_idle
from mainspring import Agent
from mainspring.agent.session import AgentSession
from mainspring.checkpoints.history import FileHistory
from mainspring.checkpoints.store import open_store
from mainspring.core.errors import UsageError
from mainspring.core.messages import Origin, ToolResult, User
from mainspring.simulator.replies import ReceivedRequest, Reply, Say

Tree = dict[str, tuple[Any, ...]]
ON: dict[str, Any] = {"checkpoints": True, "permission_mode": "bypassPermissions"}


def tree_of(folder: Path) -> Tree:
    """Every name with its kind, mode and content."""
    found: Tree = {}
    for path in sorted(folder.rglob("*")):
        look = path.lstat()
        name, mode = str(path.relative_to(folder)), stat.S_IMODE(look.st_mode)
        if stat.S_ISLNK(look.st_mode):
            found[name] = ("link", str(path.readlink()))
        elif stat.S_ISDIR(look.st_mode):
            found[name] = ("folder", mode)
        else:
            found[name] = ("file", mode, path.read_bytes())
    return found


def call(name: str, **input: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{name}", "name": name, "input": input}


def bash(command: str) -> dict[str, Any]:
    return call("Bash", command=command)


async def prompt(session: AgentSession, text: str) -> str:
    """The id of its message."""
    queued = await session.submit(text)
    await read_until_idle(session)
    await session.checkpoints()  # the look at what the run left is over: what comes now is the user's
    return queued.id


def said(session: AgentSession) -> list[str]:
    history = session.world.session.state.history
    return [one.text for one in history if isinstance(one, User) and one.origin is Origin.PROMPT]


DONE = Say.of("Done.")


def test_whatever_changed_the_files(tmp_path: Path) -> None:
    """An edit tool and a command; then back to each prompt, and forth again."""

    async def main(stage: Stage) -> None:
        work = stage.folder
        (work / "d").mkdir()
        (work / "d" / "f").write_text("old\n")
        (work / "l").symlink_to("d/f")
        (work / "empty").mkdir(0o700)
        session = stage.open(**ON)
        trees = [tree_of(work)]
        first = await prompt(session, "one")
        trees.append(tree_of(work))
        second = await prompt(session, "two")
        trees.append(tree_of(work))
        assert len({str(one) for one in trees}) == 3
        back = await session.rewind(second, conversation=False, files=True)
        assert tree_of(work) == trees[1]
        assert [(one.kind, Path(one.path).name) for one in back.files] == [
            ("changed", "f"), ("created", "empty"), ("type", "l"), ("deleted", "x"),
        ]  # fmt: skip
        await session.rewind(first, conversation=False, files=True)
        assert tree_of(work) == trees[0]
        undone = await session.undo_rewind(back)
        assert undone.failed == undone.kept == ()
        assert tree_of(work) == trees[2]
        await session.close()

    play(
        main,
        tmp_path,
        Say.of(call("Write", file_path="new", content="x\n")),
        DONE,
        Say.of(bash("echo new > d/f; chmod 750 d/f; rm -r empty l; mkdir -p l; echo x > l/x; chmod 700 d")),
        DONE,
    )


def test_files_and_conversation(tmp_path: Path) -> None:
    """Both at once, and both undone."""

    async def main(stage: Stage) -> None:
        session = stage.open(**ON)
        await prompt(session, "one")
        second = await prompt(session, "two")
        before = session.world.about.session_id
        dry = await session.rewind(second, files=True, dry_run=True)
        assert [one.path for one in dry.files] == [str(stage.folder / "b")]
        assert (stage.folder / "b").exists()
        assert session.world.about.session_id == before
        report = await session.rewind(second, files=True)
        assert (report.prompt, report.conversation, report.session_before) == ("two", True, before)
        assert report.session_after == session.world.about.session_id != before
        assert said(session) == ["one"]
        assert sorted(tree_of(stage.folder)) == ["a"]
        assert [one.text for one in await session.checkpoints()] == ["one"]
        await session.undo_rewind(report)
        assert session.world.about.session_id == before
        assert said(session) == ["one", "two"]
        assert sorted(tree_of(stage.folder)) == ["a", "b"]
        assert [one.text for one in await session.checkpoints()] == ["one", "two"]
        await session.close()

    play(main, tmp_path, Say.of(bash("echo > a")), DONE, Say.of(bash("echo > b")), DONE)


@pytest.mark.parametrize("aim", ["one", "two"])
def test_after_an_undone_rewind_all_is_as_it_was(tmp_path: Path, aim: str) -> None:
    """Also after another prompt in between. What the rewind and its undoing changed is not taken for changes of the
    user, in this process and in the next one."""

    async def main(stage: Stage) -> None:
        work = stage.folder
        session = stage.open(**ON)
        prompts = {text: await prompt(session, text) for text in ("one", "two")}
        (work / "mine").write_text("of the user")
        whole = tree_of(work)
        listed = [one.text for one in await session.checkpoints()]
        report = await session.rewind(prompts[aim], files=True)
        await prompt(session, "another")
        await session.undo_rewind(report)
        assert tree_of(work) == whole
        assert said(session) == [one.text for one in await session.checkpoints()] == listed == ["one", "two"]
        for _ in range(2):
            again = await session.rewind(prompts["one"], conversation=False, files=True)
            assert [Path(one.path).name for one in again.kept] == ["mine"]
            assert sorted(tree_of(work)) == ["mine"]
            await session.undo_rewind(again)
            assert tree_of(work) == whole
            named = session.world.about.session_id
            await session.close()
            session = stage.open(resume=named, **ON)
        await session.close()

    replies = [Say.of(bash("echo > a")), DONE, Say.of(bash("echo > b; echo >> a")), DONE]
    play(main, tmp_path, *replies, Say.of(bash("echo other > a; echo > c")), DONE)


def test_to_the_first_prompt(tmp_path: Path) -> None:
    """Nothing is left of the conversation; the checkpoints stay, to undo it."""

    async def main(stage: Stage) -> None:
        session = stage.open(**ON)
        first = await prompt(session, "one")
        report = await session.rewind(first, files=True)
        assert said(session) == []
        assert tree_of(stage.folder) == {}
        await session.rewind(report.undo, conversation=False, files=True)
        assert sorted(tree_of(stage.folder)) == ["a"]
        await session.close()

    play(main, tmp_path, Say.of(bash("echo > a")), DONE)


def test_nothing_is_left_of_a_session_that_was_never_stored(tmp_path: Path) -> None:
    """One that began with a rewind to the first prompt; the session before it has the checkpoints."""

    async def main(stage: Stage) -> None:
        session = stage.open(**ON)
        first = await prompt(session, "one")
        report = await session.rewind(first, files=True)
        assert {one.name for one in (stage.home / "file-history").glob("*-*")} == {
            report.session_before,
            report.session_after,
        }
        await session.close()
        assert {one.name for one in (stage.home / "file-history").glob("*-*")} == {report.session_before}
        again = stage.open(resume=report.session_before, **ON)
        await again.rewind(report.undo, conversation=False, files=True)
        assert sorted(tree_of(stage.folder)) == ["a"]
        await again.close()

    play(main, tmp_path, Say.of(bash("echo > a")), DONE)


def test_what_the_user_changed_stays(tmp_path: Path) -> None:
    """Between two runs, and after the last one; unless it is included."""

    async def main(stage: Stage) -> None:
        work = stage.folder
        session = stage.open(**ON)
        first = await prompt(session, "one")
        (work / "a").write_text("mine\n")
        await prompt(session, "two")
        (work / "b").write_text("mine\n")
        (work / "new").write_text("mine\n")
        report = await session.rewind(first, conversation=False, files=True)
        assert [(Path(one.path).name, one.by_user) for one in report.kept] == [("a", True), ("b", True), ("new", True)]
        assert {name: entry[2] for name, entry in tree_of(work).items()} == dict.fromkeys(["a", "b", "new"], b"mine\n")
        assert [Path(one.path).name for one in report.files] == ["c"]
        again = await session.rewind(first, conversation=False, files=True, include=[str(work / "a")])
        assert [Path(one.path).name for one in again.files] == ["a"]
        assert sorted(tree_of(work)) == ["b", "new"]
        await session.close()

    play(main, tmp_path, Say.of(bash("for f in a b c; do echo > $f; done")), DONE, DONE)


def test_what_the_user_saves_at_the_very_end_of_a_run_stays(tmp_path: Path) -> None:
    """Before the look at the files is over, or even begun."""

    async def main(stage: Stage) -> None:
        work = stage.folder
        session = stage.open(**ON)
        first = await session.submit("one")
        await read_until_idle(session)
        ended = time.time_ns()
        while (work / "a").write_text("mine\n") and (work / "a").stat().st_ctime_ns <= ended:
            pass  # times of files are a few milliseconds behind
        report = await session.rewind(first.id, conversation=False, files=True)
        assert [(Path(one.path).name, one.by_user) for one in report.kept] == [("a", True)]
        assert [Path(one.path).name for one in report.files] == ["b"]
        assert (work / "a").read_text() == "mine\n"
        await session.close()

    play(main, tmp_path, Say.of(bash("echo > a; echo > b")), DONE)


def test_what_changed_by_prompt(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        (stage.folder / "f").write_text("1\n2\n")
        session = stage.open(**ON)
        first = await prompt(session, "one")
        (stage.folder / "mine").write_text("of the user")
        second = await prompt(session, "two")
        changes = await session.changed_files()
        assert [one.checkpoint.prompt_id for one in changes] == [first, second]
        assert [[Path(file.change.path).name for file in one.files] for one in changes] == [["f"], ["f", "g"]]
        assert "-2\n+two\n" in changes[0].files[0].text
        assert (changes[1].files[1].change.plus, changes[1].files[1].change.kind) == (1, "created")
        assert [one.checkpoint.prompt_id for one in await session.changed_files(second)] == [second]
        assert [one.changed for one in await session.checkpoints()] == [1, 2]
        await session.close()

    play(main, tmp_path, Say.of(bash("sed -i s/2/two/ f")), DONE, Say.of(bash("echo 3 >> f; echo > g")), DONE)


def test_before_a_compaction(tmp_path: Path) -> None:
    """Also in another process, whose history begins with the summary."""

    async def main(stage: Stage) -> None:
        session = stage.open(**ON)
        await prompt(session, "one")
        second = await prompt(session, "two")
        await session.compact()
        await read_until_idle(session)
        id, journal = session.world.about.session_id, session.opened.journal
        assert journal is not None
        assert b"compact_boundary" in await asyncio.to_thread(Path(journal.file).read_bytes)
        await session.close()
        session = stage.open(resume=id, **ON)
        await prompt(session, "three")
        assert sorted(tree_of(stage.folder)) == ["a", "b", "c"]
        report = await session.rewind(second, files=True)
        assert (report.prompt, said(session)) == ("two", ["one"])
        assert sorted(tree_of(stage.folder)) == ["a"]
        await session.close()

    def choose(received: ReceivedRequest) -> Reply:
        last = str(received.talk.messages[-1])
        for text, name in (("one", "a"), ("two", "b"), ("three", "c")):
            if f"'{text}'" in last:
                return Say.of(bash(f"echo > {name}"))
        return Say.of("A summary." if "summary" in last else "Done.")

    play(main, tmp_path, choose=choose)


def test_after_a_resume_and_in_a_fork(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        session = stage.open(**ON)
        first = await prompt(session, "one")
        id = session.world.about.session_id
        await session.close()
        resumed = stage.open(resume=id, **ON)
        await prompt(resumed, "two")
        await resumed.close()
        fork = stage.open(resume=id, fork_session=True, **ON)
        assert [one.text for one in await fork.checkpoints()] == ["one", "two"]
        await fork.rewind(first, conversation=False, files=True)
        assert tree_of(stage.folder) == {}
        await fork.close()

    play(main, tmp_path, Say.of(bash("echo > a")), DONE, Say.of(bash("echo > b")), DONE)


def test_head_is_not_moved(tmp_path: Path) -> None:
    """`.git` is left alone; the report says that HEAD is elsewhere."""

    async def main(stage: Stage) -> None:
        work = stage.folder
        init = "git init -qb main; echo 1 > f; git add f; git -c user.name=n -c user.email=e commit -qm 1"
        await asyncio.to_thread(subprocess.run, init, shell=True, cwd=work, check=True)
        session = stage.open(**ON)
        first = await prompt(session, "one")
        report = await session.rewind(first, conversation=False, files=True)
        [move] = report.heads
        assert (move.before.branch, move.after.branch) == ("main", "other")
        assert move.before.commit != move.after.commit
        assert (work / "f").read_text() == "1\n"
        assert (work / ".git" / "HEAD").read_text() == "ref: refs/heads/other\n"
        await session.close()

    play(
        main,
        tmp_path,
        Say.of(bash("git checkout -qb other; echo 2 > f; git -c user.name=n -c user.email=e commit -qam 2")),
        DONE,
    )


def closed_calls(home: Path) -> dict[str, dict[str, Any]]:
    """Ways to the stored files of another session, by the id of the call."""
    store = home / "file-history"
    log = str(store / "x" / "log")
    calls = {
        "read": ("Read", {"file_path": log}),
        "write": ("Write", {"file_path": log, "content": "x"}),
        "edit": ("Edit", {"file_path": log, "old_string": "a", "new_string": "b"}),
        "notebook": ("NotebookEdit", {"notebook_path": f"{log}.ipynb", "new_source": "x"}),
        "grep": ("Grep", {"pattern": "needle", "path": str(store)}),
        "glob": ("Glob", {"pattern": "**/log", "path": str(store)}),
        "cat": ("Bash", {"command": f"cat {log}"}),
        "cd": ("Bash", {"command": f"cd {store} && cat x/log"}),
        "pattern": ("Bash", {"command": f"cat {home}/f*/x/log"}),
        "letter": ("Bash", {"command": f"cat {home}/file-histor?/x/log"}),
        "brace": ("Bash", {"command": f"cat {home}/{{file-history,other}}/x/log"}),
        "find": ("Bash", {"command": f"find {home} -name log -exec cat {{}} +"}),
        "archive": ("Bash", {"command": f"tar cf x.tar {home}"}),
        "search": ("Bash", {"command": f"grep -r needle {home}"}),
        "copy": ("Bash", {"command": f"cp -r {home} copy"}),
        "inner": ("Bash", {"command": f"sh -c 'cat {log}'"}),
        "redirect": ("Bash", {"command": f"cat < {log}"}),
    }
    return {id: {"type": "tool_use", "id": id, "name": name, "input": input} for id, (name, input) in calls.items()}


def test_no_tool_and_no_command_opens_the_store(tmp_path: Path) -> None:
    """In no mode, and without a sandbox: it may hold secrets of any project. A search above it does not find it, and a
    mention does not attach it."""
    calls = closed_calls(tmp_path / "home")
    above = call("Glob", pattern="**/log", path=str(tmp_path / "home"))

    async def main(stage: Stage) -> None:
        log = stage.home / "file-history" / "x" / "log"
        log.parent.mkdir(parents=True)
        log.write_text("a needle\n")
        session = stage.open(**ON, add_dirs=(str(stage.home),))
        await prompt(session, f"look at @{log} and @{log.parent}")
        history = session.world.session.state.history
        found = {one.call_id: one for one in history if isinstance(one, ToolResult)}
        for id in calls:
            assert (found[id].is_error, "closed to every tool and command" in found[id].text) == (True, True), id
        assert "file-history" not in found["toolu_Glob"].text
        assert log.read_text() == "a needle\n"
        sent = "".join([one.raw.decode() for one in stage.server.requests])
        assert "needle\\n" not in sent.replace(json.dumps(calls), "")
        await session.close()

    play(main, tmp_path, Say.of(*calls.values(), above), DONE)


@pytest.mark.needs("bwrap")
def test_no_sandboxed_command_opens_the_store_however_it_names_it(tmp_path: Path) -> None:
    del tmp_path
    with seen_folder() as base:
        hidden = (
            f'd={base}/home/file-hist; cat "$d"ory/*/log; ls "$d"ory/*; cat /proc/self/root"$d"ory/*/log; echo over'
        )

        async def main(stage: Stage) -> None:
            (stage.home / "settings.toml").write_text("autoMemoryEnabled = false\n[sandbox]\nenabled = true\n")
            session = stage.open(**ON)
            await prompt(session, "one")
            [result] = [one for one in session.world.session.state.history if isinstance(one, ToolResult)]
            assert "over" in result.text
            assert "packs" not in result.text
            refusals = ("No such file", "Permission denied")
            assert sum([result.text.count(one) for one in refusals]) == 3, result.text
            assert (stage.home / "file-history" / session.world.about.session_id / "log").stat().st_size
            await session.close()

        play(main, base, Say.of(bash(hidden)), DONE)


@pytest.mark.setting("fileCheckpointingEnabled")
def test_switched_off_by_the_user(tmp_path: Path) -> None:
    """By a setting, or by Claude Code's variable; in every front end."""

    async def main(stage: Stage) -> None:
        session = stage.open(settings={"fileCheckpointingEnabled": False}, **ON)
        await prompt(session, "one")
        await session.close()
        stage.environment["CLAUDE_CODE_DISABLE_FILE_CHECKPOINTING"] = "1"
        session = stage.open(**ON)
        await prompt(session, "two")
        await session.close()
        assert not (stage.home / "file-history").exists()

    play(main, tmp_path, DONE, DONE)


def test_off(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        session = stage.open(permission_mode="bypassPermissions")
        first = await prompt(session, "one")
        assert await session.checkpoints() == ()
        assert not (stage.home / "file-history").exists()
        with pytest.raises(UsageError, match="File checkpointing is not enabled"):
            await session.rewind(first, files=True)
        await session.close()

    play(main, tmp_path, DONE)


def test_in_the_library(tmp_path: Path) -> None:
    """The chat of an agent rewinds files and conversation, with the id of the prompt's message."""

    async def main(stage: Stage) -> None:
        agent = Agent(
            cwd=stage.folder, env=stage.environment, tools=["Bash"], permission_mode="bypassPermissions",
            setting_sources=["user"], checkpoints=True,
        )  # fmt: skip
        async with agent.session() as chat:
            await chat.run("one")
            assert sorted(tree_of(stage.folder)) == ["a"]
            [first] = await chat.checkpoints()
            assert [len(one.files) for one in await chat.changed_files()] == [1]
            report = await chat.rewind(first.prompt_id, files=True)
            assert (len(report.files), report.prompt, chat.messages) == (1, "one", ())
            assert tree_of(stage.folder) == {}

    play(main, tmp_path, Say.of(bash("echo > a")), DONE)


# --- after a crash --------------------------------------------------------------------------------------------------


FINISHED = "A rewind of files was interrupted by a crash. It is finished now: 1 path"


async def interrupt_rewind(stage: Stage) -> str:
    """A session that was killed when the plan of a rewind was stored, and no file written yet. Returns its id."""
    session = stage.open(**ON)
    first = await prompt(session, "one")
    journal = session.opened.journal
    assert journal is not None
    await session.close()
    history = FileHistory(journal.file, str(stage.home))
    planned = history.plan(first, (str(stage.folder),), dry_run=False, at=1)
    history.store.begin_rewind(msgspec.msgpack.encode(planned.plan))
    history.close()
    return session.world.about.session_id


@pytest.mark.parametrize("start", ["resumed", "without checkpoints", "forked", "another session"])
def test_the_next_start_finishes_a_rewind_and_says_so(tmp_path: Path, start: str) -> None:
    async def main(stage: Stage) -> None:
        interrupted = await interrupt_rewind(stage)
        options: dict[str, Any] = {} if start == "without checkpoints" else dict(ON)
        if start != "another session":
            options |= {"resume": interrupted, "fork_session": start == "forked"}
        for said in ([FINISHED], []):
            stage.told.clear()
            session = stage.open(**options)
            await session.start()
            assert (stage.told, tree_of(stage.folder)) == (said, {})
            await session.close()

    play(main, tmp_path, Say.of(bash("echo > a")), DONE)


def test_a_session_elsewhere_leaves_it_alone(tmp_path: Path) -> None:
    """Its permissions are for another workspace."""

    async def main(stage: Stage) -> None:
        await interrupt_rewind(stage)
        work = stage.folder
        stage.folder = tmp_path / "elsewhere"
        stage.folder.mkdir()
        session = stage.open(**ON)
        await session.start()
        assert (stage.told, sorted(tree_of(work))) == ([], ["a"])
        await session.close()

    play(main, tmp_path, Say.of(bash("echo > a")), DONE)


def test_a_rewind_of_a_living_process_is_left_alone(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        interrupted = await interrupt_rewind(stage)
        with open_store(str(stage.home / "file-history" / interrupted)) as store:
            store.lock()  # as that process does
            session = stage.open(**ON)
            await session.start()
            assert (stage.told, sorted(tree_of(stage.folder))) == ([], ["a"])
            await session.close()

    play(main, tmp_path, Say.of(bash("echo > a")), DONE)


def test_the_library_says_so_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As a warning of the logger `mainspring`."""

    async def main(stage: Stage) -> None:
        interrupted = await interrupt_rewind(stage)
        agent = Agent(cwd=stage.folder, env=stage.environment, setting_sources=["user"], checkpoints=True)
        async with agent.session(resume=interrupted):
            assert [one.message for one in caplog.records if one.name == "mainspring"] == [FINISHED]
            assert tree_of(stage.folder) == {}

    play(main, tmp_path, Say.of(bash("echo > a")), DONE)


def test_what_a_crash_has_left_beside_a_file_goes(tmp_path: Path) -> None:
    """A file with a name of ours and a content of the plan; not one that was there before, or has another content."""

    async def main(stage: Stage) -> None:
        work, name = stage.folder, ".mainspring-00000000000000{}.tmp"
        (work / "a").write_text("old\n")
        (work / name.format("00")).write_text("old\n")
        await interrupt_rewind(stage)
        for ending, text in (("01", "old\n"), ("02", "ol"), ("03", "mine"), ("xx", "old\n")):
            (work / name.format(ending)).write_text(text)
        session = stage.open(**ON)
        await session.start()
        assert sorted(tree_of(work)) == sorted([*[name.format(one) for one in ("00", "03", "xx")], "a"])
        assert (work / "a").read_text() == "old\n"
        await session.close()

    play(main, tmp_path, Say.of(bash("echo new > a")), DONE)
