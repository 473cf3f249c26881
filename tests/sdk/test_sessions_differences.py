"""Where ours and `claude-agent-sdk` give different results on the same files, and why. Nothing else may differ.

Each test shows both: should the other side change, it fails, and the difference may be given up.
"""

from __future__ import annotations

import json
import os
import threading
from dataclasses import asdict
from pathlib import Path

import claude_agent_sdk as theirs
import pytest
from pipe.stage import Serve

from mainspring.sessions.line_format import LARGEST_INLINE
from mainspring.simulator.replies import Say
from sdk.stored import (  # noqa: F401  # fixtures
    ID,
    OTHER,
    Home,
    Line,
    encoded,
    finished,
    home_fixture,
    ours,
    outcome,
    parallel,
    said,
    serve_fixture,
    uuid,
)
from sdk.test_sessions import FREE, TALK


def texts(side: object) -> list[object]:
    return [one["message"]["content"] for one in outcome(side, "get_session_messages", ID)]


def summaries(side: object) -> list[str]:
    return [one["summary"] for one in outcome(side, "list_sessions")]


# --- damage -----------------------------------------------------------------------------------------------------------


def test_a_character_that_is_damaged(home: Home) -> None:
    """Theirs raises for the whole session; ours shows it with a mark in its place."""
    home.write([*TALK[:1], encoded(TALK[1]).replace(b"Hi", b"H\xff"), *TALK[2:]])
    assert outcome(theirs, "get_session_messages", ID) is UnicodeDecodeError
    assert texts(ours) == ["hello", "H\ufffd.", "more", "Yes."]


@pytest.mark.parametrize("line", ['{"type":["user"],"uuid":"x"}', '{"type":"user","uuid":"x","parentUuid":[1]}'])
def test_fields_of_another_kind(line: str, home: Home) -> None:
    """Theirs raises; to ours, a kind that is no word is none that we know, and a link that is none leads nowhere."""
    home.write([line, *TALK])
    assert outcome(theirs, "get_session_messages", ID) is TypeError
    assert texts(ours) == ["hello", "Hi.", "more", "Yes."]


def test_a_line_of_a_thousand_brackets(home: Home) -> None:
    """Theirs raises; ours passes over it."""
    home.write(['{"type":"user","uuid":"x","a":' + "[" * 100_000, *TALK])
    assert outcome(theirs, "get_session_messages", ID) is RecursionError
    assert len(texts(ours)) == 4


def test_a_title_that_is_torn(home: Home) -> None:
    """Theirs takes what stands up to the next quote, a line end and a bracket with it; ours the title before it."""
    torn = b'{"type":"custom-title","customTitle":"Hal\n'
    home.write([*TALK, {"type": "custom-title", "customTitle": "Whole"}, torn, {"type": "mode"}])
    assert (summaries(theirs), summaries(ours)) == (["Hal\n{"], ["Whole"])


def test_a_title_behind_a_torn_line(home: Home) -> None:
    """Theirs writes into the torn line, and a tag is lost with it; ours begins a line of its own (settled 7)."""
    for side, tag in ((theirs, None), (ours, "mine")):
        home.write([*TALK, encoded(said(4))[:50]])
        outcome(side, "tag_session", ID, "mine")
        assert outcome(side, "get_session_info", ID)["tag"] == tag


def test_spaces_in_some_lines(home: Home) -> None:
    """To theirs any title with a space after the colon is later than all without; to ours the last one is."""
    home.write([json.dumps({"type": "ai-title", "customTitle": "first"}), *TALK, {"type": "x", "customTitle": "last"}])
    assert (summaries(theirs), summaries(ours)) == (["first"], ["last"])


def test_line_ends_of_other_scripts(home: Home) -> None:
    """Theirs tears a line there when it forks, and the message is lost; ours knows one line end."""
    lines = [
        json.dumps(line, ensure_ascii=False, separators=(",", ":")) for line in [said(0, text="a\u2028b"), TALK[1]]
    ]
    counts = []
    for side in (theirs, ours):
        home.write(lines)
        fork = outcome(side, "fork_session", ID)["session_id"]
        counts.append(len(ours.get_session_messages(fork)))
    assert counts == [1, 2]


