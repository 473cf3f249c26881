"""`mainspring export`, `/export` and `/share`."""

from __future__ import annotations

import json

import pytest

from cli.slash.sitting import Sitting, here, sat
from cli.stage import Serve
from mainspring.simulator.replies import Say

KEY = "correct-horse-battery-staple-1"


def test_a_session_as_a_page_as_text_and_as_json(serve: Serve) -> None:
    stage = serve(Say.of(f"The key is {KEY}, and ghp_abcdefghijklmnopqrst."))
    assert stage.run("-p", "what is the key?").returncode == 0
    [file] = stage.sessions()
    secret = {"MY_SERVICE_TOKEN": KEY}
    done = stage.run("export", file.stem[:8], "-o", "out.html", env=secret)
    assert (done.returncode, done.stdout) == (0, b"Exported 1 prompt and the replies to 'out.html'.\n")
    page = (stage.folder / "out.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "what is the key?" in page
    assert "[redacted], and [redacted]." in page
    text = stage.run("export", file.stem, env=secret).stdout.decode()
    assert text.startswith("# what is the key?\n\nSession ")
    assert "The key is [redacted], and [redacted]." in text
    made = json.loads(stage.run("export", file.stem, "--json", env=secret).stdout)
    assert [one["kind"] for one in made["sections"]] == ["prompt", "answer"]
    assert KEY not in page + text + str(made)


def test_mistakes_of_the_command(serve: Serve) -> None:
    stage = serve(Say.of("Hi."))
    stage.run("-p", "hello")
    [file] = stage.sessions()
    (stage.folder / "there.md").write_text("mine")
    for words, said in (
        ((file.stem, "--html", "--json"), b"'--html' and '--json' cannot be combined: choose one"),
        ((file.stem, "-o", "there.md"), b"'there.md' already exists: choose another name"),
        ((file.stem, "-o", "no/where.md"), b"cannot write 'no/where.md': No such file or directory"),
        (("nosuch",), b"No conversation found with session ID: nosuch"),
    ):
        done = stage.run("export", *words)
        assert done.returncode == 1
        assert said in done.stderr
    assert (stage.folder / "there.md").read_text() == "mine"


def test_the_ending_chooses_the_format_and_share_writes_a_page(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = serve(Say.of("It is sk-ant-api03-abcdefghijklmnop1234."))
    here(stage, monkeypatch)

    async def play(sitting: Sitting) -> None:
        assert await sitting.said("/share") == "Nothing to share yet."
        await sitting.asked("Which key?")
        shown = await sitting.said("/export out.html")
        assert shown == f"Exported 1 prompt and the replies to '{stage.folder}/out.html'."
        await sitting.said("/export out.json")
        assert json.loads((stage.folder / "out.json").read_text())["title"] == "Which key?"
        for name in ("Which-key.html", "Which-key-2.html"):
            shown = await sitting.said("/share")
            assert shown.startswith(f"Wrote '{stage.folder}/{name}', one page that opens in any browser. Nothing was")
        for name in ("out.html", "Which-key.html", "Which-key-2.html"):
            assert "It is [redacted]." in (stage.folder / name).read_text()

    sat(play)
    assert len(stage.requests) == 1, "nothing is sent anywhere"
