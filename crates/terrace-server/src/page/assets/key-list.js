// Flat list of keys. It keeps a few pages around the view, so ten million keys need little memory.
import { html, useEffect, useRef, useState } from "./preact-htm.js";
import { get } from "./api.js";
import { cursorOf, sameBytes, toQuery } from "./bytes.js";
import { KeyRow } from "./key-row.js";
import { report } from "./store.js";
import { VirtualList } from "./virtual-list.js";

const PAGE = 200;
const MAX_PAGES = 5;
const OPPOSITE = { forward: "backward", backward: "forward" };

// The pages in memory. `first` is the number of their first key, counted from the first key of the
// first load; `next` is the cursor after the last page, or null at the end.
const EMPTY = { pages: [], first: 0, next: null, atStart: true };

const lastOf = (pages) => pages.at(-1)?.at(-1);
const without = (keys, entry) => keys.filter((other) => !sameBytes(other.key, entry?.key));

// Adds a page at the end, and drops the first page if there are too many.
function appendPage(window, page) {
  const keys = without(page.keys, lastOf(window.pages));
  const pages = keys.length ? [...window.pages, keys] : window.pages;
  const dropped = pages.length > MAX_PAGES ? pages.shift().length : 0;
  return { pages, first: window.first + dropped, next: page.next, atStart: window.atStart && !dropped };
}

// Adds a page of the other direction at the start, and drops the last page if there are too many.
function prependPage(window, page) {
  const keys = without(page.keys, window.pages[0]?.[0]).reverse();
  const pages = keys.length ? [keys, ...window.pages] : window.pages;
  const isFull = pages.length > MAX_PAGES;
  if (isFull) pages.pop();
  return { pages, first: window.first - keys.length, next: isFull ? cursorOf(lastOf(pages)) : window.next, atStart: !page.next };
}

export function KeyList({ prefix, prefixText, db, direction, start, changes, chosen, onChoose, onOpen }) {
  const [window, setWindow] = useState(null);
  // Number of the active key, as `first` counts.
  const [active, setActive] = useState(null);
  const [epoch, setEpoch] = useState(0);
  const loading = useRef(null);
  const latest = useRef(window);
  latest.current = window;

  const load = async (way, cursor, add) => {
    if (loading.current) return;
    const stop = new AbortController();
    loading.current = stop;
    try {
      const more = (from) => get("keys", { prefix, direction: way, count: PAGE, db }, { cursor: from, signal: stop.signal });
      let page = await more(cursor);
      // In a foreign order, a search may pass many keys before it finds one.
      while (!page.keys.length && page.next) page = await more(page.next);
      setWindow((old) => add(old, page));
    } catch (error) {
      report(error);
    } finally {
      if (loading.current === stop) loading.current = null;
    }
  };
  const reload = (cursor, base) => {
    loading.current?.abort();
    loading.current = null;
    return load(direction, cursor, (_, page) => appendPage(base, page));
  };
  const restart = (cursor) => {
    setActive(null);
    setWindow(null);
    setEpoch((value) => value + 1);
    reload(cursor, { ...EMPTY, atStart: !cursor });
  };
  useEffect(() => {
    restart(start ? toQuery(start) : null);
    return () => loading.current?.abort();
  }, [prefixText, db, direction, start]);
  useEffect(() => {
    const { pages, first, atStart } = latest.current ?? EMPTY;
    if (pages.length) reload(atStart ? null : cursorOf(pages[0][0]), { ...EMPTY, first, atStart });
  }, [changes]);

  if (!window) return html`<div class="rows" aria-busy="true"></div>`;
  const rows = window.pages.flat();
  if (!rows.length) return html`<p class="empty">No key begins with this prefix.</p>`;
  const index = active === null ? -1 : active - window.first;
  const choose = (at) => {
    setActive(at + window.first);
    onChoose(rows[at]);
  };
  return html`<${VirtualList} key=${epoch} rows=${rows} first=${window.first} active=${rows[index] ? index : null} onActive=${choose} onOpen=${onOpen}
    onNearEnd=${() => latest.current.next && load(direction, latest.current.next, appendPage)}
    onNearStart=${() => !latest.current.atStart && load(OPPOSITE[direction], cursorOf(latest.current.pages[0][0]), prependPage)}
    onKey=${(event) => event.key === "Home" && (event.preventDefault(), restart(null))} role="listbox" label="Keys in order"
    renderRow=${(entry, at, isActive) => html`<${KeyRow} key=${at + window.first} id="row-${at}" entry=${entry} role="option" active=${isActive}
      chosen=${chosen && sameBytes(chosen.key.key, entry.key)} onClick=${() => choose(at)} />`} />`;
}
