"""Who holds a secret, and until when; and that many of them cost hardly more than one (security K3)."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.agent.endpoints import build_router
from mainspring.providers.http.client import Transport
from mainspring.providers.retry import PATIENCE, RetryProfile
from mainspring.secrets import held
from mainspring.secrets.held import SecretIndex, SecretScope
from mainspring.secrets.redaction import redact
from mainspring.secrets.sources import KeyRequest, find_key
from mainspring.settings.values import Settings
from mainspring.testing import Scripted

# --- who holds --------------------------------------------------------------------------------------------

KEYS = [f"key-number-{number}-of-these-tests" for number in range(8)]
SESSIONS = range(5)
HAPPENS = st.one_of(
    st.tuples(st.just("hold"), st.sampled_from(SESSIONS), st.sampled_from(KEYS)),
    st.tuples(st.just("end"), st.sampled_from(SESSIONS), st.just("")),
    st.tuples(st.just("drop"), st.sampled_from(SESSIONS), st.just("")),  # nobody has it any more, and nobody ended it
)


@given(st.lists(HAPPENS, max_size=60), st.integers(0, 3), st.integers(0, 8))
def test_a_key_stays_until_all_who_hold_it_are_over(happens: list[tuple[str, int, str]], late: int, few: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(held, "_held", held.HeldSecrets())
        patch.setattr(held, "LATE", late)
        patch.setattr(held, "FEW", few)  # so that also these are many
        holders = {number: SecretScope() for number in SESSIONS}
        mine: dict[int, set[str]] = {number: set() for number in SESSIONS}
        for what, number, key in happens:
            if what == "hold":
                holders[number].run(held.hold_key, key)
                mine[number].add(key)
            else:
                if what == "end":
                    holders[number].release()
                holders[number], mine[number] = SecretScope(), set()
            in_use = set().union(*mine.values())
            text = "; ".join(KEYS)
            assert set(held.find_secrets_in(text)) == set(held.list_secrets())
            assert in_use <= set(held.list_secrets())
            assert held.mask_secrets(text.encode()) == naive(text.encode(), held.list_secrets())
        for holder in holders.values():
            holder.release()
        assert len(held.list_secrets()) <= late


def naive(data: bytes, values: tuple[str, ...]) -> bytes:
    for value in values:
        data = data.replace(value.encode(), b"*" * len(value))
    return data


def test_what_ten_thousand_sessions_held_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held, "_held", held.HeldSecrets())
    for number in range(10_000):
        holder = SecretScope()
        holder.run(held.hold_key, f"sk-ant-{number:040d}")
        holder.release()
    assert held.list_secrets() == tuple([f"sk-ant-{number:040d}" for number in range(10_000 - held.LATE, 10_000)])
    index = held._held._index
    assert index is not None
    assert len(index._whole) == held.LATE
    assert len(index._spots) <= 8 * held.LATE  # nothing of the others is left in the table


def test_what_is_written_right_after_the_end_is_covered() -> None:
    holder = SecretScope()
    holder.run(held.hold_key, KEYS[0])
    holder.release()
    holder.release()  # a second time changes nothing
    assert redact(f"it was {KEYS[0]}") == "it was [redacted]"
    assert held.mask_secrets(KEYS[0].encode()) == b"*" * len(KEYS[0])


def test_what_is_held_outside_of_sessions_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held, "LATE", 0)
    held.hold_key(KEYS[0])
    holder = SecretScope()
    holder.run(held.hold_key, KEYS[0])
    holder.run(held.hold_key, KEYS[1])
    holder.release()
    assert held.list_secrets() == (KEYS[0],)


def test_one_that_never_began_gives_back_what_it_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held, "LATE", 0)
    SecretScope().run(held.hold_key, KEYS[0])
    gc.collect()
    held.hold_key(KEYS[1])
    assert held.list_secrets() == (KEYS[1],)


def test_what_a_helper_and_a_file_bring_later_is_held_by_the_session_that_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held, "LATE", 0)
    tmp_path.chmod(0o700)
    script, file = tmp_path / "helper", tmp_path / "key"
    script.write_text("#!/bin/sh\necho key-of-the-helper-0123\n")
    script.chmod(0o755)
    file.write_text("key-of-the-file-0123")
    file.chmod(0o600)
    holder = SecretScope()
    by_helper = holder.run(find_key, KeyRequest({"HOME": str(tmp_path)}, None, "/", helper=str(script)))
    by_file = holder.run(find_key, KeyRequest({}, str(tmp_path), "/"))
    file.write_text("another-of-the-file-0123")
    assert by_helper.refresh is not None
    assert by_file.refresh is not None
    for refresh in (by_helper.refresh, by_file.refresh):
        asyncio.run(_awaited(refresh()))
    assert set(held.list_secrets()) == {"key-of-the-helper-0123", "key-of-the-file-0123", "another-of-the-file-0123"}
    holder.release()
    assert held.list_secrets() == ()
    asyncio.run(_awaited(by_file.refresh()))  # so late, it holds nothing for good
    held.hold_key(KEYS[0])
    assert held.list_secrets() == (KEYS[0],)


async def _awaited(waiting: object) -> None:
    await waiting  # type: ignore[misc]  # a coroutine, whatever it gives


def test_sessions_in_several_threads_do_not_lose_each_others_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held, "LATE", 4)
    monkeypatch.setattr(held, "FEW", 4)
    wrong: list[str] = []

    def live(name: str) -> None:
        for number in range(300):
            holder, key = SecretScope(), f"sk-thread-{name}-{number:020d}"
            holder.run(held.hold_key, key)
            if redact(f"<{key}>") != "<[redacted]>" or key.encode() in held.mask_secrets(key.encode()):
                wrong.append(key)
            holder.release()

    threads = [threading.Thread(target=live, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(held.list_secrets()) <= 4


# --- many -------------------------------------------------------------------------------------------------

# Few characters, so that values and texts overlap, begin alike and stand in each other.
PIECES = st.sampled_from(
    ["a", "b", "ab", "-", "_", "é", " ", '"', "aaaaaaaa", "abababab", "ababababababababab", "\ud800"]
)
VALUES = st.lists(PIECES, min_size=1, max_size=12).map("".join).filter(lambda value: len(value) >= held.SHORTEST)


@given(st.lists(VALUES, max_size=12), st.lists(VALUES, max_size=6), st.data())
def test_the_index_finds_what_looking_for_each_finds(values: list[str], gone: list[str], data: st.DataObject) -> None:
    text = "".join(data.draw(st.lists(st.one_of(PIECES, st.sampled_from([*values, *gone, "x"])), max_size=20)))
    values, gone = list(dict.fromkeys(values)), [value for value in dict.fromkeys(gone) if value not in values]
    index = SecretIndex([*values, *gone])
    for value in gone:
        index.drop(value)
    written = [value.encode(errors="surrogatepass") for value in values]
    whole = text.encode(errors="surrogatepass")
    assert index.within(whole) == {value for value in written if value in whole}
    for value in values:
        index.drop(value)
    assert (index._spots, index._whole, index._odd) == ({}, set(), {})


@given(st.lists(VALUES, max_size=6), st.lists(PIECES, max_size=30).map("".join))
def test_what_waits_for_its_rest_is_the_longest_beginning_of_any(values: list[str], text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(held, "_held", held.HeldSecrets())
        held.hold_secrets(*values)
        data = text.encode(errors="surrogatepass")
        written = [value.encode(errors="surrogatepass") for value in held.list_secrets()]
        sizes = [size for value in written for size in range(1, len(value)) if data.endswith(value[:size])]
        assert held._begun(data) == max(sizes, default=0)
        patch.setattr(held._held, "_index", SecretIndex(held.list_secrets()))  # as if they were many
        assert held._begun(data) == max(sizes, default=0)


def test_a_hundred_times_as_many_keys_cost_hardly_more() -> None:
    text = f"{Path(held.__file__).read_text()} sk-ant-none-of-them-{'x' * 60}\n" * 4

    def seconds() -> float:
        best = 60.0
        for _ in range(5):
            begin = time.process_time()
            for _ in range(5):
                redact(text)
                held.mask_secrets(text.encode())
                held.is_in({"text": text})
            best = min(best, time.process_time() - begin)
        return best

    held.hold_secrets(*[f"sk-ant-{number:040d}" for number in range(200)])
    with_few = seconds()
    held.hold_secrets(*[f"sk-ant-{number:040d}" for number in range(20_000)])
    assert len(held.list_secrets()) == 20_000
    assert seconds() < 4 * with_few  # one by one it would be 100 times


def test_the_key_of_a_server_that_is_asked_later_is_held_by_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held, "LATE", 0)
    holder, environ = SecretScope(), {"OPENAI_API_KEY": KEYS[0]}
    router = holder.run(
        build_router, Settings(), environ, Transport(), lambda: Scripted([]), PATIENCE[RetryProfile.FOREGROUND]
    )
    assert held.list_secrets() == ()
    router.provider("openai/gpt-5")
    assert held.list_secrets() == (KEYS[0],)
    holder.release()
    assert held.list_secrets() == ()
