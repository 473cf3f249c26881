"""Where a key comes from, in which order, and what is refused (security K1)."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from mainspring.core.errors import ProviderError, UsageError
from mainspring.core.reasons import Trouble
from mainspring.secrets import held
from mainspring.secrets.helper import LIFETIME, KeyHelper
from mainspring.secrets.redaction import redact
from mainspring.secrets.sources import (
    API_KEY,
    AUTH_TOKEN,
    BOTH,
    KeyRequest,
    ResolvedKey,
    find_key,
    headers_of,
    list_present_keys,
)

CONSOLE_KEY = "sk-ant-api03-aaaabbbbccccdddd"


def script(folder: Path, text: str, name: str = "helper") -> str:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return str(file)


def wanted(folder: Path, **more: object) -> KeyRequest:
    home = folder / "home"
    home.mkdir(mode=0o700, exist_ok=True)
    environ = {"HOME": str(folder), "PATH": "/usr/bin:/bin", **more.pop("environ", {})}  # type: ignore[dict-item]
    return KeyRequest(environ, str(home), str(folder / "work"), **more)  # type: ignore[arg-type]


def put_key(folder: Path, value: str = "from-the-file", mode: int = 0o600) -> Path:
    wanted(folder)
    file = folder / "home" / "key"
    file.write_text(f"{value}\n")
    file.chmod(mode)
    return file


# --- the order ----------------------------------------------------------------------------------------------------


def test_the_first_of_argument_helper_environment_and_file_is_used(tmp_path: Path) -> None:
    put_key(tmp_path)
    helper = script(tmp_path, "echo from-the-helper")
    env = {"ANTHROPIC_API_KEY": "from-the-variable", "ANTHROPIC_AUTH_TOKEN": "token-of-a-variable"}
    all_of_them = wanted(tmp_path, argument=CONSOLE_KEY, helper=helper, environ=env)
    assert list_present_keys(all_of_them) == [
        *("argument", "apiKeyHelper", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "key file")
    ]
    assert find_key(all_of_them) == ResolvedKey("argument", CONSOLE_KEY, API_KEY)
    found = find_key(wanted(tmp_path, helper=helper, environ=env))
    assert (found.source, found.value, found.header) == ("apiKeyHelper", "", BOTH)
    assert found.refresh is not None
    assert asyncio.run(found.refresh()) == "from-the-helper"  # type: ignore[arg-type]
    assert find_key(wanted(tmp_path, environ=env)) == ResolvedKey("ANTHROPIC_API_KEY", "from-the-variable", API_KEY)
    del env["ANTHROPIC_API_KEY"]
    assert find_key(wanted(tmp_path, environ=env)) == ResolvedKey(
        "ANTHROPIC_AUTH_TOKEN", "token-of-a-variable", AUTH_TOKEN
    )
    found = find_key(wanted(tmp_path))
    assert (found.source, found.value, found.header) == ("key file", "from-the-file", AUTH_TOKEN)
    (tmp_path / "home" / "key").unlink()
    assert find_key(wanted(tmp_path)) == ResolvedKey("none")
    assert not find_key(wanted(tmp_path)).is_any
    assert list_present_keys(wanted(tmp_path)) == []


def test_whatever_was_found_is_held_also_what_is_not_used(tmp_path: Path) -> None:
    env = {"ANTHROPIC_API_KEY": "from-the-variable", "ANTHROPIC_AUTH_TOKEN": "token-of-a-variable"}
    find_key(wanted(tmp_path, argument="the-argument", environ=env | {"https_proxy": "http://u:pass-word@h:1"}))
    assert redact("the-argument from-the-variable token-of-a-variable pass-word") == " ".join(["[redacted]"] * 4)


def test_what_was_found_does_not_show_its_value(tmp_path: Path) -> None:
    found = find_key(wanted(tmp_path, argument=CONSOLE_KEY))
    assert CONSOLE_KEY not in f"{found!r} {found}"


@pytest.mark.parametrize("value", ["two words", "a\nx-other: header", "kéy", "a" * 20_000, "\x1b[31m"])
def test_what_cannot_stand_in_a_header_is_refused_and_not_shown(tmp_path: Path, value: str) -> None:
    with pytest.raises(UsageError, match=r"'ANTHROPIC_API_KEY' is not a valid key: a key is one word") as error:
        find_key(wanted(tmp_path, environ={"ANTHROPIC_API_KEY": value}))
    assert value not in str(error.value)


@pytest.mark.parametrize(
    ("header", "names"),
    [(API_KEY, ["x-api-key"]), (AUTH_TOKEN, ["authorization"]), (BOTH, ["x-api-key", "authorization"])],
)
def test_a_key_goes_into_its_header_or_into_both(header: str, names: list[str]) -> None:
    both = {"x-api-key": "k", "authorization": "Bearer k"}
    assert headers_of(header, "k") == {name: both[name] for name in names}
    assert headers_of(header, "") == {}


# --- the file -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660, 0o606, 0o666, 0o610, 0o601])
def test_a_file_that_others_can_read_is_refused_with_the_way_out(tmp_path: Path, mode: int) -> None:
    file = put_key(tmp_path, mode=mode)
    with pytest.raises(UsageError, match=f"'chmod 600 {file}'"):
        find_key(wanted(tmp_path))
    file.chmod(0o600)
    assert find_key(wanted(tmp_path)).value == "from-the-file"
    file.chmod(0o400)
    assert find_key(wanted(tmp_path)).value == "from-the-file"


def test_a_folder_that_others_can_write_to_is_refused(tmp_path: Path) -> None:
    folder = put_key(tmp_path).parent
    folder.chmod(0o770)
    with pytest.raises(UsageError, match=f"'chmod 700 {folder}'"):
        find_key(wanted(tmp_path))


def test_links_folders_pipes_and_nonsense_are_refused_without_waiting(tmp_path: Path) -> None:
    file = put_key(tmp_path)
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="is a link"):
        find_key(wanted(tmp_path))
    file.unlink()
    os.mkfifo(file, 0o600)
    with pytest.raises(UsageError, match="is not a file"):
        find_key(wanted(tmp_path))
    file.unlink()
    file.mkdir(mode=0o700)
    with pytest.raises(UsageError, match="is not a file"):
        find_key(wanted(tmp_path))
    file.rmdir()
    put_key(tmp_path, "two words")
    with pytest.raises(UsageError, match="is not a valid key"):
        find_key(wanted(tmp_path))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_refused(tmp_path: Path) -> None:
    os.chown(put_key(tmp_path), 12_345, 12_345)
    with pytest.raises(UsageError, match="belongs to another user"):
        find_key(wanted(tmp_path))


def test_a_key_that_was_put_there_later_is_found_when_the_first_is_refused(tmp_path: Path) -> None:
    put_key(tmp_path)
    found = find_key(wanted(tmp_path))
    put_key(tmp_path, "the-next-key")
    assert found.refresh is not None
    assert asyncio.run(found.refresh()) == "the-next-key"  # type: ignore[arg-type]
    assert "the-next-key" in held.list_secrets()


# --- the helper ---------------------------------------------------------------------------------------------------


class Clock:
    def __init__(self) -> None:
        self.time = 1_000.0

    def __call__(self) -> float:
        return self.time


def helper(folder: Path, text: str, **more: object) -> KeyHelper:
    environ = {"HOME": str(folder), "PATH": "/usr/bin:/bin", **more.pop("environ", {})}  # type: ignore[dict-item]
    return KeyHelper(script(folder, text), environ, cwd="/nowhere", **more)  # type: ignore[arg-type]


def test_a_helper_is_asked_again_when_its_key_is_old(tmp_path: Path) -> None:
    clock = Clock()
    count = f"echo >> {tmp_path}/asked; echo key-number-$(wc -l < {tmp_path}/asked)"
    asked = helper(tmp_path, count, lifetime=60, now=clock)
    assert asked.is_stale()
    assert asyncio.run(asked.refresh()) == "key-number-1"
    clock.time += 59
    assert not asked.is_stale()
    clock.time += 1
    assert asked.is_stale()
    assert asyncio.run(asked.refresh()) == "key-number-2"
    assert not asked.is_stale()
    assert redact("key-number-1 key-number-2") == "[redacted] [redacted]"  # the old one may still be good


@pytest.mark.parametrize(
    ("said", "seconds"), [({}, LIFETIME), ({"CLAUDE_CODE_API_KEY_HELPER_TTL_MS": "2000"}, 2), ({"X": "1"}, LIFETIME)]
)
def test_its_lifetime_has_a_default_and_a_variable(tmp_path: Path, said: dict[str, str], seconds: int) -> None:
    clock = Clock()
    asked = helper(tmp_path, "echo some-key", now=clock, environ=said)
    asyncio.run(asked.refresh())
    clock.time += seconds - 0.5
    assert not asked.is_stale()
    clock.time += 0.5
    assert asked.is_stale()


def test_many_who_ask_at_once_start_it_once(tmp_path: Path) -> None:
    asked = helper(tmp_path, f"echo >> {tmp_path}/asked; echo some-key")

    async def main() -> list[str]:
        return await asyncio.gather(*[asked.refresh() for _ in range(5)])

    assert asyncio.run(main()) == ["some-key"] * 5
    assert (tmp_path / "asked").read_text() == "\n"


def test_it_gets_the_users_environment_without_what_is_ours_and_starts_at_home(tmp_path: Path) -> None:
    environ = {"VAULT_TOKEN": "v", "ANTHROPIC_API_KEY": "ours-is-not-passed", "MAINSPRING_HOME": "/x", "CLAUDE_X": "1"}
    asked = helper(tmp_path, f"env > {tmp_path}/env; pwd > {tmp_path}/pwd; echo some-key", environ=environ)
    asyncio.run(asked.refresh())
    names = {line.partition("=")[0] for line in (tmp_path / "env").read_text().splitlines()}
    assert "VAULT_TOKEN" in names
    assert not {name for name in names if name.startswith(("ANTHROPIC", "MAINSPRING_HOME", "CLAUDE"))}
    assert (tmp_path / "pwd").read_text() == f"{tmp_path}\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("echo the password is hunter22 >&2; exit 3", "ended with 3 and printed 'the password is hunter22'"),
        ("echo password=hunter22 >&2; exit 3", r"ended with 3 and printed 'password=\[redacted\]'"),
        ("true", "what 'apiKeyHelper' prints is not a valid key"),
        ("echo two words", "what 'apiKeyHelper' prints is not a valid key"),
        ("yes", "what 'apiKeyHelper' prints is not a valid key"),
    ],
)
def test_one_that_fails_ends_the_run_with_the_reason(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ProviderError, match=words) as error:
        asyncio.run(helper(tmp_path, f"({text}) | head -c 100000" if text == "yes" else text).refresh())
    assert error.value.failure.kind is Trouble.AUTH
    assert "two words" not in str(error.value)


def test_one_that_hangs_is_ended_with_all_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainspring.secrets.helper.SECONDS", 0.3)
    with pytest.raises(ProviderError, match="did not end within"):
        asyncio.run(helper(tmp_path, f"sh -c 'echo $$ > {tmp_path}/pid; exec sleep 60'").refresh())
    pid, deadline = (tmp_path / "pid").read_text().strip(), time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("echo $MY_KEY", r"contains '\$'.*into a script"),
        ("cat ~/key", "contains '~'"),
        ("a; b", "contains ';'"),
        ("a | b", r"contains '\|'"),
        ("`a`", "contains '`'"),
        ("a\nb", r"contains '\\n'"),
        ("A=1 b", "must begin with a program"),
        ("", "must begin with a program"),
        ("'a", "a quote that is not closed"),
        ("./bin/key", "use an absolute path"),
        ("bin/key", "use an absolute path"),
        ("no-such-program-here", "which was not found"),
        ("/no/such/program", "which was not found"),
    ],
)
def test_a_command_that_means_something_else_elsewhere_is_refused(tmp_path: Path, command: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        KeyHelper(command, {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}, cwd="/nowhere")


def test_words_and_quotes_are_taken_as_a_shell_would(tmp_path: Path) -> None:
    script(tmp_path, "echo $#-$2", "my key")
    asked = KeyHelper("~/'my key' a 'b-c' \"\"", {"HOME": str(tmp_path)}, cwd="/nowhere")
    assert asyncio.run(asked.refresh()) == "3-b-c"


def test_a_name_is_never_looked_up_in_the_working_folder(tmp_path: Path) -> None:
    script(tmp_path, "echo planted", "get-key")
    with pytest.raises(UsageError, match="which was not found"):
        KeyHelper("get-key", {"PATH": f"{tmp_path}:/bin"}, cwd=str(tmp_path))
    assert KeyHelper("get-key", {"PATH": f"{tmp_path}:/bin"}, cwd="/nowhere").argv == (f"{tmp_path}/get-key",)


def test_a_program_that_everybody_can_change_is_refused(tmp_path: Path) -> None:
    Path(script(tmp_path, "echo some-key")).chmod(0o757)
    with pytest.raises(UsageError, match="'chmod o-w "):
        KeyHelper(f"{tmp_path}/helper", {}, cwd="/nowhere")
