// List of the charts: one row is one chart. A series is [column, words, colour, options].
import { bytes, count, duration, micros, percent } from "./format.js";

const rate = (value) => `${count(value)}/s`;
const byteRate = (value) => `${bytes(value)}/s`;

export const CHARTS = [
  { id: "throughput", title: "throughput", format: rate, series: [["reads", "reads", "accent"], ["writes", "writes", "second"]] },
  { id: "latency", title: "latency", format: micros, log: true, series: [["p50Us", "median", "third"], ["p99Us", "p99", "accent"], ["longestUs", "longest", "muted"]] },
  { id: "stalls", title: "write stalls", format: (value) => `${duration(value)} per second`, top: 1, series: [["stallSeconds", "time", "warn", { bars: true }]], causes: true },
  { id: "compactions", title: "compactions", format: byteRate, series: [["flushBytes", "flushed", "second"], ["compactionReadBytes", "read", "third"], ["compactionWrittenBytes", "written", "accent"]] },
  { id: "cache", title: "cache and filters", format: percent, top: 1, series: [["filterUseful", "filters", "third"], ["cacheHit", "cache hits", "accent"]] },
  { id: "memory", title: "memory", format: bytes, series: [["memory", "used", "accent", { area: true }]], limit: (state) => state?.memoryLimit },
];
