"""Every fault of the simulator, through the real loop over real sockets, in both of OpenAI's protocols.

The table is the one of the Anthropic provider (`faults/test_recovery.py`): whatever the protocol, the consumer sees the
same, the model is asked as often, and the same calls run. Where a protocol cannot say what another can, the rows
below say what is seen instead. Behind it, the same for the manners of odd servers.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import cache, partial

import pytest
from faults.stage import ARGUMENTS, HURRIED, LOOK, SILENT, SUMMARY, USAGE, Hands, Played, Stage, played, together
from faults.test_recovery import BROKEN_OFF, CASES, CONFIGS, HALF, ROWS, Case, Row, in_any_order
from tiers import chosen, parametrize_few

from mainspring.core.config import Config
from mainspring.engine.session import EngineSession
from mainspring.providers.http.client import Transport
from mainspring.providers.http_provider import ApiKey
from mainspring.providers.openai.json import FAILED
from mainspring.providers.openai.provider import OPENAI, PLAIN, OpenAI, OpenAIChat, OpenAIResponses, ServerFeatures
from mainspring.simulator.faults import FaultPlan, PlannedFault
from mainspring.simulator.replies import Json, ReceivedRequest, Reply, Say
from mainspring.simulator.server import ModelServer
from mainspring.simulator.server_quirks import AS_TEXT, CHAT, ODDITIES, RESPONSES
from mainspring.tools.custom import tool

Kind = type[OpenAI]

# No spelling of its own: a full window is told like a full answer.
FULL = Row((*HALF, "tell recovery", "ask {t} max_output_tokens_recovery"))
OTHERWISE: dict[Kind, dict[str, Row]] = {
    # Nothing says that a call is complete but what comes behind it.
    OpenAIChat: {"window_full": FULL, "cut_after_call": ROWS["cut_in_call"]},
    OpenAIResponses: {"window_full": FULL},
}
# What the protocol has no words for, as the simulator says.
WITHOUT: dict[Kind, frozenset[str]] = {
    OpenAIChat: frozenset({"paused", "bad_signature"}),
    OpenAIResponses: frozenset({"paused"}),
}


def look(received: ReceivedRequest) -> Reply:
    """The model of the other table. That a result is an error is said in words here."""
    talk = received.talk
    summed_up = sum([int(words.removeprefix(SUMMARY)) for _, words in talk.said() if words.startswith(SUMMARY)])
    seen = summed_up + sum(not str(result["content"]).startswith(FAILED) for result in talk.results("Look"))
    thought: Json = {"type": "thinking", "thinking": f"There are two parts, and I have seen {seen} of them."}
    if seen >= 2:
        return Say.of(thought, "I have seen both parts. That is all.", usage=USAGE)
    call = {"type": "tool_use", "id": f"toolu_{talk.turns()}", "name": "Look", "input": {"part": seen + 1}}
    return Say.of(thought, f"I will look at part {seen + 1}.", call, usage=USAGE)


class OpenAIStage(Stage):
    def __init__(self, server: ModelServer, kind: Kind, manners: ServerFeatures = OPENAI) -> None:
        super().__init__(server)
        self.kind = kind
        self.manners = manners

    def session(
        self, transport: Transport, config: Config, ran: Counter[int], key: ApiKey | str = "key"
    ) -> EngineSession:
        url = self.server.url
        provider = self.kind(key, base_url=url, transport=transport, patience=self.patience, manners=self.manners)

        @tool(name="Look", about=LOOK.description, concurrent=True)
        async def act(part: int) -> str:
            ran[part] += 1
            return f"Part {part} is fine."

        return EngineSession(Hands(provider, [act], system=("You look.",)), config)


async def play_all(kind: Kind, cases: list[Case]) -> dict[Case, Played]:
    planned = [
        PlannedFault(
            case.name, case.times, after=int(case.later), prompt=case.prompt, argument=ARGUMENTS.get(case.name, "")
        )
        for case in cases
    ]
    async with ModelServer(choose=look, faults=FaultPlan(*planned), odd=("reasoning_content",)) as server:
        stage = OpenAIStage(server, kind)
        quick = [case for case in cases if case.name not in SILENT]
        slow = [case for case in cases if case.name in SILENT]  # all at once: they do nothing but wait
        seen = await together([partial(stage.play, case.prompt, CONFIGS[case.config]) for case in quick])
        seen += await together(
            [partial(stage.play, case.prompt, CONFIGS[case.config], deadlines=HURRIED) for case in slow], len(slow)
        )
        rows = zip([*quick, *slow], seen, strict=True)
        return {case: played(stage, case.prompt, it) for case, it in rows}


KINDS: dict[str, Kind] = {"chat": OpenAIChat, "responses": OpenAIResponses}
PLAYS = [(kind, case) for kind, each in KINDS.items() for case in CASES if case.name not in WITHOUT[each]]


@pytest.fixture(scope="module")
def all_played(request: pytest.FixtureRequest) -> Callable[[str], dict[Case, Played]]:
    """One protocol at a time, when its first case is looked at."""
    plays = chosen(request, "kind", "case")

    @cache
    def of_kind(kind: str) -> dict[Case, Played]:
        return asyncio.run(play_all(KINDS[kind], [case for of, case in plays if of == kind]))

    return of_kind


@pytest.mark.covers("E-05", "E-07", "E-10", "E-12", "F-20", "G-01", "G-03", "G-10", "G-17", "G-25")
@parametrize_few("kind,case", PLAYS, keep=len(PLAYS) // 5, ids=str)
def test_a_fault_and_what_is_seen_of_it(
    kind: str, case: Case, all_played: Callable[[str], dict[Case, Played]], monkeypatch: pytest.MonkeyPatch
) -> None:
    if row := OTHERWISE[KINDS[kind]].get(case.name):
        monkeypatch.setitem(ROWS, case.name, row)
    seen, requests, wrong = all_played(kind)[case]
    seen.check()
    assert wrong == []
    expected, lines = case.expected, seen.lines
    if case.name in BROKEN_OFF:  # the next request waits, which is told
        lines = [line for line in lines if not line.startswith("wait")]
    # A connection that was kept may have been closed while idle: the transport sends such a request once more, unseen.
    unseen = case.name == "reset" and case.later
    if unseen:
        expected = [line for line in expected if line != f"wait network {case.times}"]
    if case.name == "duplicate_ids":
        assert in_any_order(lines) == in_any_order(expected)
    else:
        assert lines == expected
    assert requests == sum(line.startswith(("ask", "wait")) for line in expected) + unseen
    assert seen.ran == Counter(int(line[-1]) for line in expected if line.startswith("ran Look"))


# --- odd and weak servers, through the loop ---------------------------------------------------------------

SPOKEN = {"chat": CHAT, "responses": RESPONSES}
ODD = [
    (kind, manner)
    for kind, path in SPOKEN.items()
    for name, oddity in ODDITIES.items()
    if path in oddity.paths and name != "nested_error"  # that one needs an error, and is in the readers' tests
    for manner in ([f"{name}={style}" for style in AS_TEXT] if name == "calls_as_text" else [name])
]
ANSWERED = ["ask 1", "ask 2 next_turn", "ask 3 next_turn", "completed end_turn"]


@pytest.mark.parametrize(("kind", "manner"), ODD)
def test_the_manners_of_odd_servers_change_nothing(kind: str, manner: str) -> None:
    """Both parts are looked at, once each, and the run ends with an answer. Nothing but a refusal ends it otherwise."""

    async def main() -> None:
        async with ModelServer(choose=look, odd=(manner,)) as server:
            seen = await OpenAIStage(server, KINDS[kind], PLAIN).play(manner)
            assert server.violations == []
        seen.check()
        if manner == "refusal_field":
            assert seen.ending == "completed refusal"
            return
        assert [line for line in seen.lines if line.startswith(("ask", "wait", "withdrawn", "completed"))] == ANSWERED
        assert seen.ran == {1: 1, 2: 1}
        assert seen.result.usage.output > 0
        assert seen.result.estimated is (manner == "no_usage")

    asyncio.run(main())
