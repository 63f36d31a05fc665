// Tree of keys, split at the separator, with the bytes of each prefix.
import { html, useEffect, useRef, useState } from "./preact-htm.js";
import { get } from "./api.js";
import { oneLine, sameBytes, toBytes, toHex } from "./bytes.js";
import { bytes, count } from "./format.js";
import { KeyRow } from "./key-row.js";
import { report } from "./store.js";
import { VirtualList } from "./virtual-list.js";

const PAGE = 200;

const branch = (node, level, parent) => ({ node, level, parent, children: null, next: null, open: false, loading: false });

// Rows in view order: a branch, then its children if it is open, then a row that loads more children.
function flatten(parent, rows = []) {
  for (const child of parent.children ?? []) {
    rows.push(child);
    if (child.open) flatten(child, rows);
  }
  if (parent.next) rows.push({ more: parent, level: parent.level + 1 });
  return rows;
}

// The part of a prefix that its parent does not show.
function ownPart(node, parent) {
  if (node.name) return node.name;
  if (node.prefix.text === undefined || parent?.prefix?.text === undefined) return oneLine(node.prefix);
  return oneLine({ text: node.prefix.text.slice(parent.prefix.text.length) });
}

function Folder({ row, id, active, onToggle }) {
  const { node } = row;
  const keys = node.keys == null ? "" : `${count(node.keys)}${node.keysExact ? "" : "+"}`;
  return html`<div class="row folder" id=${id} role="treeitem" aria-level=${row.level} aria-expanded=${row.open} data-active=${active} onClick=${onToggle} style=${{ paddingLeft: `${row.level * 16 - 8}px` }}>
    <i class="twist" aria-hidden="true"></i><bdi class="name">${ownPart(node, row.parent?.node)}</bdi>
    <span class="type">${keys && `${keys} keys`}</span><span class="size">${bytes(node.bytes)}</span></div>`;
}

export function KeyTree({ prefix, prefixText, db, separator, changes, chosen, onChoose, onOpen }) {
  const root = useRef(null);
  const [, redraw] = useState(0);
  const [active, setActive] = useState(null);
  const [epoch, setEpoch] = useState(0);

  const load = async (parent) => {
    if (parent.loading) return;
    parent.loading = true;
    try {
      const own = parent.node ? toBytes(parent.node.prefix) : prefix;
      const page = await get("tree", { prefix: own, separator, count: PAGE, db }, { cursor: parent.next });
      const children = page.nodes.map((node) => branch(node, parent.level + 1, parent));
      parent.children = [...(parent.children ?? []), ...children];
      parent.next = page.next;
    } catch (error) {
      parent.open = false;
      report(error);
    } finally {
      parent.loading = false;
      redraw((value) => value + 1);
    }
  };
  useEffect(() => {
    root.current = branch(null, 0, null);
    setActive(null);
    setEpoch((value) => value + 1);
    load(root.current);
  }, [prefixText, db]);
  // After a change, the open branches are loaded again in place.
  useEffect(() => {
    if (changes) reopen(root.current, load);
  }, [changes]);

  const rows = root.current ? flatten(root.current) : [];
  const toggle = (row) => {
    row.open = !row.open;
    if (row.open && !row.children) load(row);
    redraw((value) => value + 1);
  };
  const activate = (index) => {
    setActive(index);
    const row = rows[index];
    if (row?.more) load(row.more);
    else if (row?.node.leaf) onChoose(row.node.key);
  };
  const key = (event) => {
    const row = rows[active];
    if (!row || row.more) return;
    if (event.key === "ArrowRight" && !row.node.leaf) {
      if (row.open) activate(active + 1);
      else toggle(row);
    } else if (event.key === "ArrowLeft") {
      if (row.open) toggle(row);
      else if (rows.includes(row.parent)) setActive(rows.indexOf(row.parent));
    } else if (event.key === "Home") activate(0);
    else if (event.key === "End") activate(rows.length - 1);
    else return;
    event.preventDefault();
  };
  const open = (index) => {
    const row = rows[index];
    if (row.more) load(row.more);
    else if (row.node.leaf) onOpen();
    else toggle(row);
  };
  const last = rows[rows.length - 1];
  if (root.current?.children && !rows.length) return html`<p class="empty">No key begins with this prefix.</p>`;
  return html`<${VirtualList} key=${epoch} rows=${rows} active=${active === null ? null : Math.min(active, rows.length - 1)} onActive=${activate} onKey=${key} onOpen=${open}
    onNearEnd=${() => last?.more && load(last.more)} role="tree" label="Tree of keys"
    renderRow=${(row, index, isActive) => renderRow(row, index, isActive, { chosen, activate, toggle, setActive })} />`;
}

function renderRow(row, index, isActive, { chosen, activate, toggle, setActive }) {
  const id = `row-${index}`;
  if (row.more) {
    return html`<div class="row more" key="more-${index}" id=${id} role="treeitem" aria-level=${row.level} data-active=${isActive} onClick=${() => activate(index)} style=${{ paddingLeft: `${row.level * 16 + 8}px` }}>more</div>`;
  }
  const name = ownPart(row.node, row.parent?.node);
  const rowKey = `${row.level}-${toHex(toBytes(row.node.prefix).subarray(0, 64))}-${index}`;
  if (row.node.leaf) {
    return html`<${KeyRow} key=${rowKey} id=${id} entry=${row.node.key} role="treeitem" level=${row.level} name=${name} active=${isActive}
      chosen=${chosen && sameBytes(chosen.key.key, row.node.key.key)} onClick=${() => activate(index)} />`;
  }
  const click = () => {
    setActive(index);
    toggle(row);
  };
  return html`<${Folder} key=${rowKey} row=${row} id=${id} active=${isActive} onToggle=${click} />`;
}

// Loads the children of a branch again, and opens those that were open.
async function reopen(parent, load) {
  const open = new Set((parent.children ?? []).filter((child) => child.open).map((child) => toHex(toBytes(child.node.prefix))));
  Object.assign(parent, { children: null, next: null });
  await load(parent);
  for (const child of parent.children ?? []) {
    if (!open.has(toHex(toBytes(child.node.prefix)))) continue;
    child.open = true;
    await reopen(child, load);
  }
}
