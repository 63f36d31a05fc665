// Texts of the charts at several widths: no label touches another one, and no legend is cut.
import assert from "node:assert/strict";
import { test } from "node:test";
import { onPage } from "./browser.mjs";

// Records the labels that each canvas shows. A cleared canvas shows none.
function recordLabels() {
  const { fillText, clearRect } = CanvasRenderingContext2D.prototype;
  globalThis.labels = new Map();
  CanvasRenderingContext2D.prototype.clearRect = function clear(...args) {
    globalThis.labels.set(this.canvas, []);
    return clearRect.apply(this, args);
  };
  CanvasRenderingContext2D.prototype.fillText = function fill(text, x, y) {
    const { actualBoundingBoxLeft: left, actualBoundingBoxRight: right, actualBoundingBoxAscent: up, actualBoundingBoxDescent: down } = this.measureText(text);
    const { e, f } = this.getTransform();
    if (text) globalThis.labels.get(this.canvas)?.push({ text, left: e + x - left, right: e + x + right, top: f + y - up, bottom: f + y + down });
    return fillText.call(this, text, x, y);
  };
}

// Pairs of labels whose boxes touch, and labels beyond the edge of their canvas.
const faultyLabels = (page) => page.evaluate(() => [...globalThis.labels].filter(([canvas]) => canvas.isConnected).flatMap(([canvas, list]) => {
  const beyond = list.filter((one) => one.left < 0 || one.right > canvas.width).map((one) => `${one.text} is cut`);
  const touching = list.flatMap((a, i) => list.slice(i + 1).filter((b) => a.left < b.right + 1 && b.left < a.right + 1 && a.top < b.bottom + 1 && b.top < a.bottom + 1).map((b) => `${a.text} touches ${b.text}`));
  return [...beyond, ...touching];
}));

// Values of legends that are not inside of their chart.
const cutValues = (page) => page.evaluate(() => [...document.querySelectorAll(".chart")].flatMap((chart) => {
  const box = chart.getBoundingClientRect();
  return [...chart.querySelectorAll("output")].filter((one) => {
    const { left, right, bottom } = one.getBoundingClientRect();
    return left < box.left || right > box.right || bottom > box.bottom;
  }).map((one) => `${chart.dataset.chart}: ${one.textContent}`);
}));

const SIZES = [[1200, 800], [1280, 720], [1366, 768], [1440, 900], [1920, 1080], [360, 740]];

for (const state of ["level-0-full", "starved-flush"]) {
  test(`texts of the charts at all sizes, ${state}`, () => onPage({ state, initially: recordLabels }, async (page) => {
    for (const [width, height] of SIZES) {
      await page.setViewportSize({ width, height });
      for (const range of ["10 min", "hour"]) {
        await page.getByRole("radio", { name: range, exact: true }).check();
        await page.waitForTimeout(150);
        const count = await page.evaluate(() => [...globalThis.labels.values()].flat().length);
        assert.ok(count > 3, `${count} labels`);
        const place = `${width} by ${height} px, ${range}`;
        assert.deepEqual(await faultyLabels(page), [], place);
        assert.deepEqual(await cutValues(page), [], place);
      }
    }
  }));
}
