// The page for everybody: axe-core in both themes and languages, on a wide screen and on a phone.
import assert from "node:assert/strict";
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { after, before, test } from "node:test";
import * as h from "./helper.mjs";

const axe = fs.readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const folder = h.temporaryFolder();
let browser, server;

before(async () => {
  const often = "--log-interval 5 --eval-interval 20 --eval-iters 1 --layer-stats 10 --sample-interval 20 --final-eval 2";
  await h.train(path.join(folder, "one"), `--max-iters 40 ${often}`);
  await h.train(path.join(folder, "two"), `--max-iters 40 --learning-rate 0.01 ${often}`);
  [server, browser] = await Promise.all([h.watch(folder), h.launch()]);
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

for (const [theme, language, width] of [
  ["light", "en", 1280],
  ["dark", "zh", 1280],
  ["light", "zh", 360],
  ["dark", "en", 360],
]) {
  test(`no serious fault: ${theme}, ${language}, ${width} pixels wide`, async () => {
    const page = await h.open(browser, server.url, { theme, language, width });
    await h.until(page, () => document.querySelector(".map-names li") && document.querySelector(".written"));
    if (h.hasInspect && width === 360) {
      await page.click("#inside .main");
      await h.until(page, () => document.querySelector("#inside-result").children.length > 0);
    }
    await page.$$eval("details", (all) => all.forEach((details) => (details.open = true)));
    await page.focus(".chart .plot");
    await page.keyboard.press("End");
    await h.sleep(700); // until everything that was opened is drawn
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= width, `the page is ${wide} pixels wide`);
    assert.equal(await page.evaluate(() => document.documentElement.lang), language === "zh" ? "zh-CN" : "en");
    assert.deepEqual(page.problems, []);

    await page.evaluate(axe); // by the debugger, which the page's policy does not bind
    const { violations } = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
    const serious = violations
      .filter(({ impact }) => impact === "serious" || impact === "critical")
      .map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html.slice(0, 150)).join(" | ")}`);
    assert.deepEqual(serious, []);
    await page.close();
  });
}

test("the theme of a click stays", async () => {
  const page = await h.open(browser, server.url, { theme: "light" });
  const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await background();
  await page.click("#theme");
  const dark = await background();
  assert.notEqual(dark, light);
  await page.reload({ waitUntil: "load" });
  assert.equal(await background(), dark);
  await page.close();
});
