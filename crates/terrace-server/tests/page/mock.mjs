// Mock of the server part of the page: planted states that a real database reaches only with
// effort, 20,000 tables, and ten million keys. `node mock.mjs [--port N] [--state NAME] [--large]`.
import { createServer } from "node:http";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { history, sample } from "./states.mjs";
import { jobs, levels } from "./levels.mjs";
import * as space from "./keys.mjs";

const ASSETS = new URL("../../src/page/assets/", import.meta.url);
const TYPES = { html: "text/html; charset=utf-8", css: "text/css", js: "text/javascript", svg: "image/svg+xml" };
// The policy of the real server.
export const CSP = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; frame-ancestors 'none'";
const EDITS = 10000;

class Failure extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

const bytesOf = (text) => {
  const buffer = [];
  for (let i = 0; i < text.length; i += 1) {
    if (text[i] === "%") {
      buffer.push(parseInt(text.substr(i + 1, 2), 16));
      i += 2;
    } else buffer.push(text.charCodeAt(i));
  }
  return Buffer.from(buffer);
};

function textOrHex(data) {
  const text = data.toString("utf8");
  if (Buffer.from(text).equals(data) && !/[\u0000-\u0008\u000b\u000c\u000e-\u001f]/.test(text)) return { text };
  return { hex: data.toString("hex") };
}

// Longer keys are cut, as the real server does.
const MAX_KEY = 4096;

// A database of planted keys before the computed ones, and changes by the page.
class Keys {
  constructor() {
    this.planted = new Map(space.HOSTILE.map(([key, value]) => [Buffer.from(key).toString("hex"), Buffer.from(value)]));
    this.planted.set(space.NOT_UTF8.hex, Buffer.from([0xff, 0xfe, 0, 1, 2]));
    this.undo = new Map();
    this.long = [];
  }

  name(data) {
    if (data.length <= MAX_KEY) return textOrHex(data);
    return { ...textOrHex(data.subarray(0, MAX_KEY)), total: data.length, id: this.long.push(data) - 1 };
  }

  argument({ key, keyId }) {
    return keyId === undefined ? bytesOf(key) : this.long[keyId];
  }

  list() {
    return [...this.planted].sort(([a], [b]) => (a < b ? -1 : 1)).map(([hex, value]) => ({
      key: this.name(Buffer.from(hex, "hex")), type: "string", size: value.length, ttlMs: null, scheme: null,
    }));
  }

  at(index) {
    const list = this.list();
    return index < list.length ? list[index] : space.describe(index - list.length);
  }

  bound(data) {
    const hex = data.toString("hex");
    const list = [...this.planted.keys()].sort();
    const before = list.filter((key) => key < hex).length;
    return before < list.length ? before : list.length + space.lowerBound(data.toString("utf8"));
  }

  page(args) {
    const total = this.planted.size + space.TOTAL;
    const prefix = bytesOf(args.prefix ?? "");
    const first = prefix.length ? this.bound(prefix) : 0;
    const last = prefix.length ? this.bound(Buffer.concat([prefix, Buffer.from([0xff])])) : total;
    const count = Number(args.count ?? 200);
    const keys = [];
    if (args.direction === "backward") {
      const end = args.from ? Math.min(last, this.bound(bytesOf(args.from))) : last;
      const begin = Math.max(first, end - count);
      for (let i = begin; i < end; i += 1) keys.push(this.at(i));
      keys.reverse();
      return { keys, next: begin > first ? this.cursor(begin) : null, previous: end < last ? this.cursor(end) : null };
    }
    const begin = args.from ? Math.max(first, this.bound(bytesOf(args.from))) : first;
    const end = Math.min(last, begin + count);
    for (let i = begin; i < end; i += 1) keys.push(this.at(i));
    return { keys, next: end < last ? this.cursor(end) : null, previous: begin > first ? this.cursor(begin) : null };
  }

  cursor(index) {
    const { key } = this.at(index);
    const data = key.hex === undefined ? Buffer.from(key.text) : Buffer.from(key.hex, "hex");
    return [...data].map((byte) => `%${byte.toString(16).padStart(2, "0")}`).join("");
  }

