// The page against real runs: one that has ended and one that trains.
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";
import * as h from "./helper.mjs";

const folder = h.temporaryFolder();
const [ended, live] = ["ended", "live"].map((name) => path.join(folder, "runs", name));
const often = "--log-interval 5 --eval-interval 20 --eval-iters 1 --layer-stats 10 --sample-interval 30";
let browser, training, server, page;

before(async () => {
  await h.train(ended, `--max-iters 120 --learning-rate 0.003 --final-eval 2 ${often}`);
  training = await h.train(live, `--max-iters 1000000 --learning-rate 0.001 ${often}`, true);
  [server, browser] = await Promise.all([h.watch(path.join(folder, "runs")), h.launch()]);
  page = await h.open(browser, server.url);
  await h.plot(page, "Loss");
});

after(async () => {
  await browser?.close();
  await Promise.all([training?.stop(), server?.stop()]);
});

test("a run that trains shows its points, and new ones as they come", async () => {
  const own = await h.open(browser, training.url); // of train-gpt --serve itself
  assert.ok((await h.colors(await h.plot(own, "Loss"))) > 10);
  for (let i = 0; i < 3; ++i) {
    const step = h.lastStep(live);
    for (let looks = 0; (await h.shownStep(own, "live")) < step; ++looks) {
      assert.ok(looks < 1200, `step ${step} is never shown`); // other programs may keep the machine busy
      await h.sleep(50);
    }
  }
  assert.match(await own.$eval(".run .state", (state) => state.textContent), /training/);
  assert.notEqual(await own.$eval("[data-value=left]", (left) => left.textContent), "");
  assert.deepEqual(own.problems, []);
  await own.close();
});

test("a server that is gone leaves no run training, and no time left", async () => {
  const other = await h.watch(live);
  const own = await h.open(browser, other.url);
  await h.until(own, () => document.querySelector("[data-value=left]")?.textContent);
  await other.stop();
  await h.until(own, () => document.querySelector(".run .state").textContent === "no connection");
  assert.ok(await own.$eval("[data-value=left]", (left) => left.parentElement.hidden));
  assert.deepEqual(h.withoutServer(own.problems), []);
  await own.close();
});

test("a run that an error has ended says so, and why", async () => {
  const failed = path.join(folder, "failed");
  fs.mkdirSync(failed);
  const put = (name, ...lines) => fs.writeFileSync(path.join(failed, name), lines.map((line) => JSON.stringify(line) + "\n").join(""));
  put("config.json", { format: "tapegrad-gpt", version: 2, optimizer: { max_iters: 100 } });
  put("metrics.jsonl", { iteration: 0, loss: 3 });
  put(
    "sessions.jsonl",
    { first_step: 0, command: "train-gpt of an earlier version" },
    { first_step: 0, command: "train-gpt", tells_end: true }, // killed
    { first_step: 0, command: "train-gpt again" },
    { first_step: 0, ended: "error", ended_at: "2026-01-01T00:00:00Z", last_step: 7, why: "the <b>loss</b> is NaN" },
  );
  const other = await h.watch(failed);
  const own = await h.open(browser, other.url);
  await h.until(own, () => document.querySelector(".run .state")?.textContent === "failed");
  assert.equal(await own.$eval(".run .reason", (reason) => reason.textContent), "the <b>loss</b> is NaN");
  const [first, last] = await own.$$eval(".origin .ending", (all) => all.map((ending) => ending.textContent));
  assert.equal(first, "killed, or the power failed");
  assert.match(last, /^error, at step 7, .*: the <b>loss<\/b> is NaN$/);
  assert.deepEqual(own.problems, []);
  await other.stop();
  await own.close();
});

