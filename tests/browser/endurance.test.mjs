// A page that stays open: the server goes and comes back, and 50,000 events pass.
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";
import * as h from "./helper.mjs";

const folder = h.temporaryFolder();
const runs = ["a", "b"].map((name) => path.join(folder, name));
let browser, server, page;

function line(iteration, more = {}) {
  const loss = 2 + Math.exp(-iteration / 5000) + Math.random() / 10;
  return JSON.stringify({ iteration, loss, lr: 1e-3, norm: 1 + Math.random(), ms: 10, tokens_per_second: 9000, ...more }) + "\n";
}

const append = (run, text) => fs.appendFileSync(path.join(run, "metrics.jsonl"), text);

before(async () => {
  await h.train(runs[0], "--max-iters 20 --log-interval 5 --eval-interval 20 --eval-iters 1 --final-eval none");
  fs.cpSync(runs[0], runs[1], { recursive: true });
  [server, browser] = await Promise.all([h.watch(...runs), h.launch()]);
  page = await h.open(browser, server.url);
  await h.plot(page, "Loss");
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

/** Lets the page's questions for histories fail, and has it ask one, which it repeats each second. Returns what ends that. */
async function failHistories() {
  let ask;
  const asked = new Promise((resolve) => (ask = resolve));
  const fail = (request) => {
    if (!request.url().endsWith("/history")) return request.continue();
    ask();
    return request.abort();
  };
  page.on("request", fail);
  await page.setRequestInterception(true);
  const metrics = path.join(runs[0], "metrics.jsonl");
  const text = fs.readFileSync(metrics);
  fs.truncateSync(metrics, 0);
  await asked;
  fs.writeFileSync(metrics, text);
  return async () => {
    page.off("request", fail);
    await page.setRequestInterception(false);
  };
}

test("the page reconnects to a server that was killed, and knows its runs by their folders", async () => {
  await h.until(page, () => document.querySelectorAll(".run").length === 2);
  const answerAgain = await failHistories();
  await server.stop();
  await h.until(page, () => document.querySelector("#connection").dataset.state === "lost");
  await answerAgain();
  const early = []; // questions by an id that may be another run's by then
  const note = (request) => request.url().endsWith("/history") && early.push(request.url());
  page.on("request", note);
  await new Promise((resolve) => setTimeout(resolve, 1500));
  page.off("request", note);
  assert.deepEqual(early, []);
  append(runs[0], line(1000));
  const { port } = new URL(server.url);
  server = await h.watch("--port", port, runs[1], runs[0]); // other ids than before
  await h.until(page, () => document.querySelector("#connection").dataset.state === "live");
  for (const step of [1000, 1005]) {
    if (step > 1000) append(runs[0], line(step));
    await h.until(page, (s) => document.querySelectorAll(".run").length === 2 && document.body.innerText.includes(s), step.toLocaleString("en"));
    assert.equal(await h.shownStep(page, "a"), step);
    assert.equal(await h.shownStep(page, "b"), 20);
  }
  assert.deepEqual(h.withoutServer(page.problems).filter((problem) => !problem.includes("ERR_FAILED")), []);
  page.problems = [];
});

test("a file that was cut is read anew", async () => {
  const metrics = path.join(runs[0], "metrics.jsonl");
  fs.truncateSync(metrics, 0);
  append(runs[0], line(5));
  await h.until(page, () => [...document.querySelectorAll("[data-value=step]")].some((step) => step.textContent === "5"));
});

test("50,000 events leave no more behind than 10,000", async () => {
  const session = await page.createCDPSession();
  const heap = async () => {
    await session.send("HeapProfiler.collectGarbage");
    return (await session.send("Runtime.getHeapUsage")).usedSize / 2 ** 20;
  };
  const nodes = () => page.evaluate(() => document.getElementsByTagName("*").length);
  const each = 2500;
  let begin = 10;
  const feed = async (events) => {
    for (const end = begin + events; begin < end; begin += each) {
      const lines = Array.from({ length: each }, (_, i) => line(begin + i, i % 50 === 0 ? { val_loss: 2.5 } : {}));
      append(runs[0], lines.join(""));
      const last = begin + each - 1;
      await h.until(page, (s) => document.body.innerText.includes(s), last.toLocaleString("en"));
    }
  };
  await feed(10000);
  const [first, firstNodes] = [await heap(), await nodes()];
  await feed(40000);
  const [last, lastNodes] = [await heap(), await nodes()];
  console.log(`JS heap after 10,000 events: ${first.toFixed(1)} MiB, after 50,000: ${last.toFixed(1)} MiB`);
  assert.ok(last < first + 3, `${first} MiB, then ${last} MiB`);
  assert.ok(lastNodes <= firstNodes + 20, `${firstNodes} elements, then ${lastNodes}`);
  assert.deepEqual(page.problems, []);
});
