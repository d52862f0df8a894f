// Pictures of the pages: while two runs train, inside a model, and a model that writes.
import { spawnSync } from "node:child_process";
import path from "node:path";
import * as h from "./helper.mjs";

const to = process.argv[2];
process.chdir(h.temporaryFolder()); // paths of runs are short in pictures
const model = "--tokenizer bpe:512 --n-embd 64 --n-layer 4 --n-head 4 --block-size 64 --batch-size 12 --max-iters 800";
const often = "--log-interval 10 --eval-interval 50 --eval-iters 4 --layer-stats 10 --sample-interval 100 --final-eval 4";
const text = "Every gradient of the model is checked by a test, and no number is guessed.";

await h.train("runs/small-steps", `--learning-rate 0.0005 ${often}`, false, model);
const training = await h.train("runs/large-steps", `--learning-rate 0.003 ${often}`, true, model);
const [server, browser] = await Promise.all([h.watch("runs"), h.launch()]);

async function shoot(page, name) {
  const file = path.join(to, name);
  await page.screenshot({ path: file });
  spawnSync("pngquant", ["--force", "--output", file, "--quality", "70-95", file]); // smaller, if it is there
  console.log(file);
}

let page = await h.open(browser, server.url, { width: 1200, height: 980 });
await page.click("[data-value=some]");
while (h.lastStep("runs/large-steps") < 560) await h.sleep(500);
const loss = await h.plot(page, "Loss");
await page.evaluate(() => document.querySelector("#compare").removeAttribute("open"));
for (const close of await page.$$("article.run header button")) await close.evaluate((button) => button.click());
await loss.hover();
await page.evaluate(() => scrollTo({ top: 0, behavior: "instant" }));
await h.sleep(1000);
await shoot(page, "watch.png");
await page.close();
await training.stop();

for (const [name, options] of [
  ["layers.png", { theme: "light" }],
  ["inside.png", { theme: "dark" }],
  ["phone.png", { theme: "light", width: 360, height: 760, language: "zh" }],
]) {
  page = await h.open(browser, server.url, { width: 1200, height: 860, ...options });
  await h.plot(page, options.language === "zh" ? "损失" : "Loss");
  await h.sleep(700);
  if (name === "layers.png") await page.$eval("#layers", (part) => part.scrollIntoView({ behavior: "instant" }));
  if (name === "inside.png" && h.hasInspect) {
    await h.empty(page, "#inside-text");
    await page.type("#inside-text", text);
    await page.click("#inside .main");
    await h.until(page, () => document.querySelector("#inside-result").children.length > 0);
    await page.$eval("#inside-result h2", (part) => part.scrollIntoView({ behavior: "instant" }));
  }
  await h.sleep(700);
  await shoot(page, name);
  await page.close();
}
const talk = await h.serve("runs/large-steps");
page = await h.open(browser, talk.url, { width: 1200, height: 760 });
await h.empty(page, "#field-max_tokens");
await page.type("#field-max_tokens", "50");
await page.type("#field-seed", "7");
await page.type("#input", "Every gradient of the");
await page.keyboard.press("Enter");
await h.until(page, () => document.querySelectorAll(".token").length > 41 && document.querySelector("#stop").hidden);
await (await page.$$(".token"))[40].hover();
await h.sleep(300);
await shoot(page, "talk.png");
await talk.stop();
await browser.close();
await server.stop();
