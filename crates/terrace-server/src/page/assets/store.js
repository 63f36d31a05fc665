// State that several parts of the page share, in cells. A component that uses a cell renders again
// when the cell changes.
import { useEffect, useState } from "./preact-htm.js";
import { ApiError, get, listen } from "./api.js";
import { REFUSALS } from "./health.js";

function cell(initial) {
  const listeners = new Set();
  const self = {
    value: initial,
    set(value) {
      if (value === self.value) return;
      self.value = value;
      for (const listener of [...listeners]) listener(value);
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
  return self;
}

export function useCell(source) {
  const [value, setValue] = useState(source.value);
  useEffect(() => {
    setValue(source.value);
    return source.subscribe(setValue);
  }, [source]);
  return value;
}

// Reply of the server to a request, soon after its arguments changed. Before, and without arguments: null.
export function useReply(path, args, delay = 80) {
  const [reply, setReply] = useState(null);
  useEffect(() => {
    setReply(null);
    if (!args) return undefined;
    const stop = new AbortController();
    const timer = setTimeout(() => get(path, args, { signal: stop.signal }).then(setReply, () => {}), delay);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [JSON.stringify(args)]);
  return reply;
}

// Facts of the database that do not change while the server runs.
export const database = cell(null);
// Figures of the latest second.
export const sample = cell(null);
// "connecting", "live", "lost" or "refused".
export const connection = cell("connecting");
// Number of the latest version edit, and the running flushes and compactions.
export const latestEdit = cell(null);
export const jobs = cell(null);
// Latest events of the engine, the newest first.
export const events = cell([]);
// The hour: columns of numbers, marks, and a count of changes.
export const hour = cell({ columns: {}, marks: [], changes: 0 });
// Key that another part asks the list of keys to show: {bytes}.
export const wantedKey = cell(null);
// Sentence for screen readers and for the line at the foot of the page: {words, undo}.
export const notice = cell(null);

const HOUR_SECONDS = 3600;
const MAX_EVENTS = 500;
const MAX_MARKS = 2000;
// A shorter stall is no mark, as in the history of the server.
const MIN_MARK = 0.01;

export function toColumns(history) {
  const columns = {};
  history.columns.forEach((name, index) => {
    columns[name] = history.rows.map((row) => row[index]);
  });
  return columns;
}

function sampleColumn(second, name) {
  if (name === "memory") return second.memory?.total ?? null;
  if (name === "disk") return second.disk?.bytes ?? null;
  return second[name] ?? null;
}

// Appends a second in place: 3,600 copies of 18 columns each second would be waste.
function append(second) {
  const { columns, marks, changes } = hour.value;
  const at = columns.at;
  if (!at || second.at <= (at[at.length - 1] ?? 0)) return;
  for (const name of Object.keys(columns)) {
    columns[name].push(name === "at" ? second.at : sampleColumn(second, name));
    if (columns[name].length > HOUR_SECONDS) columns[name].shift();
  }
  for (const stall of second.stalls ?? []) {
    if (stall.seconds >= MIN_MARK) marks.push({ at: second.at, kind: "stall", cause: stall.cause, seconds: stall.seconds, isLive: true });
  }
  const { state, cause } = second.health;
  if (state === "bad" && REFUSALS.has(cause)) marks.push({ at: second.at, kind: "refused", cause, seconds: 1, isLive: true });
  if (marks.length > MAX_MARKS) marks.splice(0, marks.length - MAX_MARKS);
  hour.set({ columns, marks, changes: changes + 1 });
}

async function loadHour() {
  const history = await get("history", { range: "hour" });
  hour.set({ columns: toColumns(history), marks: history.marks ?? [], changes: hour.value.changes + 1 });
}

export function report(error) {
  if (error.name === "AbortError") return;
  if (error instanceof ApiError && error.status === 401) connection.set("refused");
  notice.set({ words: error.message, bad: true });
}

// Each part comes for itself: a part that fails does not hide the others.
function load() {
  const part = (promise, show) => promise.then(show).catch(report);
  return Promise.all([
    part(get("state"), (state) => database.set(state)),
    part(get("sample"), (second) => sample.set(second)),
    part(get("log", { count: 200 }), (log) => events.set(log.slice().sort((a, b) => b.at - a.at))),
    part(loadHour()),
  ]);
}

// Loads all state now and after each new connection: a hidden page has missed seconds.
export function start() {
  const handlers = {
    second: (second) => {
      connection.set("live");
      sample.set(second);
      append(second);
    },
    levels: ({ edit }) => latestEdit.set(edit),
    job: (list) => jobs.set(list),
    event: (event) => events.set([event, ...events.value].slice(0, MAX_EVENTS)),
  };
  listen(handlers, {
    opened: () => load().then(() => connection.value !== "refused" && connection.set("live")),
    lost: () => {
      if (connection.value === "refused") return;
      connection.set("lost");
      // An event stream hides its status, so a request finds out whether the cookie is still valid.
      get("state").catch((error) => error.status === 401 && connection.set("refused"));
    },
  });
}
