// Tables of a planted database for the mock server, and their history.
import { figures } from "./states.mjs";

const MIB = 1 << 20;

// Numbers between 0 and 1 that are the same in every run.
export function random(seed) {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

// Key of the engine for a key of a user, in the typed layout.
const record = (key) => ({ hex: `010000${Buffer.from(key).toString("hex")}` });

function run(level, count, next, now, tables, first) {
  const cuts = Array.from({ length: count - 1 }, next).sort((a, b) => a - b);
  const edges = [0, ...cuts, 1];
  for (let i = 0; i < count; i += 1) {
    const gap = (edges[i + 1] - edges[i]) * 0.04;
    const heat = Math.exp(-(((edges[i] - 0.62) / 0.12) ** 2));
    tables.push([first + i, level, edges[i] + gap, edges[i + 1] - gap, Math.round((1.2 + next()) * MIB), Math.round(20000 + next() * 20000),
      now - Math.round(next() ** 2 * 3600e3 * (level * level + 0.2)), Math.round(next() * 50 + heat * 9000)]);
  }
}

// The levels of a state. `large` plants 20,000 tables.
export function levels(name, now, large, edit, edits) {
  const { level0, immutable } = figures(name, now, 0);
  const next = random(7 + (edits - edit));
  const tables = [];
  for (let i = 0; i < level0; i += 1) {
    const left = next() * 0.25;
    tables.push([90000 + i, 0, left, 0.7 + next() * 0.3, 4 * MIB, 41000, now - (level0 - i) * 9000, Math.round(next() * 400)]);
  }
  const counts = large ? [0, 40, 360, 3600, 16000] : [0, 9, 38, 160];
  counts.forEach((count, level) => count && run(level, count, next, now, tables, level * 20000));
  const list = counts.map((_, level) => {
    const own = tables.filter((table) => table[1] === level);
    const bytes = own.reduce((sum, table) => sum + table[4], 0);
    const limit = level === 0 ? null : 16 * MIB * 8 ** (level - 1) * (large ? 6 : 1);
    return { level, bytes, limit, files: own.length, runs: level === 0 ? own.length : 1, runsLimit: level === 0 ? 36 : null, score: level === 0 ? level0 / 4 : bytes / limit };
  });
  return {
    edit, edits, at: now - (edits - 1 - edit) * 20000, keyRange: { smallest: record("AD/Andorra"), largest: record("ZW/Harare") },
    memtables: memtables(immutable), levels: list, tables, jobs: jobs(name, now, tables),
  };
}

export function memtables(immutable) {
  const list = [{ bytes: immutable ? 7.9 * MIB : 5.1 * MIB, limit: 8 * MIB, entries: 30211, state: "active" }];
  for (let i = 0; i < immutable; i += 1) list.push({ bytes: 8 * MIB, limit: 8 * MIB, entries: 48000, state: i ? "immutable" : "flushing" });
  return list;
}

export function jobs(name, now, tables) {
  if (name === "disk-full") return [];
  const progress = (now % 20000) / 20000;
  const inputs = tables.filter((table) => (table[1] === 1 || table[1] === 2) && table[2] > 0.3 && table[3] < 0.52).map((table) => table[0]);
  const list = [{ kind: "compaction", from: 1, to: 2, reason: "LevelSize", progress, bytesPerSecond: 84 * MIB, inputs, startedAt: now - 4000 }];
  if (name === "starved-flush") list.splice(0, 1, { kind: "flush", from: 0, to: 0, reason: "", progress: 0.12, bytesPerSecond: 1.1 * MIB, inputs: [], startedAt: now - 9000 });
  return list;
}
