// All tests of the page in one browser. NOT TESTED has the exit code 3.
import { after } from "node:test";
import { close, executable, load } from "./browser.mjs";

if (!executable || !load("playwright-core")) {
  console.log(`NOT TESTED: the page in a browser: ${executable ? "playwright-core" : "chromium"} is not installed; see .ci/setup`);
  process.exit(3);
}
after(close);
await import("./states.test.mjs");
await import("./controls.test.mjs");
await import("./charts.test.mjs");
await import("./limits.test.mjs");
