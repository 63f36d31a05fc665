// Small parts that several panels use.
import { html, useMemo, useRef, useState } from "./preact-htm.js";

// One of a few options: a radio group of native inputs, so that arrow keys work.
let groups = 0;
export function Choice({ label, options, value, onChange }) {
  const name = useRef(null);
  if (!name.current) name.current = `choice-${(groups += 1)}`;
  return html`<span class="choice" role="radiogroup" aria-label=${label}>
    ${options.map(([id, text]) => html`<label key=${id}><input type="radio" name=${name.current} checked=${id === value} onChange=${() => onChange(id)} /><span>${text}</span></label>`)}
  </span>`;
}

// Tabs with their panels; `tabs` are rows [id, title]. `extra` stands beside the tabs.
export function Tabs({ label, tabs, value, onChange, extra, children }) {
  const list = useRef(null);
  const key = (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const index = tabs.findIndex(([id]) => id === value);
    const next = (index + step + tabs.length) % tabs.length;
    onChange(tabs[next][0]);
    list.current.children[next].focus();
  };
  return html`<div class="tab-bar"><div class="tabs" role="tablist" aria-label=${label} ref=${list} onKeyDown=${key}>
      ${tabs.map(([id, title]) => html`<button key=${id} role="tab" id="tab-${id}" aria-selected=${id === value} aria-controls="panel-${id}" tabindex=${id === value ? 0 : -1} onClick=${() => onChange(id)}>${title}</button>`)}
    </div>${extra}</div>
    <div class="tab-panel" role="tabpanel" id="panel-${value}" aria-labelledby="tab-${value}" tabindex="0">${children}</div>`;
}

// Rows in the order of a column. A column has a name and a function `read` to a number or a text.
export function useSorted(rows, columns, initial) {
  const [order, setOrder] = useState(initial);
  const sorted = useMemo(() => {
    const { read } = columns[order.column];
    const compare = (a, b) => (read(a) < read(b) ? -1 : read(a) > read(b) ? 1 : 0);
    return rows.slice().sort(order.descending ? (a, b) => compare(b, a) : compare);
  }, [rows, order]);
  const sortBy = (column) => setOrder({ column, descending: order.column === column ? !order.descending : true });
  return [sorted, order, sortBy];
}

export function SortableHead({ columns, order, onSort }) {
  return html`<thead><tr>${columns.map((column, index) => {
    const sorted = order.column === index;
    return html`<th key=${column.name} scope="col" class=${column.isText ? "text" : ""} aria-sort=${sorted ? (order.descending ? "descending" : "ascending") : "none"}>
      <button class="quiet sort" onClick=${() => onSort(index)}>${column.name}<i aria-hidden="true">${sorted ? (order.descending ? "↓" : "↑") : ""}</i></button></th>`;
  })}</tr></thead>`;
}
