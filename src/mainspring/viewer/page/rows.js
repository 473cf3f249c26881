"use strict";
// The rows of the time axis: the position of each span, what is in view, and which spans are neighbours. Drawing is in timeline.js.

const SHORTEST = 20, TALLEST = 28; // pixels of a row: as tall as the window allows
const PADDING = 6, GAP = 8, SCALE = 22; // between two bars, two lanes, and the scale above
const MOST_ROWS = 12; // of one lane; more at once are drawn over each other
const LANES = [
  ["runs", "runs", ["run"]],
  ["person", "person", ["question", "typed"]],
  ["model", "model", ["model", "retry", "queue"]],
  ["tools", "tools", ["tool"]],
  ["context", "context", ["context", "compaction", "hooks"]],
  ["agents", "agents", ["agent"]],
  ["marks", "marks", ["interrupt", "prefix", "checkpoint", "rewind", "note"]],
];
const LANE_OF = Object.fromEntries(LANES.flatMap(([id, , kinds]) => kinds.map((kind) => [kind, id])));
const NESTED = new Set(["model", "tools", "context"]); // the lanes of an agent
const OVERLAYS = new Set(["retry", "queue"]); // drawn over the row of what waits

// The first span that ends at or after `at`, in a list sorted by begin and without overlaps.
function firstAfter(spans, at, end) {
  let low = 0, high = spans.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (end(spans[middle]) < at) low = middle + 1;
    else high = middle;
  }
  return low;
}

class Rows {
  constructor(axis, map, names, spans) {
    Object.assign(this, { axis, map, names, spans });
    this.rows = [];
    this.width = 1;
    this.tall = SHORTEST; this.bar = SHORTEST - PADDING;
    this.begin = 0; this.end = 1; // in view
    this.from = 0; this.to = 1; // all
    this.chosen = null; this.cursor = null; this.matches = null;
  }

  // --- rows ---

  layout(head) {
    this.from = head.begin;
    this.to = Math.max(head.end, head.begin + 1);
    const groups = new Map([[0, "session"]]);
    for (const agent of head.agents) groups.set(agent.place, `${agent.kind || "agent"}: ${agent.task || agent.id}`);
    const sorted = this.spans.all.sort((one, other) => one.begin - other.begin);
    const lanes = new Map();
    for (const span of sorted) {
      const id = `${span.place}.${LANE_OF[span.kind]}`;
      if (!lanes.has(id)) lanes.set(id, []);
      lanes.get(id).push(span);
    }
    const made = []; // lanes with their rows
    for (const [place, title] of groups) {
      for (const [id, name] of LANES) {
        const found = lanes.get(`${place}.${id}`);
        if (found && (!place || NESTED.has(id))) made.push({ place, id, name, title, count: found.length, rows: this.pack(found) });
      }
    }
    this.put(made);
    this.matchOnly(this.matches);
    this.drawMap();
    this.draw();
  }

  put(made) {
    const count = made.reduce((sum, lane) => sum + lane.rows.length, 0), room = this.axis.parentElement.clientHeight;
    const free = Math.floor((room - SCALE - made.length * GAP * 2) / Math.max(count, 1));
    this.tall = Math.min(Math.max(free, SHORTEST), TALLEST);
    this.bar = this.tall - PADDING;
    this.rows = [];
    this.names.replaceChildren();
    let y = SCALE, place = 0;
    for (const lane of made) {
      if (lane.place !== place) {
        place = lane.place;
        this.name(lane.title, y, `agent-${place}`, 0).classList.add("group");
        y += this.tall;
      }
      this.name(lane.name, y, place ? `${place}.${lane.id}` : lane.id, lane.rows.length).dataset.spans = lane.count;
      for (const row of lane.rows) {
        this.rows.push({ y, lane: `${place}.${lane.id}`, spans: row.spans, over: row.over });
        y += this.tall;
      }
      y += GAP;
    }
    this.height = y;
    this.names.style.height = `${y}px`;
  }

  name(title, y, lane, rows) {
    const made = document.createElement("div");
    made.textContent = made.title = title;
    Object.assign(made.dataset, { lane, rows });
    made.style.top = `${y}px`;
    this.names.append(made);
    return made;
  }

