// Panel of the charts: the past of the database, with a mark for each write stall.
import { html, useEffect, useMemo, useState } from "./preact-htm.js";
import { get } from "./api.js";
import { CHARTS, HIGHEST } from "./chart-list.js";
import { Chart } from "./chart.js";
import { duration, time } from "./format.js";
import { causeOf, concerns, shortWord } from "./health.js";
import { database, hour, report, sample, toColumns, useCell } from "./store.js";
import { Choice } from "./widgets.js";

const RANGES = [["minutes", "10 min"], ["hour", "hour"], ["week", "week"]];
const SECONDS = { minutes: 600, hour: 3600, week: 7 * 86400 };
const WEEK_RELOAD_MS = 60000;
// A younger server has filled too little of the hour.
const YOUNG_MS = 15 * 60000;
const NARROW = matchMedia("(max-width: 719px)");

function useWeek(wanted) {
  const [week, setWeek] = useState(null);
  useEffect(() => {
    if (!wanted) return undefined;
    const load = () => !document.hidden && get("history", { range: "week" }).then((history) => setWeek({ columns: toColumns(history), marks: history.marks ?? [] }), report);
    load();
    const timer = setInterval(load, WEEK_RELOAD_MS);
    return () => clearInterval(timer);
  }, [wanted]);
  return week;
}

// Longest total time of a cause in the line above the charts, relative to the shortest one.
const MOST_TO_LEAST = 20;

// Points of a chart at most; more would be noise at its width.
const MAX_POINTS = 400;

function joined(values, isHighest) {
  let sum = 0;
  let known = 0;
  for (const value of values) {
    if (value == null) continue;
    sum = isHighest ? Math.max(sum, value) : sum + value;
    known += 1;
  }
  if (!known) return null;
  return isHighest ? sum : sum / known;
}

// The rows of the last `seconds` in groups, with times in seconds. A group begins at a multiple of its
// length, so that it does not change when a new second comes.
function condensed(columns, seconds) {
  const { at } = columns;
  if (!at?.length) return { at: [] };
  const last = at[at.length - 1];
  const first = at.findIndex((moment) => moment > last - seconds * 1000);
  const points = at.length - first;
  const size = Math.ceil(((last - at[first]) / 1000 + 1) / Math.min(points, MAX_POINTS)) * 1000;
  const starts = [];
  for (let i = first; i < at.length; i += 1) {
    if (!starts.length || Math.floor(at[i] / size) !== Math.floor(at[i - 1] / size)) starts.push(i);
  }
  const result = {};
  for (const [name, values] of Object.entries(columns)) {
    result[name] = starts.map((start, i) => (name === "at" ? at[starts[i + 1] - 1] ?? last : joined(values.slice(start, starts[i + 1]), HIGHEST.has(name))));
  }
  result.at = result.at.map((moment) => moment / 1000);
  return result;
}

// Total stall time by cause in the range, the longest first.
function causesIn(marks, from) {
  const sums = new Map();
  for (const mark of marks) {
    if (mark.at / 1000 >= from && mark.cause && (mark.kind === "stall" || mark.kind === "refused")) sums.set(mark.cause, (sums.get(mark.cause) ?? 0) + (mark.seconds ?? 0));
  }
  return [...sums].sort((a, b) => b[1] - a[1]);
}

function Causes({ marks, from }) {
  const all = causesIn(marks, from);
  // Short waits beside a long one are not the cause that the eye looks for.
  const causes = all.filter(([, seconds]) => seconds >= all[0][1] / MOST_TO_LEAST);
  if (!causes.length) return html`<span class="causes">no write stalled</span>`;
  return html`<span class="causes">${causes.slice(0, 3).map(([cause, seconds]) => html`<span class="cause" key=${cause}><i style=${{ background: `var(--${causeOf(cause).colour})` }}></i>${duration(seconds)} ${causeOf(cause).words}</span>`)}</span>`;
}

const isYoung = (at) => Boolean(at?.length) && at[at.length - 1] - at[0] < YOUNG_MS;

// Index of the point that contains `moment`: the nearest one if the charts do not show that time.
function pointAt(at, moment) {
  const index = at.findIndex((end) => end >= moment);
  return index < 0 ? at.length - 1 : index;
}

// Index of the point that the arrow keys choose; undefined for another key.
function step(index, key, length) {
  const current = index ?? length - 1;
  const moves = { ArrowLeft: -1, ArrowRight: 1, PageUp: -60, PageDown: 60, Home: -length, End: length };
  if (!(key in moves)) return undefined;
  return Math.min(length - 1, Math.max(0, current + moves[key]));
}

export function Charts() {
  const live = useCell(hour);
  const state = useCell(database);
  const second = useCell(sample);
  const marked = concerns(second);
  const [wanted, setRange] = useState(null);
  const [only, setOnly] = useState(NARROW.matches ? "throughput" : "all");
  // A time and not an index: the points move with each second, and another range has fewer.
  const [moment, setMoment] = useState(null);
  const range = wanted ?? (isYoung(live.columns.at) ? "minutes" : "hour");
  const week = useWeek(range === "week");
  const { columns, marks } = range === "week" && week ? week : live;
  const data = useMemo(() => condensed(columns, SECONDS[range]), [columns, live.changes, week, range]);
  if (!data.at.length) return html`<section class="charts" aria-busy="true"><h2>Charts</h2></section>`;
  const index = moment === null ? null : pointAt(data.at, moment);
  const to = data.at[data.at.length - 1];
  // A young server fills the width, too.
  const window = { from: Math.max(to - SECONDS[range], Math.min(data.at[0], to - 60)), to };
  const shown = only === "all" ? CHARTS : CHARTS.filter((chart) => chart.id === only);
  const key = (event) => {
    const next = event.key === "Escape" ? null : step(index, event.key, data.at.length);
    if (next === undefined || event.target.tagName === "INPUT") return;
    event.preventDefault();
    setMoment(next === null ? null : data.at[next]);
  };
  return html`<section class="charts" aria-labelledby="charts-title">
    <div class="bar"><h2 id="charts-title">Charts</h2>
      <${Choice} label="Range" options=${RANGES} value=${range} onChange=${setRange} />
      <${Choice} label="Chart" options=${[["all", "all"], ...CHARTS.map((chart) => [chart.id, chart.title.split(" ").pop()])]} value=${only} onChange=${setOnly} />
    </div>
    <div class="bar reading"><output class="moment">${index === null ? "now" : time(data.at[index] * 1000)}</output><${Causes} marks=${marks} from=${window.from} /></div>
    <div class="chart-grid" data-only=${only !== "all"} tabindex="0" role="group" aria-label="Charts. Arrow keys read the values of another moment." onKeyDown=${key}>
      ${shown.map((chart) => html`<${Chart} key=${chart.id} chart=${chart} data=${data} marks=${marks} step=${range === "week" ? 60 : 1} range=${window}
        limit=${chart.limit?.(state)} mark=${marked.get(`chart:${chart.id}`)} word=${marked.size ? shortWord(second) : ""} index=${index} onMoment=${setMoment} />`)}
    </div>
  </section>`;
}
