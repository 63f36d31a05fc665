// Tabs below the charts: slow log, clients, commands, events, settings, console.
import { html, useEffect, useState } from "./preact-htm.js";
import { get } from "./api.js";
import { oneLine } from "./bytes.js";
import { Console } from "./console.js";
import { bytes, duration, exact, micros, time } from "./format.js";
import { events, useCell } from "./store.js";
import { SortableHead, Tabs, useSorted } from "./widgets.js";

const RELOAD_MS = 2000;

const TABS = [["slowlog", "slow log"], ["clients", "clients"], ["commands", "commands"], ["log", "events"], ["settings", "settings"], ["console", "console"]];

const words = (command) => command.map((part) => oneLine(part, 80)).join(" ");

// Columns of each list. `bar` draws a bar behind the number, in proportion to the greatest.
const LISTS = {
  slowlog: {
    empty: "No command was slow.", id: (row) => row.id, order: { column: 1, descending: true },
    columns: [
      { name: "time", read: (row) => row.at, text: (row) => time(row.at) },
      { name: "duration", read: (row) => row.micros, text: (row) => micros(row.micros), bar: true },
      { name: "command", read: (row) => words(row.command), text: (row) => words(row.command), isText: true },
      { name: "client", read: (row) => row.client, text: (row) => row.name || row.client, isText: true },
    ],
  },
  clients: {
    empty: "No client is connected.", id: (row) => row.id, order: { column: 0, descending: false },
    columns: [
      { name: "id", read: (row) => row.id, text: (row) => row.id },
      { name: "address", read: (row) => row.address, text: (row) => row.address, isText: true },
      { name: "name", read: (row) => row.name, text: (row) => row.name || "–", isText: true },
      { name: "last command", read: (row) => row.command, text: (row) => row.command, isText: true },
      { name: "idle", read: (row) => row.idleSeconds, text: (row) => duration(row.idleSeconds) },
      { name: "connected", read: (row) => row.ageSeconds, text: (row) => duration(row.ageSeconds) },
      { name: "db", read: (row) => row.db, text: (row) => row.db },
      { name: "unread", read: (row) => row.inputBytes, text: (row) => bytes(row.inputBytes) },
      { name: "unsent", read: (row) => row.outputBytes, text: (row) => bytes(row.outputBytes) },
    ],
  },
  commands: {
    empty: "No command was called.", id: (row) => row.name, order: { column: 2, descending: true },
    columns: [
      { name: "command", read: (row) => row.name, text: (row) => row.name, isText: true },
      { name: "calls", read: (row) => row.calls, text: (row) => exact(row.calls) },
      { name: "total time", read: (row) => row.micros, text: (row) => duration(row.micros / 1e6), bar: true },
      { name: "median", read: (row) => row.p50Us, text: (row) => micros(row.p50Us) },
      { name: "p99", read: (row) => row.p99Us, text: (row) => micros(row.p99Us) },
      { name: "failed", read: (row) => row.failed, text: (row) => exact(row.failed) },
    ],
  },
  log: {
    empty: "Nothing happened yet.", id: (row, i) => `${row.at}-${i}`, order: { column: 0, descending: true },
    columns: [
      { name: "time", read: (row) => row.at, text: (row) => time(row.at) },
      { name: "kind", read: (row) => row.kind, text: (row) => row.kind, isText: true },
      { name: "event", read: (row) => row.words, text: (row) => row.words, isText: true },
    ],
  },
  settings: {
    empty: "The server has no settings.", id: (row) => row.name, order: { column: 0, descending: false },
    columns: [
      { name: "setting", read: (row) => row.name, text: (row) => row.name, isText: true },
      { name: "value", read: (row) => row.value, text: (row) => row.value, isText: true },
      { name: "changeable", read: (row) => row.changeable, text: (row) => (row.changeable ? "CONFIG SET" : "at start"), isText: true },
      { name: "meaning", read: (row) => row.summary, text: (row) => row.summary, isText: true },
    ],
  },
};

function List({ list, rows, filter }) {
  const { columns, empty, id } = list;
  const wanted = filter.toLowerCase();
  const kept = wanted ? rows.filter((row) => columns.some((column) => String(column.text(row)).toLowerCase().includes(wanted))) : rows;
  const [sorted, order, sortBy] = useSorted(kept, columns, list.order);
  const greatest = columns.map((column) => (column.bar ? Math.max(1, ...rows.map(column.read)) : 0));
  return sorted.length === 0 ? html`<p class="empty">${rows.length ? "No row contains this text." : empty}</p>` : html`<table class="list"><${SortableHead} columns=${columns} order=${order} onSort=${sortBy} />
      <tbody>${sorted.map((row, i) => html`<tr key=${id(row, i)}>${columns.map((column, c) => html`<td key=${column.name} class=${column.isText ? "text" : ""}>
        ${column.bar && html`<span class="share"><i style=${{ width: `${(column.read(row) / greatest[c]) * 100}%` }}></i></span>`}<bdi>${column.text(row)}</bdi></td>`)}</tr>`)}</tbody></table>`;
}

// Rows of a list, or an error. They load again while the page is visible.
function useRows(name) {
  const [rows, setRows] = useState(null);
  useEffect(() => {
    const stop = new AbortController();
    const load = () => {
      if (!document.hidden) get(name, {}, { signal: stop.signal }).then(setRows, (error) => error.name === "AbortError" || setRows(error));
    };
    load();
    const timer = setInterval(load, RELOAD_MS);
    return () => {
      stop.abort();
      clearInterval(timer);
    };
  }, [name]);
  return rows;
}

function Loaded({ name, filter }) {
  const rows = useRows(name);
  if (rows instanceof Error) return html`<p class="empty">${rows.message}</p>`;
  return rows ? html`<${List} list=${LISTS[name]} rows=${rows} filter=${filter} />` : html`<p class="empty" aria-busy="true">loading</p>`;
}

const Events = ({ filter }) => html`<${List} list=${LISTS.log} rows=${useCell(events)} filter=${filter} />`;

export function Activity() {
  const [tab, setTab] = useState("slowlog");
  const [filter, setFilter] = useState("");
  const input = tab !== "console" && html`<input class="filter" type="search" value=${filter} onInput=${(event) => setFilter(event.target.value)} placeholder="filter" aria-label="Filter of the rows" />`;
  const choose = (next) => {
    setTab(next);
    setFilter("");
  };
  let content = html`<${Loaded} key=${tab} name=${tab} filter=${filter} />`;
  if (tab === "log") content = html`<${Events} filter=${filter} />`;
  if (tab === "console") content = html`<${Console} />`;
  return html`<section class="activity" aria-label="Activity"><${Tabs} label="Activity" tabs=${TABS} value=${tab} onChange=${choose} extra=${input}>${content}<//></section>`;
}
