// Header: the database, its health in words and colour, and six figures with sparklines.
import { html, useEffect, useState } from "./preact-htm.js";
import { connection, database, hour, sample, useCell } from "./store.js";
import { bytes, bytesParts, count, countParts, duration, microsParts, micros, percent, time } from "./format.js";
import { concerns, shortWord } from "./health.js";
import { isDark, toggleTheme, usePalette } from "./palette.js";

const SPARK_SECONDS = 300;
const SPARK_POINTS = 100;
const WIDTH = 100;
const HEIGHT = 24;

// `values` in at most SPARK_POINTS groups; each group is its mean, or its maximum for latencies.
function grouped(values, join) {
  const size = Math.max(1, Math.ceil(values.length / SPARK_POINTS));
  const result = [];
  for (let i = 0; i < values.length; i += size) result.push(join(values.slice(i, i + size)));
  return result;
}

const mean = (list) => list.reduce((sum, value) => sum + (value ?? 0), 0) / list.length;
const longest = (list) => Math.max(...list.map((value) => value ?? 0));

function Sparkline({ values, join = mean, top }) {
  const points = grouped(values.slice(-SPARK_SECONDS), join);
  if (points.length < 2) return html`<svg class="spark" aria-hidden="true"></svg>`;
  const limit = top ?? (Math.max(...points) * 1.25 || 1);
  const y = (value) => (HEIGHT - 1 - (Math.min(value, limit) / limit) * (HEIGHT - 2)).toFixed(1);
  const line = points.map((value, i) => `${((i / (points.length - 1)) * WIDTH).toFixed(1)},${y(value)}`).join("L");
  return html`<svg class="spark" viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none" aria-hidden="true">
    <path class="spark-area" d="M0,${HEIGHT}L${line}L${WIDTH},${HEIGHT}Z" /><path class="spark-line" d="M${line}" />
  </svg>`;
}

function Figure({ label, parts, note, values, join, top, mark, word }) {
  const [number, unit] = parts;
  return html`<div class="figure" data-mark=${mark}>
    <dt>${label}${mark && html` <span class="mark-word">${word}</span>`}</dt>
    <dd><b>${number}</b>${unit && html` <span class="unit">${unit}</span>`}</dd>
    <${Sparkline} values=${values} join=${join} top=${top} />
    <dd class="note">${note}</dd>
  </div>`;
}

function writesNote(second, state) {
  if (second.failedWrites) return `${count(second.failedWrites)}/s fail`;
  if (second.delayedWriteRate && second.health.cause !== "compaction") return `delayed to ${bytes(second.delayedWriteRate)}/s`;
  if (second.stallSeconds > 0.01) return `waited ${duration(second.stallSeconds)} per second`;
  return state ? `sync ${state.sync}` : "";
}

export function Figures() {
  const second = useCell(sample);
  const { columns } = useCell(hour);
  const state = useCell(database);
  if (!second) return html`<dl class="figures" aria-busy="true"></dl>`;
  const marks = concerns(second);
  const word = marks.size ? shortWord(second) : "";
  const memory = second.memory ?? { total: 0, limit: 0 };
  const share = memory.limit ? memory.total / memory.limit : null;
  const disk = second.disk ?? {};
  // `name` is that of the column; `id` is the part that a cause marks.
  const figure = (label, name, parts, note, { id = label, ...more } = {}) => html`<${Figure} label=${label} parts=${parts} note=${note}
    values=${columns[name] ?? []} word=${word} mark=${marks.get(`figure:${id}`)} ...${more} />`;
  return html`<dl class="figures" aria-label="Figures of the latest second">
    ${figure("reads", "reads", rate(second.reads), second.cacheHit == null ? "no block reads" : `cache hit ${percent(second.cacheHit)}`)}
    ${figure("writes", "writes", rate(second.writes), writesNote(second, state))}
    ${figure("p99 latency", "p99Us", microsParts(second.p99Us), `p50 ${micros(second.p50Us)}, max ${micros(second.longestUs)}`, { id: "p99", join: longest })}
    ${figure("clients", "clients", countParts(second.clients), second.blockedClients ? `${second.blockedClients} blocked` : `${count(second.commands)} commands/s`)}
    ${figure("memory", "memory", share == null ? bytesParts(memory.total) : [Math.round(share * 100), "%"],
      share == null ? "no limit" : `${bytes(memory.total)} of ${bytes(memory.limit)}`, { top: memory.limit || undefined })}
    ${figure("disk", "disk", bytesParts(disk.bytes), `${bytes(disk.free)} free, write amp ${(disk.writeAmp ?? 0).toFixed(1)}`)}
  </dl>`;
}

const rate = (value) => {
  const [number, unit] = countParts(value);
  return [number, `${unit}/s`];
};

const LOST = { state: "bad", words: "connection lost, trying again" };
const REFUSED = { state: "bad", words: "not signed in: open the link that the server prints at start" };

function Health() {
  const second = useCell(sample);
  const status = useCell(connection);
  let health = second?.health ?? { state: "wait", words: "connecting" };
  if (status === "lost") health = LOST;
  if (status === "refused") health = REFUSED;
  const name = useCell(database)?.name;
  useEffect(() => {
    document.title = `${health.state === "ok" ? "" : "! "}${name ?? ""} · Terrace`;
  }, [health.state, name]);
  const since = health.since ? `since ${time(health.since, false)}, ${duration((Date.now() - health.since) / 1000)}` : "";
  return html`<p class="health" data-state=${health.state} role="status" aria-live="polite">
    <span class="dot" aria-hidden="true"></span><strong>${health.words}</strong>${since && html`<span class="since" aria-live="off">${since}</span>`}
  </p>`;
}

function Facts() {
  const state = useCell(database);
  const [, tick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => tick((value) => value + 1), 30000);
    return () => clearInterval(timer);
  }, []);
  if (!state) return null;
  const mode = [state.layout, state.readOnly && "read-only", state.follower && "follower", `up ${duration((Date.now() - state.startedAt) / 1000)}`, `sync ${state.sync}`];
  return html`<div class="facts"><b><bdi>${state.name}</bdi></b> <span class="path" title=${state.path}><bdi>${state.path}</bdi></span>
    <span class="mode">${mode.filter(Boolean).join(" · ")}</span></div>`;
}

export function Header() {
  usePalette();
  const state = useCell(database);
  return html`<header class="top">
    <h1 class="brand"><svg viewBox="0 0 20 16" aria-hidden="true"><path d="M7 1h6v3H7zM4 6.5h12v3H4zM1 12h18v3H1z" /></svg>Terrace</h1>
    <${Facts} />
    <${Health} />
    <div class="top-tools">
      ${state && html`<span class="badge" title="Writes from this page">${state.pageWrites ? "page writes on" : "page reads only"}</span>`}
      <button class="quiet" onClick=${toggleTheme} aria-label="Change to the ${isDark() ? "light" : "dark"} theme">${isDark() ? "light" : "dark"}</button>
    </div>
  </header>`;
}
