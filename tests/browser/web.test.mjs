// The page that `export --format web` writes: it runs a model by itself. Skipped where scripts/web.sh was not run.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import http from "node:http";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { after, before, test } from "node:test";
import * as h from "./helper.mjs";

const skip = fs.existsSync(path.join(process.env.TAPEGRAD_BUILD, "share/tapegrad/web.html")) ? false : "there is no em++ to make the page by";
const folder = h.temporaryFolder();
const run = path.join(folder, "run"), file = path.join(folder, "notes.html");
let browser, page;

function tapegrad(name, ...words) {
  const { status, stdout, stderr } = spawnSync(h.program(name), words, { encoding: "utf8" });
  assert.equal(status, 0, stderr);
  return stdout;
}

async function openFile({ width = 1280, theme = "light", url = pathToFileURL(file).href } = {}) {
  const own = await browser.newPage();
  own.problems = [];
  own.on("pageerror", (error) => own.problems.push(error.stack));
  own.on("console", (message) => ["error", "warn"].includes(message.type()) && own.problems.push(message.text()));
  own.on("request", (request) => request.url().startsWith("data:") || request.url().startsWith(new URL(".", url)) || own.problems.push(`request to ${request.url()}`));
  await own.setViewport({ width, height: 900 });
  await own.emulateMediaFeatures([{ name: "prefers-color-scheme", value: theme }]);
  await own.goto(url);
  await h.until(own, () => !document.querySelector("#go").disabled);
  return own;
}

async function fill(own, field, text) {
  await own.$eval(field, (element, value) => (element.value = value), text);
}

const idle = (own) => h.until(own, () => !document.querySelector("#go").disabled);
const text = (own, field) => own.$eval(field, (element) => element.textContent);

async function press(own, button) {
  await own.click(button);
  await idle(own);
}

before(async () => {
  if (skip) return;
  await h.train(run, "--max-iters 60");
  tapegrad("export", run, "-o", file);
  browser = await h.launch();
  page = await openFile();
});

after(() => browser?.close());

test("a file without a server writes the text that sample writes", { skip }, async () => {
  await fill(page, "#prompt", "The ");
  await fill(page, "#max_new_tokens", "60");
  await page.click("#greedy");
  await press(page, "#go");
  const sample = tapegrad("sample", run, "--prompt", "The ", "--greedy", "--max-new-tokens", "60");
  const written = await text(page, "#output");
  assert.equal(written.length, 64);
  assert.ok(sample.includes(written), `${written} is not in ${sample}`);
  assert.equal((await page.$$("#chances li")).length, 10);
  assert.match(await text(page, "#rate"), /^60 tokens, [\d.]+ tokens\/s$/);
});

test("a seed writes the same text again, and a key goes from token to token", { skip }, async () => {
  await page.click("#greedy");
  const again = async () => (await press(page, "#go"), text(page, "#output"));
  const first = await again();
  assert.equal(await again(), first);
  await fill(page, "#seed", "5");
  assert.notEqual(await again(), first);
  await page.focus("#output");
  const last = await text(page, "#chances p");
  await page.keyboard.press("ArrowLeft");
  assert.notEqual(await text(page, "#chances p"), last);
  await page.hover("#output .token");
  assert.ok(await page.$eval("#output .token", (token) => token.classList.contains("chosen")));
});

test("the page shows attention, predictions and gradients of its text", { skip }, async () => {
  await press(page, "#look");
  assert.equal((await page.$$("#inside section")).length, 4);
  assert.equal((await page.$$("#inside .heads button")).length, 4);
  assert.equal((await page.$$("#inside .bars .token")).length, 32);
});

test("a model learns in the page, and forgets", { skip }, async () => {
  await page.click("#greedy");
  const greedy = async () => (await press(page, "#go"), text(page, "#output"));
  const before = await greedy();
  await fill(page, "#text", "The cat sat on the mat. ".repeat(20));
  await fill(page, "#steps", "20");
  await fill(page, "#learning_rate", "0.01");
  await press(page, "#train");
  const [, first, last] = (await page.$eval("#losses", (svg) => svg.getAttribute("aria-label"))).match(/from ([\d.]+) to ([\d.]+)/).map(Number);
  assert.ok(last < 0.8 * first, `${first} to ${last}`);
  assert.match(await text(page, "#learnt"), /^step 20: loss [\d.]+, [\d.]+ ms a step$/);
  assert.notEqual(await greedy(), before);
  await press(page, "#forget");
  assert.equal(await greedy(), before);
});

test("what the engine refuses is told, and the page goes on", { skip }, async () => {
  await fill(page, "#prompt", "\u0416");
  await press(page, "#go");
  assert.match(await text(page, "#problem"), /U\+0416/);
  await fill(page, "#prompt", "");
  await press(page, "#go");
  assert.ok(await page.$eval("#problem", (problem) => problem.hidden));
  await fill(page, "#max_new_tokens", "100000");
  await page.click("#go");
  await h.until(page, () => document.querySelectorAll("#output .token").length > 3);
  await press(page, "#stop");
  assert.ok((await page.$$("#output .token")).length < 100000);
  assert.deepEqual(page.problems, []);
});

test("a folder works by a web server, with weights of half the size", { skip }, async () => {
  tapegrad("export", run, "--format", "web", "--dtype", "f16", "-o", path.join(folder, "page"));
  const server = http.createServer((request, response) => {
    const name = request.url === "/" ? "index.html" : path.basename(request.url);
    const asked = path.join(folder, "page", name);
    if (!fs.existsSync(asked)) return response.writeHead(404).end();
    response.setHeader("Content-Type", name.endsWith(".html") ? "text/html" : "application/octet-stream");
    fs.createReadStream(asked).pipe(response);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const own = await openFile({ url: `http://127.0.0.1:${server.address().port}/` });
  await press(own, "#go");
  assert.ok((await own.$$("#output .token")).length > 100);
  assert.deepEqual(own.problems, []);
  await own.close();
  server.close();
});

test("the page speaks Chinese, is dark, and fits a phone", { skip }, async () => {
  const own = await openFile({ width: 390, theme: "dark" });
  await own.click("#language");
  assert.equal(await text(own, "#go"), "写");
  assert.equal(await own.$eval("html", (html) => html.lang), "zh-CN");
  await press(own, "#go");
  await press(own, "#look");
  await fill(own, "#text", "The cat sat on the mat. ".repeat(20));
  await fill(own, "#steps", "3");
  await press(own, "#train");
  assert.ok(await own.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
  assert.deepEqual(own.problems, []);
  await own.close();
});

test("the page meets WCAG 2.1 AA as far as axe can tell", { skip }, async () => {
  const axe = fs.readFileSync(path.join(h.sources, "tests/browser/node_modules/axe-core/axe.min.js"), "utf8");
  for (const theme of ["light", "dark"]) {
    const own = await openFile({ theme });
    await press(own, "#go");
    await own.evaluate(axe);
    const { violations } = await own.evaluate(() => axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"] }));
    assert.deepEqual(violations.map(({ id, nodes }) => [id, nodes.map((node) => node.html)]), []);
    await own.close();
  }
});
