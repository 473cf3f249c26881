"""Ends that must not mislead, through the real command: what is read of them, and whether the session goes on."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from cli.stage import Serve, Stage, frames, serving

from mainspring.simulator.replies import ReceivedRequest, Refuse, Reply, Say
from mainspring.simulator.scripts import Choose

MEGABYTE = 1024 * 1024
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
PIPE = ("-p", "--input-format=stream-json", "--output-format=stream-json", "--verbose")
WAY_OUT = "will be left out from now on: put it into a file, and name the file instead"


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    with ExitStack() as stack:

        def start(*replies: Reply, choose: Choose | None = None) -> Stage:
            return stack.enter_context(serving(replies, tmp_path / "work", choose=choose))

        yield start


def said(*content: Any) -> bytes:
    """Lines for the pipe, one for each message."""
    lines = [{"type": "user", "message": {"role": "user", "content": one}} for one in content]
    return b"".join([json.dumps(line).encode() + b"\n" for line in lines])


def results(output: bytes) -> list[Any]:
    return [frame for frame in frames(output) if frame["type"] == "result"]


def in_view(request: ReceivedRequest) -> str:
    return "\n".join([words for _, words in request.talk.said()])


# --- too large ------------------------------------------------------------------------------------------


@pytest.mark.covers("E-12", "G-25")
def test_forty_megabytes_end_a_turn_and_not_the_session(serve: Serve) -> None:
    """The next turn of the same process, and the next process with the same session."""
    stage = serve(Say.of("Here."), Say.of("Still here."))
    done = stage.run(*PIPE, input=said("word " * (8 * MEGABYTE), "hello"))
    giant, next_ = results(done.stdout)
    assert (giant["subtype"], giant["is_error"], giant["terminal_reason"]) == ("success", True, "prompt_too_long")
    assert giant["cause"] == "request_too_large"
    assert re.search(
        r"the request has 41,9\d\d,\d{3} bytes, and the API accepts 33,554,432 \(32.0 MB\)\. ", giant["result"]
    )
    assert giant["result"].endswith(f"A message of 40.0 MB {WAY_OUT}")
    assert (next_["is_error"], next_["result"]) == (False, "Here.")
    again = stage.run("-c", "-p", "and now?")
    assert (again.returncode, again.stdout, again.stderr) == (0, b"Still here.\n", b"")
    assert len(stage.requests) == 2, "what is known to be refused was sent"
    for request in stage.requests:
        assert len(request.raw) < MEGABYTE
        assert "[A message of 40.0 MB stood before this." in in_view(request)


def refuses_over(size: int, refusal: Refuse) -> Choose:
    """A server, or something on the way to it, with a limit of its own."""

    def choose(received: ReceivedRequest) -> Reply:
        return refusal if len(received.raw) > size else Say.of("Fine.")

    return choose


REFUSALS = {
    "bytes": Refuse(413, "", "Request Entity Too Large"),
    "tokens": Refuse(400, "invalid_request_error", "prompt is too long: 250000 tokens > 200000 maximum"),
}


@pytest.mark.covers("E-12", "G-04")
@pytest.mark.parametrize("name", REFUSALS)
def test_a_servers_own_limit_ends_a_turn_and_not_the_session(serve: Serve, name: str) -> None:
    stage: Stage = serve(choose=refuses_over(MEGABYTE // 2, REFUSALS[name]))
    first = stage.run("-p", "hello")
    assert first.stdout == b"Fine.\n"
    done = stage.run("-c", "-p", "what is this?", input=b"word " * (MEGABYTE // 5))
    assert (done.returncode, done.stdout) == (1, b"")
    words = done.stderr.decode()
    assert REFUSALS[name].message in words
    assert f"A message of 1.0 MB {WAY_OUT}" in words
    assert ("(the request has 1.0 MB)" in words) == (name == "bytes")
    after = stage.run("-c", "-p", "and now?")
    assert (after.returncode, after.stdout) == (0, b"Fine.\n")
    assert "hello" in in_view(stage.requests[-1]), "what was said before is still in view"


@pytest.mark.covers("E-12")
def test_a_request_with_many_images_passes_without_them(serve: Serve) -> None:
    """The server takes no images: the rung strips them, says so to the model, and the turn goes on."""

    def choose(received: ReceivedRequest) -> Reply:
        refusal = Refuse(413, "request_too_large", "Request exceeds the maximum size")
        return refusal if received.talk.blocks("image") else Say.of("Seen.")

    stage: Stage = serve(choose=choose)
    done = stage.run(*PIPE, input=said([*[IMAGE] * 5, {"type": "text", "text": "compare these"}], "and now?"))
    first, second = results(done.stdout)
    assert (first["is_error"], first["result"]) == (False, "Seen.")
    assert (second["is_error"], second["result"]) == (False, "Seen.")
    refused, passed, later = stage.requests
    assert [len(request.talk.blocks("image")) for request in stage.requests] == [5, 0, 0]
    assert in_view(passed).count("[An image or document stood here.") == 5
    assert "compare these" in in_view(passed)
    assert "compare these" in in_view(later)
    assert refused.talk.turns() == passed.talk.turns() == 0


# --- an object was wanted ---------------------------------------------------------------------------------

SCHEMA = json.dumps({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
NO_OUTPUT = "The model gave no output that fits the schema: "
CUT: dict[str, Any] = {
    "type": "tool_use", "id": "toolu_{n}", "name": "StructuredOutput", "input": {}, "partial_json": '{"n": 1',
}  # fmt: skip


def cut(number: int) -> Reply:
    return Say.of("Here:", CUT | {"id": f"toolu_{number}"}, stop_reason="max_tokens")


@pytest.mark.covers("M-16", "M-07")
def test_an_output_limit_is_an_error_where_an_object_was_wanted(serve: Serve) -> None:
    stage: Stage = serve(*[cut(n) for n in range(5)])
    (stage.home / "settings.json").parent.mkdir(parents=True, exist_ok=True)
    (stage.home / "settings.json").write_text('{"limits": {"maxOutputTokens": 9000}}')
    done = stage.run("-p", "how many?", "--json-schema", SCHEMA, "--output-format=json")
    [result] = frames(done.stdout)
    assert (done.returncode, result["subtype"], result["is_error"]) == (1, "error_max_structured_output_retries", True)
    assert (result["stop_reason"], result["cause"]) == ("max_tokens", "structured_output")
    assert "structured_output" not in result
    words = "the reply hit the output limit of 9,000 tokens: raise it, or ask for a smaller object"
    assert result["errors"] == [NO_OUTPUT + words]
    bare = stage.run("-p", "how many?", "--json-schema", SCHEMA)
    assert bare.returncode == 1


@pytest.mark.covers("M-16", "M-10")
def test_a_refusal_is_an_error_where_an_object_was_wanted(serve: Serve) -> None:
    stage: Stage = serve(*[Say.of("I will not.", stop_reason="refusal")] * 2)
    done = stage.run("-p", "how many?", "--json-schema", SCHEMA, "--output-format=json")
    [result] = frames(done.stdout)
    assert (done.returncode, result["subtype"], result["stop_reason"]) == (
        1,
        "error_max_structured_output_retries",
        "refusal",
    )
    assert result["errors"] == [NO_OUTPUT + "the model refused to answer: ask in other words, or ask another model"]


# --- not enough money ---------------------------------------------------------------------------------------

SHORT = re.compile(
    r"Reached maximum budget, \$0\.0000 spent in this run: \$(?P<left>\d\.\d{4}) is left, and the next call may take "
    r"\$(?P<needed>\d\.\d{4}) \([\d,]+ tokens of prompt, 1,024 of reply\): raise the limit"
)


@pytest.mark.covers("H-09", "M-07")
def test_a_money_limit_that_is_too_low_says_which_one_would_do(serve: Serve) -> None:
    """What it names does: with that much the call is made, and with less it is not."""
    stage: Stage = serve(Say.of("Hello."))
    done = stage.run("-p", "hello", "--max-budget-usd", "0.0001", "--output-format=json")
    [result] = frames(done.stdout)
    assert (done.returncode, result["subtype"], stage.requests) == (1, "error_max_budget_usd", [])
    [error] = result["errors"]
    told = SHORT.fullmatch(error)
    assert told is not None, error
    assert told["left"] == "0.0001"
    needed = told["needed"]
    assert error in stage.run("-p", "hello", "--max-budget-usd", "0.0001").stderr.decode()
    less = stage.run("-p", "hello", "--max-budget-usd", f"{float(needed) - 0.0002:.4f}")
    assert (less.returncode, stage.requests) == (1, [])
    enough = stage.run("-p", "hello", "--max-budget-usd", needed)
    assert (enough.returncode, enough.stdout) == (0, b"Hello.\n")
