// A real `terrace serve` with clients that keep it busy, and the plants of the four stalls.
import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";

// Kind of a segment in ELF: the path of the dynamic linker.
const PT_INTERP = 3;
const SLOW_DISK = new URL("slow_disk.c", import.meta.url).pathname;

// True if the program has no dynamic linker, which loads other libraries into it.
function isStatic(program) {
  const elf = readFileSync(program);
  if (elf.toString("latin1", 0, 4) !== "\x7fELF") return false;
  const [start, size, count] = [Number(elf.readBigUInt64LE(32)), elf.readUInt16LE(54), elf.readUInt16LE(56)];
  const kinds = Array.from({ length: count }, (_, i) => elf.readUInt32LE(start + i * size));
  return !kinds.includes(PT_INTERP);
}

// Compiles the slow disk of `program`. Null without a compiler, and for a static program.
export function slowDisk(program, directory) {
  if (isStatic(program)) return null;
  const library = path.join(directory, "slow_disk.so");
  try {
    execFileSync("cc", ["-shared", "-fPIC", "-O2", "-o", library, SLOW_DISK, "-ldl"], { stdio: "ignore" });
    return library;
  } catch {
    return null;
  }
}

// True if this user may mount a file system of its own.
export function canMount() {
  try {
    execFileSync("unshare", ["--user", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

export const newDirectory = () => mkdtempSync(path.join(tmpdir(), "terrace-stalls-"));

// Replies of the server: their number, and the first error.
class Client {
  constructor(port) {
    this.socket = connect(port, "127.0.0.1");
    this.socket.setNoDelay(true);
    this.rest = Buffer.alloc(0);
    this.waiting = 0;
    this.done = null;
    this.errors = 0;
    this.socket.on("data", (data) => this.read(data));
    this.socket.on("error", () => {});
  }

  // Counts whole replies: a line, or a line with a length and then this number of bytes.
  read(data) {
    this.rest = this.rest.length ? Buffer.concat([this.rest, data]) : data;
    let at = 0;
    for (;;) {
      const end = this.rest.indexOf("\r\n", at);
      if (end < 0) break;
      let next = end + 2;
      if (this.rest[at] === 36) {
        const length = Number(this.rest.toString("latin1", at + 1, end));
        if (length >= 0) next += length + 2;
        if (next > this.rest.length) break;
      } else if (this.rest[at] === 45) this.errors += 1;
      at = next;
      this.waiting -= 1;
    }
    this.rest = this.rest.subarray(at);
    if (this.waiting === 0) this.done?.();
  }

  // Sends commands together, and waits for their replies.
  call(commands) {
    this.waiting += commands.length;
    const words = (command) => `*${command.length}\r\n${command.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`).join("")}`;
    this.socket.write(commands.map(words).join(""));
    return new Promise((done) => {
      this.done = done;
      if (this.socket.destroyed) done();
      this.socket.once("close", done);
    }).finally(() => this.socket.removeAllListeners("close"));
  }
}

export class RealServer {
  // `space` is the size of a file system of its own for the database.
  static async start(program, name, { library, space, args = [], directory = newDirectory() } = {}) {
    const self = new RealServer();
    self.directory = directory;
    self.plan = path.join(self.directory, "slow");
    self.disk = path.join(self.directory, "data");
    mkdirSync(self.disk, { recursive: true });
    const command = [program, "serve", path.join(self.disk, name), "--port", "0", "--page-port", "0", "--page-writes", ...args];
    const mount = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", 'mount -t tmpfs -o size="$1" tmpfs "$2" && shift 2 && exec "$@"', "sh", space, self.disk];
    const [file, ...rest] = space ? [...mount, ...command] : command;
    const env = { ...process.env, TERRACE_SLOW_DISK: self.plan, ...(library && { LD_PRELOAD: library }) };
    self.process = spawn(file, rest, { env, stdio: ["ignore", "pipe", "inherit"] });
    self.ended = new Promise((done) => self.process.on("exit", done));
    self.stops = [];
    for await (const line of createInterface({ input: self.process.stdout })) {
      self.port ??= /listening on 127\.0\.0\.1:(\d+)/.exec(line)?.[1];
      self.link ??= /^page: (\S+)/.exec(line)?.[1];
      if (self.link) break;
    }
    return self;
  }

  // Limits the writes of threads whose names begin with `threads` to `rate` bytes per second.
  slow(threads, rate) {
    writeFileSync(this.plan, `${threads} ${rate}\n`);
  }

  fast() {
    rmSync(this.plan, { force: true });
  }

  // The file system of its own, which other processes see below the root of the server.
  get mounted() {
    return path.join(`/proc/${this.process.pid}/root`, this.disk);
  }

  client() {
    const client = new Client(this.port);
    this.stops.push(() => client.socket.destroy());
    return client;
  }

  // Repeats `commands(i)` at most every `pause` milliseconds until the end.
  busy(commands, pause) {
    let stopped = false;
    this.stops.push(() => { stopped = true; });
    const run = async () => {
      const client = this.client();
      for (let i = 0; !stopped; i += 1) {
        const begin = Date.now();
        await client.call(commands(i));
        await new Promise((done) => setTimeout(done, Math.max(1, pause() - (Date.now() - begin))));
      }
    };
    run();
  }

  // Ends the server. The directory of a kept one can have another server.
  async stop({ keeps } = {}) {
    this.fast();
    this.stops.forEach((stop) => stop());
    this.process.kill("SIGTERM");
    const timer = setTimeout(() => this.process.kill("SIGKILL"), 10_000);
    await this.ended;
    clearTimeout(timer);
    if (!keeps) rmSync(this.directory, { recursive: true, force: true });
  }
}