@pytest.mark.parametrize("broken", [b'{"type":"user","uuid":"torn', b"42\n", b"no json\n"])
def test_lines_that_no_store_could_take(broken: bytes, home: Home) -> None:
    """Theirs raises in the middle, with a part of the session in the store, or puts a number there; ours goes on."""
    home.write([*TALK, broken])
    key = {"project_key": home.folder.name, "session_id": ID}
    held = []
    for side in (theirs, ours):
        store = ours.InMemorySessionStore()
        done = outcome(side, "import_session_to_store", ID, store, batch_size=2)
        held.append((done, len(finished(store.load(key)))))
    assert held[1] == (None, 4)
    assert held[0] in [(json.JSONDecodeError, 4), (AttributeError, 5)]


# --- names ------------------------------------------------------------------------------------------------------------


def test_a_name_that_ends_in_a_line_end(home: Home) -> None:
    """Theirs takes it for an id; ours does not: it is no UUID, and whoever prints it prints two lines."""
    home.write(TALK, f"{ID}\n")
    assert [one["session_id"] for one in outcome(theirs, "list_sessions")] == [f"{ID}\n"]
    assert ours.list_sessions() == []
    assert outcome(ours, "rename_session", f"{ID}\n", "x") is ValueError


def test_two_copies_of_a_session(home: Home) -> None:
    """Theirs takes the first folder in the order of the disk; ours the one that the list shows, which is the newest."""
    home.write(TALK)
    os.utime(home.file(), (1e9, 1e9))
    for name in ("-a", "-z"):
        (home.config / "projects" / name).mkdir()
        other = home.config / "projects" / name / f"{ID}.jsonl"
        other.write_bytes(encoded(said(0, text=f"in {name}")))
        os.utime(other, (2e9, 2e9 + (name == "-z")))
    assert summaries(ours) == summaries(theirs) == ["in -z"]
    assert ours.get_session_info(ID).summary == "in -z"
    assert texts(ours) == ["in -z"]


