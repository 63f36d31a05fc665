// The tests of the page that the arguments name, or all, in one browser. NOT TESTED has the exit code 3.
import { after } from "node:test";
import { close, executable, load } from "./browser.mjs";

if (!executable || !load("playwright-core")) {
  console.log(`NOT TESTED: the page in a browser: ${executable ? "playwright-core" : "chromium"} is not installed; see .ci/setup`);
  process.exit(3);
}
after(close);
const parts = process.argv.length > 2 ? process.argv.slice(2) : ["states", "controls", "charts", "limits"];
for (const part of parts) await import(`./${part}.test.mjs`);
