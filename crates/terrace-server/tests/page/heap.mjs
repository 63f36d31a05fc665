// Memory of the page beside a real `terrace serve` under full load: `node heap.mjs PROGRAM`.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { close, executable, keptHeap, load, onPage } from "./browser.mjs";
import { random, readKeys, writeKeys } from "./load.mjs";
import { RealServer } from "./real-server.mjs";

const SECONDS = Number(process.env.TERRACE_PAGE_HEAP_SECONDS ?? 20);
// Commands of each client in a second. Without a value, a client never pauses.
const RATE = Number(process.env.TERRACE_PAGE_HEAP_RATE ?? 1e9);
// Keys that the writers write again and again.
const KEYS = 300_000;

if (!executable || !load("playwright-core")) {
  console.log("NOT TESTED: memory of the page beside a real server: chromium or playwright-core is not installed; see .ci/setup");
  process.exit(3);
}
after(close);

test(`memory does not grow in ${SECONDS} seconds of load`, { timeout: SECONDS * 1000 + 120_000 }, async () => {
  const server = await RealServer.start(process.argv[2], "cities", { args: ["--write-buffer", "1MiB"] });
  try {
    for (let i = 0; i < 2; i += 1) {
      writeKeys(server, () => RATE, KEYS);
      readKeys(server, () => RATE, () => random(KEYS));
    }
    await new Promise((done) => setTimeout(done, 3000));
    await onPage({ address: server.link }, async (page) => {
      // All buffers of events are full after a minute of this load.
      await page.waitForTimeout(Math.min(60, SECONDS / 2) * 1000);
      const elements = () => page.evaluate(() => document.querySelectorAll("*").length);
      const sizes = [await keptHeap(page)];
      const first = await elements();
      const step = Math.max(5, SECONDS / 10);
      for (let time = 0; time < SECONDS; time += step) {
        await page.waitForTimeout(step * 1000);
        sizes.push(await keptHeap(page));
      }
      const words = sizes.map((size) => (size / 2 ** 20).toFixed(1)).join(" ");
      console.log(`MEASURED heap in MiB, each ${step} s of load: ${words}; ${first} elements, then ${await elements()}`);
      // An hour of seconds has 18 columns of 8 bytes, and there are at most 2,000 marks.
      assert.ok(sizes.at(-1) < sizes[0] * 1.15 + 2 * 2 ** 20, words);
      // The slow log, which the page shows, has at most 128 commands.
      assert.ok((await elements()) <= first + 128 * 12);
    });
  } finally {
    await server.stop();
  }
});
