"use strict";
// The transcript to read: prompts, answers and calls, one after another. It grows while its end is in view: however
// long the session is, only what was read is in the document.

const PAGE_SIZE = 30; // spans at a time

class Reader {
  constructor(spans) {
    this.spans = spans;
    this.at = 0; // how many are shown
    this.loading = false;
    this.box = document.getElementById("pages");
    this.status = document.getElementById("reading");
    new IntersectionObserver((seen) => seen.some((one) => one.isIntersecting) && this.more()).observe(this.status);
  }

  get list() {
    const kinds = new Set(["run", "model", "tool"]);
    const own = this.spans.all.filter((span) => !placeOf(span) && kinds.has(span.kind));
    return own.sort((one, other) => one.begin - other.begin || (one.kind === "run" ? -1 : other.kind === "run" ? 1 : 0));
  }

  // From the run of this span on; without one, from the beginning.
  async open(span) {
    const first = span ? Math.max(0, this.list.findIndex((one) => one.kind === "run" && one.run === span.run)) : 0;
    this.box.replaceChildren();
    this.at = first;
    if (first) this.box.append(make("p", `${counted(first, "earlier part")} not shown: press Esc, clear the selection, and open the transcript again.`, "quiet"));
    await this.more();
    document.getElementById("reader").focus();
  }

  async more() {
    if (this.loading) return;
    this.loading = true;
    try {
      const list = this.list, next = list.slice(this.at, this.at + PAGE_SIZE).filter((span) => span.end != null || span.kind === "run");
      const parts = await Promise.all(next.map((span) => source.span(span.key).then((found) => found.parts, () => [])));
      next.forEach((span, n) => { const made = this.draw(span, parts[n]); if (made) this.box.append(made); });
      this.at += next.length;
      this.status.textContent = this.at < list.length ? "…" : "The end.";
      this.box.dataset.shown = this.at;
    } finally {
      this.loading = false;
    }
    const below = this.status.getBoundingClientRect().top < innerHeight; // the page is not full yet
    if (below && this.status.textContent === "…" && document.body.classList.contains("reading")) requestAnimationFrame(() => this.more());
  }

  draw(span, parts) {
    const box = make("article");
    box.dataset.key = span.key;
    if (span.kind === "run") {
      box.append(make("h2", parts.length ? "Prompt" : "Run"), make("div", this.words(parts) || span.label, "said prompt"));
      return box;
    }
    if (span.kind === "tool") return this.call(box, span, parts);
    for (const part of parts) {
      if (part.title === "thinking") box.append(this.fold("Thinking", [part]));
      else if (part.title === "text") box.append(make("div", this.words([part]), "said"));
    }
    return box.childNodes.length ? box : null;
  }

  call(box, span, parts) {
    const made = this.fold(span.label || span.name, parts);
    if (isBad(span)) made.firstChild.classList.add("bad");
    box.append(made);
    return box;
  }

  fold(title, parts) {
    const made = make("details");
    made.append(make("summary", title));
    for (const part of parts) made.append(make("pre", this.words([part])));
    return made;
  }

  words(parts) {
    return parts.map((part) => part.text + (part.more ? `\n… ${counted(part.more, "more character")}` : "")).join("\n\n");
  }
}