  tree(args) {
    const prefix = bytesOf(args.prefix ?? "").toString("utf8");
    const folder = (text, count) => ({ prefix: { text }, leaf: false, keys: count, keysExact: false, bytes: count * 64, key: null });
    if (prefix === "") {
      const leaves = this.list().map((key) => ({ prefix: key.key, leaf: true, keys: 1, keysExact: true, bytes: key.size, key }));
      return { nodes: [...leaves, ...space.COUNTRIES.map((name) => folder(`${name}:`, space.PER_COUNTRY))], next: null };
    }
    if (/^..:$/.test(prefix)) {
      const nodes = Array.from({ length: space.REGIONS }, (_, i) => folder(`${prefix}${String(i).padStart(2, "0")}:`, space.PER_REGION));
      return { nodes, next: null };
    }
    const { keys, next } = this.page({ ...args, direction: "forward" });
    return { nodes: keys.map((key) => ({ prefix: key.key, leaf: true, keys: 1, keysExact: true, bytes: key.size, key })), next };
  }

  value(args) {
    const data = this.argument(args);
    const own = this.planted.get(data.toString("hex"));
    const index = space.lowerBound(data.toString("utf8"));
    if (!own && space.keyAt(index) !== data.toString("utf8")) throw new Failure(404, "The key does not exist.");
    const about = own ? { key: this.name(data), type: "string", size: own.length, ttlMs: null } : space.describe(index);
    if (about.type === "string") {
      const whole = own ?? Buffer.from(`45.75,4.85 ${index}`);
      const offset = Number(args.offset ?? 0);
      return { ...about, size: whole.length, value: { ...textOrHex(whole.subarray(offset, offset + Number(args.count ?? 65536))), total: whole.length, offset } };
    }
    return { ...about, ...members(about, args) };
  }

  change(key, value) {
    const before = this.planted.get(key) ?? null;
    const id = String(Math.random()).slice(2);
    if (value === null) this.planted.delete(key);
    else this.planted.set(key, value);
    this.undo.set(id, { key, before, after: value });
    setTimeout(() => this.undo.delete(id), 10_500).unref();
    return { undo: id };
  }

  undoChange(id) {
    const entry = this.undo.get(id);
    if (!entry) throw new Failure(409, "The ten seconds are over.");
    if (entry.before === null) this.planted.delete(entry.key);
    else this.planted.set(entry.key, entry.before);
    this.undo.delete(id);
    return {};
  }
}

function members(about, args) {
  const from = Number(args.from ?? 0);
  const end = Math.min(from + 200, about.size);
  const list = [];
  for (let i = from; i < end; i += 1) {
    const value = { hash: { text: `value ${i}` }, list: { text: `element ${i}` }, set: null, zset: i * 1.5, stream: { text: `field a${i}` } }[about.type];
    list.push([{ text: about.type === "list" ? String(i) : `member-${i}` }, value]);
  }
  return { members: list, next: end < about.size ? String(end) : null };
}

const COMMANDS = [
  ["get", "Returns the value of a key.", 2, "string", false], ["set", "Sets the value of a key.", -3, "string", true],
  ["getrange", "Returns a part of a value.", 4, "string", false], ["del", "Deletes keys.", -2, "generic", true],
  ["hgetall", "Returns all fields of a hash.", 2, "hash", false], ["ping", "Returns PONG.", -1, "connection", false],
  ["info", "Describes the server.", -1, "server", false],
].map(([name, summary, arity, group, write]) => ({ name, summary, arity, group, write }));

function consoleReply(line, writes) {
  const [name, ...args] = line.trim().split(/\s+/);
  const command = COMMANDS.find((entry) => entry.name === name.toLowerCase());
  if (!command) return { error: `ERR unknown command '${name}'` };
  if (command.write && !writes) return { error: "ERR the page was started without --page-writes" };
  if (command.name === "ping") return { status: "PONG" };
  if (command.name === "set") return { status: "OK" };
  if (command.name === "del") return { integer: args.length };
  if (command.name === "hgetall") return { array: [{ bulk: { text: "name" } }, { bulk: { hex: "ff00" } }, { array: [{ integer: 7 }, { null: true }] }] };
  return args.length ? { bulk: { text: `value of ${args[0]}` } } : { error: "ERR wrong number of arguments" };
}

