"""Keys that `mainspring login` stores: where they are kept, for whom they are found, and what is refused (security
K1)."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import sys
from pathlib import Path
from types import ModuleType

import pytest

from mainspring.agent.config import resolve_config
from mainspring.agent.options import SessionOptions
from mainspring.core.errors import UsageError
from mainspring.secrets import held
from mainspring.secrets.credentials import Credentials, StoredKey
from mainspring.secrets.keyring_store import ENCRYPTED, find_encrypted_backend, open_keyring
from mainspring.secrets.redaction import redact
from mainspring.secrets.sources import ANTHROPIC_HOME, KeyRequest, find_key, list_present_keys

KEY = "sk-ant-api03-stored-aaaabbbbccccdddd"
OPENAI = "https://api.openai.com/v1"


class Backend:
    """A back end of the package `keyring`, in memory."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], str] = {}
        self.locked = False

    def get_password(self, service: str, username: str) -> str | None:
        self._check()
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self._check()
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        self._check()
        del self.kept[service, username]

    def _check(self) -> None:
        if self.locked:
            raise RuntimeError(f"the collection is locked; {KEY}")


def backend_of(module: str) -> Backend:
    """As if it came from that module."""
    made: Backend = type("Keyring", (Backend,), {"__module__": module})()
    return made


def install(monkeypatch: pytest.MonkeyPatch, backend: object) -> None:
    """A package `keyring` that has this back end."""
    package = ModuleType("keyring")
    package.get_keyring = lambda: backend  # type: ignore[attr-defined]
    package.__spec__ = sys.__spec__  # `find_spec` wants one
    monkeypatch.setitem(sys.modules, "keyring", package)


@pytest.fixture
def no_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, backend_of("keyring.backends.fail"))


@pytest.fixture
def home(tmp_path: Path) -> str:
    return str(tmp_path / "home")


# --- the file -----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_keyring")
def test_without_a_keyring_a_key_is_in_a_file_that_only_its_owner_can_read(home: str) -> None:
    before = os.umask(0)
    try:
        assert Credentials(home).store("anthropic", ANTHROPIC_HOME, KEY) == "credentials.json"
    finally:
        os.umask(before)
    assert stat.S_IMODE(Path(home, "credentials.json").stat().st_mode) == 0o600
    assert stat.S_IMODE(Path(home).stat().st_mode) == 0o700
    assert [file.name for file in Path(home).iterdir()] == ["credentials.json"]
    assert Credentials(home).sources() == {"anthropic": "credentials.json"}
    found = Credentials(home).find("anthropic", ANTHROPIC_HOME)
    assert found is not None
    assert (found.source, found.value, found.header) == ("credentials.json", KEY, "x-api-key")
    assert KEY not in redact(f"Hello {KEY}!")
    assert held.is_in({"command": f"echo {KEY}"}, ours=True)


@pytest.mark.usefixtures("no_keyring")
def test_a_key_is_found_for_its_address_only(home: str) -> None:
    Credentials(home).store("openai", OPENAI, KEY)
    assert Credentials(home).find("openai", f"{OPENAI}/") is not None
    assert Credentials(home).find("openai", "https://evil.example/v1") is None
    assert Credentials(home).find("anthropic", ANTHROPIC_HOME) is None
    assert Credentials(home).source_of("openai", OPENAI) == "credentials.json"
    assert not Credentials(home).source_of("openai", "https://evil.example/v1")


@pytest.mark.usefixtures("no_keyring")
def test_a_key_can_be_replaced_and_removed(home: str) -> None:
    credentials = Credentials(home)
    assert not credentials.remove("openai")
    credentials.store("openai", OPENAI, "first-key-of-openai-0001")
    credentials.store("anthropic", ANTHROPIC_HOME, KEY)
    credentials.store("openai", OPENAI, "second-key-of-openai-002")
    found = credentials.find("openai", OPENAI)
    assert found is not None
    assert found.value == "second-key-of-openai-002"
    assert "first-key" not in Path(credentials.path).read_text()
    assert credentials.remove("openai") == "credentials.json"
    assert not credentials.remove("openai")
    assert "second-key" not in Path(credentials.path).read_text()
    assert credentials.sources() == {"anthropic": "credentials.json"}


