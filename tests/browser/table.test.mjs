// The table of runs, what people write about them, and what the charts make of many runs and far values.
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";
import * as h from "./helper.mjs";

const folder = h.temporaryFolder();
const runs = path.join(folder, "runs");
const COUNT = 11;
let browser, server, page;

/** A run that has ended, with one loss far above the others. */
function put(i, seed = 1) {
  const run = path.join(runs, `run-${String(i).padStart(2, "0")}`);
  fs.mkdirSync(run, { recursive: true });
  fs.writeFileSync(path.join(run, "config.json"), JSON.stringify({ format: "tapegrad-gpt", version: 2, optimizer: { max_iters: 300, learning_rate: i }, random: { seed } }));
  const lines = [];
  for (let step = 0; step <= 300; step += 5) {
    const loss = step === 150 ? 900 : 3 - step / 1000 - i / 100;
    lines.push(JSON.stringify({ iteration: step, loss, lr: 0.001, ms: 1000, tokens_per_second: 100 }));
  }
  lines.push(JSON.stringify({ iteration: 300, train_loss: 2.5, val_loss: 4 - i / 10 }));
  fs.writeFileSync(path.join(run, "metrics.jsonl"), lines.join("\n") + "\n");
}

const names = () => page.$$eval("#run-table .run-toggle", (all) => all.map((toggle) => toggle.innerText.trim()));
const type = async (text) => {
  await h.empty(page, "#search");
  await page.type("#search", text);
};

