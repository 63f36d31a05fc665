// The parts of the page that a cause marks.
import assert from "node:assert/strict";

export const marks = (page) => page.evaluate(() => ({
  health: document.querySelector(".health").dataset.state,
  words: document.querySelector(".health strong").textContent,
  figures: [...document.querySelectorAll(".figure[data-mark]")].map((one) => one.querySelector("dt").textContent),
  levels: [...document.querySelectorAll(".level-labels [data-mark]")].map((one) => one.textContent),
  charts: [...document.querySelectorAll(".chart[data-mark]")].map((one) => one.dataset.chart),
  causes: [...document.querySelectorAll(".cause")].map((one) => one.textContent.replace(/^[\d.]+\s\S+ /, "")),
}));

// True if each text matches the pattern at its place.
const match = (texts, patterns) => texts.length === patterns.length && texts.every((text, i) => new RegExp(`^(${patterns[i]})$`).test(text));

// Waits until the page has the marks, and the health the words. A real database may stall for
// further causes, too.
export async function marksOf(page, expected, words, time) {
  const end = Date.now() + time;
  let found;
  do {
    await page.waitForTimeout(200);
    found = await marks(page);
    const { figures, levels, charts } = found;
    const hasCauses = expected.causes.every((cause) => found.causes.includes(cause));
    if (words.test(found.words) && hasCauses && match(figures, expected.figures) && match(levels, expected.levels) && match(charts, expected.charts)) return;
  } while (Date.now() < end);
  assert.deepEqual(found, { ...expected, words: String(words) });
}
