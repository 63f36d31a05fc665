// Every control of the page, with the mouse and with the keyboard alone.
import assert from "node:assert/strict";
import { test } from "node:test";
import { eventually, onPage } from "./browser.mjs";
import { levels } from "./levels.mjs";

const text = (page, selector) => page.locator(selector).first().textContent();
const pick = (page, group, option) => page.getByRole("radiogroup", { name: group, exact: true }).getByRole("radio", { name: option, exact: true }).check();

// The picture as text: it changes when the picture does.
const pixels = (page) => page.evaluate(async () => {
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  return document.querySelector(".level-picture canvas").toDataURL();
});

test("colours, zoom and table of files of the levels", () => onPage({ state: "disk-full" }, async (page) => {
  const seen = new Set([await pixels(page)]);
  for (const colour of ["reads", "size"]) {
    await pick(page, "colour", colour);
    const size = seen.size + 1;
    await eventually(async () => seen.add(await pixels(page)).size, size);
  }
  const zoomed = () => text(page, ".axis bdi");
  assert.equal(await zoomed(), "AD/Andorra");
  await page.getByRole("button", { name: "Zoom in" }).click();
  assert.match(await zoomed(), /^19/);
  await page.getByRole("button", { name: "Zoom out" }).click();
  await page.getByRole("button", { name: "Zoom in" }).click();
  await page.getByRole("button", { name: "all", exact: true }).click();
  assert.equal(await zoomed(), "AD/Andorra");
  await page.getByRole("button", { name: "files", exact: true }).click();
  assert.equal(await page.locator(".files tbody tr").count(), 100);
  await page.locator(".files").getByRole("button", { name: "next" }).click();
  assert.match(await text(page, ".files .bar span"), /page 2 of 3/);
  await page.locator(".files").getByRole("button", { name: "size" }).click();
  await page.locator(".files").getByRole("button", { name: "previous" }).click();
}));

test("details of a table, by pointer and by keyboard", () => onPage({ state: "disk-full" }, async (page) => {
  const box = await page.locator(".level-picture canvas").boundingBox();
  await page.mouse.move(box.x + box.width * 0.5, box.y + box.height - 14);
  assert.match(await text(page, ".detail"), /^0600\d\d level 3/);
  await page.mouse.move(10, 10);
  await eventually(() => page.locator(".detail").count(), 0);
  await page.locator(".level-picture canvas").focus();
  await page.keyboard.press("ArrowDown");
  assert.match(await text(page, ".detail"), /level 0/);
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowRight");
  assert.match(await text(page, ".detail"), /level 1/);
  // The smallest key of the table leads to the list of keys.
  await page.locator(".detail button").first().click();
  await page.locator("[role=listbox] .row").first().waitFor();
  assert.match(await text(page, "[role=listbox] .row .name"), /^[A-Z]{2}:\d\d:\d{5}$/);
  await page.locator(".level-picture canvas").focus();
  await page.keyboard.press("Escape");
  await eventually(() => page.locator(".detail").count(), 0);
}));

test("an arrow key moves from the selected level although its tables were just loaded again", () => onPage({}, async (page) => {
  const reply = levels("healthy", Date.now(), false, 9, 10);
  const reached = await page.evaluate(async (state) => {
    const { arrange, neighbour } = await import(new URL("assets/levels-model.js", document.baseURI));
    const [before, after] = [arrange(structuredClone(state)), arrange(structuredClone(state))];
    const move = (row) => neighbour(after, { row, index: 0 }, "ArrowDown").row.level;
    return [move(before.rows[1]), move({ ...before.rows[1], tables: [[-1, 0, 0, 1]] })];
  }, reply);
  assert.deepEqual(reached, [1, 0]);
}));

test("entries of the memtables, and their flush", () => onPage({ state: "starved-flush" }, async (page) => {
  await eventually(() => text(page, ".memtable-words").then((words) => words.replace(/\s/g, " ")), "30 k entries, 7.9 MiB of 8.0 MiB, 1 being flushed, 3 waiting");
  await eventually(() => text(page, ".job").then((words) => words.replace(/\s/g, " ")), "flushing a memtable: 12 %, 1.1 MiB/s");
}));

test("history of the levels", () => onPage({}, async (page) => {
  const slider = page.getByRole("slider", { name: "Version edit" });
  await slider.focus();
  await page.keyboard.press("Home");
  await eventually(() => slider.getAttribute("aria-valuetext").then((words) => /^edit 1 of 10,000, .*compaction 1 > 2/.test(words)), true);
  await page.getByRole("button", { name: "Next edit" }).click();
  await page.getByRole("button", { name: "Previous edit" }).click();
  assert.equal(await page.locator(".levels[data-past=true]").count(), 1);
  await page.getByRole("button", { name: "live" }).click();
  assert.equal(await slider.getAttribute("aria-valuetext"), "live");
}));

