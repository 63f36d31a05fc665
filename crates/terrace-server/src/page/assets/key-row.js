// One line for a key: its text, type, size and time to live.
import { html } from "./preact-htm.js";
import { oneLine } from "./bytes.js";
import { bytes, count, duration } from "./format.js";

const NOUNS = { hash: "fields", list: "elements", set: "members", zset: "members", stream: "entries" };

export const nounOf = (type) => NOUNS[type] ?? "members";
export const isString = (type) => type === "string" || type === "raw";

function sizeOf(entry) {
  if (entry.size == null) return "";
  return isString(entry.type) ? bytes(entry.size) : `${count(entry.size)} ${nounOf(entry.type)}`;
}

export function KeyRow({ id, entry, role, level, active, chosen, onClick, name }) {
  const expiry = entry.ttlMs == null ? "" : `expires in ${duration(entry.ttlMs / 1000)}`;
  return html`<div class="row key" id=${id} role=${role} aria-level=${level} aria-selected=${Boolean(chosen)} data-active=${active} onClick=${onClick} style=${level ? { paddingLeft: `${level * 16 + 8}px` } : undefined}>
    <bdi class="name" data-hex=${entry.key.hex !== undefined}>${name ?? oneLine(entry.key)}</bdi>
    ${entry.scheme && html`<span class="scheme">${entry.scheme}</span>`}
    ${expiry && html`<span class="ttl" title=${expiry}>ttl</span>`}
    <span class="type">${entry.type}</span><span class="size">${sizeOf(entry)}</span>
  </div>`;
}
