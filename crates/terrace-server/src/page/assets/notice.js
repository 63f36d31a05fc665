// The line at the foot of the page: the result of an action, with an undo that lasts ten seconds.
import { html, useEffect, useState } from "./preact-htm.js";
import { notice, useCell } from "./store.js";

const SHOWN_MS = 5000;

export function Notice() {
  const current = useCell(notice);
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    if (!current) return undefined;
    setNow(Date.now());
    const until = current.until ?? Date.now() + SHOWN_MS;
    const timer = setInterval(() => {
      setNow(Date.now());
      if (Date.now() >= until) notice.set(null);
    }, 500);
    return () => clearInterval(timer);
  }, [current]);
  const left = current?.until ? Math.max(0, Math.ceil((current.until - now) / 1000)) : 0;
  return html`<div class="notice" role="status" data-shown=${current ? "yes" : "no"} data-bad=${Boolean(current?.bad)}>
    ${current && html`<span>${current.words}</span>${current.undo && html`<button class="main" onClick=${current.undo}>undo <span aria-hidden="true">${left}</span></button>`}
      <button class="quiet" onClick=${() => notice.set(null)} aria-label="Close">close</button>`}
  </div>`;
}
