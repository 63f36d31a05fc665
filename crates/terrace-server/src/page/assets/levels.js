// Panel of the levels: the picture, its figures, the history, and the table of all files.
import { html, useEffect, useMemo, useRef, useState } from "./preact-htm.js";
import { get } from "./api.js";
import { oneLine, toBytes, userKey } from "./bytes.js";
import { bytes, count, duration, exact, fileName, percent, plural } from "./format.js";
import { concerns } from "./health.js";
import { LevelsCanvas } from "./levels-canvas.js";
import { History } from "./levels-history.js";
import { BYTES, CREATED, ENTRIES, LEVEL, NUMBER, READS, arrange, neighbour, numberOf, same } from "./levels-model.js";
import { TableOfFiles } from "./levels-table.js";
import { usePalette } from "./palette.js";
import { database, jobs as liveJobs, latestEdit, report, sample, useCell, useReply, wantedKey } from "./store.js";
import { Choice } from "./widgets.js";

const MODES = [["age", "age"], ["reads", "reads"], ["size", "size"]];
const ENDS = { age: ["old", "new"], reads: ["few", "many"], size: ["small", "large"] };
// Minimum time between two loads of the levels: a busy database has many edits each second.
const RELOAD_MS = 500;

// The levels after `edit`, or now if it is null. A newer request replaces one that waits.
function useLevels(edit) {
  const latest = useCell(latestEdit);
  const [state, setState] = useState(null);
  const loader = useRef({ busy: false, wanted: undefined, timer: 0 });
  const wanted = edit === null ? `live:${latest}` : edit;
  useEffect(() => {
    const own = loader.current;
    own.wanted = edit;
    own.dirty = true;
    const run = async () => {
      if (own.busy || !own.dirty) return;
      own.busy = true;
      own.dirty = false;
      try {
        setState(await get("levels", { edit: own.wanted }));
      } catch (error) {
        report(error);
      }
      const pause = own.wanted === null ? RELOAD_MS : 0;
      own.timer = setTimeout(() => {
        own.busy = false;
        run();
      }, pause);
    };
    run();
  }, [wanted]);
  useEffect(() => () => clearTimeout(loader.current.timer), []);
  return state;
}

function Figures({ model, memtables, marks }) {
  return html`<table class="level-figures">
    <caption class="hidden">Levels</caption>
    <thead><tr><th class="name" scope="col"><span class="hidden">level</span></th><th scope="col">size</th><th scope="col" class="wide">files</th><th scope="col">score</th></tr></thead>
    <tbody>
      <tr style=${{ height: `${model.rows[0].height}px` }} data-mark=${marks.get("memtables")}>
        <th scope="row"><span class="hidden">memtables</span></th><td>${bytes(memtables.reduce((sum, one) => sum + one.bytes, 0))}</td>
        <td class="wide">${memtables.length}</td><td></td></tr>
      ${model.rows.slice(1).map(({ facts, height }) => html`<tr key=${facts.level} style=${{ height: `${height}px` }} data-mark=${marks.get(`level:${facts.level}`)}>
        <th scope="row"><span class="hidden">${facts.level}</span></th>
        <td title=${facts.limit ? `target ${bytes(facts.limit)}` : ""}>${bytes(facts.bytes)}</td>
        <td class="wide">${exact(facts.files)}${facts.runsLimit ? html` <span class="of">${exact(facts.runs)}/${facts.runsLimit} runs</span>` : ""}</td>
        <td class=${facts.score >= 1 ? "over" : ""}><span class="meter"><i style=${{ width: `${Math.min(100, facts.score * 50)}%` }}></i></span>${facts.score ? facts.score.toFixed(1) : "–"}</td>
      </tr>`)}
    </tbody>
  </table>`;
}

function jobWords(job) {
  const speed = job.bytesPerSecond ? `, ${bytes(job.bytesPerSecond)}/s` : "";
  const done = job.progress == null ? "" : `: ${percent(job.progress)}`;
  if (job.kind === "flush") return `flushing a memtable${done}${speed}`;
  return `compacting ${job.from} › ${job.to}${done}${speed}${job.reason ? `, reason: ${job.reason}` : ""}`;
}

