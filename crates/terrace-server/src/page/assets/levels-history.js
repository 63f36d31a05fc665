// Slider over the version edits that the server keeps, with the words of the edit it shows.
import { html } from "./preact-htm.js";
import { exact, time } from "./format.js";
import { useReply } from "./store.js";

export function History({ state, edit, onEdit }) {
  const live = edit === null;
  const last = Math.max(0, state.edits - 1);
  const value = live ? last : Math.min(edit, last);
  const words = useReply("edits", live ? null : { from: value, count: 1 })?.[0].words;
  const go = (to) => onEdit(to >= last ? null : Math.max(0, to));
  const text = live ? "live" : `edit ${exact(value + 1)} of ${exact(state.edits)}, ${time(state.at)}${words ? `, ${words}` : ""}`;
  return html`<div class="history" role="group" aria-label="History of the levels">
    <span class="when" aria-live="polite">${live ? time(state.at) : text}</span>
    <button class="quiet icon" onClick=${() => go(value - 1)} disabled=${value === 0} aria-label="Previous edit">‹</button>
    <input type="range" min="0" max=${last} value=${value} onInput=${(event) => go(Number(event.target.value))} aria-label="Version edit" aria-valuetext=${text} />
    <button class="quiet icon" onClick=${() => go(value + 1)} disabled=${live} aria-label="Next edit">›</button>
    <button class="quiet live" aria-pressed=${live} onClick=${() => onEdit(null)}>live</button>
  </div>`;
}
