"use strict";
// The replay: one step of the core at a time. Steps are loaded in pieces; the last pieces are kept.

const STEPS = 200; // steps per piece
const MOST_PIECES = 20; // pieces kept

class ReplayPanel {
  constructor(moved) {
    this.moved = moved;
    this.place = 0; // index of the file; 0: the session itself
    this.n = 1;
    this.total = 0;
    this.pieces = new Map();
    document.getElementById("slider").addEventListener("input", (event) => this.go(Number(event.target.value)));
    document.getElementById("back").addEventListener("click", () => this.go(this.n - 1));
    document.getElementById("forth").addEventListener("click", () => this.go(this.n + 1));
  }

  async open(n) {
    const box = document.getElementById("step");
    if (!this.total) box.textContent = "Replaying the session …";
    try {
      this.pieces.clear(); // the session may have continued
      this.n = n || this.n;
      await this.piece(this.n);
      await this.go(this.n);
    } catch (error) {
      box.textContent = error.message;
    }
  }

  async piece(n) {
    const number = Math.floor((n - 1) / STEPS);
    if (!this.pieces.has(number)) {
      const found = await source.steps(this.place, number * STEPS + 1, STEPS);
      this.total = found.total;
      if (this.pieces.size >= MOST_PIECES) this.pieces.delete(this.pieces.keys().next().value);
      this.pieces.set(number, found.steps);
    }
    return this.pieces.get(number);
  }

  async go(n) {
    this.n = Math.min(Math.max(n, 1), Math.max(this.total, 1));
    const wanted = this.n, slider = document.getElementById("slider");
    slider.max = this.total;
    slider.value = wanted;
    const piece = await this.piece(wanted);
    if (this.n !== wanted) return; // another step was selected meanwhile
    const step = piece[(wanted - 1) % STEPS];
    if (step) this.show(step);
    else document.getElementById("step").textContent = "This file has no events.";
  }

  show(step) {
    const box = document.getElementById("step");
    box.dataset.n = step.n;
    box.replaceChildren();
    const title = make("h2", `${step.n} of ${many(this.total)}: ${step.event} `);
    const mark = make("span", step.mark || "open", `mark ${step.mark}`);
    mark.title = MARKS[step.mark || "open"];
    title.append(mark);
    box.append(title, pairs([["at", `${took(step.at - head.begin)} (${clock(step.at)})`], ["turn", step.turn], ["event", step.about]]));
    if (step.why) box.append(make("p", step.why, step.mark === "differs" ? "bad" : "missing"));
    if (step.changed) {
      const table = make("table");
      for (const [name, before, after] of step.changed) {
        const row = table.insertRow();
        row.dataset.field = name;
        for (const text of [name, before || "none", "→", after || "none"]) row.insertCell().textContent = text;
      }
      box.append(make("h3", "changed"), table);
    }
    if (step.effect) box.append(make("h3", "next"), pairs([[step.effect, step.wants || "·"]]));
    if (step.updates) box.append(make("h3", "shown"), pairs(step.updates));
    this.moved(step.at);
  }
}

const MARKS = {
  same: "the file has the same",
  fits: "the next event answers it; the file does not record more",
  differs: "the file differs: another version made the decision",
  unknown: "cannot replay the file here",
  open: "no answer yet",
};
