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

const same = (value) => value;
// Column of a list: its name, the field of a row, and the text of its values.
const column = (name, field, text = same) => ({ name, read: (row) => row[field], text: (row) => text(row[field]) });
const text = (...args) => ({ ...column(...args), isText: true });
// A bar behind the number, in proportion to the greatest.
const bar = (...args) => ({ ...column(...args), bar: true });
const orDash = (value) => value || "–";
const TIME = column("time", "at", time);

// Columns of each list, and the column that orders it at first.
const LISTS = {
  slowlog: {
    empty: "No command was slow.", id: (row) => row.id, order: { column: 1, descending: true },
    columns: [
      TIME, bar("duration", "micros", micros), { ...text("command", "command", words), read: (row) => words(row.command) },
      { ...text("client", "client"), text: (row) => row.name || row.client },
    ],
  },
  clients: {
    empty: "No client is connected.", id: (row) => row.id, order: { column: 0, descending: false },
    columns: [
      column("id", "id"), text("address", "address"), text("name", "name", orDash), text("last command", "command"), column("idle", "idleSeconds", duration),
      column("connected", "ageSeconds", duration), column("db", "db"), column("unread", "inputBytes", bytes), column("unsent", "outputBytes", bytes),
    ],
  },
  commands: {
    empty: "No command was called.", id: (row) => row.name, order: { column: 2, descending: true },
    columns: [
      text("command", "name"), column("calls", "calls", exact), bar("total time", "micros", (value) => duration(value / 1e6)),
      column("median", "p50Us", micros), column("p99", "p99Us", micros), column("failed", "failed", exact),
    ],
  },
  log: {
    empty: "Nothing happened yet.", id: (row, i) => `${row.at}-${i}`, order: { column: 0, descending: true },
    columns: [TIME, text("kind", "kind"), text("event", "words")],
  },
  settings: {
    empty: "The server has no settings.", id: (row) => row.name, order: { column: 0, descending: false },
    columns: [
      text("setting", "name"), text("value", "value"), text("changeable", "changeable", (value) => (value ? "CONFIG SET" : "at start")), text("meaning", "summary"),
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
