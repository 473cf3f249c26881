"""Programs get what they need and no secrets (security K2)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.processes.environment import (
    ADDED,
    CLOSED,
    NAMES,
    OURS,
    SECRET,
    child_environment,
    may_pass,
    sounds_secret,
)

PASSING = [name for names in NAMES.values() for name in names.split()]
SECRETS = (
    "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "CLAUDE_CODE_OAUTH_TOKEN", "MAINSPRING_HOME",
    "OPENAI_API_KEY", "GITHUB_TOKEN", "GH_TOKEN", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN",
    "NPM_TOKEN", "PGPASSWORD", "CONDA_TOKEN", "XDG_SECRET", "DATABASE_URL", "LC_API_KEY", "NVM_AUTH_TOKEN",
    "GITHUB_PAT", "DB_PASS", "npm_config__auth", "HF_TOKEN", "KUBE_PASSWORD", "SSH_PRIVATE_KEY",
    "GOOGLE_APPLICATION_CREDENTIALS", "BASH_ENV", "ENV", "LD_PRELOAD", "BASH_FUNC_ls%%", "PROMPT_COMMAND",
    "SHELLOPTS", "IFS", "CDPATH",
)  # fmt: skip


@pytest.mark.parametrize("name", SECRETS)
def test_it_does_not_pass(name: str) -> None:
    assert name not in child_environment({name: "value"})


@pytest.mark.parametrize("name", [*PASSING, "LC_ALL", "XDG_RUNTIME_DIR", "CONDA_PREFIX", "NVM_DIR"])
def test_it_passes(name: str) -> None:
    """No row of the table is made void by the words that sound like secrets."""
    assert child_environment({name: "value"})[name] == ADDED.get(name, "value")


@pytest.mark.parametrize("name", ["DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR", "DISPLAY"])
def test_the_bus_of_the_keyring_is_closed_whatever_settings_say(name: str) -> None:
    """It gives every key to every program that asks. Without an address, programs look for it in the usual place."""
    bus = "DBUS_SESSION_BUS_ADDRESS"
    assert child_environment({name: "/run/user/1"})[bus] == "disabled:"
    assert child_environment({name: "/run/user/1"}, names=[bus])[bus] == "disabled:"
    assert child_environment({}, settings={bus: "unix:path=/run/user/1/bus"})[bus] == "disabled:"
    assert bus not in child_environment({"HOME": "/home/me"})


NAME = st.builds(
    "".join,
    st.lists(st.sampled_from([*SECRET, *OURS, *PASSING[:20], "LC_", "XDG_", "_", "X", "conda_", "Token"]), max_size=4),
)


@given(st.dictionaries(NAME | st.text(max_size=8), st.text(max_size=8)))
def test_whatever_there_is_only_names_of_the_table_pass_and_no_secret(environ: dict[str, str]) -> None:
    found = child_environment(environ)
    assert {name: found[name] for name in ADDED} == ADDED
    for name in found.keys() - ADDED.keys() - CLOSED.keys():
        assert may_pass(name)
        assert not sounds_secret(name)
        assert not name.upper().startswith(OURS)
        assert name in environ


@given(st.dictionaries(NAME, st.text(max_size=8)), st.sets(NAME))
def test_a_person_may_add_anything_but_what_is_ours(settings: dict[str, str], names: set[str]) -> None:
    environ = dict.fromkeys(names, "there")
    found = child_environment(environ, settings=settings, names=names)
    for name in {*settings, *names} - ADDED.keys():
        assert (name in found) == (not name.upper().startswith(OURS))
        if name in found:
            assert found[name] == settings.get(name, "there")


@pytest.mark.parametrize(
    ("value", "passed"),
    [
        ("http://user:pass@proxy:3128", "http://proxy:3128"),
        ("http://user:p@ss@proxy:3128/", "http://proxy:3128/"),
        ("http://proxy:3128", "http://proxy:3128"),
        ("socks5://u@proxy", "socks5://proxy"),
        ("https://a:b@one/simple https://c:d@two/x@y", "https://one/simple https://two/x@y"),
        ("user@example.org", "user@example.org"),
    ],
)
def test_addresses_pass_without_their_passwords(value: str, passed: str) -> None:
    assert child_environment({"HTTPS_PROXY": value})["HTTPS_PROXY"] == passed


@given(
    st.lists(
        st.from_regex(r"[a-z]{1,4}://[a-zA-Z:@]{0,6}@h(:1)?(/[a-z]{0,3})?", fullmatch=True), min_size=1, max_size=3
    )
)
def test_no_name_or_password_is_left_before_a_host(addresses: list[str]) -> None:
    passed = child_environment({"PIP_EXTRA_INDEX_URL": " ".join(addresses)})["PIP_EXTRA_INDEX_URL"]
    assert "@" not in passed
    assert passed.count("://h") == len(addresses)


def test_scripts_can_know_that_an_agent_runs_them() -> None:
    assert child_environment({})["CLAUDECODE"] == "1"