test("ranges, single charts, and the values of another moment", () => onPage({ state: "starved-flush" }, async (page) => {
  assert.equal(await page.locator(".chart").count(), 6);
  for (const range of ["10 min", "week", "hour"]) await pick(page, "Range", range);
  await pick(page, "Chart", "stalls");
  assert.equal(await page.locator(".chart").count(), 1);
  await page.locator(".chart-grid").focus();
  assert.equal(await text(page, ".moment"), "now");
  assert.match(await text(page, ".chart output"), /830/);
  await page.keyboard.press("Home");
  assert.match(await text(page, ".moment"), /\d\d:\d\d:\d\d/);
  assert.match(await text(page, ".chart output"), /^0/);
  // Another range has fewer points, and each second adds one: the values stay those of one moment.
  await pick(page, "Range", "10 min");
  assert.match(await text(page, ".moment"), /\d\d:\d\d:\d\d/);
  await page.locator(".chart-grid").focus();
  await page.keyboard.press("End");
  await page.keyboard.press("ArrowLeft");
  const shown = await text(page, ".moment");
  await page.waitForTimeout(4500);
  assert.equal(await text(page, ".moment"), shown);
  await page.keyboard.press("Escape");
  assert.equal(await text(page, ".moment"), "now");
}));

test("tree of keys by keyboard", () => onPage({}, async (page) => {
  const tree = page.getByRole("tree");
  await page.keyboard.press("/");
  await page.keyboard.type("FR:");
  await eventually(() => text(page, ".row .name"), "FR:00:");
  await tree.focus();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowRight");
  await eventually(() => page.locator(".row.key").count().then((count) => count > 5), true);
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("Enter");
  await eventually(() => text(page, ".viewer h3"), "FR:00:00000");
  await eventually(() => text(page, ".value pre").then((value) => value.startsWith("45.75,4.85")), true);
  await tree.focus();
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.press("ArrowLeft");
  await eventually(() => page.locator(".row.key").count(), 0);
}));

test("list of keys in both directions, and a prefix without keys", () => onPage({}, async (page) => {
  await pick(page, "Form", "list");
  await pick(page, "Direction", "last to first");
  await eventually(() => text(page, ".row .name"), "ZA:49:09999");
  await page.getByRole("listbox").focus();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  await eventually(() => text(page, ".viewer h3"), "ZA:49:09998");
  await page.getByLabel("database").selectOption("3");
  await page.getByRole("searchbox", { name: /Prefix/ }).fill("nothing");
  await page.getByText("No key begins with this prefix.").waitFor();
}));

test("values whose bodies arrive slowly: the next key ends a request, and a lost connection is an error", () => onPage({ allowed: [/ERR_/] }, async (page, options) => {
  await pick(page, "Form", "list");
  await page.getByRole("listbox").focus();
  options.broken = { path: "value", pauseMs: 300 };
  for (let i = 0; i < 5; i += 1) {
    await page.keyboard.press("ArrowDown");
    await page.waitForTimeout(200);
  }
  await eventually(() => page.locator(".value pre").count(), 1);
  options.broken.pauseMs = null;
  await page.keyboard.press("ArrowDown");
  await page.locator(".value").getByText("The reply of the server is incomplete.").waitFor();
}));

test("the keys of IndexedDB have no separator and no text at their begin", () => onPage({ comparator: "idb_cmp1" }, async (page) => {
  const panel = page.locator(".keys");
  assert.match(await panel.textContent(), /by database, object store and index/);
  assert.doesNotMatch(await panel.textContent(), /separator/);
  assert.equal(await panel.getByRole("searchbox").getAttribute("placeholder"), "prefix, for example \\x00\\x01");
}));

test("members of an object, more of them, and copies", () => onPage({}, async (page) => {
  await pick(page, "Form", "list");
  await page.getByRole("searchbox", { name: /Prefix/ }).fill("FR:01:");
  await page.getByText("FR:01:00007", { exact: true }).click();
  await page.getByRole("button", { name: "more members" }).click();
  await eventually(() => page.locator(".members tbody tr").count(), 400);
  await page.getByRole("button", { name: "copy key" }).click();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), "FR:01:00007");
  await page.getByRole("button", { name: "copy value" }).click();
  assert.match(await page.evaluate(() => navigator.clipboard.readText()), /^member-0\tvalue 0\n/);
}));

test("write, edit, delete, and undo of each", () => onPage({}, async (page) => {
  const value = () => text(page, ".value pre");
  await page.getByRole("button", { name: "new key" }).click();
  await page.getByLabel(/New key/).fill("!a");
  await page.getByLabel(/Its value/).fill("one");
  await page.keyboard.press("Enter");
  await page.getByText("!a", { exact: true }).click();
  await eventually(value, "one");
  await page.getByRole("button", { name: "edit", exact: true }).click();
  await page.getByRole("textbox", { name: "New value" }).fill("two");
  await page.getByRole("button", { name: "save" }).click();
  await eventually(value, "two");
  await page.getByRole("button", { name: /undo/ }).click();
  await eventually(value, "one");
  await page.getByRole("button", { name: "edit", exact: true }).click();
  await pick(page, "Form of the new value", "hex");
  await page.getByRole("textbox", { name: "New value" }).fill("zz");
  assert.equal(await page.getByRole("button", { name: "save" }).isDisabled(), true);
  await page.getByRole("textbox", { name: "New value" }).fill("00 ff");
  await page.getByRole("button", { name: "save" }).click();
  await eventually(() => value().then((dump) => dump.includes("00 ff")), true);
  await page.getByRole("button", { name: "delete" }).click();
  await eventually(() => page.getByText("!a", { exact: true }).count(), 0);
  await page.getByRole("button", { name: /undo/ }).click();
  await page.locator(".row").getByText("!a", { exact: true }).waitFor();
}));