before(async () => {
  fs.mkdirSync(runs);
  [server, browser] = await Promise.all([h.watch(runs), h.launch()]);
  page = await h.open(browser, server.url);
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

test("without runs, the page names the folder and a command", async () => {
  await h.until(page, () => !document.querySelector("#no-runs").hidden);
  const words = await page.$eval("#no-runs", (none) => none.textContent);
  assert.ok(words.includes(runs) && words.includes("tapegrad train-gpt TEXT --out-dir"), words);
});

test("runs that are shown have colours of their own, and a legend", async () => {
  for (let i = 0; i < COUNT; ++i) put(i);
  await h.until(page, (n) => document.querySelectorAll("#run-table tbody tr").length === n, COUNT);
  assert.equal((await page.$$("#legend li")).length, 8);
  await page.click("#showListed");
  const colors = await page.$$eval("#legend .swatch", (all) => all.map((swatch) => getComputedStyle(swatch).backgroundColor));
  assert.equal(colors.length, COUNT);
  assert.equal(new Set(colors).size, COUNT, String(colors));
  // A server that found the first two alone has opened their cards: the tests below open their own.
  await page.$$eval(".run header button", (all) => all.forEach((button) => button.click()));
});

test("the table is sorted and searched", async () => {
  const full = () => [...document.querySelectorAll("[data-cell=best]")].every((cell) => cell.textContent !== "");
  await h.until(page, full);
  await page.click("[data-sort=best]");
  assert.deepEqual((await names()).slice(0, 2), ["run-10", "run-09"]);
  await page.click("[data-sort=best]");
  assert.equal((await names())[0], "run-00");
  await type("learning_rate=7");
  assert.deepEqual(await names(), ["run-07"]);
  await type("no such run");
  assert.deepEqual(await names(), []);
  await type("");
  await page.click("#run-table [data-value=training]");
  assert.deepEqual(await names(), []);
  await page.click("#run-table [data-value='']");
  assert.equal((await names()).length, COUNT);
});

test("rows say what differs, and the losses of the best step", async () => {
  const cells = () => page.$$eval("#run-table tbody tr:first-child td", (all) => all.map((cell) => cell.textContent));
  const [, , best, train, , , differs] = await cells();
  assert.deepEqual([best, train, differs], ["4.000at step 300", "2.500", "learning_rate=0"]);
  // A run of another kind has other options: these are no differences of the others.
  const other = path.join(runs, "other");
  fs.mkdirSync(other);
  fs.writeFileSync(path.join(other, "config.json"), JSON.stringify({ format: "x", version: 2, optimizer: { learning_rate: 20 }, model: { arch: "x", n_head: 2 } }));
  await h.until(page, (n) => document.querySelectorAll("#run-table tbody tr").length === n, COUNT + 1);
  assert.equal((await cells()).at(-2), "learning_rate=0");
  fs.rmSync(other, { recursive: true });
  await h.until(page, (n) => document.querySelectorAll("#run-table tbody tr").length === n, COUNT);
});

test("runs that differ in nothing but the seed are one row on request", async () => {
  const second = path.join(runs, "run-00-again");
  fs.cpSync(path.join(runs, "run-00"), second, { recursive: true });
  fs.writeFileSync(path.join(second, "config.json"), fs.readFileSync(path.join(second, "config.json"), "utf8").replace('"seed":1', '"seed":2'));
  fs.appendFileSync(path.join(second, "metrics.jsonl"), JSON.stringify({ iteration: 310, train_loss: 1.5, val_loss: 3 }) + "\n");
  await h.until(page, () => [...document.querySelectorAll("[data-cell=best]")].some((cell) => cell.textContent === "3.000at step 310"));
  await page.click("#grouped");
  const rows = await page.$$eval("#run-table tr", (all) => all.filter((row) => row.checkVisibility()).map((row) => [...row.children].map((cell) => cell.textContent)));
  assert.equal(rows.length, 1 + COUNT);
  assert.deepEqual(rows[0], ["learning_rate", "seeds", "best loss", "at step", "train loss there"]);
  assert.deepEqual(rows.find(([rate]) => rate === "0"), ["0", "2", "3.500 ± 0.707", "305 ± 7", "2.000 ± 0.707"]);
  await page.click("#grouped");
  fs.rmSync(second, { recursive: true });
  await h.until(page, (n) => document.querySelectorAll("#run-table tbody tr").length === n, COUNT);
});

test("a value that would flatten the chart is cut, with a mark", async () => {
  await h.toggle(page, "run-00");
  assert.equal(await page.$eval(".chart .cut", (cut) => cut.textContent), `▲▼ ${COUNT - 1} values beyond the edge`);
});

test("until its numbers have come, a run has no step, and one of a thing is singular", async () => {
  const own = await browser.newPage();
  await own.setRequestInterception(true);
  own.on("request", (request) => (request.url().endsWith("/history") ? setTimeout(() => request.continue(), 1500) : request.continue()));
  await own.goto(page.url());
  await h.until(own, (n) => document.querySelectorAll("#run-table tbody tr").length === n, COUNT);
  const steps = () => [...document.querySelectorAll("[data-cell=step]")].map((cell) => cell.textContent);
  assert.deepEqual(new Set(await own.evaluate(steps)), new Set(["…"]));
  await h.until(own, () => [...document.querySelectorAll("[data-cell=step]")].every((cell) => /^[1-9]/.test(cell.textContent)));
  const told = await own.evaluate(async () => {
    const { filled } = await import("./dom.js");
    return ["1", "2", "1,000"].map((n) => filled("{0} {0:value:values}", [n]));
  });
  assert.deepEqual(told, ["1 value", "2 values", "1,000 values"]);
  await own.close();
});

test("charts lie along steps, tokens or time", async () => {
  const told = async () => h.told(await h.plot(page, "Learning rate"));
  const last = async (axis) => {
    await page.click(`#controls [data-value=${axis}]`);
    for (let tries = 0; tries < 100; ++tries) {  // charts are drawn again a frame later
      const plot = await h.plot(page, "Learning rate");
      await plot.focus();
      await page.keyboard.press("End");
      if ((await told()).startsWith(axis)) break;
      await h.sleep(50);
    }
    return (await told()).split(":")[0];
  };
  assert.equal(await last("tokens"), "tokens 30,000");
  assert.equal(await last("time"), "time 5 min");
  assert.equal(await last("step"), "step 300");
});

test("a name, tags and notes are kept in the folder, and found", async () => {
  await page.click('.more[aria-label="Details of run-03"]');
  await page.click(".run .edit");
  await page.type(".notes-form [name=name]", "third <b>");
  await page.type(".notes-form [name=tags]", "good, slow");
  await page.type(".notes-form [name=notes]", "why it is good");
  await page.click(".notes-form .main");
  await h.until(page, () => document.querySelector(".run .run-name")?.innerText.trim() === "third <b>");
  const kept = JSON.parse(fs.readFileSync(path.join(runs, "run-03/notes.json"), "utf8"));
  assert.deepEqual(kept, { name: "third <b>", tags: ["good", "slow"], text: "why it is good" });
  await type("slow");
  assert.deepEqual(await names(), ["third <b>"]);
  await type("");
});

test("notes that cannot be kept say why, and stay in the form", async () => {
  fs.rmSync(path.join(runs, "run-03/notes.json"));
  fs.mkdirSync(path.join(runs, "run-03/notes.json"));
  await page.click(".run .edit");
  await page.type(".notes-form [name=notes]", "mine");
  await page.click(".notes-form .main");
  await h.until(page, () => /notes\.json/.test(document.querySelector(".notes-form .error")?.textContent));
  assert.match(await page.$eval(".notes-form [name=notes]", (area) => area.value), /mine/);
  page.problems = page.problems.filter((problem) => !/409/.test(problem)); // the browser reports it, too
});

test("tokens and time are those of all steps on a page that stays open", async () => {
  const run = path.join(runs, "long");
  fs.mkdirSync(run);
  fs.writeFileSync(path.join(run, "config.json"), JSON.stringify({ format: "tapegrad-gpt", version: 2, optimizer: { max_iters: 1e6 } }));
  const cell = (name) => page.$eval(`#run-table tbody tr:last-child [data-cell=${name}]`, (cell) => cell.textContent);
  await h.empty(page, "#search");
  await page.type("#search", "long");
  let tokens = 0;
  const each = 2500; // far more than a series keeps; each fourth step is slow
  for (let begin = 1; begin < 4 * each; begin += each) {
    const lines = Array.from({ length: each }, (_, i) => {
      const ms = (begin + i) % 4 === 0 ? 10000 : 1000;
      tokens += ms / 10;
      return JSON.stringify({ iteration: begin + i, loss: 3, ms, tokens_per_second: 100 }) + "\n";
    });
    fs.appendFileSync(path.join(run, "metrics.jsonl"), lines.join(""));
    const last = begin + each - 1;
    await h.until(page, (s) => document.querySelector("#run-table tbody tr:last-child [data-cell=step]")?.textContent.startsWith(s), last.toLocaleString("en"));
  }
  assert.equal(await cell("tokens"), tokens.toLocaleString("en"));
});

test("a form that is open outlives a change of language", async () => {
  await page.click('#run-table tbody tr:last-child .more');
  const edit = await page.waitForSelector(".run:last-child .edit");
  await edit.click();
  await page.type(".run:last-child textarea", "half a thought");
  await page.click("#language");
  await h.until(page, () => document.documentElement.lang.startsWith("zh"));
  assert.equal(await page.$eval(".run:last-child textarea", (area) => area.value), "half a thought");
  await page.click(".run:last-child .notes-form button[type=button]");
  await h.until(page, () => /[\u4e00-\u9fff]/.test(document.querySelector(".run:last-child .edit").textContent));
  await page.click("#language");
});

test("nothing went wrong on the page", () => assert.deepEqual(page.problems, []));
