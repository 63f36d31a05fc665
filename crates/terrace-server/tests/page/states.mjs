// Planted states of a database for the mock server: the figures that the real server would send.
// Each state is a function from a second to changes of the healthy figures.
import { memtables } from "./levels.mjs";

const MIB = 1 << 20;
const GIB = 1 << 30;

const wave = (second, period, depth) => 1 + depth * Math.sin((second / period) * 2 * Math.PI) + 0.05 * Math.sin(second * 1.7);

function healthy(second) {
  const reads = 41200 * wave(second, 300, 0.12);
  const writes = 9600 * wave(second, 200, 0.2);
  return {
    reads, writes, commands: reads + writes, p50Us: 42 * wave(second, 150, 0.1), p99Us: 380 * wave(second, 90, 0.2),
    longestUs: 2100 * wave(second, 40, 0.5), clients: 51, blockedClients: 2, memory: 0.71, free: 41 * GIB, writeAmp: 2.8,
    cacheHit: 0.97 + 0.01 * Math.sin(second / 100), filterUseful: 0.99, flushBytes: second % 25 < 3 ? 38 * MIB : 0,
    compactionReadBytes: second % 60 < 22 ? 88 * MIB * wave(second, 9, 0.1) : 0,
    compactionWrittenBytes: second % 60 < 22 ? 81 * MIB * wave(second, 9, 0.1) : 0,
    stalls: [], health: { state: "ok", words: "healthy", since: null, cause: null }, level0: 3, immutable: 0,
  };
}

// Seconds before now at which the planted state began.
const BEGAN = 190;

export const STATES = {
  healthy: () => ({}),
  "starved-flush": () => ({
    writes: 640, p99Us: 48211, longestUs: 310000, flushBytes: 1.1 * MIB, compactionReadBytes: 0, compactionWrittenBytes: 0,
    stalls: [{ cause: "flush", seconds: 0.83 }], immutable: 4,
    health: { state: "warn", cause: "flush", words: "writes wait for a flush: 4 of 4 immutable memtables, flushes write 1.1 MiB/s" },
  }),
  "level-0-full": () => ({
    writes: 1900, p99Us: 9800, longestUs: 88000, compactionReadBytes: 21 * MIB, compactionWrittenBytes: 19 * MIB,
    stalls: [{ cause: "delayed", seconds: 0.61 }], level0: 34, delayedWriteRate: 2.4 * MIB,
    health: { state: "warn", cause: "delayed", level: 0, words: "writes delayed: level 0 has 34 of 36 runs" },
  }),
  "disk-full": () => ({
    writes: 0, failedWrites: 9600, commands: 38000, flushBytes: 0, compactionReadBytes: 0, compactionWrittenBytes: 0, free: 0, immutable: 1,
    stalls: [{ cause: "no_space", seconds: 1 }],
    health: { state: "bad", cause: "no_space", words: "the disk is full: writes fail" },
  }),
  "cold-cache": (second) => ({
    reads: 2300 * wave(second, 50, 0.1), commands: 12000, p50Us: 610, p99Us: 14200, longestUs: 61000, cacheHit: 0.08 + 0.0004 * second, memory: 0.22,
    health: { state: "warn", cause: "cold_cache", words: "reads slow: the block cache answers 9 % of block reads, and it fills" },
  }),
};

// The figures `age` seconds before now. A planted state begins BEGAN seconds before now.
export function figures(name, now, age) {
  const second = Math.floor(now / 1000) - age;
  const planted = age <= BEGAN ? STATES[name](BEGAN - age) : {};
  const result = { ...healthy(second), ...planted };
  if (result.health.state !== "ok") result.health = { ...result.health, since: now - (BEGAN - age) * 1000 };
  return result;
}

const LIMIT = GIB;

export function sample(name, now, age = 0) {
  const f = figures(name, now, age);
  const total = f.memory * LIMIT;
  return {
    at: now - age * 1000, reads: f.reads, writes: f.writes, failedWrites: f.failedWrites ?? 0, commands: f.commands, p50Us: f.p50Us, p99Us: f.p99Us, longestUs: f.longestUs,
    clients: f.clients, blockedClients: f.blockedClients,
    memory: { total, limit: LIMIT, parts: [{ name: "block cache", bytes: total * 0.7 }, { name: "memtables", bytes: total * 0.2 }, { name: "tables", bytes: total * 0.1 }] },
    disk: { bytes: 3.2 * GIB, free: f.free, writeAmp: f.writeAmp }, memtables: memtables(f.immutable), bytesIn: f.writes * 120, bytesOut: f.reads * 210,
    cacheHit: f.cacheHit, filterUseful: f.filterUseful, stallSeconds: f.stalls.reduce((sum, stall) => sum + stall.seconds, 0), stalls: f.stalls,
    flushBytes: f.flushBytes, compactionReadBytes: f.compactionReadBytes, compactionWrittenBytes: f.compactionWrittenBytes,
    delayedWriteRate: f.delayedWriteRate ?? null, health: f.health,
  };
}

export const COLUMNS = ["at", "reads", "writes", "p50Us", "p99Us", "longestUs", "clients", "memory", "disk", "cacheHit", "filterUseful",
  "stallSeconds", "flushBytes", "compactionReadBytes", "compactionWrittenBytes", "commands", "bytesIn", "bytesOut"];

export function history(name, now, range) {
  const step = range === "week" ? 60 : 1;
  const count = range === "week" ? 7 * 24 * 60 : 3600;
  const rows = [];
  const marks = [];
  for (let age = count - 1; age >= 0; age -= 1) {
    const s = sample(name, now, age * step);
    rows.push(COLUMNS.map((column) => (column === "memory" ? s.memory.total : column === "disk" ? s.disk.bytes : s[column])));
    for (const stall of s.stalls) marks.push({ at: s.at, kind: "stall", cause: stall.cause, seconds: stall.seconds });
  }
  return { step, from: now - count * step * 1000, columns: COLUMNS, rows, marks };
}
