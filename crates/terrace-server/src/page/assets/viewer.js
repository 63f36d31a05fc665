// Value of the chosen key: text, hex, JSON, integers, or the members of an object.
import { html, useEffect, useState } from "./preact-htm.js";
import { get } from "./api.js";
import { decodeText, hexDump, integers, oneLine, toBytes, toHex, visible } from "./bytes.js";
import { bytes, duration, exact } from "./format.js";
import { isString, nounOf } from "./key-row.js";
import { Editor, deleteKey } from "./key-edit.js";
import { copyText } from "./clipboard.js";
import { report } from "./store.js";
import { Choice } from "./widgets.js";

const CHUNK = 65536;
const DELAY_MS = 60;
const FORMS = [["text", "text"], ["hex", "hex"], ["json", "JSON"], ["integers", "integers"]];

function join(a, b) {
  const result = new Uint8Array(a.length + b.length);
  result.set(a);
  result.set(b, a.length);
  return result;
}

// The value so far, and a function that loads the next part of it.
function useValue(chosen, changes) {
  const [state, setState] = useState(null);
  const request = (more, signal) => get("value", { ...chosen.argument, db: chosen.db, count: CHUNK, ...more }, { signal });
  useEffect(() => {
    setState(null);
    if (!chosen) return undefined;
    const stop = new AbortController();
    const loaded = (facts) => setState({ facts, data: toBytes(facts.value), members: facts.members ?? [], next: facts.next ?? null });
    const failed = (error) => error.name !== "AbortError" && setState({ error: error.message });
    const timer = setTimeout(() => request({}, stop.signal).then(loaded, failed), DELAY_MS);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [chosen, changes]);
  const more = async () => {
    try {
      if (state.facts.members) {
        const page = await get("value", { ...chosen.argument, db: chosen.db }, { cursor: state.next });
        setState((old) => ({ ...old, members: [...old.members, ...page.members], next: page.next ?? null }));
      } else {
        const part = await request({ offset: state.data.length });
        setState((old) => ({ ...old, data: join(old.data, toBytes(part.value)) }));
      }
    } catch (error) {
      report(error);
    }
  };
  return [state, more];
}

function asJson(data, isWhole) {
  if (!isWhole) return { error: "The page parses JSON only after it has loaded the whole value." };
  try {
    return { text: visible(JSON.stringify(JSON.parse(decodeText(data)), null, 2), "\n") };
  } catch {
    return { error: "The value is not JSON." };
  }
}

function asText(data, isWhole) {
  const text = decodeText(data, !isWhole);
  return text === null ? { error: "The value is not UTF-8. The form hex shows it." } : { text: visible(text, "\n\t") };
}

function Body({ form, data, isWhole }) {
  if (form === "integers") {
    if (!data.length) return html`<p class="empty">The value is empty.</p>`;
    return html`<table class="list integers"><caption class="hidden">Integers at the begin of the value</caption>
      <thead><tr><th scope="col">first bytes as</th><th scope="col">little endian</th><th scope="col">big endian</th></tr></thead>
      <tbody>${integers(data).map(([name, little, big]) => html`<tr key=${name}><th scope="row">${name}</th><td>${little}</td><td>${big}</td></tr>`)}</tbody></table>`;
  }
  const result = form === "json" ? asJson(data, isWhole) : form === "hex" ? { text: hexDump(data) } : asText(data, isWhole);
  if (result.error) return html`<p class="empty">${result.error}</p>`;
  return html`<pre class=${form} dir="ltr"><bdi>${result.text}</bdi></pre>`;
}

const MEMBER_HEADS = { hash: ["field", "value"], list: ["index", "element"], set: ["member"], zset: ["member", "score"], stream: ["entry", "fields"] };

const memberText = (part) => (part !== null && typeof part === "object" ? oneLine(part, 500) : String(part ?? ""));

function Members({ type, members }) {
  const heads = MEMBER_HEADS[type] ?? ["member", "value"];
  return html`<table class="list members"><thead><tr>${heads.map((head) => html`<th scope="col" key=${head}>${head}</th>`)}</tr></thead>
    <tbody>${members.map((member, i) => html`<tr key=${i}>${heads.map((head, column) => html`<td key=${head}><bdi>${memberText(member[column])}</bdi></td>`)}</tr>`)}</tbody></table>`;
}

function copyOf(form, { facts, data, members }) {
  if (facts.members) return members.map((member) => member.map(memberText).join("\t")).join("\n");
  if (form === "hex") return toHex(data);
  return decodeText(data, data.length < facts.value.total) ?? hexDump(data);
}

export function Viewer({ chosen, focus, writes, onChanged, changes }) {
  const [form, setForm] = useState("text");
  const [edits, setEdits] = useState(false);
  const [state, more] = useValue(chosen, changes);
  useEffect(() => setEdits(false), [chosen]);
  const whole = !state?.data || state.data.length >= (state.facts?.value?.total ?? 0);
  // A value that is no text opens as hex.
  useEffect(() => {
    if (state?.data && !state.facts.members && form === "text" && decodeText(state.data, !whole) === null) setForm("hex");
  }, [state?.facts]);
  if (!chosen) return html`<div class="viewer" ref=${focus} tabindex="-1"><p class="empty">Choose a key to see its value.</p></div>`;
  const entry = state?.facts ?? chosen.key;
  const hasMore = state?.facts && (state.facts.members ? state.next : !whole);
  const remove = async () => (await deleteKey(chosen, onChanged)) && onChanged(true);
  return html`<div class="viewer" ref=${focus} tabindex="-1" aria-label="Value" role="region">
    <div class="bar"><h3><bdi>${oneLine(chosen.key.key, 300)}</bdi></h3>
      <button class="quiet" onClick=${() => copyText(oneLine(chosen.key.key, Infinity), chosen.key.key.total ? "begin of the key" : "key")}>copy key</button></div>
    <div class="bar tools">
      <span class="sum">${entry.type}, ${isString(entry.type) ? bytes(entry.size) : `${exact(entry.size)} ${nounOf(entry.type)}`}${entry.ttlMs == null ? "" : `, expires in ${duration(entry.ttlMs / 1000)}`}</span>
      <span class="spring"></span>
      ${isString(entry.type) && html`<${Choice} label="Form of the value" options=${FORMS} value=${form} onChange=${setForm} />`}
    </div>
    ${edits ? html`<${Editor} chosen=${chosen} data=${state.data} onDone=${(written) => { setEdits(false); if (written) onChanged(false); }} onUndone=${() => onChanged(false)} />` : html`
      <div class="value" tabindex="0" role="region" aria-label="Content of the value">
        ${state?.error && html`<p class="empty">${state.error}</p>`}
        ${state?.facts && (state.facts.members ? html`<${Members} type=${entry.type} members=${state.members} />` : html`<${Body} form=${form} data=${state.data} isWhole=${whole} />`)}
        ${hasMore && html`<button class="quiet" onClick=${more}>${state.facts.members ? "more members" : `load more: ${bytes(state.data.length)} of ${bytes(state.facts.value.total)}`}</button>`}
      </div>
      <div class="bar tools">
        ${state?.facts && html`<button class="quiet" onClick=${() => copyText(copyOf(form, state), "value")}>copy value</button>`}
        <span class="spring"></span>
        ${writes && state?.facts && html`${isString(entry.type) && whole && html`<button class="quiet" onClick=${() => setEdits(true)}>edit</button>`}
          <button class="quiet danger" onClick=${remove}>delete</button>`}
      </div>`}
  </div>`;
}
