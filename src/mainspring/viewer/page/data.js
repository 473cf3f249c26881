"use strict";
// Sources of a trace, and how its figures are formatted. Two sources with the same four functions: the server that
// sent this page, and the page itself (an export). Nothing here touches the document.

const PIECE = 5000; // spans per answer, as in the server

async function ask(path) {
  const answer = await fetch("api/" + path, { cache: "no-store" });
  if (!answer.ok) throw new Error((await answer.text()).trim() || "the viewer does not answer");
  return answer.json();
}

const fromServer = {
  live: true,
  head: () => ask("head"),
  // Calls `take` with each piece, so that the page shows something before everything is loaded.
  async spans(rev, take) {
    for (let after = 0; ; after += PIECE) {
      const piece = await ask(`spans?rev=${rev}&after=${after}`);
      take(piece.spans, piece.more);
      if (!piece.more) return;
    }
  },
  span: (key) => ask(`span?key=${encodeURIComponent(key)}`),
  steps: (place, first, most) => ask(`steps?place=${place}&first=${first}&most=${most}`),
  news: (rev) => ask(`news?rev=${rev}`),
};

function fromPage(held) {
  return {
    live: false,
    head: async () => held.head,
    spans: async (_rev, take) => take(held.spans, 0),
    span: async (key) => ({ key, parts: held.details[key] || [] }),
    async steps(place, first, most) {
      const steps = held.steps[place] || [];
      return { total: steps.length, steps: steps.slice(first - 1, first - 1 + most) };
    },
  };
}

const held = document.getElementById("embedded");
const source = held ? fromPage(JSON.parse(held.textContent)) : fromServer;

// --- spans -----------------------------------------------------------------------------------------------------

const WAITS = new Set(["question", "typed", "retry", "queue"]);
const MOMENTS = new Set(["interrupt", "prefix", "checkpoint", "rewind", "note"]);
const BAD = new Set(["error", "denied", "interrupted", "broke off", "withdrawn"]);

const placeOf = (span) => span.place;
const isBad = (span) => BAD.has(span.how);
const textOf = (span) => {
  const said = [span.label, span.name, span.kind, span.why, span.model, span.transition, span.stop, span.how];
  return (span.text ??= said.join("\n").toLowerCase());
};

// The spans by key, and their relations. `now` is used as the end of open spans.
class Spans {
  constructor() {
    this.byKey = new Map();
    this.children = new Map();
    this.now = 0;
  }
  add(spans) {
    for (const span of spans) {
      span.how = span.how || "open"; // defaults are not sent
      span.place = parseInt(span.key, 10);
      const known = this.byKey.get(span.key);
      this.byKey.set(span.key, span);
      if (span.parent && !(known && known.parent)) {
        if (!this.children.has(span.parent)) this.children.set(span.parent, []);
        this.children.get(span.parent).push(span.key);
      }
    }
  }
  get all() {
    return [...this.byKey.values()];
  }
  below(key) {
    return (this.children.get(key) || []).map((one) => this.byKey.get(one));
  }
  end(span) {
    return span.end == null ? Math.max(this.now, span.begin) : span.end;
  }
}

// --- words -----------------------------------------------------------------------------------------------------

const REASONS = {
  "": "you sent a prompt", next_turn: "its tool calls had results", collapse_drain_retry: "the context was full: old parts were collapsed",
  reactive_compact_retry: "the context was full: it was compacted", max_output_tokens_escalate: "the reply was too long: again with more room",
  max_output_tokens_recovery: "the reply was too long: asked to go on", stop_hook_blocking: "a stop hook objected",
  token_budget_continuation: "the token budget was not used up", auto_compact: "the context was compacted", auto_trim: "old messages were left out",
  strip_media_retry: "again without images", trim_retry: "again without old messages", context_window_retry: "again with less context",
  truncated_response_recovery: "the reply was cut off: asked to go on", stream_retry: "the connection broke", model_fallback: "another model took over",
  empty_answer_retry: "the answer was empty", thinking_only_retry: "the answer was thinking only", malformed_tool_use_retry: "a tool call could not be read",
  refusal_retry: "the model declined", pause_turn_continue: "the server paused the reply", structured_output_retry: "the answer did not match the schema",
};
const STOPS = { "completed, end_turn": "finished", end_turn: "finished", tool_use: "to call tools", max_tokens: "the reply was too long", refusal: "declined" };
const reasonOf = (span) => REASONS[span.transition || ""] || plainly(span.transition);
const plainly = (words) => STOPS[words] || (words.startsWith("aborted") ? "interrupted" : null) || words.replace("completed, ", "").replaceAll("_", " ");

// --- texts -----------------------------------------------------------------------------------------------------

function took(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60e3) return `${(ms / 1000).toFixed(ms < 10e3 ? 2 : 1)} s`;
  const minutes = Math.floor(ms / 60e3);
  if (minutes < 60) return `${minutes} min ${Math.round((ms % 60e3) / 1000)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
const dollars = (nanos) => `$${(nanos / 1e9).toFixed(nanos && nanos < 1e8 ? 4 : 2)}`;
const many = (number) => Number(number).toLocaleString("en-US");
const counted = (number, thing) => `${many(number)} ${thing}${Number(number) === 1 ? "" : "s"}`;
const share = (part, whole) => (whole ? `${Math.round((100 * part) / whole)} %` : "none");
const prompt = (usage) =>
  (usage.input || 0) + (usage.cache_write || 0) + (usage.cache_write_1h || 0) + (usage.cache_read || 0);
const clock = (at) => new Date(at).toLocaleString(undefined, { hour12: false });
