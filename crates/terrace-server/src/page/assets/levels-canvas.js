// Drawing of the levels. Tables go into an offscreen layer, which is drawn again only if the tables,
// the view, the colours or the size changed. Jobs, the pointer and the selection go on top of it.
import { LEFT, RIGHT, SHADES, extent, shadeBy, shades, tableAt } from "./levels-model.js";

// Narrower tables share a column of pixels, which shows the mean of their shades.
const MIN_WIDTH = 2;
const GAP = 1;
const ROUND_FROM = 10;
const MAX_ZOOM = 2000;

export class LevelsCanvas {
  constructor(canvas) {
    this.canvas = canvas;
    this.layer = document.createElement("canvas");
    this.view = { from: 0, span: 1 };
    this.mode = "age";
    this.model = null;
    this.jobs = [];
    this.memtables = [];
    this.hover = null;
    this.selected = null;
    this.colours = null;
    this.stale = true;
    this.frame = 0;
    this.width = 0;
  }

  resize(width, height) {
    const scale = devicePixelRatio || 1;
    if (width === this.width && height === this.height && scale === this.scale) return;
    Object.assign(this, { width, height, scale });
    for (const target of [this.canvas, this.layer]) {
      target.width = Math.round(width * scale);
      target.height = Math.round(height * scale);
    }
    this.invalidate();
  }

  set(changes) {
    Object.assign(this, changes);
    this.invalidate();
  }

  // Draws the tables again in the next frame.
  invalidate() {
    this.stale = true;
    this.request();
  }

  request() {
    if (!this.frame) this.frame = requestAnimationFrame(() => this.draw());
  }

  destroy() {
    cancelAnimationFrame(this.frame);
  }

  x(position) {
    return ((position - this.view.from) / this.view.span) * this.width;
  }

  position(x) {
    return this.view.from + (x / this.width) * this.view.span;
  }

  hit(x, y) {
    return this.model ? tableAt(this.model, this.position(x), y, (2 / this.width) * this.view.span) : null;
  }

  zoom(factor, centre = 0.5) {
    const span = Math.min(1, Math.max(1 / MAX_ZOOM, this.view.span / factor));
    this.look(this.view.from + (this.view.span - span) * centre, span);
  }

  look(from, span = this.view.span) {
    this.view = { from: Math.min(1 - span, Math.max(0, from)), span };
    this.invalidate();
  }

  // Moves the view so that it contains a table.
  reveal(table) {
    const { from, span } = this.view;
    if (table[RIGHT] < from || table[LEFT] > from + span) this.look((table[LEFT] + table[RIGHT] - span) / 2);
  }

  draw() {
    this.frame = 0;
    if (!this.model || !this.colours || !this.width) return;
    if (this.stale) this.drawLayer();
    this.stale = false;
    const context = this.canvas.getContext("2d");
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    context.drawImage(this.layer, 0, 0);
    context.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    this.drawMemtables(context, this.model.rows[0]);
    for (const job of this.jobs) this.drawJob(context, job);
    if (this.hover) this.outline(context, this.hover, this.colours.muted, 1);
    if (this.selected) this.outline(context, this.selected, this.colours.ink, 2);
  }

  drawLayer() {
    const context = this.layer.getContext("2d");
    context.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    const fills = shades(this.colours);
    const shade = shadeBy(this.mode, this.model.state);
    for (const row of this.model.rows) {
      if (row.kind === "level") this.drawLevel(context, row, fills, shade);
    }
  }

  // Memtables change faster than tables. A flush has its progress at the lower edge.
  drawMemtables(context, row) {
    const { memtables } = this;
    const slot = Math.min(176, (this.width * 0.6) / Math.max(4, memtables.length));
    const height = row.height - 12;
    const flushes = this.jobs.filter((job) => job.kind === "flush");
    memtables.forEach((memtable, index) => {
      const x = index * slot;
      const width = slot - 8;
      const filled = Math.min(1, memtable.bytes / (memtable.limit || 1)) * width;
      context.fillStyle = this.colours.line;
      box(context, x, row.top + 6, width, height, 3);
      context.fillStyle = memtable.state === "active" ? this.colours.accent : this.colours.second;
      box(context, x, row.top + 6, Math.max(2, filled), height, 3);
      if (memtable.state !== "flushing") return;
      this.hatch(context, x, row.top + 6, filled, height);
      context.fillStyle = this.colours.ink;
      context.fillRect(x, row.top + 3 + height, filled * (flushes.shift()?.progress ?? 0), 3);
    });
  }

