"""The page in a real Chromium. One browser for all of these; each test has a tab of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from programs import lacks

from mainspring.core.reasons import Transition
from mainspring.viewer.export import export_html
from mainspring.viewer.server import ViewServer
from mainspring.viewer.spans import SpanKind
from viewer.chromium import PROGRAM, Chromium, Tab
from viewer.stage import ID, looked, of, story


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return story(tmp_path_factory.mktemp("story"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    if not PROGRAM:
        lacks("chromium")
    with Chromium() as running:
        yield running


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    thread = threading.Thread(target=made.run_forever)
    thread.start()
    yield made
    made.call_soon_threadsafe(made.stop)
    thread.join()
    made.run_until_complete(made.shutdown_default_executor())
    made.close()


@pytest.fixture(scope="module")
def server(told: Path, loop: asyncio.AbstractEventLoop) -> Iterator[ViewServer]:
    yield from serving(told, loop)


def serving(file: Path, loop: asyncio.AbstractEventLoop) -> Iterator[ViewServer]:
    async def new() -> ViewServer:
        return await ViewServer(file).__aenter__()

    made = asyncio.run_coroutine_threadsafe(new(), loop).result(20)
    yield made
    asyncio.run_coroutine_threadsafe(made.__aexit__(None, None, None), loop).result(20)
    assert made.failures == []


@pytest.fixture
def tab(browser: Chromium, server: ViewServer) -> Iterator[Tab]:
    """Opened, and looked through afterwards: nothing was complained of, and nothing asked for elsewhere."""
    with browser.tab() as opened:
        opened.open(server.url)
        yield opened
        assert opened.complaints == []
        assert [one for one in opened.requests if not one.startswith((server.url, "data:"))] == []
        assert opened.get("window.hacked") is None


def click_on(tab: Tab, key: str) -> None:
    place = tab.get(f"timeline.where('{key}')")
    tab.click(place["x"], place["y"])


def texts(tab: Tab, selector: str) -> list[str]:
    found: list[str] = tab.get(f"[...document.querySelectorAll('{selector}')].map((one) => one.textContent)")
    return found


def test_the_lanes_are_there_with_all_their_spans(tab: Tab, server: ViewServer) -> None:
    lanes = tab.get("[...document.querySelectorAll('#names div')].map((one) => [one.dataset.lane, one.dataset.spans])")
    count = {kind: str(len(of(server.trace, kind))) for kind in SpanKind}
    assert dict(lanes) | {"context": None, "marks": None, "agent-1": None} == {
        "runs": count[SpanKind.RUN],
        "person": count[SpanKind.QUESTION],
        "model": str(len(of(server.trace, SpanKind.MODEL)) + len(of(server.trace, SpanKind.RETRY))),
        "tools": count[SpanKind.TOOL],
        "context": None,
        "agents": "1",
        "marks": None,
        "agent-1": None,
        "1.model": "2",
        "1.tools": "2",
        "1.context": dict(lanes)["1.context"],
    }
    assert int(tab.get("document.getElementById('axis').dataset.drawn")) >= 30


def test_the_totals_are_those_of_the_session(tab: Tab) -> None:
    totals = dict(
        tab.get("[...document.querySelectorAll('#totals div')].map((o) => [...o.children].map((c) => c.textContent))")
    )
    assert (totals["wall"], totals["person"], totals["retries"]) == ("16.3 s", "2.00 s", "1.50 s")
    assert (totals["overlap"], totals["turns"], totals["price"]) == ("27 %", "6", "$0.0854")


def test_a_click_shows_what_a_call_was_about(tab: Tab, server: ViewServer) -> None:
    (edit,) = [span for span in of(server.trace, SpanKind.TOOL) if span.name == "Edit"]
    click_on(tab, edit.key)
    tab.until("document.querySelector('#details [data-loaded]')")
    assert texts(tab, "#details h2") == ["Edit /else/src/parser.py"]
    assert texts(tab, "#details pre")[1:] == ["file_path: /else/src/parser.py\nask: May I edit?", "yes"]
    command = f"mainspring --resume {ID} --resume-session-at {edit.uuid} --fork-session"
    assert texts(tab, "#details [data-fork]") == [command]
    assert "rule Edit(*)" in tab.get("document.getElementById('details').textContent")
    assert tab.get("document.getElementById('said').textContent") == "tool: Edit /else/src/parser.py · 2.00 s · ok"


def test_hostile_texts_are_texts(tab: Tab, server: ViewServer) -> None:
    (bash,) = [span for span in of(server.trace, SpanKind.TOOL) if span.call == "toolu_bash2"]
    for span in (bash, of(server.trace, SpanKind.RUN)[0]):
        tab.get(f"choose(spans.byKey.get('{span.key}'))")
        tab.until("document.querySelector('#details [data-loaded]')")
        said = tab.get("document.getElementById('details').textContent")
        assert "</script><script>window.hacked=1</script>" in said
    tab.press("r")
    tab.until("document.getElementById('step').dataset.n")
    assert tab.get("document.querySelectorAll('img, body script:not([src]):not([type])').length") == 0


def test_the_filter_leaves_what_fits(tab: Tab) -> None:
    tab.press("/")
    tab.write("GREP")
    tab.until("document.getElementById('count').textContent.includes('found')")
    assert tab.get("document.getElementById('count').textContent") == "3 spans, 1 line found"
    assert len(texts(tab, ".row")) == 1
    tab.press("Escape")
    tab.until("!document.getElementById('count').textContent.includes('found')")
    assert len(texts(tab, ".row")) == 8


def test_the_replay_goes_step_by_step(tab: Tab) -> None:
    tab.press("r")
    tab.until("document.getElementById('step').dataset.n === '1'")
    seen = []
    for n in (2, 3, 4):
        tab.press("ArrowRight")
        tab.until(f"document.getElementById('step').dataset.n === '{n}'")
        seen.append(tab.get("document.querySelector('#step h2').firstChild.textContent"))
    assert seen == ["2 of 24: ContextReady ", "3 of 24: Replied ", "4 of 24: ToolsDone "]
    assert "turn" in texts(tab, "#step tr td:first-child")
    tab.press("ArrowLeft")
    tab.until("document.getElementById('step').dataset.n === '3'")
    tab.get("{ const bar = document.getElementById('slider'); bar.value = 24; bar.dispatchEvent(new Event('input')); }")
    tab.until("document.getElementById('step').dataset.n === '24'")
    assert texts(tab, "#step .mark") == ["same"]
    assert "Finish" in texts(tab, "#step dt")


def test_a_chosen_span_is_where_the_replay_begins(tab: Tab, server: ViewServer) -> None:
    model = of(server.trace, SpanKind.MODEL)[2]
    click_on(tab, model.key)
    tab.press("r")
    tab.until(f"document.getElementById('step').dataset.n === '{model.n}'")
    assert tab.get("document.querySelector('#step h2').textContent").startswith(f"{model.n} of 24: Replied")


def test_the_keyboard_alone_is_enough(tab: Tab) -> None:
    for _ in range(40):  # to the axis, past whatever comes before it
        tab.press("Tab")
        if tab.get("document.activeElement.id") == "axis":
            break
    tab.press("ArrowRight")
    said = [tab.get("document.getElementById('said').textContent")]
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowUp"):
        tab.press(key)
        said.append(tab.get("document.getElementById('said').textContent"))
    assert [one.partition(":")[0] for one in said] == ["run", "question", "model", "model", "question"]
    before = tab.get("timeline.end - timeline.begin")
    tab.press("+")
    tab.until(f"timeline.end - timeline.begin < {before}")
    tab.press("0")
    tab.until(f"Math.abs(timeline.end - timeline.begin - {before}) < 1")
    tab.press("Escape")
    tab.until("document.getElementById('said').textContent === ''")


def test_the_list_goes_with_the_arrow_keys(tab: Tab) -> None:
    tab.get("document.getElementById('list').focus()")
    for _ in range(3):
        tab.press("ArrowDown")
    assert tab.get("document.querySelector('.row.chosen .first').textContent").startswith("2  An agent may search")
    assert tab.get("document.getElementById('list').getAttribute('aria-activedescendant')") == "row-2"


def test_wheel_and_drag_move_the_view(tab: Tab) -> None:
    before = tab.get("[timeline.begin, timeline.end]")
    box = tab.get("(({left, top}) => ({left, top}))(document.getElementById('axis').getBoundingClientRect())")
    x, y = box["left"] + 200, box["top"] + 300
    tab.call("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=-400)
    tab.until(f"timeline.end - timeline.begin < {before[1] - before[0]}")
    closer = tab.get("[timeline.begin, timeline.end]")
    tab.call("Input.dispatchMouseEvent", type="mousePressed", x=x, y=y, button="left", buttons=1, clickCount=1)
    tab.call("Input.dispatchMouseEvent", type="mouseMoved", x=x - 60, y=y, button="left", buttons=1)
    tab.call("Input.dispatchMouseEvent", type="mouseReleased", x=x - 60, y=y, button="left", clickCount=1)
    tab.until(f"timeline.begin > {closer[0]}")


def test_of_very_many_spans_only_what_can_be_seen_is_drawn(tab: Tab) -> None:
    tab.get(
        "spans.add(Array.from({length: 30000}, (_, n) => ({key: `0.${1000 + n}`, kind: n % 2 ? 'tool' : 'model', "
        "begin: n * 10, end: n * 10 + 9, run: 1, turn: n >> 1, label: `span ${n}`, how: 'ok'})));"
        "head.end = spans.now = 300000; timeline.layout(head); timeline.fit(); filter(); timeline.drawNow();"
    )
    width = tab.get("timeline.width")
    assert 0 < int(tab.get("document.getElementById('axis').dataset.drawn")) < 12 * width
    assert len(texts(tab, ".row")) < 60, "the list holds what is in view, and a little more"
    tab.get("timeline.show(100000, 100200)")
    tab.get("timeline.drawNow()")
    assert 20 <= int(tab.get("document.getElementById('axis').dataset.drawn")) < 60


def test_a_session_that_goes_on_is_followed(
    browser: Chromium, told: Path, tmp_path: Path, loop: asyncio.AbstractEventLoop
) -> None:
    data, file = told.read_bytes(), tmp_path / told.name
    half = data.index(b"\n", len(data) // 2) + 1
    file.write_bytes(data[:half])
    for server in serving(file, loop):
        with browser.tab() as tab:
            tab.open(server.url)
            before = tab.get("spans.byKey.size")
            tab.get("choose(spans.all.find((span) => span.kind === 'tool'))")
            assert tab.get("document.getElementById('follow').hidden") is False
            with file.open("ab") as opened:
                opened.write(data[half:])
            tab.until(f"spans.byKey.size > {before} && !head.under_way")
            assert "interrupted" in texts(tab, ".row .second")[-2]
            assert tab.get("chosen === spans.byKey.get(chosen.key)")
            # Details that are on their way when the spans are replaced by newer ones still arrive.
            tab.get(
                "{ const old = spans.all.find((span) => span.kind === 'run'); choose(old); "
                "const newer = {...old}; spans.add([newer]); chosen = newer; }"
            )
            tab.until("document.querySelector('#details [data-loaded]')")
            assert tab.complaints == []


def test_the_file_works_from_the_disk(browser: Chromium, told: Path, tmp_path: Path) -> None:
    file = tmp_path / "trace.html"
    file.write_bytes(export_html(trace := looked(told)))
    with browser.tab() as tab:
        tab.open(file.as_uri())
        assert tab.get("spans.byKey.size") == trace.head().spans
        (edit,) = [span for span in of(trace, SpanKind.TOOL) if span.name == "Edit"]
        click_on(tab, edit.key)
        tab.until("document.querySelector('#details [data-loaded]')")
        assert texts(tab, "#details pre")[1:] == ["file_path: /else/src/parser.py\nask: May I edit?", "yes"]
        tab.press("r")
        tab.until("document.getElementById('step').dataset.n")
        assert tab.complaints == []
        assert [one for one in tab.requests if not one.startswith("data:")] == [file.as_uri()]
        assert tab.get("window.hacked") is None


def test_it_fits_the_window_in_both_schemes(tab: Tab) -> None:
    for scheme in ("light", "dark"):
        for width, height in ((1_000, 700), (1_900, 1_000)):
            assert_it_fits(tab, width, height, scheme)


def assert_it_fits(tab: Tab, width: int, height: int, scheme: str) -> None:
    tab.look_like(width, height, scheme)
    tab.until(f"document.documentElement.clientWidth === {width} && timeline.width > 0")
    tab.get("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert tab.get("[document.documentElement.scrollWidth, document.documentElement.scrollHeight]") == [width, height]
    assert tab.get("timeline.width") > 0.4 * width
    # Contrast of what is read: WCAG asks for 4.5 to 1.
    ratio = tab.get(
        """(() => {
          const light = (colour) => {
            const parts = colour.match(/\\d+/g).slice(0, 3).map((one) => one / 255);
            const [r, g, b] = parts.map((one) => (one <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4));
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
          };
          const ground = light(getComputedStyle(document.body).backgroundColor);
          const read = '#totals dt, #totals dd, #count, .row .second, #names div';
          return [...document.querySelectorAll(read)].map((one) => {
            const text = light(getComputedStyle(one).color);
            return (Math.max(text, ground) + 0.05) / (Math.min(text, ground) + 0.05);
          });
        })()"""
    )
    assert min(ratio) >= 4.5
    fills = ("model", "tool", "early", "context", "agent")
    assert min(tab.get(f"{list(fills)}.map((name) => contrast(timeline.colour[name], timeline.on[name]))")) >= 4.5


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_labels_on_bars_can_be_read(tab: Tab, scheme: str) -> None:
    tab.look_like(1300, 760, scheme)
    fills = "['model', 'tool', 'early', 'context', 'agent']"
    contrasts = tab.get(f"{fills}.map((name) => contrast(timeline.colour[name], timeline.on[name]))")
    assert min(contrasts) >= 4.5


def test_a_label_that_does_not_fit_ends_with_an_ellipsis(tab: Tab) -> None:
    cut = "timeline.cut(timeline.axis.getContext('2d'), 'a long label of a bar', {room})"
    assert tab.get(cut.format(room=1_000)) == "a long label of a bar"
    short = tab.get(cut.format(room=60))
    assert short.endswith("…")
    assert "a long label of a bar".startswith(short[:-1])
    assert tab.get(cut.format(room=2)) == ""


def test_without_a_selection_the_last_prompt_and_its_answer_are_shown(tab: Tab) -> None:
    tab.until("document.querySelector('#details [data-exchange], #details[data-exchange]')")
    assert texts(tab, "#details h2") == ["Last prompt", "Answer"]
    assert texts(tab, "#details pre") == ["And now the rest", "Let me try something long."]


def test_reasons_are_told_in_plain_words(tab: Tab, server: ViewServer) -> None:
    first, second, *_ = of(server.trace, SpanKind.MODEL)
    for span, reason in ((first, "you sent a prompt"), (second, "its tool calls had results")):
        tab.get(f"choose(spans.byKey.get('{span.key}'))")
        tab.until("document.querySelector('#details [data-loaded]')")
        said = tab.get("document.getElementById('details').textContent")
        assert reason in said
        assert "next_turn" not in said
    every = "[...Object.keys(REASONS)]"
    assert {*tab.get(every)} == {"", *Transition}


def test_the_transcript_can_be_read(tab: Tab) -> None:
    tab.press("t")
    tab.until("document.getElementById('reading').textContent === 'The end.'")
    assert texts(tab, "#pages h2") == ["Prompt", "Prompt"]
    assert texts(tab, "#pages .prompt")[1] == "And now the rest"
    assert "The tests pass now." in " ".join(texts(tab, "#pages .said"))
    assert "Edit /else/src/parser.py" in texts(tab, "#pages summary")
    assert tab.get("getComputedStyle(document.querySelector('main')).display") == "none"
    tab.press("Escape")
    tab.until("getComputedStyle(document.querySelector('main')).display === 'grid'")


def test_the_page_of_the_terminal_begins_at_the_last_turn(browser: Chromium, server: ViewServer) -> None:
    """`/trace` opens it so."""
    with browser.tab() as tab:
        tab.open(f"{server.url}#last")
        assert tab.get("chosen.label") == "Let me try something long."
        assert tab.complaints == []
