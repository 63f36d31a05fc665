// The page on a real server, whose link is in TERRACE_PAGE_LINK. The test program has written the
// keys `city:..` (strings), `hash` (300 fields), `list`, `set`, `zset`, `stream`, and a hostile key.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { close, eventually, executable, load, onPage } from "./browser.mjs";

if (!executable || !load("playwright-core")) {
  console.log(`NOT TESTED: the page in a browser: ${executable ? "playwright-core" : "chromium"} is not installed; see .ci/setup`);
  process.exit(3);
}
after(close);

const text = (page, selector) => page.locator(selector).first().textContent();
const choose = async (page, key) => {
  await page.getByRole("searchbox", { name: /Prefix/ }).fill(key);
  await page.locator("[role=listbox] .row .name").getByText(key, { exact: true }).click();
  await eventually(() => text(page, ".viewer h3"), key);
};
const members = (page) => page.locator(".members tbody tr").count();

// A link works once, so one page serves all parts.
test("the page on a real server", () => onPage({ address: process.env.TERRACE_PAGE_LINK }, async (page) => {
  await eventually(() => page.locator(".health").getAttribute("data-state").then((state) => state !== "wait"), true);
  assert.equal(new URL(page.url()).search, "");

  // Header, figures and charts.
  await eventually(() => text(page, ".facts").then((facts) => facts.includes("typed")), true);
  // A new server has no figures before its first second ends.
  await eventually(() => page.locator(".figure").count(), 6);
  await eventually(() => page.locator(".chart").count(), 6);

  // Keys: tree, list in both directions, values of every type.
  await page.locator("[role=tree] .folder").getByText("city:").click();
  await page.locator("[role=tree] .key").getByText("00000", { exact: true }).click();
  await eventually(() => text(page, ".value pre"), "value of 0");
  await page.getByRole("radio", { name: "list", exact: true }).check();
  await page.getByRole("searchbox", { name: /Prefix/ }).fill("city:");
  await eventually(() => text(page, "[role=listbox] .row .name"), "city:00000");
  await page.getByRole("radio", { name: "last to first" }).check();
  await eventually(() => text(page, "[role=listbox] .row .name"), "city:09999");
  await page.locator(".rows").evaluate((rows) => { rows.scrollTop = 24 * 190; });
  await eventually(() => page.locator("[role=listbox] .row .name").getByText("city:09799", { exact: true }).count(), 1);
  await page.getByRole("radio", { name: "first to last" }).check();
  await choose(page, "hash");
  await eventually(() => members(page).then((count) => count >= 100), true);
  await page.getByRole("button", { name: "more members" }).click();
  await eventually(() => members(page), 300);
  for (const [key, count] of [["list", 3], ["set", 3], ["zset", 2], ["stream", 1]]) {
    await choose(page, key);
    await eventually(() => members(page), count);
  }
  await choose(page, "<img src=x onerror=alert(1)>");
  await eventually(() => text(page, ".value pre"), "<script>alert(1)</script>");
  assert.equal(await page.locator("img").count(), 0);

  // A change, and its undo.
  await choose(page, "city:00001");
  await page.getByRole("button", { name: "edit", exact: true }).click();
  await page.getByRole("textbox", { name: "New value" }).fill("changed");
  await page.getByRole("button", { name: "save" }).click();
  await eventually(() => text(page, ".value pre"), "changed");
  await page.getByRole("button", { name: /undo/ }).click();
  await eventually(() => text(page, ".value pre"), "value of 1");

  // Lists of activity, and the console.
  for (const tab of ["clients", "commands", "settings"]) {
    await page.getByRole("tab", { name: tab }).click();
    await eventually(() => page.locator(".tab-panel tbody tr").count().then((count) => count > 0), true);
  }
  await page.getByRole("tab", { name: "slow log" }).click();
  await page.getByRole("tab", { name: "events" }).click();
  await page.getByRole("tab", { name: "console" }).click();
  await page.getByLabel("Command").fill("get city:00002");
  await page.keyboard.press("Enter");
  await page.locator(".console-lines").getByText('"value of 2"').waitFor();
  await page.getByLabel("Command").fill("subscribe a");
  await page.keyboard.press("Enter");
  await page.locator(".console-lines [data-bad=true]").waitFor();
}));