  drawLevel(context, row, fills, shade) {
    context.fillStyle = this.colours.line;
    context.fillRect(0, row.top + row.height - 1, this.width, 1);
    const batches = Array.from({ length: SHADES }, () => []);
    const thin = row.level === 0 ? null : { sum: new Float32Array(Math.ceil(this.width) + 1), count: new Uint16Array(Math.ceil(this.width) + 1) };
    row.tables.forEach((table, index) => {
      const left = this.x(table[LEFT]);
      const right = this.x(table[RIGHT]);
      if (right < 0 || left > this.width) return;
      if (thin && right - left < MIN_WIDTH) {
        const column = Math.max(0, Math.floor(left));
        thin.sum[column] += shade(table);
        thin.count[column] += 1;
      } else batches[shade(table)].push(left, right, index);
    });
    if (thin) this.drawThin(context, row, fills, thin);
    batches.forEach((batch, index) => {
      context.fillStyle = fills[index];
      for (let i = 0; i < batch.length; i += 3) this.drawTable(context, row, batch[i], batch[i + 1], batch[i + 2]);
    });
  }

  drawThin(context, row, fills, { sum, count }) {
    const [top, height] = extent(row, 0);
    for (let column = 0; column < count.length; column += 1) {
      if (!count[column]) continue;
      context.fillStyle = fills[Math.min(SHADES - 1, Math.round(sum[column] / count[column]))];
      context.fillRect(column, top, 1, height);
    }
  }

  drawTable(context, row, left, right, index) {
    const [top, height] = extent(row, index);
    const gap = row.level === 0 ? Math.min(1, height / 4) : 0;
    const width = Math.max(1, right - left - (right - left > 4 ? GAP : 0));
    if (width < ROUND_FROM || row.level === 0) context.fillRect(left, top + gap / 2, width, height - gap);
    else box(context, left, top, width, height, 2);
  }

  hatch(context, x, y, width, height) {
    context.save();
    context.beginPath();
    context.rect(x, y, width, height);
    context.clip();
    context.strokeStyle = this.colours.surface;
    context.lineWidth = 1.5;
    context.beginPath();
    for (let start = x - height; start < x + width; start += 6) {
      context.moveTo(start, y + height);
      context.lineTo(start + height, y);
    }
    context.stroke();
    context.restore();
  }

  drawJob(context, job) {
    const inputs = (job.inputs ?? []).map((number) => this.model.places.get(number)).filter(Boolean);
    let left = this.width;
    let right = 0;
    for (const { row, index } of inputs) {
      const table = row.tables[index];
      const [from, to] = [Math.max(0, this.x(table[LEFT])), Math.min(this.width, this.x(table[RIGHT]))];
      if (to < 0 || from > this.width) continue;
      const [top, height] = extent(row, index);
      this.hatch(context, from, top, Math.max(1, to - from), height);
      left = Math.min(left, from);
      right = Math.max(right, to);
    }
    if (right > left) this.drawFrame(context, job, inputs, left, right);
  }

  // Frame of a compaction, with its progress at the lower edge.
  drawFrame(context, job, inputs, left, right) {
    const tops = inputs.map(({ row }) => row.top);
    const top = Math.min(...tops) + 1.5;
    const bottom = Math.max(...inputs.map(({ row }) => row.top + row.height)) - 1.5;
    context.strokeStyle = this.colours.ink;
    context.lineWidth = 1;
    context.strokeRect(left - 1, top, right - left + 2, bottom - top);
    context.fillStyle = this.colours.ink;
    context.fillRect(left - 1, bottom - 2.5, (right - left + 2) * Math.min(1, job.progress ?? 0), 3);
  }

  outline(context, { row, index }, colour, width) {
    const table = row.tables[index];
    if (!table) return;
    const [top, height] = extent(row, index);
    const left = this.x(table[LEFT]);
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.strokeRect(left - 1, top - 1, Math.max(3, this.x(table[RIGHT]) - left + 1), height + 2);
  }
}

function box(context, x, y, width, height, radius) {
  context.beginPath();
  context.roundRect(x, y, width, height, Math.min(radius, width / 2));
  context.fill();
}
