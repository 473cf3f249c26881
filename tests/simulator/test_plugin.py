"""The pytest plugin, used as others will use it: by plain, synchronous code."""

from __future__ import annotations

import http.client
import json
import textwrap
import threading
from typing import Any
from urllib.parse import urlsplit

import pytest

from mainspring.core.money import Usage
from mainspring.simulator.replies import ReceivedRequest, Reply, Say
from mainspring.testing.plugin import LiveServer, call, live, thinking
from simulator.bodies import ask as body_of
from simulator.bodies import assistant, result, user
from simulator.client import HEADERS

pytest_plugins = ["pytester", "mainspring.testing.plugin"]


def ask(server: LiveServer, *messages: Any, **more: Any) -> tuple[int, Any]:
    """A client that has nothing to do with ours, nor with asyncio."""
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=10)
    connection.request("POST", "/v1/messages", json.dumps(body_of(*messages, **more)), HEADERS)
    answer = connection.getresponse()
    said = json.loads(answer.read())
    connection.close()
    return answer.status, said


def text(answer: tuple[int, Any]) -> str:
    return str(answer[1]["content"][-1]["text"])


def test_it_answers_in_order(model_server: LiveServer) -> None:
    model_server.answers(thinking("Hm."), "one")
    model_server.answers("two")
    assert model_server.left == 2
    assert [text(ask(model_server)), text(ask(model_server))] == ["one", "two"]
    assert model_server.left == 0
    assert ask(model_server)[0] == 400, "there are no more replies"


def test_it_fails_as_it_is_told_and_keeps_the_reply(model_server: LiveServer) -> None:
    model_server.answers("at last")
    model_server.fails("overloaded", times=2)
    model_server.fails("rate_limited", argument="7")
    assert [ask(model_server)[0] for _ in range(3)] == [529, 529, 429]
    assert text(ask(model_server)) == "at last"
    assert [answer.fault for answer in model_server.answered] == ["overloaded", "overloaded", "rate_limited", ""]


def test_it_refuses(model_server: LiveServer) -> None:
    model_server.refuses(429, "rate_limit_error", "slow down", retry_after="3")
    assert ask(model_server)[1]["error"] == {"type": "rate_limit_error", "message": "slow down"}


def test_scripts_are_for_many_at_once(model_server: LiveServer) -> None:
    for number in range(8):
        model_server.script(f"task {number}.", Say.of(f"first {number}"), Say.of(f"second {number}"))
    said: dict[int, list[str]] = {}

    def work(number: int) -> None:
        prompt = user(f"task {number}.")
        said[number] = [text(ask(model_server, prompt)), text(ask(model_server, prompt, assistant("so"), user("and?")))]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == {number: [f"first {number}", f"second {number}"] for number in range(8)}


def test_rules_and_random_faults(model_server: LiveServer) -> None:
    def shout(received: ReceivedRequest) -> Reply:
        return Say.of(received.talk.prompt.upper())

    model_server.rule(shout)
    assert text(ask(model_server, user("hello"))) == "HELLO"
    model_server.fails_at_random(1, overloaded=1)
    assert ask(model_server)[0] == 529


def test_what_it_was_asked_and_what_that_cost(model_server: LiveServer) -> None:
    model_server.answers(call("add", a=2, b=3), usage=Usage(input=1_000_000, output=1_000_000))
    ask(model_server, user("add"))
    assert model_server.usage == Usage(input=1_000_000, output=1_000_000)
    assert model_server.cost_usd == 12.0, "two dollars for the prompt, ten for the answer"
    assert [talk.prompt for talk in model_server.talks] == ["add"]
    assert len(model_server.requests) == 1
    model_server.until(lambda: model_server.aborted == 0)


def test_tokens_are_metered_where_the_test_does_not_say(model_server: LiveServer) -> None:
    ask(model_server, user("x" * 40_000))
    assert 10_000 < model_server.usage.input < 10_050
    assert model_server.usage.output > 0


def test_a_request_that_breaks_a_rule_fails_the_test() -> None:
    serving = live()
    server = next(serving)
    ask(server, user(result()))
    with pytest.raises(AssertionError, match=r"(?s)would have refused.*tool_result\.known"):
        next(serving)


def test_unless_it_is_forgiven(model_server: LiveServer) -> None:
    model_server.forgives()
    assert ask(model_server, user(""))[0] == 400
    assert [violation.rule for violation in model_server.violations] == ["messages.content"]


def test_it_works_in_a_project_of_somebody_else(pytester: pytest.Pytester) -> None:
    pytester.makeconftest('pytest_plugins = ["mainspring.testing.plugin"]')
    pytester.makepyfile(
        textwrap.dedent(
            """
            import urllib.request

            def test_one(model_server):
                assert model_server.url.startswith("http://127.0.0.1:")

            def test_two(model_server):
                url, headers = model_server.url + "/v1/messages", {"content-type": "text/plain"}
                try:
                    urllib.request.urlopen(urllib.request.Request(url, b"{}", headers))
                except urllib.error.HTTPError as error:
                    assert error.code == 400
            """
        )
    )
    done = pytester.runpytest_inprocess("-q", "-p", "no:cacheprovider")
    done.assert_outcomes(passed=2, errors=1)
    done.stdout.fnmatch_lines(["*the API would have refused these requests:*"])