@pytest.mark.usefixtures("no_keyring")
def test_a_refused_key_is_read_again(home: str) -> None:
    asyncio.run(store_another_key(home))


async def store_another_key(home: str) -> None:
    credentials = Credentials(home)
    credentials.store("openai", OPENAI, "first-key-of-openai-0001")
    found = credentials.find("openai", OPENAI)
    assert found is not None
    assert found.refresh is not None
    credentials.store("openai", OPENAI, "second-key-of-openai-002")
    assert await found.refresh() == "second-key-of-openai-002"
    credentials.remove("openai")
    assert await found.refresh() == "first-key-of-openai-0001"


@pytest.mark.usefixtures("no_keyring")
def test_a_file_that_others_can_read_or_that_is_a_link_is_refused(home: str, tmp_path: Path) -> None:
    credentials = Credentials(home)
    credentials.store("openai", OPENAI, KEY)
    file = Path(credentials.path)
    for mode in (0o640, 0o604, 0o644):
        file.chmod(mode)
        for use in (
            credentials.sources,
            lambda: credentials.find("openai", OPENAI),
            lambda: credentials.remove("openai"),
            lambda: credentials.store("openai", OPENAI, KEY),
        ):
            with pytest.raises(UsageError, match="can be read by others, so it is not used: run 'chmod 600") as raised:
                use()
            assert KEY not in str(raised.value)
    file.chmod(0o600)
    other = tmp_path / "elsewhere.json"
    file.rename(other)
    file.symlink_to(other)
    for use in (credentials.sources, lambda: credentials.store("openai", OPENAI, KEY)):
        with pytest.raises(UsageError, match="is a link"):
            use()
    file.unlink()
    file.symlink_to(tmp_path / "nowhere.json")  # a dangling link would create the file of another user
    with pytest.raises(UsageError, match="is a link"):
        credentials.store("openai", OPENAI, KEY)
    file.unlink()
    Path(home).chmod(0o777)
    other.rename(file)
    with pytest.raises(UsageError, match="others can write to"):
        credentials.sources()


@pytest.mark.usefixtures("no_keyring")
def test_a_broken_file_and_an_odd_key_are_refused_without_a_word_of_them(home: str) -> None:
    credentials = Credentials(home)
    credentials.store("openai", OPENAI, KEY)
    Path(credentials.path).write_text(f'{{"providers": "{KEY}"')
    with pytest.raises(UsageError, match="cannot be read: remove it, and store your keys again") as raised:
        credentials.sources()
    assert KEY not in str(raised.value)
    Path(credentials.path).unlink()
    for odd in ("", "two words", "one\ntwo", "ключ"):
        with pytest.raises(UsageError, match="is not a valid key"):
            credentials.store("openai", OPENAI, odd)
    assert not Path(credentials.path).exists()
    assert KEY not in repr(StoredKey("credentials.json", OPENAI, KEY))


@pytest.mark.usefixtures("no_keyring")
def test_a_stored_key_that_a_session_does_not_use_is_redacted_too(home: str) -> None:
    unused = "sk-proj-unused-eeeeffffgggghhhh"
    file = Path(home, "credentials.json")
    Path(home).mkdir(mode=0o700)
    entry = {"type": "StoredKey", "store": "credentials.json", "url": OPENAI, "key": unused}
    file.write_text(json.dumps({"type": "Credentials", "providers": {"openai": entry}}))
    file.chmod(0o600)
    config = resolve_config(SessionOptions(), {"MAINSPRING_HOME": home, "ANTHROPIC_API_KEY": "sk-ant-api03-used-0000"})
    assert held.is_in({"text": unused}, ours=True)
    config.holder.release()
    file.chmod(0o644)  # not used, so no reason to stop
    again = resolve_config(SessionOptions(), {"MAINSPRING_HOME": home, "ANTHROPIC_API_KEY": "sk-ant-api03-used-0000"})
    again.holder.release()


# --- the keyring --------------------------------------------------------------------------------------------------


