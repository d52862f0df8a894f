// Lines of metrics.jsonl that training seldom writes: skipped steps, names that are the page's own, changed texts.
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";
import * as h from "./helper.mjs";

const folder = h.temporaryFolder();
const run = path.join(folder, "run");
let browser, server, page;

const lines = (...all) => all.map((values) => JSON.stringify(values) + "\n").join("");
const append = (...all) => fs.appendFileSync(path.join(run, "metrics.jsonl"), lines(...all));
const shows = (p, step) => h.until(p, (s) => document.querySelector("[data-value=step]")?.textContent === s, String(step));

before(async () => {
  await h.train(run, "--max-iters 20 --log-interval 5 --eval-interval 20 --eval-iters 1 --final-eval none");
  [server, browser] = await Promise.all([h.watch(run), h.launch()]);
  page = await h.open(browser, server.url);
  await h.plot(page, "Loss");
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

test("names of files are no words of the page", async () => {
  for (const iteration of [25, 30]) append({ iteration, loss: 2, toString: 1, left: iteration, lossChart: 3, __proto__: 4 });
  await shows(page, 30);
  for (const name of ["toString", "left", "lossChart"]) await h.plot(page, name);
  append({ iteration: 35, loss: 2 }); // the page still draws
  await shows(page, 35);
});

test("a skipped step is told, counted, and no point of the loss, live and after a reload", async () => {
  append({ iteration: 40, loss: 900, norm: 800, lr: 0.001, skipped: true }, { iteration: 45, loss: 2 });
  await shows(page, 45);
  const told = async () => {
    const loss = await h.plot(page, "Loss");
    await loss.focus();
    await page.keyboard.press("End");
    await page.keyboard.press("ArrowLeft");
    const { step, rows } = await h.tip(loss);
    assert.equal(step, "step 40");
    assert.match(await h.told(loss), /skipped/);
    assert.ok(rows.every(([, value]) => value < 10), String(rows));
    assert.equal(await page.$eval("[data-value=skipped]", (skipped) => skipped.textContent), "1");
  };
  await told();
  await page.reload();
  await shows(page, 45);
  await told();
});

test("a sample that changed is drawn again, with the step of its loss", async () => {
  append({ iteration: 47, sample: "one text" });
  await h.until(page, () => document.querySelector(".written pre")?.textContent === "one text");
  assert.match(await page.$eval(".written header > small", (loss) => loss.textContent), /^train loss 2\.000 at step 45$/);
  const metrics = path.join(run, "metrics.jsonl");
  fs.writeFileSync(metrics, fs.readFileSync(metrics, "utf8").replace("one text", "another"));
  append({ iteration: 50, loss: 2 });
  await server.stop(); // the file is read anew
  server = await h.watch("--port", new URL(server.url).port, run);
  await h.until(page, () => document.querySelector(".written pre")?.textContent === "another");
});

test("news of the list keep the focus and the elements of a card", async () => {
  await page.click(".run details summary");
  await page.$eval(".run .origin a", (link) => (link.focus(), (link.known = true)));
  fs.cpSync(run, path.join(folder, "other"), { recursive: true });
  const { port } = new URL(server.url);
  await server.stop();
  server = await h.watch("--port", port, run, path.join(folder, "other"));
  await h.until(page, () => document.querySelectorAll(".run").length === 2);
  assert.ok(await page.evaluate(() => document.activeElement.known));
});

test("what a chart tells is in the language of the page", async () => {
  await page.click("#language");
  await page.mouse.move(1, 1);
  assert.match(await h.told(await h.plot(page, "损失")), /方向键/);
  await page.click("#language");
});

test("runs that are left out are told of", async () => {
  const some = await h.open(browser, server.url);
  assert.ok(await some.$eval("#full", (note) => note.hidden));
  await some.setRequestInterception(true);
  some.on("request", async (request) => {
    if (!request.url().endsWith("/api/runs")) return request.continue();
    const answer = await (await fetch(request.url())).json();
    request.respond({ contentType: "application/json", body: JSON.stringify({ ...answer, full: true }) });
  });
  await some.reload();
  await h.until(some, () => !document.querySelector("#full").hidden);
  await some.close();
});

test("pages out of sight leave their connections to others", async () => {
  const context = await browser.createBrowserContext();
  const hide = (p, hidden) =>
    p.evaluate((state) => {
      Object.defineProperty(document, "hidden", { configurable: true, get: () => state });
      document.dispatchEvent(new Event("visibilitychange"));
    }, hidden);
  const tabs = [];
  for (let i = 0; i < 7; ++i) {
    const tab = await h.open(browser, server.url, { context }); // the seventh needs a connection, too
    await shows(tab, 50);
    if (i < 6) await hide(tab, true);
    tabs.push(tab);
  }
  append({ iteration: 60, loss: 2 });
  await shows(tabs[6], 60);
  await hide(tabs[6], true);
  assert.equal(await tabs[0].$eval("[data-value=step]", (step) => step.textContent), "50");
  await hide(tabs[0], false);
  await shows(tabs[0], 60);
  await context.close();
});

test("nothing went wrong on the page", () => {
  assert.deepEqual(h.withoutServer(page.problems), []);
});

test("smoothing reaches as many steps back, whatever the distance of the points", async () => {
  const source = fs.readFileSync(path.join(h.sources, "apps/watch/page/series.js"), "utf8");
  const { smooth } = await import(`data:text/javascript,${encodeURIComponent(source)}`);
  const value = (x) => (x < 1000 ? 5 : 1);
  const coarse = Array.from({ length: 201 }, (_, i) => 10 * i);
  const mixed = coarse.concat(Array.from({ length: 50 }, (_, i) => 2001 + i));
  const at = (xs, x) => smooth(xs, xs.map(value), 0.97)[xs.indexOf(x)];
  assert.ok(Math.abs(at(mixed, 2000) - at(coarse, 2000)) < 1e-12);
  const later = coarse.concat([2010, 2020, 2030, 2040, 2050]);
  assert.ok(Math.abs(at(mixed, 2050) - at(later, 2050)) < 1e-9, `${at(mixed, 2050)} and ${at(later, 2050)}`);
});
