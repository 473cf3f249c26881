"""Creates `.venv-peers` and, where npm is installed, `.node-peers`: other projects' programs that ours are tested
against. `make peers` runs this. With `agents` as argument it creates `.venv-agents`, the agent libraries that
docs/compare.md compares ours with: `make peers-agents`.

They are not dependencies of ours, and their own would weigh more than all of mainspring; so they have separate,
pinned environments. The marker is written last, so a half-made environment never counts. `.venv-peers` also contains
what our simulator needs, so that one interpreter can run both: `PYTHONPATH=src .venv-peers/bin/python
examples/testing_another_sdk.py`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
OTHERS = (
    *("anthropic==2.8.0", "openai==3.49.0"),
    *("httpx2==2.16.0", "httpcore2==2.16.0", "h11==0.16.0", "pydantic==2.14.3"),
)
OURS = ("msgspec==0.22.0", "httptools==0.9.0", "pytest==9.1.1")  # as in requirements-dev.lock
AGENTS = (
    *("pydantic-ai-slim[anthropic]==2.66.0", "pydantic-graph==2.66.0", "genai-prices==0.2.2", "anthropic==2.9.0"),
    *("openai-agents==0.24.0", "openai==3.51.0", "agno==3.1.10"),
    *("httpx2==2.16.0", "httpcore2==2.16.0", "h11==0.16.0", "pydantic==2.14.3"),
)


class PeerEnvironment(NamedTuple):
    folder: Path
    pinned: tuple[str, ...]

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def marker(self) -> Path:
        return self.folder / "pinned"

    def is_made(self) -> bool:
        return self.marker.is_file() and self.marker.read_text(encoding="utf-8") == "\n".join(self.pinned)

    def make(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(self.folder)], check=True)
        (self.folder / ".gitignore").write_text("*\n", encoding="utf-8")
        pip = [str(self.python), "-m", "pip", "install", "-qq", "--disable-pip-version-check", *self.pinned]
        subprocess.run(pip, check=True)
        subprocess.run([str(self.python), "-m", "compileall", "-qq", str(self.folder / "lib")], check=False)
        self.marker.write_text("\n".join(self.pinned), encoding="utf-8")


CLIENT_PEERS = PeerEnvironment(ROOT / ".venv-peers", (*OTHERS, *OURS))
AGENT_PEERS = PeerEnvironment(ROOT / ".venv-agents", AGENTS)
PYTHON = CLIENT_PEERS.python
is_made = CLIENT_PEERS.is_made

NODE = ROOT / ".node-peers"
NODE_PINNED = ("@anthropic-ai/claude-agent-sdk@0.3.326",)
NODE_MADE = NODE / "pinned"


def is_node_made() -> bool:
    return NODE_MADE.is_file() and NODE_MADE.read_text(encoding="utf-8") == "\n".join(NODE_PINNED)


def make_node() -> None:
    """Without the optional packages: these are Claude Code itself, which the tests replace by ours."""
    shutil.rmtree(NODE, ignore_errors=True)
    NODE.mkdir()
    (NODE / ".gitignore").write_text("*\n", encoding="utf-8")
    (NODE / "package.json").write_text('{"private": true}\n', encoding="utf-8")
    npm = ["npm", "install", "--omit=optional", "--ignore-scripts", "--no-audit", "--no-fund", "--silent", *NODE_PINNED]
    if subprocess.run(npm, cwd=NODE, check=False).returncode == 0:
        NODE_MADE.write_text("\n".join(NODE_PINNED), encoding="utf-8")
    else:
        print("npm failed: the tests with the TypeScript SDK are skipped", file=sys.stderr)
        shutil.rmtree(NODE, ignore_errors=True)


def main(names: list[str]) -> None:
    if names == ["agents"]:
        if not AGENT_PEERS.is_made():
            AGENT_PEERS.make()
        return
    if not CLIENT_PEERS.is_made():
        CLIENT_PEERS.make()
    if shutil.which("npm") is not None and not is_node_made():
        make_node()


if __name__ == "__main__":
    main(sys.argv[1:])
