// Takes the pictures of docs/guide/page.md that a mock server shows: `node pictures.mjs DIR`.
// stalls.mjs takes those of a real server.
import { mkdirSync } from "node:fs";
import path from "node:path";
import { close, executable, load, onPage } from "./browser.mjs";

const directory = process.argv[2];

const desktop = { width: 1200, height: 800 };
const choose = async (page) => {
  await page.keyboard.press("/");
  await page.keyboard.type("FR:");
  await page.locator(".folder").getByText("FR:00:", { exact: true }).click();
  await page.locator(".row.key").nth(7).click();
  await page.locator(".members").waitFor();
  await page.getByRole("tab", { name: "commands" }).click();
  await page.mouse.move(2, 2);
};

// Name of the picture, its settings, and what happens before it is taken.
const PICTURES = [
  ["healthy", { viewport: desktop }, choose],
  ["phone", { state: "level-0-full", viewport: { width: 360, height: 740 } }],
];

if (!executable || !load("playwright-core")) {
  console.log("NOT TESTED: pictures of the page, because chromium or playwright-core is not installed; see .ci/setup");
  process.exit(3);
}
mkdirSync(directory, { recursive: true });
for (const [name, settings, act] of PICTURES) {
  await onPage(settings, async (page) => {
    await act?.(page);
    await page.waitForTimeout(1500);
    await page.screenshot({ path: path.join(directory, `${name}.png`) });
  });
}
await close();