export function mock({ state = "healthy", large = false, writes = true, comparator = "leveldb.BytewiseComparator" } = {}) {
  const options = { state, large, writes, requests: [], streams: new Set() };
  const keys = new Keys();
  const now = () => Date.now();
  const startedAt = now() - 273600e3;

  const lists = {
    state: () => ({
      name: "cities", path: "/data/cities", layout: "typed", comparator, readOnly: false, follower: false,
      pageWrites: options.writes, version: "0.1.0", startedAt, sync: "everysec", separator: ":", databases: [0, 3], memoryLimit: 1 << 30, commands: COMMANDS,
    }),
    sample: () => sample(options.state, now()),
    history: (args) => history(options.state, now(), args.range),
    levels: (args) => levels(options.state, now(), options.large, Number(args.edit ?? EDITS - 1), EDITS),
    table: (args) => {
      const table = levels(options.state, now(), options.large, EDITS - 1, EDITS).tables.find((entry) => entry[0] === Number(args.number));
      if (!table) throw new Failure(404, "The table does not exist any more.");
      const key = (share) => ({ hex: `010000${Buffer.from(space.keyAt(Math.floor(share * (space.TOTAL - 1)))).toString("hex")}` });
      return { number: table[0], level: table[1], bytes: table[4], smallest: key(table[2]), largest: key(table[3]), createdAt: table[6], reads: table[7], entries: table[5] };
    },
    edits: (args) => Array.from({ length: Math.min(Number(args.count), 1000, EDITS - Number(args.from)) }, (_, i) => {
      const edit = Number(args.from) + i;
      return { edit, at: now() - (EDITS - 1 - edit) * 20000, kind: edit % 3 ? "flush" : "compaction", added: [edit], removed: [], words: edit % 3 ? "flush to level 0" : "compaction 1 > 2: 4 tables became 3" };
    }),
    keys: (args) => keys.page(args),
    tree: (args) => keys.tree(args),
    value: (args) => keys.value(args),
    slowlog: () => Array.from({ length: 24 }, (_, i) => ({
      id: 300 - i, at: now() - i * 41e3, micros: Math.round(48211 / (1 + i / 4)), command: [{ text: i % 3 ? "ZRANGE" : "HGETALL" }, { text: `scores:${i}` }, { text: "0" }, { text: "-1" }],
      client: `127.0.0.1:${50100 + i}`, name: i % 2 ? "worker" : "",
    })),
    clients: () => Array.from({ length: 51 }, (_, i) => ({
      id: i + 1, address: `127.0.0.1:${50100 + i}`, name: i % 4 ? "worker" : "", ageSeconds: 9000 - i * 31, idleSeconds: i % 9, db: i % 7 ? 0 : 3,
      command: i % 3 ? "get" : "zadd", inputBytes: i * 120, outputBytes: i * 900, user: "default",
    })),
    commands: () => COMMANDS.map((entry, i) => ({ name: entry.name, calls: 4811200 >> i, failed: i, micros: 900000000 >> i, p50Us: 20 + i * 9, p99Us: 200 + i * 77 })),
    log: () => Array.from({ length: 60 }, (_, i) => ({ at: now() - i * 11e3, kind: ["flush", "compaction", "move"][i % 3], words: ["flushed 8 MiB to table 090003 on level 0 in 0.2 s", "compacted 1 > 2: 4 tables became 3 in 1.9 s", "moved table 040021 to level 2"][i % 3] })),
    settings: () => [
      { name: "write_buffer_size", value: "8388608", changeable: false, summary: "Bytes of a memtable before it is flushed." },
      { name: "slowlog-log-slower-than", value: "10000", changeable: true, summary: "Microseconds from which on the slow log keeps a command." },
      { name: "memory-budget", value: "1073741824", changeable: false, summary: "Bytes for memtables, block cache and open tables." },
    ],
  };

  const changes = {
    value: (content) => keys.change(content.key, Buffer.from(content.value, "hex")),
    delete: (content) => keys.change(content.key, null),
    undo: (content) => keys.undoChange(content.undo),
    console: (content) => ({ reply: consoleReply(content.line, options.writes) }),
  };

  function stream(response) {
    response.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
    options.streams.add(response);
    response.on("close", () => options.streams.delete(response));
    const send = (name, data) => response.write(`event: ${name}\ndata: ${JSON.stringify(data)}\n\n`);
    let ticks = 0;
    send("levels", { edit: EDITS - 1 });
    let ahead = 0;
    const timer = setInterval(() => {
      ticks += 1;
      const at = now();
      // A test of memory makes time pass faster.
      for (let i = 0; i < (options.hurry ?? 0) / 4; i += 1) {
        ahead += 1000;
        send("second", { ...sample(options.state, at), at: at + ahead });
        send("event", { at, kind: "flush", words: "flushed 8 MiB to table 090003 on level 0 in 0.2 s" });
        send("levels", { edit: EDITS - 1 + ahead });
      }
      if (ticks % 4 === 0) send("second", sample(options.state, at));
      if (!options.large) send("job", jobs(options.state, at, levels(options.state, at, false, EDITS - 1, EDITS).tables));
      if (ticks % 20 === 0) send("event", { at, kind: "flush", words: "flushed 8 MiB to table 090003 on level 0 in 0.2 s" });
    }, 250);
    response.on("close", () => clearInterval(timer));
  }

  async function api(request, response, url) {
    const name = url.pathname.slice("/api/v1/".length);
    if (name === "events") return stream(response);
    const send = (status, content) => {
      response.writeHead(status, { "Content-Type": "application/json", "Cache-Control": "no-store" });
      const body = JSON.stringify(content);
      if (name !== options.broken?.path) return response.end(body);
      response.write(body.slice(0, 1));
      // Without a time, the connection ends within the body.
      if (options.broken.pauseMs === null) return setTimeout(() => response.destroy(), 50);
      setTimeout(() => response.end(body.slice(1)), options.broken.pauseMs);
    };
    try {
      if (request.method === "POST") {
        if (request.headers["x-terrace"] !== "1") throw new Failure(403, "The header X-Terrace is missing.");
        if (!options.writes && name !== "console") throw new Failure(403, "The page was started without --page-writes.");
        let body = "";
        for await (const part of request) body += part;
        return send(200, changes[name](JSON.parse(body)));
      }
      // Arguments stay percent-encoded: they are bytes.
      const args = Object.fromEntries(url.search.slice(1).split("&").filter(Boolean).map((part) => part.split("=")));
      if (!lists[name]) throw new Failure(404, "This path does not exist.");
      return send(200, lists[name](args));
    } catch (error) {
      return send(error.status ?? 500, { error: error.message });
    }
  }

  const server = createServer(async (request, response) => {
    const url = new URL(request.url, "http://localhost");
    options.requests.push(url.pathname);
    if (url.pathname.startsWith("/api/v1/")) return api(request, response, url);
    const name = url.pathname === "/" ? "index.html" : url.pathname.replace(/^\/assets\//, "");
    try {
      const content = await readFile(fileURLToPath(new URL(name, ASSETS)));
      response.writeHead(200, { "Content-Type": TYPES[name.split(".").pop()], "Content-Security-Policy": CSP, "Cache-Control": "no-cache" });
      return response.end(content);
    } catch {
      response.writeHead(404);
      return response.end();
    }
  });
  return { server, options, listen: (port = 0) => new Promise((done) => server.listen(port, "127.0.0.1", () => done(`http://127.0.0.1:${server.address().port}/`))) };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const argument = (name, otherwise) => (process.argv.includes(name) ? process.argv[process.argv.indexOf(name) + 1] : otherwise);
  const { listen } = mock({ state: argument("--state", "healthy"), large: process.argv.includes("--large") });
  console.log(await listen(Number(argument("--port", "0"))));
}
