"""One HTML file with everything in it: safe to open, whatever the session holds. A browser opens it in test_page.py."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.viewer.export import INDEX, SCRIPTS, export_html, harmless_json, read_page_file
from viewer.stage import HOSTILE, looked, story


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return export_html(looked(story(tmp_path_factory.mktemp("story"))))


DATA = re.compile(rb'<script type="application/json" id="embedded">(.*?)</script>', re.DOTALL)


def test_it_holds_the_spans_the_details_and_the_steps(made: bytes) -> None:
    (data,) = DATA.findall(made)
    held = json.loads(data)
    assert len(held["spans"]) == held["head"]["spans"] > 30
    assert len(held["steps"]) == 2  # the session's own, and its agent's
    assert all(len(steps) > 5 for steps in held["steps"])
    texts = [part["text"] for parts in held["details"].values() for part in parts]
    assert any("</script><script>window.hacked=1</script>" in text for text in texts), "it should be told as it is"


def test_the_data_can_end_nothing(made: bytes) -> None:
    (data,) = DATA.findall(made)
    for sign in (b"<", b">", b"&", "\u2028".encode(), "\u2029".encode(), b"\x1b"):
        assert sign not in data
    assert made.count(b"</script>") == len(SCRIPTS) + 1
    assert b"window.hacked" in data
    assert HOSTILE.encode() not in made


def test_it_names_nothing_outside_itself(made: bytes) -> None:
    assert not re.findall(rb"""(?:src|href)=["'](?!data:)""", DATA.sub(b"", made))
    assert not re.findall(rb"https?://", DATA.sub(b"", made))


def test_its_policy_allows_its_own_scripts_only(made: bytes) -> None:
    (policy,) = re.findall(rb'Content-Security-Policy" content="(.*?)"', made)
    assert policy.startswith(b"default-src 'none'; script-src 'sha256-")
    assert b"unsafe" not in policy
    assert b"connect-src" not in policy
    scripts = re.findall(rb"<script>(.*?)</script>", made, re.DOTALL)
    assert len(scripts) == len(SCRIPTS)
    for script in scripts:
        assert b64encode(sha256(script).digest()) in policy


def test_the_page_has_no_script_of_its_own_and_puts_in_no_html() -> None:
    index = read_page_file(INDEX).decode()
    assert not re.findall(r"\son\w+=|<script>|style=", index)
    for name in SCRIPTS:
        script = read_page_file(name).decode()
        assert not re.findall(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", script
        ), name
        assert "</script" not in script


@given(st.text())
def test_what_is_escaped_is_the_same_json(text: str) -> None:
    whole = text.encode("utf-8", "replace").decode()
    assert json.loads(harmless_json(json.dumps({"a": whole}, ensure_ascii=False).encode())) == {"a": whole}
