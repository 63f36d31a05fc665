// List of the charts: one row is one chart. A series is [column, words, colour, options].
import { bytes, count, duration, micros, percent } from "./format.js";

// Powers of two, so that labels of bytes are whole numbers.
const BINARY = Array.from({ length: 50 }, (_, exponent) => 2 ** exponent);

export const CHARTS = [
  { id: "throughput", title: "throughput", unit: "per second", format: count, series: [["reads", "reads", "accent"], ["writes", "writes", "second"]] },
  { id: "latency", title: "latency", format: micros, log: true, series: [["p50Us", "p50", "third"], ["p99Us", "p99", "accent"], ["longestUs", "max", "muted"]] },
  { id: "stalls", title: "write stalls", unit: "time for which all writers together waited in a second", format: duration, series: [["stallSeconds", "per second", "warn", { area: true, stepped: true }]], causes: true },
  { id: "compactions", title: "compactions", unit: "bytes per second", format: bytes, steps: BINARY, series: [["flushBytes", "flush", "second"], ["compactionReadBytes", "in", "third"], ["compactionWrittenBytes", "out", "accent"]] },
  { id: "cache", title: "cache", format: percent, top: 1, series: [["cacheHit", "hits", "accent"], ["filterUseful", "filters", "third"]] },
  { id: "memory", title: "memory", format: bytes, steps: BINARY, series: [["memory", "used", "accent", { area: true }]], limit: (state) => state?.memoryLimit },
];

// Columns whose group is as high as its highest second; other groups are means.
export const HIGHEST = new Set(["p99Us", "longestUs"]);
