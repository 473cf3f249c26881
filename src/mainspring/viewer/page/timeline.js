"use strict";
// The time axis: lanes on a canvas (only what is in view is drawn), and the map of the whole session above it.

const COLOURS = ["ground", "raised", "line", "ink", "quiet", "accent", "model", "tool", "early", "context", "agent", "bad", "wait", "run"];

function light(colour) { // of '#rrggbb', as defined by WCAG
  const parts = [1, 3, 5].map((place) => parseInt(colour.slice(place, place + 2), 16) / 255);
  const [red, green, blue] = parts.map((one) => (one <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}
function contrast(one, other) {
  const [dark, bright] = [light(one), light(other)].sort((a, b) => a - b);
  return (bright + 0.05) / (dark + 0.05);
}

const FILL = { tool: "tool", model: "model", run: "run", agent: "agent" };

class Timeline extends Rows {
  constructor(axis, map, names, spans, hooks) {
    super(axis, map, names, spans);
    this.hooks = hooks;
    this.waiting = false; // for the next frame
    this.readColours();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { this.readColours(); this.drawMap(); this.draw(); });
    new ResizeObserver(() => { this.hooks.resized(); this.draw(); }).observe(axis.parentElement);
    this.listen();
  }

  readColours() {
    const style = getComputedStyle(document.documentElement);
    this.colour = Object.fromEntries(COLOURS.map((name) => [name, style.getPropertyValue("--" + name).trim()]));
    const { ground, ink } = this.colour; // the one with the better contrast on a bar
    this.on = Object.fromEntries(COLOURS.map((name) => [name, contrast(this.colour[name], ground) >= contrast(this.colour[name], ink) ? ground : ink]));
    const tile = Object.assign(document.createElement("canvas"), { width: 6, height: 6 });
    const paint = tile.getContext("2d");
    paint.strokeStyle = this.colour.wait;
    paint.lineWidth = 1.6;
    for (const shift of [-6, 0, 6]) { paint.beginPath(); paint.moveTo(shift, 6); paint.lineTo(shift + 6, 0); paint.stroke(); }
    this.hatch = this.axis.getContext("2d").createPattern(tile, "repeat");
  }

  // --- drawing ---

  draw() {
    if (this.waiting) return; // once a frame is enough
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.drawNow(); });
  }

  prepare(canvas, height) {
    const ratio = devicePixelRatio || 1, width = canvas.parentElement.clientWidth - this.names.offsetWidth;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.height = `${height}px`;
      canvas.style.width = `${width}px`;
    }
    const paint = canvas.getContext("2d");
    paint.setTransform(ratio, 0, 0, ratio, 0, 0);
    paint.clearRect(0, 0, width, height);
    return [paint, width];
  }

  get isHidden() { return !this.map.parentElement.clientWidth; } // the transcript is shown instead

  drawNow() {
    if (this.isHidden) return;
    const height = Math.max(this.height || 0, this.axis.parentElement.clientHeight - 2);
    const [paint, width] = this.prepare(this.axis, height);
    this.width = width;
    paint.font = "11px system-ui, sans-serif";
    paint.textBaseline = "middle";
    this.drawScale(paint, height);
    let drawn = 0;
    for (const row of this.rows) drawn += this.drawRow(paint, row);
    if (this.cursor != null) {
      paint.fillStyle = this.colour.accent;
      paint.fillRect(this.x(this.cursor), 0, 1.5, height);
    }
    Object.assign(this.axis.dataset, { drawn, begin: Math.round(this.begin), end: Math.round(this.end) });
    this.drawWindow();
  }

  drawScale(paint, height) {
    const least = ((this.end - this.begin) / this.width) * 90;
    const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 18e5, 36e5, 72e5, 216e5, 432e5, 864e5];
    const step = steps.find((one) => one >= least) || Math.ceil(least / 864e5) * 864e5;
    for (let at = Math.ceil((this.begin - this.from) / step) * step; at <= this.end - this.from; at += step) {
      const x = Math.round(this.x(this.from + at));
      paint.fillStyle = this.colour.line;
      paint.fillRect(x, 0, 1, height);
      paint.fillStyle = this.colour.quiet;
      if (at >= 0) paint.fillText(at ? took(at).replace(/\.0+ s/, " s").replace(" min 0 s", " min") : "0", x + 4, 9);
    }
  }

  drawRow(paint, row) {
    const end = (span) => this.spans.end(span), pixel = (this.end - this.begin) / this.width;
    let drawn = 0, last = -1;
    for (let n = firstAfter(row.spans, this.begin, end); n < row.spans.length; n++) {
      const span = row.spans[n];
      if ((span.offered || span.begin) > this.end) break;
      const x = this.x(span.begin), right = this.x(end(span));
      if (right - x < 1 && Math.floor(x) === last) { // not distinguishable from the previous one
        const skip = firstAfter(row.spans, this.begin + (last + 1) * pixel, end);
        if (skip > n + 1) n = skip - 1;
        continue;
      }
      last = Math.floor(right);
      this.drawSpan(paint, span, row.y, x, right);
      drawn++;
    }
    for (let n = firstAfter(row.over, this.begin, end); n < row.over.length && row.over[n].begin <= this.end; n++) {
      const span = row.over[n];
      if (end(span) - span.begin < pixel) continue; // too short to be visible
      const left = this.x(span.begin), right = this.x(end(span));
      this.wait(paint, left, row.y, right, span);
      if (right - left > 60) this.write(paint, span, left, row.y, right - left);
      drawn++;
    }
    return drawn;
  }

  drawSpan(paint, span, y, x, right) {
    if (right - x < 2 && span !== this.chosen && !MOMENTS.has(span.kind)) { // one of thousands: only a stroke is visible
      paint.globalAlpha = this.matches && !this.matches.has(span.key) ? 0.13 : 1;
      paint.fillStyle = this.colour[isBad(span) ? "bad" : WAITS.has(span.kind) ? "wait" : FILL[span.kind] || "context"];
      if (span.kind === "run") paint.fillRect(x, y + 10, 1.5, 4);
      else paint.fillRect(x, y, 1.5, this.bar);
      paint.globalAlpha = 1;
      return;
    }
    const left = Math.max(x, -5), width = Math.max(Math.min(right, this.width + 5) - left, 1.5);
    paint.globalAlpha = this.matches && !this.matches.has(span.key) ? 0.13 : 1;
    if (MOMENTS.has(span.kind)) this.moment(paint, span, x, y);
    else if (WAITS.has(span.kind) || span.how === "never ran") {
      this.wait(paint, left, y, left + width, span);
      if (width > 60) this.write(paint, span, left, y, width);
    } else {
      if (span.offered && span.offered < span.begin) { // written by the model, waiting to run
        paint.fillStyle = this.colour.wait;
        paint.fillRect(this.x(span.offered), y + this.bar / 2 - 0.5, Math.max(x - this.x(span.offered), 0), 1);
      }
      this.work(paint, span, left, y, width);
      if (width > 34) this.write(paint, span, left, y, width);
    }
    paint.globalAlpha = 1;
    if (this.chosen === span) {
      paint.strokeStyle = this.colour.accent;
      paint.lineWidth = 2;
      paint.strokeRect(left - 1.5, y - 2, width + 3, this.bar + 4);
    }
  }

  work(paint, span, left, y, width) {
    const tall = span.kind === "run" ? 4 : this.bar, top = span.kind === "run" ? y + 10 : y;
    paint.fillStyle = this.colour[FILL[span.kind] || "context"];
    paint.fillRect(left, top, width, tall);
    if (span.early && width > 2) {
      const reply = this.spans.byKey.get(span.parent), until = reply ? this.x(this.spans.end(reply)) : left;
      paint.fillStyle = this.colour.early;
      paint.fillRect(left, top, Math.max(Math.min(until, left + width) - left, 0), tall);
    }
    if (isBad(span)) {
      paint.fillStyle = this.colour.bad;
      paint.fillRect(left, top + tall - 3, width, 3);
    }
    if (span.how === "open") { // it has no end yet
      paint.fillStyle = this.colour.accent;
      paint.fillRect(left + width - 2, top, 2, tall);
    }
    if (span.kind === "tool" && width > 3) {
      for (const asked of this.spans.below(span.key)) {
        if (asked.kind !== "question") continue;
        const from = Math.max(this.x(asked.begin), left), to = Math.min(this.x(this.spans.end(asked)), left + width);
        paint.fillStyle = this.colour.ground;
        paint.fillRect(from, y, to - from, this.bar);
        this.wait(paint, from, y, to, null);
      }
    }
  }

  wait(paint, left, y, right, span) {
    const width = Math.max(right - left, 1.5);
    if (span && OVERLAYS.has(span.kind)) { paint.fillStyle = this.colour.ground; paint.fillRect(left, y, width, this.bar); }
    paint.fillStyle = this.hatch;
    paint.fillRect(left, y, width, this.bar);
    paint.strokeStyle = span && isBad(span) ? this.colour.bad : this.colour.wait;
    paint.lineWidth = 1;
    if (width > 2) paint.strokeRect(left + 0.5, y + 0.5, width - 1, this.bar - 1);
    if (span && this.chosen === span) { paint.strokeStyle = this.colour.accent; paint.lineWidth = 2; paint.strokeRect(left - 1.5, y - 2, width + 3, this.bar + 4); }
  }

  moment(paint, span, x, y) {
    paint.fillStyle = span.kind === "interrupt" ? this.colour.bad : span.kind === "prefix" || span.kind === "rewind" ? this.colour.accent : this.colour.quiet;
    paint.beginPath();
    paint.moveTo(x, y + 1); paint.lineTo(x + 5, y + 7); paint.lineTo(x, y + 13); paint.lineTo(x - 5, y + 7);
    paint.fill();
  }

  // A label, after the waits at the start of its bar.
  write(paint, span, left, y, width) {
    let begin = Math.max(left, 0);
    const right = left + width, plain = span.kind === "run", waits = WAITS.has(span.kind);
    for (const part of plain || waits ? [] : this.spans.below(span.key)) {
      const from = this.x(part.begin), to = this.x(this.spans.end(part));
      if (WAITS.has(part.kind) && from < begin + 30 && to > begin) begin = Math.min(to, right);
    }
    if (right - begin < 30) return;
    paint.save();
    paint.beginPath();
    paint.rect(begin, y - 2, right - begin - 2, this.bar + 4);
    paint.clip();
    if (waits) {
      paint.fillStyle = this.colour.ground;
      paint.fillRect(begin + 3, y + 2, paint.measureText(this.cut(paint, span.label, right - begin - 9)).width + 4, this.bar - 4);
    }
    const words = this.cut(paint, span.label, right - begin - 9), fill = FILL[span.kind] || "context";
    const put = (colour) => {
      paint.fillStyle = colour;
      paint.fillText(words, begin + (plain ? 1 : 5), plain ? y + 3 : y + this.bar / 2 + 0.5);
    };
    put(plain ? this.colour.quiet : waits ? this.colour.ink : this.on[fill]);
    if (span.early && !plain && !waits) { // the part on the lighter colour, in the colour for that
      const reply = this.spans.byKey.get(span.parent), until = reply ? this.x(this.spans.end(reply)) : left;
      paint.beginPath();
      paint.rect(begin, y - 2, Math.max(0, Math.min(until, right) - begin), this.bar + 4);
      paint.clip();
      paint.fillStyle = this.colour.early;
      paint.fillRect(begin, y, right - begin, this.bar);
      put(this.on.early);
    }
    paint.restore();
  }

  // As much of the words as fits, with an ellipsis.
  cut(paint, words, room) {
    const width = paint.measureText(words).width;
    if (width <= room) return words;
    let most = Math.max(0, Math.floor((words.length * room) / width));
    while (most > 0 && paint.measureText(words.slice(0, most) + "…").width > room) most--;
    return most ? words.slice(0, most).trimEnd() + "…" : "";
  }

  // --- the map ---

  drawMap() {
    if (this.isHidden) return;
    this.prepare(this.map, 40);
    this.mapped = Object.assign(document.createElement("canvas"), { width: this.map.width, height: this.map.height });
    const paint = this.mapped.getContext("2d"), width = this.map.clientWidth;
    paint.scale(this.map.width / width, this.map.width / width);
    const scale = width / (this.to - this.from), rows = { model: 6, tool: 16, agent: 25 };
    const seen = {};
    for (const span of this.spans.all) {
      if (placeOf(span) || !(span.kind in rows)) continue;
      const x = (span.begin - this.from) * scale, end = (this.spans.end(span) - this.from) * scale;
      if (end - x < 0.5 && seen[span.kind] === Math.floor(x)) continue;
      seen[span.kind] = Math.floor(x);
      paint.fillStyle = isBad(span) ? this.colour.bad : this.colour[span.kind];
      paint.fillRect(x, rows[span.kind], Math.max(end - x, 0.7), 7);
    }
    for (const span of this.spans.all) {
      if (placeOf(span) || !WAITS.has(span.kind) || (this.spans.end(span) - span.begin) * scale < 0.5) continue;
      paint.fillStyle = this.hatch;
      paint.fillRect((span.begin - this.from) * scale, 33, Math.max((this.spans.end(span) - span.begin) * scale, 1), 5);
    }
    this.drawWindow();
  }

  drawWindow() {
    if (!this.mapped) return;
    const paint = this.map.getContext("2d"), width = this.map.clientWidth, scale = width / (this.to - this.from);
    paint.clearRect(0, 0, width, 40);
    paint.drawImage(this.mapped, 0, 0, width, 40);
    const left = Math.max((this.begin - this.from) * scale, 0), right = Math.min((this.end - this.from) * scale, width);
    paint.fillStyle = this.colour.ground;
    paint.globalAlpha = 0.65;
    paint.fillRect(0, 0, left, 40);
    paint.fillRect(right, 0, width - right, 40);
    paint.globalAlpha = 1;
    paint.strokeStyle = this.colour.accent;
    paint.lineWidth = 1.5;
    paint.strokeRect(left + 0.75, 0.75, Math.max(right - left - 1.5, 2), 38.5);
  }

  // --- the mouse ---

  listen() {
    this.axis.addEventListener("wheel", (event) => {
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.shift(event.deltaX || event.deltaY);
      else if (event.altKey) return; // scrolls the lanes
      else this.zoom(Math.exp(event.deltaY * 0.0015), event.offsetX);
      event.preventDefault();
    }, { passive: false });
    this.drag(this.axis, (event, moved) => this.shift(-moved), (event) => this.hooks.choose(this.hit(event.offsetX, event.offsetY)));
    this.axis.addEventListener("dblclick", (event) => { const span = this.hit(event.offsetX, event.offsetY); if (span) this.closeUp(span); });
    this.axis.addEventListener("mousemove", (event) => { if (!event.buttons) this.hooks.hover(this.hit(event.offsetX, event.offsetY)); });
    const centre = (event) => {
      const at = this.from + (event.offsetX / this.map.clientWidth) * (this.to - this.from), half = (this.end - this.begin) / 2;
      this.show(at - half, at + half);
    };
    this.drag(this.map, centre, centre);
  }

  drag(canvas, move, click) {
    let last = null, moved = 0;
    canvas.addEventListener("pointerdown", (event) => { last = event.clientX; moved = 0; canvas.setPointerCapture(event.pointerId); });
    canvas.addEventListener("pointermove", (event) => {
      if (last == null) return;
      moved += Math.abs(event.clientX - last);
      if (moved > 3) move(event, event.clientX - last);
      last = event.clientX;
    });
    canvas.addEventListener("pointerup", (event) => { if (last != null && moved <= 3) click(event); last = null; });
    canvas.addEventListener("pointercancel", () => { last = null; });
  }
}