  // Side by side: each in the first row that is free when it begins.
  pack(spans) {
    const rows = [], ends = [];
    for (const span of spans) {
      if (OVERLAYS.has(span.kind)) {
        if (!rows.length) { rows.push({ spans: [], over: [] }); ends.push(-1); }
        rows[0].over.push(span);
        continue;
      }
      const begin = span.offered || span.begin;
      let row = ends.findIndex((end) => end <= begin);
      if (row < 0) row = rows.length < MOST_ROWS ? rows.push({ spans: [], over: [] }) - 1 : MOST_ROWS - 1;
      rows[row].spans.push(span);
      ends[row] = Math.max(ends[row] || 0, this.spans.end(span));
    }
    return rows;
  }

  matchOnly(matches) {
    this.matches = matches;
    this.draw();
  }

  // --- positions ---

  x(at) { return ((at - this.begin) / (this.end - this.begin)) * this.width; }
  at(x) { return this.begin + (x / this.width) * (this.end - this.begin); }

  show(begin, end) {
    const least = 5, most = (this.to - this.from) * 1.1 + 10;
    const length = Math.min(Math.max(end - begin, least), most);
    const middle = (begin + end) / 2;
    this.begin = Math.min(Math.max(middle - length / 2, this.from - length / 2), this.to - length / 2);
    this.end = this.begin + length;
    this.draw();
  }
  fit() {
    const margin = (this.to - this.from) * 0.02;
    this.show(this.from - margin, this.to + margin);
  }
  zoom(factor, x = this.width / 2) {
    const at = this.at(x);
    this.show(at - (at - this.begin) * factor, at + (this.end - at) * factor);
  }
  shift(pixels) {
    const by = (pixels / this.width) * (this.end - this.begin);
    this.show(this.begin + by, this.end + by);
  }
  reveal(span) {
    const length = this.end - this.begin, end = this.spans.end(span);
    if (span.begin < this.begin || span.begin > this.end) this.show(span.begin - length / 3, span.begin + (2 * length) / 3);
    else if (end > this.end && end - span.begin < length) this.show(end - length * 0.9, end + length * 0.1);
    else this.draw();
    const row = this.rowOf(span);
    if (row) {
      const box = this.axis.parentElement;
      if (row.y < box.scrollTop || row.y + this.tall > box.scrollTop + box.clientHeight) box.scrollTop = row.y - SCALE;
    }
  }
  closeUp(span) {
    const length = Math.max(this.spans.end(span) - span.begin, 20);
    this.show(span.begin - length * 0.2, span.begin + length * 1.2);
  }
  rowOf(span) { return this.rows.find((row) => row.spans.includes(span) || row.over.includes(span)); }

  // The middle of a span in the window: for tests that click on it.
  where(key) {
    const span = this.spans.byKey.get(key), row = this.rowOf(span), box = this.axis.getBoundingClientRect();
    return { x: box.left + this.x((span.begin + this.spans.end(span)) / 2), y: box.top + row.y + this.bar / 2 };
  }

  hit(x, y) {
    const row = this.rows.find((one) => y >= one.y - 2 && y < one.y + this.tall - 2);
    if (!row) return null;
    const near = this.at(x - 3), far = this.at(x + 3), end = (span) => this.spans.end(span);
    const over = row.over.find((span) => span.begin <= far && end(span) >= near);
    if (over) return over;
    let best = null;
    for (let n = firstAfter(row.spans, near, end); n < row.spans.length && row.spans[n].begin <= far; n++) {
      best = row.spans[n];
      if (end(best) >= this.at(x)) break;
    }
    return best;
  }

  // The span before or after this one in its lane (dx), or the nearest in time in another row (dy).
  next(span, dx, dy) {
    if (!this.rows.length) return null;
    const row = span && this.rowOf(span);
    if (!row) return this.rows.flatMap((one) => one.spans)[0] || null;
    if (dx) {
      const lane = this.rows.filter((one) => one.lane === row.lane).flatMap((one) => [...one.spans, ...one.over]);
      lane.sort((one, other) => one.begin - other.begin || (one.key < other.key ? -1 : 1));
      return lane[lane.indexOf(span) + dx] || null;
    }
    let place = this.rows.indexOf(row) + dy;
    while (this.rows[place] && !this.rows[place].spans.length) place += dy;
    if (!this.rows[place]) return null;
    const spans = this.rows[place].spans;
    return spans[Math.min(firstAfter(spans, span.begin, (one) => this.spans.end(one)), spans.length - 1)];
  }
}
