// Planted stalls: the health line names the cause, and the parts that it concerns are marked.
import assert from "node:assert/strict";
import { test } from "node:test";
import { load, onPage, resolve } from "./browser.mjs";
import { marks } from "./marks.mjs";
import { readFileSync } from "node:fs";

// Compares the marks of a state with the expected ones. No other function reads them.
function check(state, expected) {
  test(`state ${state}`, () => onPage({ state }, async (page) => assert.deepEqual(await marks(page), expected)));
}

check("healthy", { health: "ok", words: "healthy", figures: [], levels: [], charts: [], causes: [] });
check("starved-flush", {
  health: "warn", words: "writes wait for a flush: 4 of 4 immutable memtables, flushes write 1.1 MiB/s",
  figures: ["writes waiting"], levels: ["mem"], charts: ["stalls", "compactions"], causes: ["waited for a flush"],
});
check("level-0-full", {
  health: "warn", words: "writes delayed: level 0 has 34 of 36 runs",
  figures: ["writes delayed"], levels: ["0"], charts: ["stalls"], causes: ["delayed: compactions lag"],
});
check("disk-full", {
  health: "bad", words: "the disk is full: writes fail",
  figures: ["writes disk full", "disk disk full"], levels: [], charts: ["stalls"], causes: ["waited for disk space"],
});
check("cold-cache", {
  health: "warn", words: "reads slow: the block cache answers 9 % of block reads, and it fills",
  figures: ["p99 latency cold cache"], levels: [], charts: ["cache"], causes: [],
});

// The runs of level 0 were drawn over its score.
for (const state of ["healthy", "level-0-full"]) {
  test(`figures of the levels stay in their columns: ${state}`, () => onPage({ state }, async (page) => {
    const wide = await page.evaluate(() => {
      const cells = [...document.querySelectorAll(".level-figures td")];
      return cells.filter((cell) => cell.scrollWidth > cell.clientWidth).map((cell) => cell.textContent);
    });
    assert.deepEqual(wide, []);
  }));
}

test("a state that changes while the page is open", () => onPage({}, async (page, options) => {
  options.state = "disk-full";
  await page.locator(".health[data-state=bad]").waitFor();
  options.state = "healthy";
  await page.locator(".health[data-state=ok]").waitFor();
}));

// Rules of WCAG 2.2 AA, with the contrast of every text.
const axe = load("axe-core") && readFileSync(resolve("axe-core"), "utf8");

for (const theme of ["light", "dark"]) {
  for (const state of ["healthy", "disk-full", "level-0-full"]) {
    for (const width of [1440, 360]) {
      test(`accessibility: ${state}, ${theme}, ${width} px`, () => onPage({ state, theme, viewport: { width, height: 900 } }, async (page) => {
        await page.locator(".row.key").first().click();
        await page.locator(".viewer .value pre").waitFor();
        // A header that stays at the top would cover the controls below it.
        await page.evaluate(() => scrollTo(0, 0));
        // The policy of the page refuses inline code, so the debugger runs axe.
        await page.evaluate(axe);
        const found = await page.evaluate(async () => {
          const { violations } = await globalThis.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa"] });
          return violations.flatMap((one) => one.nodes.map((node) => `${one.id}: ${node.target} ${node.any[0]?.message ?? ""}`));
        });
        assert.deepEqual(found, []);
      }));
    }
  }
}
