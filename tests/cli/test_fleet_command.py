"""`mainspring fleet`: tasks of a file, in workspaces of their own, with checks, diffs and a report."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tiers import long

from cli.stage import Serve, Stage
from cli.test_agents import tool_use
from mainspring.simulator.replies import ReceivedRequest, Reply, Say

ALLOWED = ("--allowedTools", "Bash")


def git(folder: Path, *words: str) -> str:
    settings = ("-c", "user.name=T", "-c", "user.email=t@t", "-c", "commit.gpgsign=false")
    return subprocess.run(["git", *settings, *words], cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "sum.txt").write_text("1\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "one")
    git(folder, "tag", "one")
    (folder / "sum.txt").write_text("2\n")
    git(folder, "commit", "-qam", "two")
    return folder


def write_tasks(stage: Stage, *tasks: dict[str, Any]) -> None:
    (stage.folder / "tasks.jsonl").write_text("".join([json.dumps(task) + "\n" for task in tasks]))


def fleet(stage: Stage, *flags: str) -> tuple[int, str, str]:
    done = stage.run("fleet", "run", "tasks.jsonl", "--out", "out", *flags)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def results(stage: Stage) -> dict[str, dict[str, Any]]:
    lines = (stage.folder / "out/results.jsonl").read_text().splitlines()
    return {one["id"]: one for one in map(json.loads, lines)}


def wait_for_requests(stage: Stage, number: int) -> None:
    stage.until(lambda: len(stage.requests) >= number)


def writes(name: str, content: str) -> Any:
    """A model that writes a file, then ends."""

    def choose(request: ReceivedRequest) -> Reply:
        if len(request.body["messages"]) > 1:
            return Say.of("Done.")
        return Say.of(tool_use("Bash", command=f"printf '{content}\\n' > {name}"))

    return choose


def test_a_task_works_in_a_clone_and_leaves_a_diff(serve: Serve, repository: Path) -> None:
    stage = serve(choose=writes("sum.txt", "3"))
    task = {
        "prompt": "Write 3 to sum.txt",
        "repo": str(repository),
        "check": "grep -q 3 sum.txt && touch made-by-check",
    }
    write_tasks(stage, {"id": "new", **task, "tags": ["a"]}, {"id": "old", **task, "ref": "one", "check": "exit 7"})
    code, out, err = fleet(stage, *ALLOWED)
    assert (code, err) == (1, "")
    assert re.sub(r"\$[\d.]+", "$", out).splitlines() == [
        "2 of 2 tasks done, $, 1 failed. Results: out/results.jsonl",
        "  check failed: 1",
        "  task 'old': the check ended with exit code 7",
        "To run failed tasks again, add '--retry-failed'.",
    ]
    found = results(stage)
    assert [found[name]["check_code"] for name in ("new", "old")] == [0, 7]
    assert [
        re.findall(r"^[-+]\w.*", Path(found[name]["diff"]).read_text(), re.MULTILINE) for name in ("new", "old")
    ] == [
        ["-2", "+3"],
        ["-1", "+3"],
    ]
    assert (repository / "sum.txt").read_text() == "2\n"
    assert git(repository, "status", "--porcelain") == ""
    assert not list((stage.folder / "out/workspaces").iterdir())
    assert all(Path(one["transcript"]).is_file() for one in found.values())


def test_a_copy_and_an_empty_directory(serve: Serve) -> None:
    stage = serve(choose=writes("new.txt", "hello"))
    folder = stage.folder / "data"
    folder.mkdir()
    (folder / "kept.txt").write_text("kept\n")
    (folder / "link").symlink_to("kept.txt")
    write_tasks(
        stage,
        {"id": "copy", "prompt": "Write new.txt", "cwd": "data", "check": "test -L link && test -s kept.txt"},
        {"id": "empty", "prompt": "Write new.txt", "check": "test -s new.txt && test ! -e kept.txt"},
        {"id": "place", "prompt": "Write new.txt", "cwd": "data", "in_place": True},
    )  # fmt: skip
    assert fleet(stage, *ALLOWED)[0] == 0
    found = results(stage)
    assert [found[name]["check_code"] for name in ("copy", "empty", "place")] == [0, 0, None]
    for name in ("copy", "empty"):
        assert "+hello" in Path(found[name]["diff"]).read_text()
    assert (folder / "new.txt").read_text() == "hello\n", "in place, what it writes stays"
    assert found["place"].get("diff") is None


def test_the_same_command_again_runs_nothing_twice(serve: Serve) -> None:
    stage = serve(Say.of("5"), Say.of("5"))
    write_tasks(stage, {"id": "a", "prompt": "2 + 3?"}, {"id": "b", "prompt": "1 + 4?"})
    assert fleet(stage)[0] == 0
    asked = len(stage.requests)
    assert fleet(stage)[0] == 0
    assert len(stage.requests) == asked
    write_tasks(stage, {"id": "a", "prompt": "2 + 2?"})
    code, _, err = fleet(stage)
    assert code == 1
    assert "task 'a' was changed, but has a result" in err


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"id": "a"}', "line 1 of 'tasks.jsonl': the key 'prompt' is missing"),
        ('{"id": "a", "promt": "x"}', "a task has no key 'promt'. Did you mean 'prompt'?"),
        ("{", "line 1 of 'tasks.jsonl' is not valid JSON"),
        (
            '{"id": "a", "prompt": "x", "options": {"modle": "haiku"}}',
            "there is no option 'modle'. Did you mean 'model'?",
        ),
        ("", "'tasks.jsonl' has no tasks"),
    ],
)
def test_mistakes_of_a_tasks_file(serve: Serve, line: str, words: str) -> None:
    stage = serve()
    (stage.folder / "tasks.jsonl").write_text(line + "\n")
    code, _, err = fleet(stage)
    assert code == 1
    assert words in err
    assert not stage.requests


def test_several_processes(serve: Serve) -> None:
    stage = serve(choose=writes("new.txt", "hello"))
    write_tasks(
        stage, *[{"id": str(number), "prompt": f"task {number}", "check": "test -s new.txt"} for number in range(4)]
    )
    flags = ("--processes", "2", "--append-system-prompt", "Be brief.", "--max-budget-usd", "1", *ALLOWED)
    assert fleet(stage, *flags)[0] == 0
    assert {name: one["check_code"] for name, one in results(stage).items()} == dict.fromkeys("0123", 0)
    assert all("Be brief." in str(request.body["system"]) for request in stage.requests)


def test_what_cannot_start_is_a_failed_task(serve: Serve, tmp_path: Path) -> None:
    stage = serve()
    empty = tmp_path / "empty"
    empty.mkdir()
    git(empty, "init", "-q")
    write_tasks(
        stage,
        {"id": "a", "prompt": "x", "repo": "missing"},
        {"id": "b", "prompt": "x", "cwd": "missing"},
        {"id": "c", "prompt": "x", "repo": str(empty)},
    )
    assert fleet(stage)[0] == 1
    errors = {name: one["error"] for name, one in results(stage).items()}
    assert errors["a"] == f"the repository '{stage.folder}/missing' does not exist. Check \"repo\""
    assert errors["b"] == f"the directory '{stage.folder}/missing' does not exist. Check \"cwd\""
    assert errors["c"] == f"'{empty}' has no commits"


def test_what_the_task_says_in_its_repository_is_not_run(serve: Serve, repository: Path, tmp_path: Path) -> None:
    """The diff is made outside the sandbox: hooks, filters and settings of the clone must not take part in it."""
    evil = f"touch {tmp_path}/escaped"
    names = (
        "core.fsmonitor",
        "filter.x.clean",
        "filter.x.smudge",
        "diff.external",
        "diff.x.command",
        "diff.x.textconv",
    )
    command = "; ".join([f"git config {name} '{evil}'" for name in names])
    command += "; echo '* filter=x diff=x' > .gitattributes; echo 4 > sum.txt"
    stage = serve(Say.of(tool_use("Bash", command=command)), Say.of("Done."))
    write_tasks(stage, {"id": "a", "prompt": "x", "repo": str(repository)})
    unsafe = ("--permission-mode", "bypassPermissions", "--settings", '{"sandbox": {"enabled": false}}')
    assert fleet(stage, *unsafe)[0] == 0
    assert "+4" in Path(results(stage)["a"]["diff"]).read_text()
    assert not (tmp_path / "escaped").exists()


@pytest.mark.long
def test_a_repository_elsewhere_is_fetched_once(serve: Serve, repository: Path) -> None:
    stage = serve(choose=writes("sum.txt", "3"))
    address = f"file://{repository}"
    write_tasks(stage, *[{"id": str(number), "prompt": "x", "repo": address} for number in range(3)])
    assert fleet(stage, *ALLOWED)[0] == 0
    assert all("+3" in Path(one["diff"]).read_text() for one in results(stage).values())
    assert len([one for one in (stage.folder / "out/repos").iterdir() if one.is_dir()]) == 1
    git(repository, "tag", "later")
    write_tasks(stage, {"id": "later", "prompt": "x", "repo": address, "ref": "later"})
    assert fleet(stage, *ALLOWED)[0] == 0, "a new tag is fetched"


@pytest.mark.long
@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_killed_fleet_continues_in_the_same_workspaces(serve: Serve, repository: Path, processes: str) -> None:
    """Each task writes a line in each of four turns. The command is killed in the middle, twice."""

    def choose(request: ReceivedRequest) -> Reply:
        blocks = [block for message in request.body["messages"] for block in message["content"] if block != str(block)]
        turn = len([block for block in blocks if block["type"] == "tool_result" and not block.get("is_error")])
        if turn == 4:
            return Say.of("Done.")
        return Say.of(tool_use("Bash", f"toolu_{len(blocks)}", command=f"echo line {turn} >> lines.txt"))

    stage = serve(choose=choose)
    write_tasks(
        stage, *[{"id": str(number), "prompt": f"count {number}", "repo": str(repository)} for number in range(4)]
    )
    flags = ("--max-concurrent", "4", "--processes", processes, *ALLOWED)
    for most in (6, 12):
        running = stage.start("fleet", "run", "tasks.jsonl", "--out", "out", *flags)
        wait_for_requests(stage, most)
        running.kill()
        running.communicate()
    assert fleet(stage, *flags)[0] == 0
    found = results(stage)
    assert len((stage.folder / "out/results.jsonl").read_text().splitlines()) == len(found) == 4
    for one in found.values():
        lines = re.findall(r"^\+line (\d)", Path(one["diff"]).read_text(), re.MULTILINE)
        assert sorted(set(lines)) == ["0", "1", "2", "3"]
    assert not list((stage.folder / "out/workspaces").iterdir())


@pytest.mark.parametrize("how", [signal.SIGTERM, long(signal.SIGINT)])
def test_it_stops_in_order_and_the_same_command_continues(serve: Serve, how: signal.Signals) -> None:
    tasks = [{"id": str(number), "prompt": f"count {number}"} for number in range(6)]

    def choose(request: ReceivedRequest) -> Reply:
        turns = len(request.body["messages"]) // 2
        return Say.of("Done.") if turns == 2 else Say.of(tool_use("Bash", command="true"))

    stage = serve(choose=choose)
    write_tasks(stage, *tasks)
    arguments = ("fleet", "run", "tasks.jsonl", "--out", "out", "--max-concurrent", "2", *ALLOWED)
    running = stage.start(*arguments)
    wait_for_requests(stage, 2)
    running.send_signal(how)
    out, err = running.communicate(timeout=60)
    assert "Stopping: running turns end first." in err.decode()
    assert "left: the same command continues." in out.decode()
    assert running.returncode == 1
    assert fleet(stage, *ALLOWED)[0] == 0
    assert sorted(results(stage)) == [str(number) for number in range(6)]
    calls = [request.body["messages"] for request in stage.requests]
    assert len(calls) == len({json.dumps(one) for one in calls}) == 18, "no turn is run twice"


def test_status_and_report(serve: Serve) -> None:
    def choose(request: ReceivedRequest) -> Reply:
        return Say.of("<script>alert(1)</script>" if "evil" in str(request.body["messages"]) else "5")

    stage = serve(choose=choose)
    write_tasks(
        stage,
        {"id": "a", "prompt": "2 + 3?", "tags": ["sum"]},
        {"id": "b", "prompt": "evil", "tags": ["sum", "text"], "check": "exit 3"},
    )
    assert (
        stage.run("fleet", "status", "out")
        .stderr.decode()
        .startswith("mainspring: 'out' is not the output directory of a fleet")
    )
    assert fleet(stage)[0] == 1
    status = json.loads(stage.run("fleet", "status", "out", "--json").stdout)
    assert (status["total"], status["done"], status["failed"], status["is_running"]) == (
        2,
        2,
        [["check failed", 1]],
        False,
    )
    lines = stage.run("fleet", "report", "out").stdout.decode().splitlines()
    assert [re.split(r"\s{2,}", line)[:3] for line in lines[1:4]] == [
        ["all tasks", "2", "1 (50%)"], ["sum", "2", "1 (50%)"], ["text", "1", "0 (0%)"]
    ]  # fmt: skip
    assert "  b: the check ended with exit code 3" in lines
    assert stage.run("fleet", "report", "out", "--html", "report.html").returncode == 0
    page = (stage.folder / "report.html").read_text()
    assert "<script" not in page
    assert all(f'aria-label="{one}"' in page for one in ("Outcomes by tag", "Turns", "Time", "Cost"))
    links = re.findall(r'href="([^"]+)"', page)
    assert links
    assert all((stage.folder / link).exists() for link in links)