function memtableWords(memtables) {
  const waiting = memtables.filter((one) => one.state === "immutable").length;
  const flushing = memtables.filter((one) => one.state === "flushing").length;
  const active = memtables.find((one) => one.state === "active");
  const size = active && bytes(active.bytes) + (active.limit ? ` of ${bytes(active.limit)}` : "");
  const parts = [active && `${count(active.entries)} ${active.entries === 1 ? "entry" : "entries"}`, size, flushing && `${flushing} being flushed`, waiting && `${waiting} waiting`];
  return parts.filter(Boolean).join(", ");
}

// Smallest or largest key of a table; a key of a user leads to the list of keys.
function EndOfTable({ recordKey }) {
  const key = userKey(recordKey, useCell(database)?.layout);
  if (!key) return html`<bdi class="sum">${oneLine(recordKey, 16)}</bdi>`;
  return html`<button class="link" title="Show in the list of keys" onClick=${() => wantedKey.set({ bytes: toBytes(key) })}><bdi>${oneLine(key, 40)}</bdi></button>`;
}

// The sentence about one table; its keys come from a request of their own.
function Detail({ table, now }) {
  const facts = useReply("table", table && { number: table[NUMBER] }, 120);
  if (!table) return null;
  const parts = [`level ${table[LEVEL]}`, bytes(table[BYTES]), table[ENTRIES] != null && `${exact(table[ENTRIES])} entries`, `${count(table[READS])} reads`, `${duration((now - table[CREATED]) / 1000)} old`];
  return html`<span class="detail"><b>${fileName(table[NUMBER])}</b> ${parts.filter(Boolean).join(" · ")}
    ${facts && html` · <${EndOfTable} recordKey=${facts.smallest} /> … <${EndOfTable} recordKey=${facts.largest} />`}</span>`;
}

const MOVES = new Set(["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"]);

function Picture({ model, memtables, jobs, mode, painter, onHover, onSelect, onView }) {
  const holder = useRef(null);
  const canvas = useRef(null);
  const colours = usePalette();
  useEffect(() => {
    const own = new LevelsCanvas(canvas.current);
    painter.current = own;
    const observer = new ResizeObserver(() => own.resize(holder.current.clientWidth, holder.current.clientHeight));
    observer.observe(holder.current);
    const wheel = (event) => {
      if (!event.ctrlKey && document.documentElement.scrollHeight > innerHeight + 1) return;
      event.preventDefault();
      own.zoom(event.deltaY < 0 ? 1.25 : 0.8, event.offsetX / own.width);
      onView(own.view);
    };
    canvas.current.addEventListener("wheel", wheel, { passive: false });
    return () => {
      observer.disconnect();
      own.destroy();
    };
  }, []);
  useEffect(() => painter.current.set({ model, mode, colours }), [model, mode, colours]);
  useEffect(() => {
    const own = painter.current;
    Object.assign(own, { hover: same(model, own.hover), selected: same(model, own.selected) });
  }, [model]);
  useEffect(() => {
    Object.assign(painter.current, { jobs, memtables }).request();
  }, [jobs, memtables]);

  const drag = useRef(null);
  const move = (event) => {
    const own = painter.current;
    if (drag.current && own.view.span < 1) {
      own.look(drag.current.from - ((event.offsetX - drag.current.x) / own.width) * own.view.span);
      onView(own.view);
      return;
    }
    own.hover = own.hit(event.offsetX, event.offsetY);
    own.request();
    onHover(own.hover);
  };
  const leave = () => {
    painter.current.hover = null;
    painter.current.request();
    drag.current = null;
    onHover(null);
  };
  const press = (event) => {
    const own = painter.current;
    drag.current = { x: event.offsetX, from: own.view.from };
    select(own.hit(event.offsetX, event.offsetY));
  };
  const select = (place) => {
    painter.current.selected = place;
    painter.current.request();
    onSelect(place);
  };
  const key = (event) => {
    const own = painter.current;
    if (MOVES.has(event.key)) {
      const place = neighbour(model, own.selected, event.key);
      select(place);
      if (place) own.reveal(place.row.tables[place.index]);
    } else if (event.key === "+" || event.key === "=") own.zoom(1.6);
    else if (event.key === "-") own.zoom(1 / 1.6);
    else if (event.key === "0") own.look(0, 1);
    else if (event.key === "Escape") select(null);
    else return;
    event.preventDefault();
    onView(own.view);
  };
  return html`<div class="level-picture" ref=${holder} style=${{ height: `${model.height}px` }}>
    <canvas ref=${canvas} tabindex="0" role="img" aria-label="Tables of each level in key order. Arrow keys select a table, plus and minus zoom. The button 'files' shows the same facts as a table."
      onPointerMove=${move} onPointerLeave=${leave} onPointerDown=${press} onPointerUp=${() => { drag.current = null; }} onKeyDown=${key}></canvas>
    <span class="memtable-words">${memtableWords(memtables)}</span>
  </div>`;
}

