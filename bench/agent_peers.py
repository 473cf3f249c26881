"""The jobs of bench/speed.py, of our programs and of their peers side by side: Claude Code and its SDK, anthropic's
tool runner, pydantic-ai, openai-agents, agno.

    make bench-peers                        # installs the peers, and writes the table into bench/README.md
    .venv/bin/python bench/agent_peers.py --only first

Every program asks one model on loopback (`agent_server.py`), calls the same tool, and runs in a process of its own;
they alternate within one run. All run as their documentation shows. Ours streams, stores the session and keeps a
ledger, most peers do none of these by default. A figure is the best of some rounds, of the wall clock unless the unit
says CPU, which is that of one process: that of Claude Code's SDK leaves out Claude Code itself.
"""

from __future__ import annotations

import argparse
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

import claude_agent_sdk

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))
sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, only this directory's files would be found
from peers import AGENT_PEERS

from bench.speed import README, ROOT, ours_of, write_number
from bench.speed_jobs import JOBS, Bench, Job, Program, best, describe_machine, git, measure_job, write_section

BUNDLED = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"
FEW = 4  # sessions of Claude Code at once: each is a process of 200 MB
ROUNDS = 3  # at most: a peer's second turn takes as long as a run of ours


def list_programs() -> list[Program]:
    python = str(AGENT_PEERS.python)
    code = (str(BUNDLED),) if BUNDLED.exists() else ()
    sdk = "claude-agent-sdk" if code else ""
    return [
        ours_of(ROOT, "ours"),
        Program("Claude Code", command=code, sdk=sdk, partial="claude-agent-sdk, partial" if code else "", at_once=FEW),
        *[
            Program(name, python, run=name, sdk=name)
            for name in ("anthropic's tool runner", "pydantic-ai", "openai-agents", "agno")
        ],
        Program("bare client", run="bare"),
    ]


SHORT = {
    "anthropic's tool runner": "runner",
    "bare client": "bare",
    "openai-agents": "openai",
    "pydantic-ai": "pydantic",
}


def format_row(job: Job, times: dict[str, list[float]], programs: list[Program]) -> str:
    figures = [write_number(best(job, times[one.name]) if one.name in times else None) for one in programs]
    return f"{job.name:<46} {job.pace:>7} {' '.join([f'{one:>11}' for one in figures])} {job.unit}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="words of the rows to measure")
    parser.add_argument("--write", action="store_true", help="write the table into bench/README.md")
    given = parser.parse_args()
    if not AGENT_PEERS.is_made():
        raise SystemExit("needs '.venv-agents' with the pinned libraries: make peers-agents")
    if not BUNDLED.exists():
        print("claude_agent_sdk has no bundled Claude Code here: its column is empty", file=sys.stderr)
    jobs = [job for job in JOBS if not given.only or any(word in job.name for word in given.only.split(","))]
    programs, began, machine = list_programs(), datetime.now(UTC), describe_machine()
    head = f"{'job':<46} {'server':>7} {' '.join([f'{SHORT.get(one.name, one.name):>11}' for one in programs])} unit"
    rows = [head]
    print(head, flush=True)
    with Bench() as bench:
        for job in jobs:
            few = job._replace(rounds=min(job.rounds, ROUNDS))
            rows.append(format_row(job, measure_job(bench, programs, few, tolerant=True), programs))
            print(rows[-1], flush=True)
    version = BUNDLED.with_suffix(".version")
    code = version.read_text(encoding="utf-8").strip() if version.exists() else "none"
    load = describe_machine().rpartition(", ")[2]
    about = f"{began:%Y-%m-%d}, {machine} (before), {load} (after); commit {git('rev-parse', '--short', 'HEAD')}. "
    about += f"claude-agent-sdk {claude_agent_sdk.__version__} with Claude Code {code}; "
    about += f"{', '.join(AGENT_PEERS.pinned[:-4])}."
    print(about)
    if given.write:
        table = "\n".join(rows)
        write_section(README, "bench-peers", f"{about}\n\n```\n{table}\n```\n")


if __name__ == "__main__":
    os.environ.pop("ANTHROPIC_BASE_URL", None)
    main()