test("two runs are compared, and the options that differ are listed", async () => {
  await h.until(page, () => document.querySelectorAll(".run").length === 2);
  await h.until(page, () => document.querySelector("#differences tbody"));
  const rows = await page.$$eval("#differences tbody tr", (all) => all.map((row) => row.innerText.split("\t")));
  const names = rows.map(([name]) => name);
  assert.ok(names.includes("learning_rate") && names.includes("max_iters"), String(names));
  assert.ok(!names.includes("n_layer"), "n_layer is the same in both");
  const head = await page.$$eval("#differences thead th", (cells) => cells.map((cell) => cell.textContent));
  const rate = rows.find(([name]) => name === "learning_rate");
  assert.equal(Number(rate[head.indexOf("ended")]), 0.003);
  assert.equal(Number(rate[head.indexOf("live")]), 0.001);

  const loss = await h.plot(page, "Loss");
  await loss.hover();
  const both = (await h.tip(loss)).rows.map(([label]) => label);
  assert.ok(both.some((label) => label.startsWith("ended: ")) && both.some((label) => label.startsWith("live: ")));
  await h.toggle(page, "live"); // from here on, numbers stand still
  await h.until(page, () => document.querySelector("#compare").hidden);
});

test("hovering tells values", async () => {
  const loss = await h.plot(page, "Loss");
  await page.mouse.move(1, 1);
  assert.equal(await h.tip(loss), null);
  await loss.hover();
  const { step, rows } = await h.tip(loss);
  assert.match(step, /^step \d+$/);
  assert.match(rows[0][0], /train loss/);
  assert.ok(rows.length === 2 && rows.every(([, value]) => value > 0.5 && value < 10), String(rows));
});

test("arrow keys tell values, and zoom", async () => {
  const loss = await h.plot(page, "Loss");
  await page.mouse.move(1, 1);
  await loss.focus();
  await page.keyboard.press("Home");
  assert.match(await h.told(loss), /^step 0: train loss \d/);
  await page.keyboard.press("ArrowRight");
  assert.match(await h.told(loss), /^step 5: /);
  await page.keyboard.press("End");
  assert.match(await h.told(loss), /^step 120: .*validation loss \d/);
  assert.match((await h.tip(loss)).step, /120/);
  await page.keyboard.press("+");
  await h.until(page, () => !document.querySelector("#whole").hidden);
  await page.click("#whole");
  await h.until(page, () => document.querySelector("#whole").hidden);
});

// Where the marker of the first line is, in pixels, and its value.
async function marker(loss, key) {
  await loss.focus();
  await loss.page.keyboard.press(key);
  const top = await loss.evaluate((element) => {
    const transform = element.querySelector(".u-cursor-pt").style.transform;
    return Number(transform.match(/, ?([-\d.]+)px/)[1]);
  });
  return [top, (await h.tip(loss)).rows[0][1]];
}

test("the log scale is one, and the linear scale is linear", async () => {
  const loss = await h.plot(page, "Loss");
  loss.page = page;
  for (const [scale, map] of Object.entries({ log: Math.log, linear: (x) => x })) {
    await page.click(`[data-value=${scale}]`);
    const [y0, v0] = await marker(loss, "Home");
    await marker(loss, "PageDown");
    const [y1, v1] = await marker(loss, "PageDown");
    const [y2, v2] = await marker(loss, "End");
    const [seen, due] = [(y0 - y1) / (y0 - y2), (map(v0) - map(v1)) / (map(v0) - map(v2))];
    assert.ok(Math.abs(seen - due) < 0.012, `${scale}: ${seen} of the way, ${due} is due`);
  }
});

test("smoothing adds a calmer line, and the table has both", async () => {
  await page.click("[data-value=some]");
  await page.click(".chart summary");
  await h.until(page, () => document.querySelectorAll(".chart tbody tr").length >= 20);
  const [raw, soft] = await page.$$eval(".chart tbody tr", (rows) =>
    [1, 2].map((column) => rows.map((row) => Number(row.cells[column].textContent)).filter((value) => value > 0)),
  );
  const wander = (ys) => ys.slice(1).reduce((sum, y, i) => sum + Math.abs(y - ys[i]), 0);
  assert.ok(raw.length >= 20 && soft.length === raw.length);
  assert.ok(wander(soft) < 0.7 * wander(raw), `${wander(soft)} and ${wander(raw)}`);
  await page.click(".chart summary");
  await page.click("[data-value=off]");
});

