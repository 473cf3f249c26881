"use strict";
// The page: totals, the list of turns, details, keys. The axis is in timeline.js, the replay in replay.js. Text from
// the trace is only inserted as text (`textContent`), never as HTML.

const $ = (id) => document.getElementById(id);
const spans = new Spans();
let head = null;
let chosen = null;
let turns = []; // rows of the list
let matches = null; // keys that match the filter
let following = false;

function make(tag, text, cls) {
  const made = document.createElement(tag);
  if (text != null) made.textContent = text;
  if (cls) made.className = cls;
  return made;
}
function pairs(list) {
  const made = make("dl");
  for (const [name, value] of list) {
    if (value == null || value === "") continue;
    const said = make("dd");
    said.append(value instanceof Node ? value : String(value));
    made.append(make("dt", name), said);
  }
  return made;
}

const timeline = new Timeline($("axis"), $("map"), $("names"), spans, {
  choose: (span) => choose(span), hover, resized: () => head && timeline.layout(head),
});
const reader = new Reader(spans);
const replay = new ReplayPanel((at) => { timeline.cursor = at; timeline.draw(); });

// --- totals ----------------------------------------------------------------------------------------------------

function showHead() {
  const sum = head.totals, usage = sum.usage;
  document.title = `trace ${head.id.slice(0, 8)}`;
  $("title").textContent = `trace ${head.id.slice(0, 8)}`;
  $("title").title = head.id;
  const figures = [
    ["wall", took(sum.wall)],
    ["model", took(sum.model)],
    ["tools", took(sum.tools)],
    ["overlap", share(sum.overlap, sum.tools)],
    ["person", sum.person ? took(sum.person) : null],
    ["retries", sum.retry ? took(sum.retry) : null],
    ["tokens in", many(prompt(usage))],
    ["out", many(usage.output || 0)],
    ["cached", share(usage.cache_read || 0, prompt(usage))],
    ["price", dollars(sum.price) + (sum.unpriced ? ` + ${many(sum.unpriced)} unpriced` : "")],
    ["agents", sum.agents ? dollars(sum.agents) : null],
    ["prefix breaks", sum.breaks ? `${many(sum.breaks)}, ${dollars(sum.break_price)}` : null],
    ["turns", many(sum.turns)],
    ["failed", sum.errors ? many(sum.errors) : null],
  ];
  $("totals").replaceChildren();
  for (const [name, value] of figures) {
    if (value == null) continue;
    const box = make("div");
    box.dataset.total = name;
    box.append(make("dt", name), make("dd", value));
    $("totals").append(box);
  }
  $("totals").querySelector('[data-total="overlap"]').title = "share of the tools' time that passed while the model was streaming";
  $("notes").hidden = !head.notes.length;
  $("notes").textContent = head.notes.join("\n");
  $("follow").hidden = !source.live || !head.under_way;
}

// --- the list of turns -----------------------------------------------------------------------------------------

const LINE = 38; // pixels, as in style.css

function listTurns() {
  const runs = new Map(), found = [];
  for (const span of spans.all) {
    if (placeOf(span)) continue;
    const run = span.run || 0;
    if (!runs.has(run)) runs.set(run, { span: null, turns: new Map() });
    if (span.kind === "run") runs.get(run).span = span;
    if (span.kind !== "model" && span.kind !== "tool") continue;
    const known = runs.get(run).turns, turn = span.turn || 0;
    if (!known.has(turn)) known.set(turn, { models: [], tools: [] });
    known.get(turn)[span.kind === "model" ? "models" : "tools"].push(span);
  }
  for (const [number, run] of [...runs].sort((one, other) => one[0] - other[0])) {
    if (run.span) found.push({ run: run.span, number, spans: [run.span] });
    for (const [turn, { models, tools }] of [...run.turns].sort((one, other) => one[0] - other[0])) {
      const last = models[models.length - 1] || tools[0], all = [...models, ...tools];
      found.push({ number, turn, models, tools, span: last, spans: all });
    }
  }
  turns = matches ? found.filter((row) => row.spans.some((span) => matches.has(span.key))) : found;
  const fits = matches ? `${counted(matches.size, "span")}, ${counted(turns.length, "line")} found` : counted(spans.byKey.size, "span");
  $("count").textContent = fits;
  $("rows").style.height = `${turns.length * LINE}px`;
  drawList();
}

