// Panel of the keys: search by prefix, tree or list, and the value of the chosen key.
import { html, useEffect, useRef, useState } from "./preact-htm.js";
import { keyArgument, parseEscapes } from "./bytes.js";
import { KeyList } from "./key-list.js";
import { KeyTree } from "./key-tree.js";
import { Viewer } from "./viewer.js";
import { NewKey } from "./key-edit.js";
import { database, useCell, wantedKey } from "./store.js";
import { Choice } from "./widgets.js";

const SEARCH_DELAY_MS = 200;

function useDelayed(value, milliseconds) {
  const [late, setLate] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setLate(value), milliseconds);
    return () => clearTimeout(timer);
  }, [value]);
  return late;
}

export function Keys() {
  const state = useCell(database);
  const wanted = useCell(wantedKey);
  const [shape, setShape] = useState("tree");
  const [direction, setDirection] = useState("forward");
  const [text, setText] = useState("");
  const [db, setDb] = useState(null);
  const [chosen, setChosen] = useState(null);
  const [start, setStart] = useState(null);
  const [creates, setCreates] = useState(false);
  const [changes, setChanges] = useState(0);
  const prefix = useDelayed(text, SEARCH_DELAY_MS);
  const search = useRef(null);
  const view = useRef(null);

  useEffect(() => {
    if (!wanted) return;
    setShape("list");
    setText("");
    setDirection("forward");
    setStart(wanted.bytes);
  }, [wanted]);
  useEffect(() => {
    const shortcut = (event) => {
      const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) && event.target.type !== "radio";
      if (event.key !== "/" || typing || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      search.current?.focus();
    };
    addEventListener("keydown", shortcut);
    return () => removeEventListener("keydown", shortcut);
  }, []);

  if (!state) return html`<section class="keys" id="keys" aria-busy="true"><h2>Keys</h2></section>`;
  const databases = state.databases ?? [];
  // Other orders have no prefixes of text: the tree of IndexedDB has the ids at the begin of its keys.
  const isBytewise = state.comparator === "leveldb.BytewiseComparator";
  const number = db ?? databases[0] ?? 0;
  const changed = () => setChanges((count) => count + 1);
  const choose = (key) => setChosen({ key, argument: keyArgument(key.key), db: number });
  const shared = { prefix: parseEscapes(prefix), prefixText: prefix, db: number, changes, chosen, onChoose: choose, onOpen: () => view.current?.focus() };
  return html`<section class="keys" id="keys" aria-labelledby="keys-title">
    <div class="bar"><h2 id="keys-title">Keys</h2>
      <input class="search" type="search" ref=${search} value=${text} onInput=${(event) => { setText(event.target.value); setStart(null); }} placeholder=${`prefix, for example ${isBytewise ? "FR:" : "\\x00\\x01"}`} aria-label="Prefix of the keys. Escapes such as \\xff are allowed. The key / moves here." spellcheck=${false} autocomplete="off" />
      <${Choice} label="Form" options=${[["tree", "tree"], ["list", "list"]]} value=${shape} onChange=${setShape} />
    </div>
    <div class="bar tools">
      ${shape === "list" && html`<${Choice} label="Direction" options=${[["forward", "first to last"], ["backward", "last to first"]]} value=${direction} onChange=${(value) => { setDirection(value); setStart(null); }} />`}
      ${shape === "tree" && html`<span class="sum">${isBytewise ? html`separator <code>${state.separator}</code>` : "by database, object store and index"}</span>`}
      <span class="spring"></span>
      ${databases.length > 1 && html`<label class="field">database <select value=${number} onChange=${(event) => { setDb(Number(event.target.value)); setChosen(null); }}>${databases.map((one) => html`<option key=${one} value=${one}>${one}</option>`)}</select></label>`}
      ${state.pageWrites && html`<button class="quiet" aria-expanded=${creates} onClick=${() => setCreates(!creates)}>new key</button>`}
    </div>
    ${creates && html`<${NewKey} db=${number} onDone=${() => { setCreates(false); changed(); }} />`}
    ${shape === "tree" ? html`<${KeyTree} ...${shared} separator=${state.separator} />` : html`<${KeyList} ...${shared} direction=${direction} start=${start} />`}
    <${Viewer} chosen=${chosen} focus=${view} writes=${state.pageWrites} onChanged=${(gone) => { changed(); if (gone) setChosen(null); }} changes=${changes} />
  </section>`;
}
