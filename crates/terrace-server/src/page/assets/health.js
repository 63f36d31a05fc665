// The parts of the page that a cause of slow operations concerns. The page marks them, so that the
// eye finds the cause. The names of write stalls are those of docs/guide/monitoring.md.

const OTHER = { colour: "cause-other", short: "waiting", parts: ["figure:p99", "chart:stalls"] };
const STOPPED = ["figure:writes", "chart:stalls"];
const FULL = { colour: "cause-space", short: "disk full", parts: ["figure:disk", ...STOPPED] };

// Cause: colour of its marks, one word for the parts, words for the charts, and the parts of the page.
const CAUSES = {
  delayed: { colour: "cause-compaction", short: "delayed", words: "delayed: compactions lag", parts: STOPPED },
  compaction: { colour: "cause-compaction", short: "stopped", words: "waited for a compaction: level 0 is full", parts: STOPPED, level: 0 },
  flush: { colour: "cause-flush", short: "waiting", words: "waited for a flush", parts: ["figure:writes", "memtables", "chart:stalls", "chart:compactions"] },
  no_space: { ...FULL, words: "waited for disk space" },
  new_log: { ...OTHER, words: "waited for a new log file" },
  publish: { ...OTHER, words: "waited for earlier writes" },
  sync: { ...OTHER, words: "waited for a sync" },
  cold_cache: { ...OTHER, short: "cold cache", words: "reads miss the block cache", parts: ["figure:p99", "chart:cache"] },
  disk_full: { ...FULL, words: "the disk was full" },
  no_resources: { colour: "cause-space", short: "failing", words: "background work failed", parts: STOPPED },
  refused: { colour: "cause-space", short: "refused", words: "writes refused", parts: STOPPED },
};

// Causes of refused writes. The page marks each second of them.
export const REFUSALS = new Set(["disk_full", "no_resources", "refused", "sync"]);

export const causeOf = (name) => CAUSES[name] ?? { ...OTHER, words: String(name ?? "unknown cause").replace(/_/g, " "), parts: ["chart:stalls"] };

function longestStall(sample) {
  const stalls = [...(sample.stalls ?? [])].sort((a, b) => b.seconds - a.seconds);
  return stalls[0]?.cause ?? null;
}

// Word for the parts that the present cause concerns.
export const shortWord = (sample) => causeOf(sample.health.cause ?? longestStall(sample)).short;

// Map from the name of a part to "warn" or "bad".
export function concerns(sample) {
  const marks = new Map();
  const { health } = sample ?? {};
  if (!health || health.state === "ok") return marks;
  const cause = health.cause ?? longestStall(sample);
  if (!cause) return marks;
  const { parts, level } = causeOf(cause);
  for (const part of parts) marks.set(part, health.state);
  const marked = health.level ?? level;
  if (marked != null) marks.set(`level:${marked}`, health.state);
  return marks;
}
