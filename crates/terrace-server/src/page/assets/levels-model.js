// Geometry of the picture of levels: rows, lanes of level 0, the table at a point, and the tables beside it.
// It draws nothing.
import { ramp } from "./palette.js";

// Fields of a table in the reply of the server.
export const NUMBER = 0;
export const LEVEL = 1;
export const LEFT = 2;
export const RIGHT = 3;
export const BYTES = 4;
export const ENTRIES = 5;
export const CREATED = 6;
export const READS = 7;

export const SHADES = 24;
const MEMTABLE_ROW = 32;
const LEVEL_0_ROW = 56;
const LEVEL_ROW = 28;
// Age that is never the colour of the newest tables: an hour.
const OLD = Math.log1p(3600);
// Lanes of level 0 before they become thinner.
const MIN_LANES = 12;

// Rows of the picture, and the tables of each level in key order. Tables of level 0 overlap: each has
// a lane of its own, the oldest at the bottom.
export function arrange(state) {
  const rows = [{ kind: "memtables", top: 0, height: MEMTABLE_ROW }];
  let top = MEMTABLE_ROW;
  const levels = [];
  for (const level of withoutEmptyEnd(state.levels)) {
    const height = level.level === 0 ? LEVEL_0_ROW : LEVEL_ROW;
    const row = { kind: "level", level: level.level, top, height, facts: level, tables: [], lanes: 1 };
    rows.push(row);
    levels[level.level] = row;
    top += height;
  }
  const places = new Map();
  for (const table of state.tables) levels[table[LEVEL]]?.tables.push(table);
  for (const row of levels) {
    if (!row) continue;
    const byLane = row.level === 0;
    row.tables.sort(byLane ? (a, b) => a[NUMBER] - b[NUMBER] : (a, b) => a[LEFT] - b[LEFT]);
    if (byLane) row.lanes = Math.max(row.tables.length, MIN_LANES);
    row.tables.forEach((table, index) => places.set(table[NUMBER], { row, index }));
  }
  return { state, rows, levels, places, height: top };
}

// Levels below the deepest table are empty.
function withoutEmptyEnd(levels) {
  let end = levels.length;
  while (end > 2 && !levels[end - 1].files) end -= 1;
  return levels.slice(0, end);
}

// Vertical extent of the table at `index` of a row.
export function extent(row, index) {
  if (row.level !== 0) return [row.top + 4, row.height - 8];
  const lane = (row.height - 8) / row.lanes;
  return [row.top + row.height - 4 - lane * (index + 1), lane];
}

// Function from a table to a shade between 0 and SHADES - 1.
export function shadeBy(mode, state) {
  const { tables } = state;
  const greatest = (read) => tables.reduce((most, table) => Math.max(most, read(table)), 1e-9);
  const scaled = (read, most) => (table) => Math.min(SHADES - 1, Math.floor((read(table) / most) * SHADES));
  if (mode === "reads") {
    const read = (table) => Math.log1p(table[READS]);
    return scaled(read, greatest(read));
  }
  if (mode === "size") {
    const read = (table) => table[BYTES];
    return scaled(read, greatest(read));
  }
  const age = (table) => Math.log1p(Math.max(0, state.at - table[CREATED]) / 1000);
  const oldest = Math.max(greatest(age), OLD);
  return scaled((table) => oldest - age(table) * 0.98, oldest);
}

export const shades = (colours) => ramp(colours["ramp-low"], colours["ramp-high"], SHADES);

// The table at a point, or null: {row, index}. `x` is a position in key order.
export function tableAt(model, x, y, slack) {
  const row = model.rows.find((candidate) => y >= candidate.top && y < candidate.top + candidate.height);
  if (!row || row.kind !== "level" || !row.tables.length) return null;
  if (row.level === 0) {
    const lane = Math.floor((row.top + row.height - 4 - y) / ((row.height - 8) / row.lanes));
    const table = row.tables[lane];
    return table && x >= table[LEFT] - slack && x <= table[RIGHT] + slack ? { row, index: lane } : null;
  }
  const index = nearest(row.tables, x);
  const table = row.tables[index];
  return x >= table[LEFT] - slack && x <= table[RIGHT] + slack ? { row, index } : null;
}

// Index of the last table that begins at or before `x`; the first table if there is none.
export function nearest(tables, x) {
  let low = 0;
  let high = tables.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (tables[middle][LEFT] <= x) low = middle + 1;
    else high = middle;
  }
  return Math.max(0, low - 1);
}

// Number of the table at a place, or undefined.
export const numberOf = (place) => place?.row.tables[place.index]?.[NUMBER];

// The place in `model` of the table at a place of any model; null if the table is gone.
export const same = (model, place) => model.places.get(numberOf(place)) ?? null;

// Next table in a direction: left and right in a row, up and down to the row of another level.
// `from` may be a place of the model before this one: keys come before the effects of a drawing.
export function neighbour(model, from, key) {
  const place = same(model, from);
  const rows = model.rows.filter((row) => row.kind === "level" && row.tables.length);
  if (!rows.length) return null;
  if (!place) return { row: rows[0], index: 0 };
  const { row, index } = place;
  const step = { ArrowLeft: -1, ArrowRight: 1 }[key];
  if (step) return { row, index: Math.min(row.tables.length - 1, Math.max(0, index + step)) };
  if (key === "Home") return { row, index: 0 };
  if (key === "End") return { row, index: row.tables.length - 1 };
  const other = rows[rows.indexOf(row) + (key === "ArrowDown" ? 1 : -1)];
  if (!other) return place;
  const table = row.tables[index];
  return { row: other, index: nearest(other.tables, (table[LEFT] + table[RIGHT]) / 2) };
}
