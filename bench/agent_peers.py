"""An agent of ours beside those of four peers: the first answer of a fresh process, and a turn of a long run.

    make peers-agents                     # installs the peers, once
    .venv/bin/python bench/agent_peers.py

Every library asks one model on loopback (`agent_server.py`), runs the same function as a tool, and is timed in a
process of its own (`agent_worker.py`); they alternate within one run. All run as their documentation shows. Ours
streams, stores the session and keeps a ledger, the peers do none of these by default; `persist=False` is the fairest
row. Times are minima of the wall clock.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))
sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, only this directory's files would be found
from peers import AGENT_PEERS

from bench.agent_worker import LIBRARIES
from bench.figures import Figure, show

HERE = Path(__file__).resolve().parent
ROUNDS = 3
TURNS = 20
OURS = "mainspring"
OURS_AT_MOST = 1.0  # of the quickest peer that is an agent library
QUERY_AT_MOST = 1.1  # of `mainspring.sdk`, a turn


def time_worker(library: str, settings: dict[str, str], *given: str) -> tuple[float, str]:
    python = sys.executable if library.startswith(OURS) else str(AGENT_PEERS.python)
    command, began = [python, "-P", str(HERE / "agent_worker.py"), library, *given], perf_counter()
    done = subprocess.run(command, env=settings, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode != 0:
        raise SystemExit(f"{library}: {done.stderr[-2_000:]}")
    return 1_000 * (perf_counter() - began), done.stdout.strip()


def measure(settings: dict[str, str]) -> tuple[dict[str, float], dict[str, float]]:
    """The first answer and a turn of each library, in milliseconds."""
    first, turn = dict.fromkeys(LIBRARIES, float("inf")), dict.fromkeys(LIBRARIES, float("inf"))
    for _ in range(ROUNDS):
        for library in LIBRARIES:
            took, said = time_worker(library, settings)
            assert said == "Done.", said
            first[library] = min(first[library], took)
            run = float(time_worker(library, settings, str(TURNS), "3")[1])
            turn[library] = min(turn[library], run / (TURNS + 1))
    return first, turn


def list_figures(first: dict[str, float], turn: dict[str, float]) -> list[Figure]:
    peers = [library for library in LIBRARIES if not library.startswith(OURS)]
    found: list[Figure] = []
    for name, times in (("first answer", first), ("a turn", turn)):
        found += [Figure(f"{name}: {library}", time, "ms") for library, time in times.items()]
        found += [Figure(f"{name}: {library} / ours", times[library] / times[OURS], "x") for library in peers]
    agents = [library for library in peers if library != "anthropic's tool runner"]
    quickest = {"first answer": min([first[one] for one in agents]), "a turn": min([turn[one] for one in agents])}
    return [
        *found,
        Figure(
            "first answer: ours / the quickest agent library", first[OURS] / quickest["first answer"], "x", OURS_AT_MOST
        ),
        Figure("a turn: ours / the quickest agent library", turn[OURS] / quickest["a turn"], "x", OURS_AT_MOST),
        Figure("a turn: ours / mainspring.sdk", turn[OURS] / turn["mainspring.sdk"], "x", QUERY_AT_MOST),
    ]


def main() -> bool:
    if not AGENT_PEERS.is_made():
        raise SystemExit("needs '.venv-agents' with the pinned libraries: make peers-agents")
    with (
        TemporaryDirectory() as home,
        subprocess.Popen([sys.executable, str(HERE / "agent_server.py")], stdout=subprocess.PIPE, text=True) as server,
    ):
        assert server.stdout is not None
        url = f"http://127.0.0.1:{server.stdout.readline().strip()}"
        keys = {
            "ANTHROPIC_API_KEY": "k",
            "ANTHROPIC_BASE_URL": url,
            "OPENAI_API_KEY": "k",
            "OPENAI_BASE_URL": f"{url}/v1",
        }
        quiet = {"OPENAI_AGENTS_DISABLE_TRACING": "1", "AGNO_TELEMETRY": "false", "MAINSPRING_HOME": home}
        try:
            return show(list_figures(*measure({**os.environ, **keys, **quiet})))
        finally:
            server.terminate()


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