test("samples stand beside their steps", async () => {
  const steps = await page.$$eval(".written h3", (all) => all.map((title) => title.textContent));
  assert.deepEqual(steps, ["step 120", "step 90", "step 60", "step 30"]);
  const texts = await page.$$eval(".written pre", (all) => all.map((text) => text.textContent));
  assert.ok(texts.every((text) => text.length > 20) && new Set(texts).size === 4);
});

test("statistics of layers are drawn, and told", async () => {
  const map = await h.plot(page, "Gradient");
  assert.ok((await h.colors(map)) > 10);
  assert.ok((await h.colors(await h.plot(page, "As lines"))) > 10);
  await page.mouse.move(1, 1);
  await map.focus();
  await page.keyboard.press("ArrowUp");
  const first = await h.told(map);
  assert.match(first, /^[a-z]\S+, step \d+: \d/);
  await page.keyboard.press("ArrowLeft");
  const left = await h.told(map);
  assert.equal(left.split(",")[0], first.split(",")[0]);
  assert.notEqual(left, first);
  await map.hover();
  assert.match((await h.tip(map)).step, /^(h\.\d|wte|wpe|ln_f|lm_head)/);
  await page.click("#layers [data-value=update]");
  const updates = await h.plot(page, "Update / weight");
  assert.ok((await h.colors(updates)) > 10);
  await page.click("#layers [data-value=gradient]");
});

test("the inside of the model answers for a typed text", { skip: h.hasInspect ? false : "there is no inspect" }, async () => {
  await page.select("#inside-run", await page.$$eval("#inside-run option", (all) => all.find((o) => o.text === "ended").value));
  await h.empty(page, "#inside-text");
  await page.click("#inside .main");
  assert.match(await page.$eval("#inside .note", (note) => note.textContent), /type a text/);
  await page.type("#inside-text", "The change of the tape");
  await page.click("#inside .main");
  await h.until(page, () => document.querySelector("#inside-result").children.length > 0);
  const words = await page.$eval("#inside-result", (result) => result.innerText);
  assert.match(words, /tokens/);
  await page.click("#language");
  await h.until(page, () => /[一-龥]/.test(document.querySelector("#inside-result").innerText));
  await page.click("#language");
});

test("a run's newest checkpoint can be talked to, on a page of its own", async () => {
  await page.click("#talk");
  const target = await browser.waitForTarget((t) => t.url().startsWith("http://127.0.0.1:") && !t.url().startsWith(server.url), { timeout: 60000 });
  const talk = await target.page();
  // Who sees the page through ssh must forward that port, too.
  const port = new URL(target.url()).port;
  assert.ok((await page.$eval("form:has(#talk) [role=status]", (status) => status.innerText)).includes(`ssh -L ${port}:localhost:${port} HOST`));
  await h.until(talk, () => document.querySelector("#connection")?.dataset.state === "live");
  await talk.type("#input", "The change");
  await talk.keyboard.press("Enter");
  await h.until(talk, () => document.querySelectorAll(".token").length > 3);
  await talk.close();
});

test("the command line of a run is there", async () => {
  const words = await page.$$eval(".command code", (all) => all.map((code) => code.textContent));
  assert.ok(words.some((line) => line.includes("train-gpt") && line.includes("--learning-rate 0.003")), String(words));
});

test("the report of a run is a page with its own look, and without scripts", async () => {
  const link = await page.$eval(".run a", (a) => a.href);
  const report = await browser.newPage();
  const answer = await report.goto(link);
  assert.equal(answer.status(), 200);
  assert.match(answer.headers()["content-security-policy"], /default-src 'none'/);
  assert.ok((await report.$$("svg")).length >= 2);
  assert.ok(await report.evaluate(() => document.styleSheets[0].cssRules.length > 5));
  await report.close();
});

test("nothing went wrong on the page, and nothing left this host", () => assert.deepEqual(page.problems, []));
