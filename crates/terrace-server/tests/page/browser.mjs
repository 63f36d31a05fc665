// A real browser for the tests. Each page collects its problems: errors, refused code, other hosts.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { mock } from "./mock.mjs";

const BROWSERS = [process.env.TERRACE_CHROMIUM, "/usr/bin/chromium-headless-shell", "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
// The packages are below target/, where `install` puts them.
const packages = createRequire(path.join(process.env.TERRACE_PAGE_PACKAGES ?? import.meta.dirname ?? ".", "package.json"));

export const executable = BROWSERS.find((file) => file && existsSync(file));

export function load(name) {
  try {
    return packages(name);
  } catch {
    return null;
  }
}

export const resolve = (name) => packages.resolve(name);

let browser = null;

export async function launch() {
  browser ??= await load("playwright-core").chromium.launch({ executablePath: executable, args: ["--no-sandbox", "--enable-precise-memory-info"] });
  return browser;
}

export const close = () => browser?.close();

// Fails on all that a page must not do.
function watch(page, origin) {
  const problems = [];
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && problems.push(`console: ${message.text()}`));
  page.on("pageerror", (error) => problems.push(`error: ${error.stack}`));
  page.on("dialog", (dialog) => {
    problems.push(`dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.on("request", (request) => request.url().startsWith(origin) || problems.push(`request to ${request.url()}`));
  return problems;
}

// Opens the page on a planted state, runs `act`, and checks that there was no problem.
export async function onPage(settings, act) {
  const { viewport = { width: 1440, height: 900 }, theme = "light", allowed = [], address, initially, ...planted } = settings;
  const server = address ? null : mock(planted);
  const url = address ?? (await server.listen());
  const context = await (await launch()).newContext({ viewport, colorScheme: theme, reducedMotion: "reduce", hasTouch: viewport.width < 720, permissions: ["clipboard-read", "clipboard-write"] });
  const page = await context.newPage();
  page.setDefaultTimeout(10_000);
  const problems = watch(page, new URL(url).origin);
  try {
    await page.addInitScript(() => {
      addEventListener("securitypolicyviolation", (event) => console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`));
    });
    if (initially) await page.addInitScript(initially);
    await page.goto(url);
    await page.locator(".levels canvas").waitFor();
    await page.locator(".row").first().waitFor();
    await act(page, server?.options, server);
    assert.deepEqual(problems.filter((problem) => !allowed.some((pattern) => pattern.test(problem))), []);
  } finally {
    await context.close();
    server?.server.closeAllConnections();
    server?.server.close();
  }
}

// Bytes that the code of the page keeps: the smallest of five figures after collections, half a second apart.
// A single figure is up to 3 MiB higher while the page reads a reply.
export async function keptHeap(page) {
  const session = await page.context().newCDPSession(page);
  let smallest = Infinity;
  for (let i = 0; i < 5; i += 1) {
    await session.send("HeapProfiler.collectGarbage");
    smallest = Math.min(smallest, (await session.send("Runtime.getHeapUsage")).usedSize);
    await page.waitForTimeout(500);
  }
  await session.detach();
  return smallest;
}

// Waits until `read` returns `expected`.
export async function eventually(read, expected) {
  let last;
  for (let i = 0; i < 100; i += 1) {
    last = await read();
    if (last === expected) return;
    await new Promise((done) => setTimeout(done, 50));
  }
  assert.equal(last, expected);
}