def test_a_relative_home(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Theirs would look into whatever repository the program is started in; ours refuses, as the command does."""
    home.write(TALK)
    monkeypatch.chdir(home.config.parent)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", "config")
    assert summaries(theirs) == ["hello"]
    with pytest.raises(Exception, match="'CLAUDE_CONFIG_DIR' is 'config', but it must be an absolute path"):
        ours.list_sessions()


def test_a_pipe_in_place_of_a_file(home: Home) -> None:
    """Theirs waits for whoever writes into it, for ever; to ours it is no session."""
    os.mkfifo(home.file())
    listing = threading.Thread(target=theirs.list_sessions, daemon=True)
    listing.start()
    assert ours.list_sessions() == []
    assert ours.get_session_info(ID) is None
    assert outcome(ours, "rename_session", ID, "x") is FileNotFoundError
    assert listing.is_alive()
    home.file().open("wb").close()  # only now does it end
    listing.join(60)
    assert not listing.is_alive()


def test_a_folder_in_place_of_a_file(home: Home) -> None:
    """Theirs finds it and fails at it; to ours there is no such session."""
    home.file().mkdir()
    for name in ("delete_session", "fork_session"):
        assert outcome(theirs, name, ID) is IsADirectoryError
        assert outcome(ours, name, ID) is FileNotFoundError
    assert outcome(theirs, "rename_session", ID, "x") is IsADirectoryError
    assert outcome(ours, "rename_session", ID, "x") is FileNotFoundError


def test_folders_of_agents_in_a_circle(home: Home) -> None:
    """Theirs goes round until the system refuses, and lists an agent forty times; ours looks into each folder once."""
    home.write(TALK)
    agents = home.agent("agent-a", TALK).parent
    (agents / "round").symlink_to(agents)
    assert len(outcome(theirs, "list_subagents", ID)) > 30
    assert ours.list_subagents(ID) == ["a"]


# --- what is ours -----------------------------------------------------------------------------------------------------


def test_content_that_is_kept_beside_the_file(serve: Serve) -> None:
    """Above 256 KiB a line has only the beginning. Theirs knows nothing of the rest: it shows the beginning, forks
    without it, and gives a store a session without it. Ours has all of it, everywhere."""
    large = "0123456789abcdef" * (LARGEST_INLINE // 16 + 1_000)
    stage = serve(Say.of("Done."), Say.of("More."))
    id = stage.ask(large, **FREE).result.session_id
    lengths: list[list[int]] = []
    for side in (theirs, ours):
        store = side.InMemorySessionStore()
        finished(side.import_session_to_store(id, store))
        fork = side.fork_session(id).session_id
        found = [
            side.get_session_messages(id),
            ours.get_session_messages(fork),
            finished(side.get_session_messages_from_store(store, id, str(stage.folder))),
        ]
        lengths.append([len(messages[0].message["content"]) for messages in found])
    assert all(length < 3_000 for length in lengths[0])
    assert lengths[1] == [len(large)] * 3


def test_a_title_in_the_middle(home: Home) -> None:
    """Theirs looks for it at both ends, 64 KiB each, and calls the fork after the first prompt, if that is there; ours
    has read all of the file by then."""
    far = [said(n, text="x" * 5_000) for n in range(4, 30)]
    home.write(
        [
            *TALK,
            *far,
            {"type": "custom-title", "customTitle": "Mine"},
            *[said(n, text="x" * 5_000) for n in range(30, 60)],
        ]
    )
    titles = [
        outcome(side, "get_session_info", outcome(side, "fork_session", ID)["session_id"]) for side in (theirs, ours)
    ]
    assert [title["custom_title"] for title in titles] == ["hello (fork)", "Mine (fork)"]
    home.write([said(0, text="y" * 100_000), TALK[1]])
    titles = [
        outcome(side, "get_session_info", outcome(side, "fork_session", ID)["session_id"]) for side in (theirs, ours)
    ]
    assert [title["custom_title"][:7] for title in titles] == ["Forked ", "y" * 7]


def test_progress_in_a_circle(home: Home) -> None:
    """Theirs never comes back from a fork of that; ours does."""
    home.write([said(0, "progress", parent=1), said(1, "progress", parent=0), said(2, text="x", parent=1)])
    fork = ours.fork_session(ID).session_id
    assert [one.message["content"] for one in ours.get_session_messages(fork)] == ["x"]


def test_a_folder_that_resists(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Theirs deletes the file, and leaves the rest behind without a word; ours says so, and can be asked again."""
    home.write(TALK, OTHER)
    home.agent("agent-a", TALK, OTHER)
    home.write(TALK)
    home.agent("agent-a", TALK)

    def busy(*_: object, **__: object) -> None:
        raise OSError(16, "Device or resource busy")

    with monkeypatch.context() as patch:
        patch.setattr(os, "rmdir", busy)
        assert outcome(theirs, "delete_session", OTHER) is None
        assert outcome(ours, "delete_session", ID) is OSError
    assert [one.session_id for one in ours.list_sessions()] == [ID]
    ours.delete_session(ID)
    assert [each.name for each in home.folder.iterdir()] == [OTHER]


def test_nothing_appended_to_a_store_is_nothing() -> None:
    """Theirs has a session of no lines then, which its own words call a mistake; ours has none."""
    key = {"project_key": "p", "session_id": ID}
    held = []
    for side in (theirs, ours):
        store = side.InMemorySessionStore()
        finished(store.append(key, []))
        held.append((finished(store.load(key)), finished(store.list_sessions("p")) != []))
    assert held == [([], True), (None, False)]


def test_names_with_slashes_in_a_store() -> None:
    """Theirs joins the parts of a key, so that two sessions may share one; ours keeps them apart."""
    one = {"project_key": "a", "session_id": "b", "subpath": "c"}
    other = {"project_key": "a/b", "session_id": "c"}
    held = []
    for side in (theirs, ours):
        store = side.InMemorySessionStore()
        finished(store.append(one, [{"type": "x"}]))
        held.append(finished(store.load(other)))
    assert held == [[{"type": "x"}], None]


def test_an_empty_title_in_a_store() -> None:
    """A title that was taken away: theirs forks a file without it, and a store with it; ours without it in both."""
    lines: list[Line] = [
        *TALK,
        {"type": "custom-title", "customTitle": "Old"},
        {"type": "custom-title", "customTitle": ""},
    ]
    titles = []
    for side in (theirs, ours):
        store = side.InMemorySessionStore()
        key = {"project_key": side.project_key_for_directory("/"), "session_id": ID}
        finished(store.append(key, lines))
        fork = finished(side.fork_session_via_store(store, ID, "/")).session_id
        titles.append(asdict(finished(side.get_session_info_from_store(store, fork, "/")))["custom_title"])
    assert titles == ["Old (fork)", "hello (fork)"]


def test_what_is_not_different(home: Home) -> None:
    """The fork of parallel calls keeps each link, new ids or not."""
    home.write(parallel())
    fork = ours.fork_session(ID).session_id
    lines = [json.loads(line) for line in Path(home.file(fork)).read_text().splitlines()]
    old = {line["uuid"]: line["forkedFrom"]["messageUuid"] for line in lines if "forkedFrom" in line}
    links = [(old[line["uuid"]], old.get(line["parentUuid"])) for line in lines if "forkedFrom" in line]
    assert links == [(line["uuid"], line["parentUuid"]) for line in parallel()]
    assert uuid(0) in old.values()
