// Hostile content, great sizes, lost connections, and memory.
import assert from "node:assert/strict";
import { test } from "node:test";
import { eventually, keptHeap, onPage } from "./browser.mjs";
import { HOSTILE } from "./keys.mjs";

// Seconds of the test of memory. The long run takes 600.
const HEAP_SECONDS = Number(process.env.TERRACE_PAGE_HEAP_SECONDS ?? 20);

test("hostile keys and values are text", () => onPage({}, async (page) => {
  const before = await page.evaluate(() => document.querySelectorAll("img, script, svg").length);
  for (const [key] of HOSTILE.filter(([name]) => !name.startsWith("!big"))) {
    const shown = key.replace("\u202e", "\\u{202e}").slice(0, 40);
    await page.locator(".row .name").filter({ hasText: shown }).first().click();
    for (const form of ["hex", "integers", "JSON", "text"]) await page.locator(".viewer").getByRole("radio", { name: form, exact: true }).check();
    await eventually(() => page.locator(".value pre").count(), 1);
  }
  await page.locator(".row .name").filter({ hasText: "\\xff\\x00\\xfe\\x0a" }).click();
  await eventually(() => page.locator(".value pre.hex").count(), 1);
  assert.match(await page.locator(".value pre").textContent(), /^000000 {2}ff fe 00 01 02/);
  assert.equal(await page.evaluate(() => document.querySelectorAll("img, script, svg").length), before);
  // No character that changes the direction of text reaches the document.
  assert.equal(await page.evaluate(() => /[\u202a-\u202e\u2066-\u2069]/.test(document.body.textContent)), false);
}));

test("a value of 1 MiB comes in parts", () => onPage({}, async (page) => {
  await page.locator(".row").getByText("!big", { exact: true }).click();
  const length = () => page.locator(".value pre").textContent().then((value) => value.length);
  await eventually(length, 65536);
  await page.getByRole("button", { name: /load more/ }).click();
  await eventually(length, 131072);
}));

test("ten million keys: scroll down and up without a gap", () => onPage({}, async (page) => {
  await page.getByRole("searchbox", { name: /Prefix/ }).fill("AR:");
  await page.getByRole("radio", { name: "list", exact: true }).check();
  await eventually(() => page.locator(".row .name").first().textContent(), "AR:00:00000");
  const shown = () => page.evaluate(() => [...document.querySelectorAll(".row .name")].map((one) => Number(one.textContent.replace(/\D/g, ""))));
  const scroll = async (rows) => {
    await page.evaluate((amount) => { document.querySelector(".rows").scrollTop += amount * 24; }, rows);
    await page.waitForTimeout(40);
    // A busy machine may have drawn no frame yet.
    await page.evaluate(() => new Promise((done) => { requestAnimationFrame(() => requestAnimationFrame(done)); }));
    const numbers = await shown();
    numbers.forEach((number, i) => assert.equal(number, numbers[0] + i));
    assert.ok(numbers.length < 60, `${numbers.length} rows in the document`);
    return numbers[0];
  };
  let place = 0;
  for (let i = 0; i < 60; i += 1) {
    const next = await scroll(50);
    assert.ok(next - place <= 60, `from ${place} to ${next}`);
    place = next;
  }
  assert.ok(place > 1500, `only ${place} rows`);
  for (let i = 0; i < 60 && place > 900; i += 1) place = await scroll(-50);
  assert.ok(place <= 900, `still at ${place}`);
}));

test("20,000 tables: the pointer draws no table again", () => onPage({ large: true }, async (page) => {
  // The levels load again after the first event of the stream.
  await page.waitForTimeout(1500);
  const result = await page.evaluate(async () => {
    const { LevelsCanvas } = await import("/assets/levels-canvas.js");
    const canvas = document.querySelector(".level-picture canvas");
    const box = canvas.getBoundingClientRect();
    let layers = 0;
    const { drawLayer } = LevelsCanvas.prototype;
    LevelsCanvas.prototype.drawLayer = function drawAndCount() {
      layers += 1;
      return drawLayer.call(this);
    };
    const frame = () => new Promise((done) => requestAnimationFrame(done));
    const move = (i) => canvas.dispatchEvent(new PointerEvent("pointermove", { bubbles: true, clientX: box.x + (i * 7) % box.width, clientY: box.y + box.height - 10 }));
    for (let i = 0; i < 60; i += 1) {
      move(i);
      await frame();
    }
    const moved = layers;
    const times = [];
    canvas.focus();
    for (let i = 0; i < 60; i += 1) {
      const begin = performance.now();
      canvas.dispatchEvent(new KeyboardEvent("keydown", { key: i % 30 < 15 ? "+" : "-", bubbles: true }));
      await frame();
      await frame();
      times.push((performance.now() - begin) / 2);
    }
    return { moved, zoomed: layers - moved, times: times.sort((a, b) => a - b) };
  });
  assert.equal(result.moved, 0);
  assert.ok(result.zoomed > 20, `${result.zoomed} layers`);
  console.log(`MEASURED 20,000 tables: a frame of a zoom takes ${result.times[30].toFixed(1)} ms, the longest ${result.times[59].toFixed(1)} ms`);
  const paint = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime);
  console.log(`MEASURED first paint after ${paint?.toFixed(0)} ms`);
}));

test("a hidden page closes its stream of events, and opens it again", () => onPage({}, async (page, options) => {
  const hide = (hidden) => page.evaluate((value) => {
    Object.defineProperty(document, "hidden", { value, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  }, hidden);
  await eventually(() => options.streams.size, 1);
  await hide(true);
  await eventually(() => options.streams.size, 0);
  await hide(false);
  await eventually(() => options.streams.size, 1);
}));

test("a lost connection is named, and the page recovers", () => onPage({ allowed: [/ERR_|Failed to load/] }, async (page, options, server) => {
  const { port } = server.server.address();
  server.server.close();
  server.server.closeAllConnections();
  await page.getByText("connection lost, trying again").waitFor();
  await new Promise((done) => server.server.listen(port, "127.0.0.1", done));
  await page.locator(".health[data-state=ok]").waitFor();
}));

test(`memory does not grow in ${HEAP_SECONDS} seconds of events`, { timeout: HEAP_SECONDS * 1000 + 60_000 }, () => onPage({ state: "level-0-full" }, async (page, options) => {
  // Each second holds 20 seconds of the database, so that all buffers fill and drop.
  options.hurry = 20;
  await page.waitForTimeout(4000);
  const first = await keptHeap(page);
  const nodes = () => page.evaluate(() => document.querySelectorAll("*").length);
  const firstNodes = await nodes();
  await page.waitForTimeout(HEAP_SECONDS * 1000);
  const last = await keptHeap(page);
  console.log(`MEASURED heap ${(first / 2 ** 20).toFixed(1)} MiB, after ${HEAP_SECONDS} s ${(last / 2 ** 20).toFixed(1)} MiB, ${await nodes()} elements`);
  assert.ok(last < first * 1.15 + 2 ** 20, `${first} bytes became ${last}`);
  assert.ok((await nodes()) <= firstNodes + 50);
}));
