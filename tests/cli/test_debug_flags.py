"""`--debug`, `--debug-file` and `--debug-to-stderr`."""

from __future__ import annotations

from pathlib import Path

from cli.stage import Serve
from mainspring.simulator.replies import Say


def test_the_flags_write_a_log_and_standard_output_is_the_answer(serve: Serve) -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "echo hello"}}
    stage = serve(Say.of(call), Say.of("Hi."), *[Say.of("Hi.")] * 3)
    done = stage.run("-p", "say swordfish", "--debug-file=debug.log", "--allowedTools=Bash")
    errors = [line for line in done.stderr.splitlines() if b"without a sandbox" not in line]
    assert (done.returncode, done.stdout, errors) == (0, b"Hi.\n", [])
    file = stage.folder / "debug.log"
    text = file.read_text()
    assert " api request finished " in text
    assert " permissions decision allow tool=Bash " in text
    assert " tools tool finished " in text
    assert " session run finished " in text
    assert "swordfish" not in text
    assert file.stat().st_mode & 0o777 == 0o600

    done = stage.run("-p", "--debug", "api,!tools", "say it")
    [named] = done.stderr.decode().splitlines()
    log = Path(named.removeprefix("mainspring: debug log: '").removesuffix("'"))
    assert log.parent == stage.home / "debug"
    assert {line.split()[2] for line in log.read_text().splitlines()} == {"api"}
    assert stage.requests[-1].body["messages"][0]["content"][0]["text"] == "say it"

    done = stage.run("-p", "--debug-to-stderr", "say it")
    assert done.stdout == b"Hi.\n"
    assert b" api request started " in done.stderr

    assert stage.run("-p", "--debug", "say it").returncode == 0  # a prompt is no category
    assert stage.run("-p", "--debug=network", "say it").returncode == 1
    done = stage.run("-p", "--debug-file=no/such/folder", "say it")
    assert done.returncode == 1
    assert b"cannot write the debug log 'no/such/folder'" in done.stderr
