"""Requests that are right, drawn at random: every shape of conversation that the protocol allows."""

from __future__ import annotations

from itertools import count
from typing import Any

from hypothesis import strategies as st

from mainspring.simulator.message_rules import CONTEXT_MANAGEMENT, TASK_BUDGETS
from mainspring.simulator.shapes import MANNERS, ModelQuirks
from mainspring.simulator.validate import GOOD_HEADERS
from simulator.bodies import (
    ADAPTIVE,
    Json,
    ask,
    call,
    image,
    pages,
    paper,
    redacted,
    result,
    searched,
    text,
    thought,
    tool,
)

Drawn = tuple[Json, dict[str, str]]  # a body and its headers

words = st.text(min_size=1, max_size=20).filter(str.strip)
texts = words.map(text)
media = st.sampled_from([image(), paper(), image(media_type="image/gif")])


@st.composite
def requests(draw: st.DrawFn) -> Drawn:
    model = draw(st.sampled_from([*MANNERS, f"{ADAPTIVE}-20260928"]))
    manner = MANNERS[model.removesuffix("-20260928")]
    body = ask(model=model, max_tokens=draw(st.integers(2_000, 64_000)))
    body["messages"] = draw(conversations(model, draw(thinking_in(body, manner))))
    headers = draw(parameters_in(body, manner))
    draw(marks_in(body))
    return body, headers


@st.composite
def thinking_in(draw: st.DrawFn, body: Json, manner: ModelQuirks) -> str:
    """Which thinking there may be: none, one that leads each reply, or any."""
    mode = draw(st.sampled_from([None, *sorted(manner.thinking)]))
    if mode is not None:
        body["thinking"] = {"type": mode}
    if mode == "enabled":
        body["thinking"]["budget_tokens"] = draw(st.integers(1_024, body["max_tokens"] - 1))
        return "leading"
    return "none" if mode == "disabled" or (mode is None and not manner.thinks_unasked) else "any"


@st.composite
def parameters_in(draw: st.DrawFn, body: Json, manner: ModelQuirks) -> dict[str, str]:
    headers = dict(GOOD_HEADERS)
    quiet = body.get("thinking", {}).get("type") in ("disabled", "between_tools")
    efforts = sorted(manner.efforts & manner.quiet if quiet else manner.efforts)
    if draw(st.booleans()) and efforts:
        body["output_config"] = {"effort": draw(st.sampled_from(efforts))}
    if draw(st.booleans()) and "adaptive" in manner.thinking:
        total = draw(st.integers(20_000, 10**6))
        budget = {"type": "tokens", "total": total, "remaining": draw(st.integers(0, total))}
        body.setdefault("output_config", {})["task_budget"] = budget
        headers["anthropic-beta"] = f"other-2026-01-01, {TASK_BUDGETS}"
    if draw(st.booleans()):
        body["context_management"] = {"edits": draw(st.lists(clearings(), max_size=1))}
        betas = headers.get("anthropic-beta", "other-2026-01-01")
        headers["anthropic-beta"] = f"{betas}, {CONTEXT_MANAGEMENT}"
    if draw(st.booleans()):
        system: st.SearchStrategy[Any] = st.one_of(words, st.lists(texts, min_size=1, max_size=3))
        body["system"] = draw(system)
    if draw(st.booleans()):
        body["tools"] = [tool("Read"), tool("Write-2"), {"type": "web_search_20260209", "name": "web_search"}]
        body["tool_choice"] = {"type": draw(st.sampled_from(["auto", "none"]))}
    for name, value in (("stream", True), ("metadata", {"user_id": "u"}), ("stop_sequences", ["END"])):
        if draw(st.booleans()):
            body[name] = value
    return headers