def test_with_a_keyring_the_file_has_no_key(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = backend_of("keyring.backends.SecretService")
    install(monkeypatch, backend)
    credentials = Credentials(home)
    assert credentials.store("anthropic", ANTHROPIC_HOME, KEY) == "keyring"
    assert backend.kept == {("mainspring", "anthropic"): KEY}
    assert KEY not in Path(credentials.path).read_text()
    found = credentials.find("anthropic", ANTHROPIC_HOME)
    assert found is not None
    assert (found.source, found.value) == ("keyring", KEY)
    backend.locked = True
    for use in (lambda: credentials.find("anthropic", ANTHROPIC_HOME), lambda: credentials.remove("anthropic"),
                lambda: credentials.store("openai", OPENAI, KEY)):  # fmt: skip
        with pytest.raises(UsageError, match="unlock the keyring, and try again") as raised:
            use()
        assert KEY not in str(raised.value)
    assert credentials.sources() == {"anthropic": "keyring"}  # without a question to it
    backend.locked = False
    backend.kept.clear()
    with pytest.raises(UsageError, match="has no key for 'anthropic' any more"):
        credentials.find("anthropic", ANTHROPIC_HOME)
    backend.kept["mainspring", "anthropic"] = KEY
    install(monkeypatch, backend_of("keyring.backends.null"))
    with pytest.raises(UsageError, match="which is not available here"):
        credentials.find("anthropic", ANTHROPIC_HOME)
    install(monkeypatch, backend)
    assert credentials.remove("anthropic") == "keyring"
    assert not backend.kept


@pytest.mark.usefixtures("no_keyring")
def test_a_key_moves_from_the_file_to_a_keyring(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    credentials = Credentials(home)
    credentials.store("openai", OPENAI, KEY)
    install(monkeypatch, backend_of("keyring.backends.libsecret"))
    credentials.store("openai", OPENAI, KEY)
    assert KEY not in Path(credentials.path).read_text()


@pytest.mark.parametrize(
    "module",
    ["keyring.backends.fail", "keyring.backends.null", "keyrings.alt.file", "keyring.testing.backend", "__main__"],
)
def test_a_back_end_that_does_not_encrypt_is_refused(module: str, home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = backend_of(module)
    install(monkeypatch, backend)
    assert open_keyring() is None
    assert Credentials(home).store("openai", OPENAI, KEY) == "credentials.json"
    assert not backend.kept


def test_of_a_chain_the_first_that_encrypts_is_used() -> None:
    good = backend_of(ENCRYPTED[0])
    chain = backend_of("keyring.backends.chainer")
    chain.backends = [backend_of("keyrings.alt.file"), good, backend_of(ENCRYPTED[1])]  # type: ignore[attr-defined]
    assert find_encrypted_backend(chain) is good
    chain.backends = [backend_of("keyrings.alt.file")]  # type: ignore[attr-defined]
    assert find_encrypted_backend(chain) is None


def test_a_subclass_elsewhere_is_none_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    good = backend_of(ENCRYPTED[0])
    install(monkeypatch, type("Keyring", (type(good),), {"__module__": "evil"})())
    assert open_keyring() is None
    package = ModuleType("keyring")
    package.__spec__ = sys.__spec__  # one whose configuration is broken
    monkeypatch.setitem(sys.modules, "keyring", package)
    assert open_keyring() is None


# --- the order ----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_keyring")
def test_the_environment_comes_first_then_the_stored_key_then_the_key_file(home: str) -> None:
    Credentials(home).store("anthropic", ANTHROPIC_HOME, KEY)
    file = Path(home, "key")
    file.write_text("from-the-key-file")
    file.chmod(0o600)
    environ = {"ANTHROPIC_API_KEY": "from-the-variable-1"}
    assert find_key(KeyRequest(environ, home, "/")).source == "ANTHROPIC_API_KEY"
    assert list_present_keys(KeyRequest(environ, home, "/")) == ["ANTHROPIC_API_KEY", "credentials.json", "key file"]
    found = find_key(KeyRequest({}, home, "/"))
    assert (found.source, found.value) == ("credentials.json", KEY)
    assert find_key(KeyRequest({}, home, "/", address="http://127.0.0.1:9")).source == "key file"
    Credentials(home).remove("anthropic")
    assert find_key(KeyRequest({}, home, "/")).source == "key file"
