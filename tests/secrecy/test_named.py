"""Secrets that settings know of, used or not: covered in all that is stored, and given to those whose they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cli.stage import Serve, Stage

from mainspring.secrets import held
from mainspring.secrets.redaction import looks_secret, passwords_in, secrets_in
from mainspring.simulator.replies import Say

TOKEN = "tk-of-the-settings-0123456789"


def call(name: str, **input: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{name}", "name": name, "input": input}


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("GITHUB_TOKEN", "ghp-0123456789abcdef", ["ghp-0123456789abcdef"]),
        ("Authorization", "Bearer abcdefgh-123456", ["abcdefgh-123456"]),
        ("DB_PASSWORD", "correct-horse", ["correct-horse"]),
        ("DB_PASSWORD", "postgres", []),
        ("MAX_TOKENS", "1280000000000000", []),
        ("SSH_KEY_PATH", "/home/somebody/.ssh/id_ed25519", []),
        ("API_URL", "https://api.example.com/v1/long", []),
        ("SECRET", "${FROM_THE_ENVIRONMENT}", []),
        ("PLAIN", "ghp-0123456789abcdef", []),
        ("TOKEN", " ", []),
    ],
)
def test_a_name_and_a_value_make_a_secret(name: str, value: str, found: list[str]) -> None:
    assert secrets_in({name: value}) == found


def test_a_password_in_an_address() -> None:
    assert "pa%20ss" in passwords_in(["https://me:pa%20ss@host/v1", "https://host", "nothing"])
    assert not looks_secret("https://me:pa%20ss@host/v1")


def test_what_is_not_ours_may_be_given_on_and_is_covered_all_the_same() -> None:
    ours, theirs = "kq-ours-of-this-test-0001", "kq-theirs-of-this-test-0002"
    holder = held.SecretScope()
    holder.run(held.hold_secrets, ours)
    holder.run(held.hold_secrets, theirs, ours, ours=False)  # what is ours stays so
    try:
        assert held.mask_secrets(f"{ours} {theirs}".encode()) == b"*" * len(ours) + b" " + b"*" * len(theirs)
        assert [held.is_in([one]) for one in (ours, theirs)] == [True, True]
        assert [held.is_in([one], ours=True) for one in (ours, theirs)] == [True, False]
        holder.run(held.hold_secrets, theirs)
        assert held.is_in(theirs, ours=True)
    finally:
        holder.release()


def said(stage: Stage) -> None:
    stage.home.mkdir(parents=True)
    server = {"command": "/bin/false", "env": {"SERVICE_TOKEN": f"{TOKEN}-server"}, "disabled": True}
    remote = {
        "type": "http",
        "url": "http://127.0.0.1:1/",
        "headers": {"X-Api-Key": f"{TOKEN}-header"},
        "disabled": True,
    }
    (stage.home / "settings.json").write_text(
        json.dumps(
            {
                "env": {"DEPLOY_TOKEN": f"{TOKEN}-env", "BOTH_TOKEN": f"{TOKEN}-overridden"},
                "mcpServers": {"off": server, "remote": remote},
                "models": {"mine/m": {"base_url": f"https://me:{TOKEN}-url@127.0.0.1:1", "key_env": "MY_MODEL"}},
            }
        )
    )
    (stage.folder / ".mainspring").mkdir()
    (stage.folder / ".mainspring/settings.json").write_text(
        json.dumps({"env": {"PROJECT_TOKEN": f"{TOKEN}-untrusted"}})
    )


KINDS = ("env", "overridden", "server", "header", "url", "untrusted", "model", "openai", "both")


def test_they_are_in_no_file_of_a_session(serve: Serve) -> None:
    lines = "".join(f"{TOKEN}-{kind}\n" for kind in KINDS)
    command = 'test "$DEPLOY_TOKEN" = "$(head -1 a.txt)" && echo "given: $DEPLOY_TOKEN"'
    stage = serve(Say.of(call("Read", file_path="a.txt"), call("Bash", command=command)), Say.of("Done."))
    said(stage)
    (stage.folder / "a.txt").write_text(lines)
    env = {"MY_MODEL": f"{TOKEN}-model", "OPENAI_API_KEY": f"{TOKEN}-openai", "BOTH_TOKEN": "x"}
    inline = json.dumps({"env": {"BOTH_TOKEN": f"{TOKEN}-both"}})
    done = stage.run("-p", "go", "--allowedTools=Bash", "--settings", inline, env=env)
    assert done.stdout == b"Done.\n", done.stderr
    stored = b"".join(path.read_bytes() for path in stage.home.rglob("*") if path.is_file() and path.suffix != ".json")
    assert [kind for kind in KINDS if f"{TOKEN}-{kind}".encode() in stored + done.stderr] == []
    assert b"given: **" in stored  # the command had it


def test_a_call_with_one_is_refused(serve: Serve) -> None:
    stage = serve(Say.of(call("Bash", command=f"echo {TOKEN}-server > leaked")), Say.of("Done."))
    said(stage)
    stage.run("-p", "go", "--allowedTools=Bash")
    assert not (stage.folder / "leaked").exists()


def test_a_server_gets_what_is_its_own_in_every_session_of_a_process(tmp_path: Path) -> None:
    """The first session covers it; the second must still be able to give it."""
    from mainspring.settings.mcp_servers import fill_server
    from mainspring.settings.values import McpEntry, SettingOrigin, SettingsSource

    entry = McpEntry(
        "s", {"command": "/bin/true", "env": {"T_TOKEN": "${T_TOKEN}"}}, SettingOrigin(SettingsSource.USER, "here")
    )
    environ = {"T_TOKEN": f"{TOKEN}-again", "HOME": str(tmp_path)}
    holder = held.SecretScope()
    try:
        first = fill_server(entry, environ)
        holder.run(held.hold_secrets, *secrets_in(first.env), ours=False)
        assert fill_server(entry, environ) == first
    finally:
        holder.release()