// Only the lines in view are in the document, however many turns there are.
function drawList() {
  const box = $("list"), first = Math.max(0, Math.floor(box.scrollTop / LINE) - 5);
  const last = Math.min(turns.length, Math.ceil((box.scrollTop + box.clientHeight) / LINE) + 5);
  $("rows").replaceChildren(...turns.slice(first, last).map((row, n) => listRow(row, first + n)));
}

function listRow(row, place) {
  const line = make("div", null, "row"), span = row.run || row.span;
  line.id = `row-${place}`;
  line.setAttribute("role", "option");
  line.style.top = `${place * LINE}px`;
  line.dataset.key = span.key;
  const isChosen = chosen && row.spans.includes(chosen);
  line.setAttribute("aria-selected", String(Boolean(isChosen)));
  if (isChosen) line.classList.add("chosen");
  if (row.spans.some(isBad)) line.classList.add("bad");
  if (row.run) {
    line.classList.add("run");
    line.append(make("div", `❯ ${span.label}`, "first"));
    const ended = span.stop ? plainly(span.stop) : span.how;
    line.append(make("div", `run ${row.number} · ${took(spans.end(span) - span.begin)} · ${dollars(span.price || 0)} · ${ended}`, "second"));
  } else {
    const begin = Math.min(...row.spans.map((one) => one.begin)), end = Math.max(...row.spans.map((one) => spans.end(one)));
    const price = row.models.reduce((sum, one) => sum + (one.price || 0), 0);
    const names = [...new Set(row.tools.map((one) => one.name))].join(", ");
    line.append(make("div", `${row.turn}  ${span.label}`, "first"));
    line.append(make("div", `${took(end - begin)} · ${dollars(price)}${names ? " · " + names : ""}`, "second"));
  }
  line.addEventListener("click", () => choose(span));
  return line;
}

function moveInList(by) {
  let place = turns.findIndex((row) => chosen && row.spans.includes(chosen));
  place = Math.min(Math.max(place + by, 0), turns.length - 1);
  if (!turns[place]) return;
  choose(turns[place].run || turns[place].span);
}

function showInList() {
  const place = turns.findIndex((row) => chosen && row.spans.includes(chosen)), box = $("list");
  if (place >= 0) {
    if (place * LINE < box.scrollTop) box.scrollTop = place * LINE;
    if ((place + 1) * LINE > box.scrollTop + box.clientHeight) box.scrollTop = (place + 1) * LINE - box.clientHeight;
    box.setAttribute("aria-activedescendant", `row-${place}`);
  }
  drawList();
}

function filter() {
  const words = $("filter").value.trim().toLowerCase();
  matches = words ? new Set(spans.all.filter((span) => textOf(span).includes(words)).map((span) => span.key)) : null;
  timeline.matchOnly(matches);
  listTurns();
}

// --- details ---------------------------------------------------------------------------------------------------

function choose(span) {
  chosen = timeline.chosen = span;
  if (span) timeline.reveal(span);
  else timeline.draw();
  showInList();
  tell(span);
  showDetails(span);
  if (span && span.n && placeOf(span) === replay.place && !$("replay").hidden) replay.go(span.n);
}

function tell(span) {
  $("said").textContent = span ? `${span.kind}: ${span.label} · ${took(spans.end(span) - span.begin)} · ${span.how}${span.why ? " · " + span.why : ""}` : "";
}
function hover(span) {
  if (span) tell(span);
  else tell(chosen);
}

function showDetails(span) {
  const box = $("details");
  box.replaceChildren();
  box.dataset.key = span ? span.key : "";
  if (!span) { showExchange(box); return; }
  box.append(make("h2", span.label || span.kind), pairs(facts(span)));
  for (const [title, list] of tables(span)) box.append(make("h3", title), pairs(list));
  if (span.missing) box.append(make("p", `Not in the journal: ${span.missing.join("; ")}.`, "missing"));
  const near = [spans.byKey.get(span.parent), ...spans.below(span.key)].filter(Boolean);
  if (near.length) box.append(make("h3", "related spans"), links(near));
  if (span.uuid) box.append(...forkHere(span));
  const parts = make("div");
  box.append(parts);
  source.span(span.key).then((found) => {
    if (chosen && chosen.key === span.key) showParts(parts, found.parts); // unless another span was selected meanwhile
  }, (error) => parts.append(make("p", error.message, "bad")));
}

