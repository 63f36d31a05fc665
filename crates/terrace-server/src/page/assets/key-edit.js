// Changes of keys. The server keeps the state before a change for ten seconds, for the button "undo".
import { html, useEffect, useRef, useState } from "./preact-htm.js";
import { post } from "./api.js";
import { decodeText, encodeText, fromHex, oneLine, parseEscapes, toHex } from "./bytes.js";
import { notice, report } from "./store.js";
import { Choice } from "./widgets.js";

const UNDO_MS = 10000;
const FORMS = [["text", "text"], ["hex", "hex"]];

// Makes a change, and offers to undo it. Returns true if the server accepted it.
async function change(path, content, words, onUndone) {
  try {
    const { undo } = await post(path, content);
    notice.set({ words, until: Date.now() + UNDO_MS, undo: () => post("undo", { undo }).then(() => {
      notice.set({ words: "The change was undone." });
      onUndone();
    }, report) });
    return true;
  } catch (error) {
    report(error);
    return false;
  }
}

export const deleteKey = ({ key, argument, db }, onUndone) => change("delete", { ...argument, db }, `Deleted ${oneLine(key.key, 40)}.`, () => onUndone(false));

const parseHex = (text) => {
  const digits = text.replace(/\s+/g, "");
  return /^([0-9a-f]{2})*$/i.test(digits) ? fromHex(digits) : null;
};

const formOf = (data) => (decodeText(data) !== null && encodeText(decodeText(data)).length === data.length ? "text" : "hex");
const inForm = (data, form) => (form === "text" ? decodeText(data) : toHex(data).replace(/(.{2})(?=.)/g, "$1 "));
const parsed = (text, form) => (form === "text" ? encodeText(text) : parseHex(text));

export function Editor({ chosen, data, onDone, onUndone }) {
  const [form, setForm] = useState(formOf(data));
  const [text, setText] = useState(inForm(data, form));
  const area = useRef(null);
  useEffect(() => area.current.focus(), []);
  const value = parsed(text, form);
  const save = async () => {
    const content = { ...chosen.argument, db: chosen.db, value, ttlMs: chosen.key.ttlMs ?? null };
    if (await change("value", content, `Changed ${oneLine(chosen.key.key, 40)}.`, onUndone)) onDone(true);
  };
  const switchForm = (next) => {
    if (!value || (next === "text" && formOf(value) !== "text")) return;
    setForm(next);
    setText(inForm(value, next));
  };
  return html`<form class="editor" onSubmit=${(event) => { event.preventDefault(); if (value) save(); }}>
    <textarea ref=${area} value=${text} onInput=${(event) => setText(event.target.value)} aria-label="New value" aria-invalid=${!value} spellcheck=${false}></textarea>
    <div class="bar tools"><${Choice} label="Form of the new value" options=${FORMS} value=${form} onChange=${switchForm} />
      ${!value && html`<span class="wrong">Hex needs an even number of digits 0 to f.</span>`}<span class="spring"></span>
      <button type="button" class="quiet" onClick=${() => onDone(false)}>cancel</button><button class="main" disabled=${!value}>save</button></div>
  </form>`;
}

export function NewKey({ db, onDone }) {
  const [key, setKey] = useState("");
  const [value, setValue] = useState("");
  const save = async (event) => {
    event.preventDefault();
    const content = { key: parseEscapes(key), db, value: parseEscapes(value), ttlMs: null };
    if (key && (await change("value", content, `Wrote ${oneLine({ text: key }, 40)}.`, onDone))) onDone();
  };
  return html`<form class="new-key bar tools" onSubmit=${save}>
    <input value=${key} onInput=${(event) => setKey(event.target.value)} placeholder="key" aria-label="New key. Escapes such as \\xff are allowed." spellcheck=${false} />
    <input value=${value} onInput=${(event) => setValue(event.target.value)} placeholder="value" aria-label="Its value. Escapes such as \\xff are allowed." spellcheck=${false} />
    <button class="main" disabled=${!key}>write</button>
  </form>`;
}