test("no control for writes without page writes", () => onPage({ writes: false }, async (page) => {
  await page.locator(".row.key").first().click();
  await page.getByRole("button", { name: "copy value" }).waitFor();
  for (const name of ["edit", "delete", "new key"]) assert.equal(await page.getByRole("button", { name, exact: true }).count(), 0);
  await page.getByText("page reads only").waitFor();
}));

test("lists of activity: tabs, filter and order", () => onPage({}, async (page) => {
  const rows = { "slow log": 24, clients: 51, commands: 7, events: 60, settings: 3 };
  for (const [tab, count] of Object.entries(rows)) {
    await page.getByRole("tab", { name: tab }).click();
    await eventually(() => page.locator(".tab-panel tbody tr").count(), count);
  }
  await page.getByRole("searchbox", { name: "Filter" }).fill("slowlog");
  await eventually(() => page.locator(".tab-panel tbody tr").count(), 1);
  await page.getByRole("tab", { name: "settings" }).focus();
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.press("ArrowLeft");
  assert.equal(await page.getByRole("tab", { name: "commands" }).getAttribute("aria-selected"), "true");
  await eventually(() => text(page, ".tab-panel tbody td"), "get");
  await page.getByRole("button", { name: "p99" }).click();
  await eventually(() => text(page, ".tab-panel tbody td"), "info");
}));

test("console: completion, help, history, nested and refused replies", () => onPage({}, async (page) => {
  await page.getByRole("tab", { name: "console" }).click();
  const input = page.getByLabel("Command");
  await input.fill("getr");
  await page.keyboard.press("Tab");
  assert.equal(await input.inputValue(), "getrange ");
  assert.match(await text(page, ".help"), /GETRANGE 3 arguments\. Returns a part/);
  await input.fill("hgetall a");
  await page.keyboard.press("Enter");
  await eventually(() => page.locator(".console-lines div").count(), 5);
  assert.match(await page.locator(".console-lines").textContent(), /2\) "\\xff\\x00"3\) 1\) \(integer\) 7\s+2\) \(nil\)/);
  await page.keyboard.press("ArrowUp");
  assert.equal(await input.inputValue(), "hgetall a");
  await input.fill("nonsense");
  await page.keyboard.press("Enter");
  await page.locator("[data-bad=true]").getByText("unknown command").waitFor();
}));

test("theme: the choice stays after a reload", () => onPage({ theme: "light" }, async (page) => {
  const background = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
  const light = await background();
  const picture = await pixels(page);
  await page.getByRole("button", { name: /dark theme/ }).click();
  const dark = await background();
  assert.notEqual(dark, light);
  await eventually(async () => (await pixels(page)) !== picture, true);
  await page.reload();
  assert.equal(await background(), dark);
}));

test("keyboard alone: Tab reaches every control, and its focus is visible", () => onPage({}, async (page) => {
  const reached = new Set();
  await page.locator("body").press("Tab");
  for (let i = 0; i < 60; i += 1) {
    const { name, visible } = await page.evaluate(() => {
      const element = document.activeElement;
      if (element === document.body) return { name: "", visible: true };
      const shown = element.type === "radio" ? element.nextElementSibling : element;
      return { name: element.getAttribute("aria-label") ?? element.textContent.trim(), visible: getComputedStyle(shown).outlineStyle !== "none" };
    });
    assert.ok(visible, `no visible focus: ${name}`);
    reached.add(name.slice(0, 24));
    await page.keyboard.press("Tab");
  }
  const wanted = ["To the keys", "Change to the dark theme", "Tables of each level in ", "Version edit", "Charts. Arrow keys read ", "Prefix of the keys. Esca", "Tree of keys", "slow log", "Filter of the rows"];
  assert.deepEqual(wanted.filter((name) => !reached.has(name)), []);
}));

for (const width of [360, 480, 768, 1024, 1200, 1920]) {
  test(`width of ${width} px: nothing is wider than the page`, () => onPage({ state: "level-0-full", viewport: { width, height: 900 } }, async (page) => {
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(wide <= 0, `${wide} px too wide`);
    // A finger needs targets of at least 24 px.
    const small = await page.evaluate(() => [...document.querySelectorAll("button")].filter((one) => one.offsetParent && one.getBoundingClientRect().height < 20).map((one) => one.textContent));
    assert.deepEqual(small, []);
  }));
}
