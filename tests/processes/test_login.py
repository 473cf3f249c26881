"""What a person's shell sets is found, without secrets, and whatever its start-up files do."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from mainspring.processes.children import Children
from mainspring.processes.login import login_environment
from processes.traces import new_nap, with_word

PATH = list(dict.fromkeys(os.environ["PATH"].split(":")))


def asked(home: Path, rc: str, seconds: float = 20.0, shell: str = "/bin/bash") -> dict[str, str]:
    (home / ".bash_profile").write_text(rc)
    environ = {"HOME": str(home), "PATH": ":".join(PATH), "SHELL": shell}

    async def main() -> dict[str, str]:
        return await login_environment(Children(), environ, home=str(home), seconds=seconds)

    return asyncio.run(main())


def test_what_the_shell_sets_is_found_without_secrets(tmp_path: Path) -> None:
    rc = (
        "echo hello; echo $'A=1\\nPATH=wrong'; echo err >&2\n"
        "export PATH=/opt/mine:/usr/bin GOPATH=/go GITHUB_TOKEN=secret OTHER=x HOME=/other\n"
    )
    found = asked(tmp_path, rc)
    assert found["PATH"] == ":".join([*[folder for folder in PATH if folder != "/usr/bin"], "/opt/mine", "/usr/bin"])
    assert found["GOPATH"] == "/go"
    assert not found.keys() & {"GITHUB_TOKEN", "OTHER", "HOME", "A"}


@pytest.mark.parametrize("rc", ["exit 3\n", "exec true\n", "if\n", "kill -9 $$\n"])
def test_start_up_files_that_fail_do_no_harm(tmp_path: Path, rc: str) -> None:
    assert "GOPATH" not in asked(tmp_path, rc)


def test_start_up_files_that_wait_are_not_waited_for(tmp_path: Path) -> None:
    nap = new_nap()
    assert asked(tmp_path, f"setsid sleep {nap} & sleep {nap}\n", seconds=0.5) == {}
    assert with_word(nap) == []


def test_an_unknown_shell_is_not_asked(tmp_path: Path) -> None:
    assert asked(tmp_path, "export GOPATH=/go\n", shell="/bin/false")["GOPATH"] == "/go"  # bash is, instead