@st.composite
def clearings(draw: st.DrawFn) -> Json:
    more: Json = {
        "trigger": {"type": draw(st.sampled_from(["input_tokens", "tool_uses"])), "value": draw(st.integers(1, 10**6))},
        "keep": {"type": "tool_uses", "value": draw(st.integers(0, 100))},
        "clear_at_least": draw(st.sampled_from([None, {"type": "input_tokens", "value": 0}])),
        "exclude_tools": ["Read"],
        "clear_tool_inputs": draw(st.sampled_from([None, True, False, ["Read"]])),
    }
    kept = draw(st.lists(st.sampled_from(sorted(more)), unique=True))
    return {"type": "clear_tool_uses_20250919"} | {name: more[name] for name in kept}


@st.composite
def conversations(draw: st.DrawFn, model: str, thoughts: str) -> list[Json]:
    ids = (f"toolu_{number}" for number in count(1))
    messages = [{"role": "user", "content": draw(said_by_user())}]
    open_turn = False  # whether the last user message only answered calls
    for _ in range(draw(st.integers(0, 4))):
        blocks = draw(replies(model, thoughts, leading=not open_turn))
        blocks += [call(next(ids), draw(st.sampled_from(["Read", "gone"]))) for _ in range(draw(st.integers(0, 3)))]
        answers = [draw(answers_to(block["id"])) for block in blocks if block["type"] == "tool_use"]
        open_turn = bool(answers)
        more = draw(st.lists(st.one_of(texts, media), max_size=2))
        content = [*draw(st.permutations(answers)), *more] if answers else draw(said_by_user())
        messages += [{"role": "assistant", "content": blocks}, {"role": "user", "content": content}]
    if draw(st.booleans()):  # a turn that was paused
        paused = [*draw(replies(model, thoughts, leading=not open_turn)), searched("srvtoolu_last")]
        messages.append({"role": "assistant", "content": paused})
    return messages


@st.composite
def said_by_user(draw: st.DrawFn) -> Any:
    return draw(st.one_of(words, st.lists(st.one_of(texts, media), min_size=1, max_size=3)))


_servers = count(1)


@st.composite
def replies(draw: st.DrawFn, model: str, thoughts: str, *, leading: bool) -> list[Json]:
    """What an assistant says before its calls; the last block is no thinking."""
    blocks: list[Json] = []
    thinking = st.sampled_from([thought(model), redacted(), {**thought(model), "signature": "opaque", "thinking": ""}])
    for _ in range(draw(st.integers(0, 2))):
        if thoughts == "any" and draw(st.booleans()):
            blocks.append(draw(thinking))
        if draw(st.booleans()):
            id = f"srvtoolu_{next(_servers)}"
            blocks += [searched(id), pages(id)]
    blocks.append(draw(texts))
    if thoughts == "leading" and (leading or draw(st.booleans())):
        blocks.insert(0, draw(thinking))
    return blocks


@st.composite
def answers_to(draw: st.DrawFn, id: str) -> Json:
    if draw(st.booleans()):
        return result(id, draw(st.one_of(words, st.lists(texts, min_size=1, max_size=2))), is_error=True)
    content = st.one_of(words, st.just(""), st.lists(st.one_of(texts, media), max_size=2))
    return result(id, draw(content))


@st.composite
def marks_in(draw: st.DrawFn, body: Json) -> None:
    """At most four marks, the long-lived ones first."""
    places = [*body.get("tools", ()), *(body["system"] if isinstance(body.get("system"), list) else ())]
    for message in body["messages"]:
        blocks = message["content"] if isinstance(message["content"], list) else []
        for number, block in enumerate(blocks):
            blocks[number] = dict(block)  # blocks are shared between drawn requests
            if "thinking" not in block["type"]:
                places.append(blocks[number])
    chosen = sorted(draw(st.sets(st.integers(0, len(places) - 1), max_size=4))) if places else []
    long_lived = draw(st.integers(0, len(chosen)))
    for order, place in enumerate(chosen):
        places[place]["cache_control"] = {"type": "ephemeral", "ttl": "1h" if order < long_lived else "5m"}
