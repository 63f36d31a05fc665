// The four stalls of the guide, planted in a real `terrace serve`: `node stalls.mjs PROGRAM [DIR]`.
// The page has to name each cause. With DIR, the healthy time is longer, and DIR gets the pictures.
import assert from "node:assert/strict";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { after, test } from "node:test";
import { close, executable, load, onPage } from "./browser.mjs";
import { marks, marksOf } from "./marks.mjs";
import { batch, keyOf, random, readKeys, valueOf, writeKeys } from "./load.mjs";
import { RealServer, canMount, newDirectory, slowDisk } from "./real-server.mjs";

const [program, pictures] = process.argv.slice(2);
const missing = (!executable && "chromium") || (!load("playwright-core") && "playwright-core");
if (missing) {
  console.log(`NOT TESTED: stalls of a real server on the page: ${missing} is not installed; see .ci/setup`);
  process.exit(3);
}
const tools = newDirectory();
const library = slowDisk(program, tools);
after(() => {
  rmSync(tools, { recursive: true, force: true });
  return close();
});

const HEALTHY_MS = Number(process.env.TERRACE_STALL_HEALTHY_MS ?? (pictures ? 150_000 : 3000));
// Time from the plant to the picture. The eye needs to see when it began.
const STALLED_MS = Number(process.env.TERRACE_STALL_STALLED_MS ?? (pictures ? 40_000 : 0));
// Keys that the server has before the healthy time.
async function fill(server, count) {
  const client = server.client();
  for (let i = 0; i < count; i += 50) await client.call(batch((j) => ["SET", keyOf(i + j), valueOf(i + j)]));
}

// Each stall: options of the server, its load, and its plant. The page must show the rest.
const STALLS = [
  {
    name: "starved-flush", theme: "light",
    options: { library, args: ["--write-buffer", "4MiB"] },
    run: (server) => {
      writeKeys(server, () => 4000);
      readKeys(server, () => 6000, () => random(8000));
    },
    plant: (server) => server.slow("terrace-flush", 200_000),
    health: /^writes wait for a flush: \d+ memtables are full/,
    marks: { figures: ["writes waiting"], levels: ["mem"], charts: ["stalls", "compactions"], causes: ["waited for a flush"] },
  },
  {
    name: "level-0-full", theme: "dark",
    options: { library, args: ["--write-buffer", "2MiB"] },
    run: (server) => {
      writeKeys(server, () => 4000);
      readKeys(server, () => 6000, () => random(8000));
    },
    plant: (server) => server.slow("terrace-compac", 100_000),
    // The delay ends in a stop if compactions stay slow.
    health: /^writes (delayed: compactions lag,|wait for a compaction:) level 0 has \d+ of 36 runs/,
    marks: { figures: ["writes (delayed|stopped)"], levels: ["0"], charts: ["stalls"], causes: ["delayed: compactions lag"] },
  },
  {
    name: "disk-full", theme: "light",
    options: { space: "200m", args: ["--write-buffer", "4MiB"] },
    missing: () => !canMount() && "a file system of its own is not permitted",
    run: (server) => {
      writeFileSync(path.join(server.mounted, "ballast"), "");
      writeKeys(server, () => 400);
      readKeys(server, () => 6000, () => random(2000));
    },
    plant: (server) => fillDisk(path.join(server.mounted, "ballast")),
    health: /^the disk is full: writes fail/,
    marks: { figures: ["writes disk full", "disk disk full"], levels: [], charts: ["stalls"], causes: ["the disk was full"] },
    heal: (server) => rmSync(path.join(server.mounted, "ballast")),
  },
  {
    name: "cold-cache", theme: "dark",
    options: { args: ["--memory", "16MiB"] },
    filled: pictures ? 200_000 : 60_000,
    run: (server) => {
      const { filled } = STALLS[3];
      writeKeys(server, () => 200);
      // Later, the readers want all keys, which the memory does not hold.
      readKeys(server, () => 6000, () => (server.isCold ? random(filled) : 17 * random(30)));
    },
    plant: (server) => { server.isCold = true; },
    health: /^cold cache: \d+ % of \d+ block reads went to storage/,
    marks: { figures: ["p99 latency cold cache"], levels: [], charts: ["cache"], causes: [] },
  },
];

// Writes the file until the file system has no space.
function fillDisk(file) {
  for (let size = 1 << 20; size >= 4096;) {
    try {
      writeFileSync(file, Buffer.alloc(size), { flag: "a" });
    } catch (error) {
      assert.equal(error.code, "ENOSPC");
      size /= 2;
    }
  }
}

for (const stall of STALLS) {
  const reason = stall.missing?.() || ("library" in stall.options && !library && "no compiler for the slow disk, or a static program, which does not load it");
  if (reason) {
    console.log(`NOT TESTED: ${stall.name} of a real server on the page: ${reason}`);
    continue;
  }
  test(`${stall.name} in a real server`, { timeout: HEALTHY_MS + STALLED_MS + 120_000 }, async () => {
    let server = await RealServer.start(program, "cities", stall.options);
    try {
      if (stall.filled) {
        await fill(server, stall.filled);
        await server.stop({ keeps: true });
        server = await RealServer.start(program, "cities", { ...stall.options, directory: server.directory });
      }
      stall.run(server);
      await new Promise((done) => setTimeout(done, HEALTHY_MS));
      await onPage({ address: server.link, theme: stall.theme, viewport: { width: 1200, height: 800 } }, async (page) => {
        await page.locator(".health[data-state=ok]").waitFor();
        const begin = Date.now();
        stall.plant(server);
        await marksOf(page, stall.marks, stall.health, 180_000);
        console.log(`MEASURED ${stall.name}: the page names the cause after ${((Date.now() - begin) / 1000).toFixed(1)} s`);
        await page.waitForTimeout(STALLED_MS);
        if (pictures) await picture(page, stall.name);
        // The cause is gone: the page says so.
        server.fast();
        server.isCold = false;
        stall.heal?.(server);
        await page.locator(".health[data-state=ok]").waitFor({ timeout: 120_000 });
        assert.deepEqual((await marks(page)).figures, []);
      });
    } finally {
      await server.stop();
    }
  });
}

async function picture(page, name) {
  mkdirSync(pictures, { recursive: true });
  await page.mouse.move(2, 2);
  await page.screenshot({ path: path.join(pictures, `${name}.png`) });
}