// Nothing is selected: the last prompt and the answer to it.
async function showExchange(box) {
  const own = spans.all.filter((span) => !placeOf(span)).sort((one, other) => one.begin - other.begin);
  const run = own.findLast((span) => span.kind === "run"), model = own.findLast((span) => span.kind === "model" && (!run || span.begin >= run.begin));
  const found = [];
  for (const [title, span, wanted] of [["Last prompt", run, null], ["Answer", model, "text"]]) {
    if (!span) continue;
    try {
      const parts = (await source.span(span.key)).parts.filter((part) => !wanted || part.title === wanted);
      const words = parts.map((part) => part.text).join("\n\n") || (wanted ? span.label : "");
      if (words.trim()) found.push(make("h2", title), make("pre", words));
    } catch { /* the list and the axis say it */ }
  }
  if (chosen) return; // meanwhile
  box.replaceChildren(...found, make("p", "Select a span or a turn for its details.", "quiet"));
  box.dataset.exchange = "yes";
}

function showParts(box, parts) {
  for (const part of parts) {
    box.append(make("h3", part.title), make("pre", part.text));
    if (part.more) box.append(make("p", counted(part.more, "more character"), "quiet"));
  }
  box.dataset.loaded = "yes";
}

function facts(span) {
  const end = spans.end(span), usage = span.usage;
  return [
    ["kind", span.kind + (span.early ? ", started while the model was streaming" : "")],
    ["ended", span.how],
    ["why", span.why],
    ["at", `${took(span.begin - head.begin)} (${clock(span.begin)})`],
    ["took", MOMENTS.has(span.kind) ? null : took(end - span.begin)],
    ["waited", span.offered && span.offered < span.begin ? `${took(span.begin - span.offered)} for its turn` : null],
    ["run, turn", span.run ? `${span.run}, ${span.turn || "none"}` : null],
    ["asked because", span.kind === "model" ? reasonOf(span) : null],
    ["model", span.model],
    ["stopped", span.stop ? plainly(span.stop) : null],
    ["price", span.price != null ? dollars(span.price) + (span.listed ? " (list price)" : "") : usage ? "unknown" : null],
    ["tokens", usage ? `${many(prompt(usage))} in, ${many(usage.output || 0)} out${usage.estimated ? ", estimated" : ""}` : null],
    ["from cache", usage && prompt(usage) ? `${many(usage.cache_read || 0)}, ${share(usage.cache_read || 0, prompt(usage))}` : null],
    ["to cache", usage && (usage.cache_write || usage.cache_write_1h) ? many((usage.cache_write || 0) + (usage.cache_write_1h || 0)) : null],
    [span.kind === "prefix" ? "not read from cache" : "context", span.tokens ? `${many(span.tokens)} tokens` : null],
    ["before, after", span.before ? `${many(span.before)}, ${many(span.after || 0)} tokens` : null],
    ["call", span.kind === "tool" ? span.call : null],
    ["replay step", span.n || null],
  ];
}

function tables(span) {
  const made = [], since = (at) => took(at - span.begin);
  if (span.decisions) made.push(["decided", span.decisions.map(([what, why, at]) => [what, `${why} (after ${since(at)})`])]);
  if (span.steps) made.push(["pipeline", span.steps.map(([name, us]) => [name, us < 1000 ? `${us} µs` : took(us / 1000)])]);
  if (span.freed) made.push(["freed", span.freed.map(([layer, tokens]) => [layer, `${many(tokens)} tokens`])]);
  if (span.blocks) made.push(["blocks", span.blocks.map(([kind, at]) => [kind, `finished after ${since(at)}`])]);
  return made;
}

function links(list) {
  const box = make("div");
  for (const span of list.slice(0, 40)) {
    const link = make("button", `${span.kind}: ${span.label}`.slice(0, 60));
    link.addEventListener("click", () => choose(span));
    box.append(link, " ");
  }
  return box;
}

function forkHere(span) {
  if (placeOf(span)) return [make("p", "A subagent's session cannot be forked by itself: fork at the call that started it.", "quiet")];
  const words = make("pre", `mainspring --resume ${head.id} --resume-session-at ${span.uuid} --fork-session`);
  words.dataset.fork = span.uuid;
  const copy = make("button", "Copy");
  copy.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(words.textContent);
      copy.textContent = "Copied";
    } catch { // not allowed: select it, to be copied by hand
      getSelection().selectAllChildren(words);
    }
  });
  const box = make("div", null, "fork");
  box.append(words, copy);
  return [make("h3", "fork here"), box];
}

