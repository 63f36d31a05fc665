// List that draws only the rows in view. Its owner keeps the rows and adds or removes some at either
// end: `first` is the number of the first row since the begin, so that the scroll position stays.
import { html, useEffect, useLayoutEffect, useRef, useState } from "./preact-htm.js";

const ROW_HEIGHT = 24;
const MARGIN_ROWS = 8;
// The owner loads more rows when this number of rows is left beyond the view.
const NEAR = 60;

export function VirtualList({ rows, first = 0, active, onActive, onNearStart, onNearEnd, onKey, onOpen, role, label, renderRow }) {
  const box = useRef(null);
  const [view, setView] = useState({ top: 0, height: 300 });
  const before = useRef(first);

  // Rows that come or go before the view move it by their height.
  const moved = (before.current - first) * ROW_HEIGHT;
  useLayoutEffect(() => {
    if (!moved) return;
    before.current = first;
    box.current.scrollTop += moved;
    setView((old) => ({ ...old, top: box.current.scrollTop }));
  }, [first]);
  useEffect(() => {
    const observer = new ResizeObserver(() => setView((old) => ({ ...old, height: box.current?.clientHeight ?? old.height })));
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    if (active === null) return;
    const top = active * ROW_HEIGHT;
    const element = box.current;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + ROW_HEIGHT > element.scrollTop + element.clientHeight) element.scrollTop = top + ROW_HEIGHT - element.clientHeight;
  }, [active, first]);

  const top = view.top + moved;
  const begin = Math.max(0, Math.floor(top / ROW_HEIGHT) - MARGIN_ROWS);
  const end = Math.min(rows.length, Math.ceil((top + view.height) / ROW_HEIGHT) + MARGIN_ROWS);
  useEffect(() => {
    if (begin < NEAR) onNearStart?.();
    if (end > rows.length - NEAR) onNearEnd?.();
  }, [begin, end, rows.length]);

  const key = (event) => {
    const page = Math.max(1, Math.floor(view.height / ROW_HEIGHT) - 1);
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page }[event.key];
    if (step) {
      onActive(Math.min(rows.length - 1, Math.max(0, (active ?? -1) + step)));
      event.preventDefault();
    } else if (event.key === "Enter" && active !== null) {
      onOpen?.(active);
      event.preventDefault();
    } else onKey?.(event);
  };
  return html`<div class="rows" ref=${box} tabindex="0" role=${role} aria-label=${label} aria-activedescendant=${active === null ? undefined : `row-${active}`}
      onScroll=${(event) => setView({ top: event.currentTarget.scrollTop, height: event.currentTarget.clientHeight })} onKeyDown=${key}>
    <div class="rows-all" role="presentation" style=${{ height: `${rows.length * ROW_HEIGHT}px` }}>
      <div class="rows-view" role="presentation" style=${{ transform: `translateY(${begin * ROW_HEIGHT}px)` }}>
        ${rows.slice(begin, end).map((row, i) => renderRow(row, begin + i, begin + i === active))}
      </div>
    </div>
  </div>`;
}