function Zoom({ painter, view, onView }) {
  const act = (change) => () => {
    change(painter.current);
    onView(painter.current.view);
  };
  return html`<span class="group" role="group" aria-label="Zoom">
    <button class="quiet icon" onClick=${act((own) => own.zoom(1 / 1.6))} aria-label="Zoom out" disabled=${view.span >= 1}>−</button>
    <button class="quiet icon" onClick=${act((own) => own.zoom(1.6))} aria-label="Zoom in">+</button>
    <button class="quiet" onClick=${act((own) => own.look(0, 1))} disabled=${view.span >= 1}>all</button>
  </span>`;
}

export function Levels() {
  const [edit, setEdit] = useState(null);
  const [mode, setMode] = useState("age");
  const [view, setView] = useState({ from: 0, span: 1 });
  const [hover, setHover] = useState(null);
  const [selected, setSelected] = useState(null);
  const [asTable, setAsTable] = useState(false);
  const painter = useRef(null);
  const state = useLevels(edit);
  const running = useCell(liveJobs);
  const layout = useCell(database)?.layout;
  const second = useCell(sample);
  const marks = concerns(second);
  const model = useMemo(() => state && arrange(state), [state]);
  if (!model) return html`<section class="levels" aria-busy="true"><h2>Levels</h2></section>`;
  const live = edit === null;
  const jobs = (live && running) || state.jobs || [];
  const memtables = (live && second?.memtables) || state.memtables;
  const table = numberOf(selected) ?? numberOf(hover);
  const shown = table === undefined ? null : placed(model, table);
  const end = (key) => oneLine(userKey(key, layout) ?? key, 30);
  const { smallest, largest } = state.keyRange ?? {};
  return html`<section class="levels" aria-labelledby="levels-title" data-past=${!live}>
    <div class="bar"><h2 id="levels-title">Levels</h2>
      <span class="sum">${plural(state.tables.length, "table")}</span>
      <span class="spring"></span>
      <${Choice} label="colour" options=${MODES} value=${mode} onChange=${setMode} />
      <span class="scale" aria-hidden="true">${ENDS[mode][0]}<i></i>${ENDS[mode][1]}</span>
      <${Zoom} painter=${painter} view=${view} onView=${setView} />
      <button class="quiet" aria-pressed=${asTable} onClick=${() => setAsTable(!asTable)}>files</button>
    </div>
    <div class="level-grid">
      <div class="axis"><bdi>${view.span === 1 ? end(smallest) : percent(view.from)}</bdi><i></i><bdi>${view.span === 1 ? end(largest) : percent(view.from + view.span)}</bdi></div>
      <div class="level-labels" aria-hidden="true">${model.rows.map((row) => {
        const part = row.kind === "memtables" ? "memtables" : `level:${row.level}`;
        return html`<span key=${part} style=${{ height: `${row.height}px` }} data-mark=${marks.get(part)}>${row.kind === "memtables" ? "mem" : row.level}</span>`;
      })}</div>
      <${Picture} model=${model} memtables=${memtables} jobs=${jobs} mode=${mode} painter=${painter} onView=${setView}
        onHover=${setHover} onSelect=${setSelected} />
      <${Figures} model=${model} memtables=${memtables} marks=${marks} />
    </div>
    <div class="bar foot">
      <div class="status" aria-live="polite">${shown ? html`<${Detail} table=${shown} now=${state.at} />` : jobs.map((job) => html`<span class="job">${jobWords(job)}</span>`)}
        ${!shown && !jobs.length && html`<span class="job idle">no flush and no compaction</span>`}</div>
      <${History} state=${state} edit=${edit} onEdit=${setEdit} />
    </div>
    ${asTable && html`<${TableOfFiles} state=${state} />`}
  </section>`;
}

function placed(model, number) {
  const place = model.places.get(number);
  return place ? place.row.tables[place.index] : null;
}
