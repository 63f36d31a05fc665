// The tables of all levels as an HTML table, a page at a time: the facts of the picture as text.
import { html, useState } from "./preact-htm.js";
import { bytes, duration, exact, fileName, percent } from "./format.js";
import { BYTES, CREATED, ENTRIES, LEFT, LEVEL, NUMBER, READS, RIGHT } from "./levels-model.js";
import { SortableHead, useSorted } from "./widgets.js";

const PAGE = 100;
const column = (name, field, text) => ({ name, read: (table) => table[field], text: (table) => text(table[field]) });
const COLUMNS = [
  column("file", NUMBER, fileName), column("level", LEVEL, String),
  { name: "place in key order", read: (table) => table[LEFT], text: (table) => `${percent(table[LEFT])} to ${percent(table[RIGHT])}` },
  column("size", BYTES, bytes), column("entries", ENTRIES, (value) => (value == null ? "–" : exact(value))),
  { name: "age", read: (table) => -table[CREATED], text: (table, now) => duration((now - table[CREATED]) / 1000) },
  column("reads", READS, exact),
];

export function TableOfFiles({ state }) {
  const [page, setPage] = useState(0);
  const [rows, order, sortBy] = useSorted(state.tables, COLUMNS, { column: 1, descending: false });
  const pages = Math.max(1, Math.ceil(rows.length / PAGE));
  const current = Math.min(page, pages - 1);
  return html`<div class="files" tabindex="0" role="region" aria-label="Files of all levels">
    <table class="list"><${SortableHead} columns=${COLUMNS} order=${order} onSort=${sortBy} />
      <tbody>${rows.slice(current * PAGE, (current + 1) * PAGE).map((table) => html`<tr key=${table[NUMBER]}>${COLUMNS.map((column) => html`<td>${column.text(table, state.at)}</td>`)}</tr>`)}</tbody>
    </table>
    <div class="bar"><button class="quiet" disabled=${current === 0} onClick=${() => setPage(current - 1)}>previous</button>
      <span>page ${current + 1} of ${pages}</span>
      <button class="quiet" disabled=${current >= pages - 1} onClick=${() => setPage(current + 1)}>next</button></div>
  </div>`;
}
