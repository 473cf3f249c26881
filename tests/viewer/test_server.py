"""The viewer's server over real sockets: who may ask, what is answered, and how little patience it has."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from mainspring.viewer.server import MOST_SPANS, MOST_STEPS, ViewServer
from mainspring.viewer.spans import SpanKind
from viewer.client import ask, read, served
from viewer.stage import of, story


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return story(tmp_path_factory.mktemp("story"))


# --- who may ask ------------------------------------------------------------------------------------------------


def test_only_who_has_the_token_is_answered(told: Path) -> None:
    async def test(server: ViewServer) -> None:
        assert (await ask(server, "")).status == 200
        for token in ("", "x", server.token[:-1], server.token + "x", "%00", ".."):
            for path in ("", "api/head", "app.js"):
                got = await ask(server, path, token=token)
                assert (got.status, b"mainspring trace" in got.body) == (403, False), token

    served(told, test)


def test_each_server_has_a_token_of_its_own(told: Path) -> None:
    async def main() -> None:
        async with ViewServer(told) as one, ViewServer(told) as other:
            assert one.token != other.token
            assert len(one.token) >= 40
            assert (await ask(one, "", token=other.token)).status == 403

    asyncio.run(main())


@pytest.mark.parametrize(
    "headers",
    [
        "Origin: http://evil.example\r\n",
        "Origin: null\r\n",
        "Origin: http://127.0.0.1\r\n",
        "Sec-Fetch-Site: cross-site\r\n",
        "Sec-Fetch-Site: same-site\r\n",
        "Host: 127.0.0.1\r\n",  # a second one
    ],
)
def test_other_pages_have_no_access(told: Path, headers: str) -> None:
    async def test(server: ViewServer) -> None:
        assert (await ask(server, "api/head", headers=headers)).status == 403

    served(told, test)


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "[::1]", "0.0.0.0", "localhost.evil"])
def test_another_name_for_this_address_is_refused(told: Path, host: str) -> None:
    async def test(server: ViewServer) -> None:
        assert (await ask(server, "api/head", host=host)).status == 403
        assert (await ask(server, "api/head", host=f"{host}:{server.port}x")).status == 403
        assert (await ask(server, "api/head", host=f"localhost:{server.port}")).status == 200

    served(told, test)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_can_be_changed(told: Path, method: str) -> None:
    async def test(server: ViewServer) -> None:
        assert (await ask(server, "api/head", method=method)).status == 405

    before = told.read_bytes()
    served(told, test)
    assert told.read_bytes() == before


def test_it_listens_on_this_machine_only(told: Path) -> None:
    async def test(server: ViewServer) -> None:
        assert server._server is not None
        assert [one.getsockname()[0] for one in server._server.sockets] == ["127.0.0.1"]

    served(told, test)


@pytest.mark.parametrize(
    "path",
    [
        "../app.js",
        "..%2f..%2fetc/passwd",
        "%2e%2e/",
        "page/app.js",
        "//etc/passwd",
        "api/../head",
        "api/",
        "api/x",
        "api",
    ],
)
def test_no_name_leads_out_of_the_page(told: Path, path: str) -> None:
    async def test(server: ViewServer) -> None:
        assert (await ask(server, path)).status == 404

    served(told, test)


def test_every_answer_forbids_what_a_page_does_not_need(told: Path) -> None:
    async def test(server: ViewServer) -> None:
        for path, token in (("", None), ("app.js", None), ("api/head", None), ("nothing", None), ("", "wrong")):
            headers = (await ask(server, path, token=token)).headers
            assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self';")
            assert "unsafe" not in headers["content-security-policy"]
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["cache-control"] == "no-store"
            assert headers["referrer-policy"] == "no-referrer"

    served(told, test)


# --- what is answered -------------------------------------------------------------------------------------------


def test_spans_come_in_pieces(told: Path) -> None:
    async def test(server: ViewServer) -> None:
        head = (await ask(server, "api/head")).json
        whole = (await ask(server, "api/spans")).json
        assert (len(whole["spans"]), whole["more"]) == (head["spans"], 0)
        found = []
        for after in range(0, head["spans"], 7):
            piece = (await ask(server, f"api/spans?after={after}&most=7")).json
            found += piece["spans"]
            assert piece["more"] == max(0, head["spans"] - after - 7)
        assert found == whole["spans"]

    served(told, test)


def test_spans_of_a_time_are_those_that_touch_it(told: Path) -> None:
    async def test(server: ViewServer) -> None:
        spans = (await ask(server, "api/spans?begin=9130&end=9200")).json["spans"]
        expected = [s.key for s in server.trace.spans if s.begin <= 9_200 and (s.end is None or s.end >= 9_130)]
        assert [span["key"] for span in spans] == expected
        assert 3 < len(expected) < 15

    served(told, test)


@pytest.mark.parametrize(
    "query",
    ["begin=9999999999999999", "after=9999999999999999", "rev=9999999999999999", "most=0"],
)
def test_ranges_beyond_everything_are_empty(told: Path, query: str) -> None:
    async def test(server: ViewServer) -> None:
        got = await ask(server, f"api/spans?{query}")
        assert (got.status, got.json["spans"]) == (200, [])

    served(told, test)


def test_an_answer_has_a_limit_whatever_is_asked_for(told: Path) -> None:
    async def test(server: ViewServer) -> None:
        got = (await ask(server, f"api/steps?most={10**15}")).json
        assert len(got["steps"]) == got["total"] <= MOST_STEPS
        assert (await ask(server, f"api/spans?most={10**15}")).status == 200
        assert MOST_SPANS <= 5_000

    served(told, test)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("spans?begin=-1", "'begin' must be a whole number"),
        ("spans?begin=1e9", "'begin' must be a whole number"),
        ("spans?begin=99999999999999999999999", "'begin' must be a whole number"),
        ("spans?begin=%D9%A3", "'begin' must be a whole number"),
        ("spans?begin=1&begin=2", "'begin' is given twice"),
        ("spans?begin=5&end=1", "'begin' is after 'end'"),
        ("spans?start=1", "unknown parameter 'start'"),
        ("head?x=1", "unknown parameter 'x'"),
        ("steps?place=7", "no file 7"),
        ("spans?" + "&".join(f"a{n}=1" for n in range(20)), "the query has too many fields"),
    ],
)
def test_a_bad_question_is_told_what_is_wrong(told: Path, query: str, said: str) -> None:
    async def test(server: ViewServer) -> None:
        got = await ask(server, f"api/{query}")
        assert (got.status, got.body.decode().strip()) == (400, said)

    served(told, test)


def test_details_are_read_when_they_are_asked_for(told: Path) -> None:
    async def test(server: ViewServer) -> None:
        (edit,) = [span for span in of(server.trace, SpanKind.TOOL) if span.name == "Edit"]
        parts = (await ask(server, f"api/span?key={edit.key}")).json["parts"]
        assert [part["title"] for part in parts] == ["input", "result"]
        assert parts[0]["text"] == "file_path: /else/src/parser.py\nask: May I edit?"
        assert parts[1]["text"] == "yes"
        for key in ("", "x", "0", "0.", ".1", "9.0", "0.99999", "-1.-1", "0.1.2", "%00"):
            assert (await ask(server, f"api/span?key={key}")).status == 404

    served(told, test)


def test_no_control_character_and_no_turn_of_direction_is_sent(told: Path) -> None:
    async def test(server: ViewServer) -> None:
        for path in ("spans", "steps", "head", *[f"span?key={span.key}" for span in server.trace.spans]):
            text = json.dumps((await ask(server, f"api/{path}")).json, ensure_ascii=False)
            assert "\\u001b" not in text
            assert "\u202e" not in text

    served(told, test)


def test_head_has_no_body(told: Path) -> None:
    async def test(server: ViewServer) -> None:
        got = await ask(server, "", method="HEAD")
        assert (got.status, got.body, int(got.headers["content-length"]) > 1_000) == (200, b"", True)

    served(told, test)


def test_one_connection_serves_many_requests(told: Path) -> None:
    async def test(server: ViewServer) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        for _ in range(50):
            writer.write(f"GET /{server.token}/api/head HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode())
            assert (await read(reader)).status == 200
        assert server.connections == 1
        writer.close()

    served(told, test)


# --- a session under way ----------------------------------------------------------------------------------------


def test_who_waits_hears_when_the_file_grows(told: Path, tmp_path: Path) -> None:
    data, file = told.read_bytes(), tmp_path / told.name
    file.write_bytes(data[: len(data) // 2])

    async def test(server: ViewServer) -> None:
        head = (await ask(server, "api/head")).json
        waiting = asyncio.create_task(ask(server, f"api/news?rev={head['rev']}"))
        with file.open("ab") as opened:
            opened.write(data[len(data) // 2 :])
        rev = (await waiting).json["rev"]
        assert rev > head["rev"]
        changed = (await ask(server, f"api/spans?rev={head['rev']}")).json["spans"]
        assert 0 < len(changed) < (await ask(server, "api/head")).json["spans"]

    served(file, test)


def test_who_waits_for_nothing_hears_so_after_a_while(told: Path) -> None:
    async def test(server: ViewServer) -> None:
        rev = (await ask(server, "api/news?rev=0")).json["rev"]
        assert (await ask(server, f"api/news?rev={rev + 1}")).json["rev"] <= rev + 1

    served(told, test, wait=0.05)


def test_many_may_wait_while_others_are_answered(told: Path) -> None:
    async def test(server: ViewServer) -> None:
        rev = (await ask(server, "api/head")).json["rev"]
        waiting = [asyncio.create_task(ask(server, f"api/news?rev={rev + 9}")) for _ in range(20)]
        assert [(await ask(server, "api/head")).status for _ in range(20)] == [200] * 20
        for one in waiting:
            one.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    served(told, test)


def test_a_file_that_is_gone_is_told(told: Path, tmp_path: Path) -> None:
    file = tmp_path / told.name
    file.write_bytes(told.read_bytes())

    async def test(server: ViewServer) -> None:
        key = of(server.trace, SpanKind.MODEL)[0].key
        file.unlink()
        got = await ask(server, f"api/span?key={key}")
        assert (got.status, got.body) == (404, b"cannot read the session file: No such file or directory\n")
        assert (await ask(server, "api/spans")).status == 200  # what was read is still known

    served(file, test)
