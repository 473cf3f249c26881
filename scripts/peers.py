"""Creates `.venv-peers` and, where npm is installed, `.node-peers`: other projects' programs that ours are tested
against. `make peers` runs this.

They are not dependencies of ours, and their own would weigh more than all of mainspring; so they have a separate,
pinned environment. The marker is written last, so a half-made environment never counts. It also contains what our
simulator needs, so that one interpreter can run both: `PYTHONPATH=src .venv-peers/bin/python
examples/testing_another_sdk.py`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parents[1] / ".venv-peers"
OTHERS = (
    *("anthropic==2.8.0", "openai==3.49.0"),
    *("httpx2==2.16.0", "httpcore2==2.16.0", "h11==0.16.0", "pydantic==2.14.3"),
)
OURS = ("msgspec==0.22.0", "httptools==0.9.0", "pytest==9.1.1")  # as in requirements-dev.lock
PINNED = (*OTHERS, *OURS)
PYTHON = HERE / "bin" / "python"
MADE = HERE / "pinned"

NODE = HERE.parent / ".node-peers"
NODE_PINNED = ("@anthropic-ai/claude-agent-sdk@0.3.326",)
NODE_MADE = NODE / "pinned"


def is_made() -> bool:
    return MADE.is_file() and MADE.read_text(encoding="utf-8") == "\n".join(PINNED)


def make() -> None:
    shutil.rmtree(HERE, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(HERE)], check=True)
    (HERE / ".gitignore").write_text("*\n", encoding="utf-8")
    pip = [str(PYTHON), "-m", "pip", "install", "-qq", "--disable-pip-version-check", *PINNED]
    subprocess.run(pip, check=True)
    subprocess.run([str(PYTHON), "-m", "compileall", "-qq", str(HERE / "lib")], check=False)
    MADE.write_text("\n".join(PINNED), encoding="utf-8")


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


if __name__ == "__main__":
    if not is_made():
        make()
    if shutil.which("npm") is not None and not is_node_made():
        make_node()