// --- tabs and keys ---------------------------------------------------------------------------------------------

function read(on = !document.body.classList.contains("reading")) {
  document.body.classList.toggle("reading", on);
  $("read").setAttribute("aria-pressed", String(on));
  if (on) reader.open(chosen);
  else if (head) timeline.layout(head);
}

function tab(name) {
  for (const one of ["details", "replay"]) {
    $(one).hidden = one !== name;
    $(`tab-${one}`).setAttribute("aria-selected", String(one === name));
  }
  if (name === "replay") replay.open(chosen && chosen.n && !placeOf(chosen) ? chosen.n : null);
  else { timeline.cursor = null; timeline.draw(); }
}

const KEYS = {
  "+": () => timeline.zoom(0.6), "=": () => timeline.zoom(0.6), "-": () => timeline.zoom(1 / 0.6), "0": () => timeline.fit(),
  "z": () => chosen && timeline.closeUp(chosen), "/": () => $("filter").focus(), "r": () => tab("replay"), "d": () => tab("details"),
  "t": () => read(), "?": () => $("help").showModal(),
  "Escape": () => (document.body.classList.contains("reading") ? read(false) : choose(null)),
};
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || $("help").open) return;
  const at = event.target, writes = at === $("filter");
  if (event.key === "Escape" && writes) { at.value = ""; filter(); at.blur(); return; }
  if (writes || (at === $("slider") && event.key in ARROWS)) return;
  if (document.body.classList.contains("reading") && !["t", "?", "Escape"].includes(event.key)) return; // scrolls
  if (event.key in ARROWS) {
    const [dx, dy] = ARROWS[event.key];
    if (!$("replay").hidden && dx) replay.go(replay.n + dx);
    else if (at === $("list")) { if (!dy) return; moveInList(dy); }
    else if (at === $("axis") || at === document.body) { const next = timeline.next(chosen, dx, dy); if (next) choose(next); }
    else return;
  } else if (event.key in KEYS) KEYS[event.key]();
  else return;
  event.preventDefault();
}

// --- loading and following ---------------------------------------------------------------------------------------

async function load(rev) {
  head = await source.head();
  spans.now = head.end;
  await source.spans(rev, (piece) => spans.add(piece));
  showHead();
  timeline.layout(head);
  filter();
}

async function follow() {
  for (;;) {
    try {
      const { rev } = await source.news(head.rev);
      if (rev === head.rev) continue;
      const before = head, key = chosen && chosen.key;
      const next = await source.head();
      if (next.epoch !== before.epoch) { location.reload(); return; }
      await load(before.rev);
      if (document.body.classList.contains("reading")) reader.more();
      else if (!chosen && $("replay").hidden) showExchange($("details"));
      if (key) chosen = timeline.chosen = spans.byKey.get(key);
      if (following) timeline.show(head.end - (timeline.end - timeline.begin) * 0.9, head.end + (timeline.end - timeline.begin) * 0.1);
    } catch {
      $("count").textContent = "the viewer has stopped: no more updates";
      return;
    }
  }
}

// As '/trace' opens it: the last turn, and what comes after it.
function showLast() {
  const last = turns.findLast((row) => !row.run);
  if (last) choose(last.span);
  if (source.live && head.under_way) $("follow").click();
}

async function start() {
  try {
    await load(0);
  } catch (error) {
    $("details").replaceChildren(make("p", `Cannot read the trace: ${error.message}`, "bad"));
    return;
  }
  timeline.drawNow();
  timeline.fit();
  if (location.hash === "#last") showLast();
  else if (!chosen) await showExchange($("details"));
  document.body.dataset.ready = "yes";
  if (source.live) follow();
}

$("fit").addEventListener("click", () => timeline.fit());
$("closer").addEventListener("click", () => timeline.zoom(0.6));
$("farther").addEventListener("click", () => timeline.zoom(1 / 0.6));
$("follow").addEventListener("click", () => { following = !following; $("follow").setAttribute("aria-pressed", String(following)); });
$("read").addEventListener("click", () => read());
$("filter").addEventListener("input", filter);
$("list").addEventListener("scroll", drawList);
$("tab-details").addEventListener("click", () => tab("details"));
$("tab-replay").addEventListener("click", () => tab("replay"));
$("keys").addEventListener("click", () => $("help").showModal());
$("close-help").addEventListener("click", () => $("help").close());
document.addEventListener("keydown", pressed);
start();
