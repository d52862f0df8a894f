// The page of `serve`: conversations with a tiny model that has a template, and texts of one that has none.
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";
import * as h from "./helper.mjs";

const folder = h.temporaryFolder();
const golden = path.join(h.sources, "tests/golden/hf_qwen2");
const model = path.join(folder, "tiny-chat");
let browser, server, page;

before(async () => {
  fs.mkdirSync(model);
  const config = JSON.parse(fs.readFileSync(path.join(golden, "config.json")));
  fs.writeFileSync(path.join(model, "config.json"), JSON.stringify({ ...config, max_position_embeddings: 2048 }));
  for (const name of ["model.safetensors", "tokenizer.json"]) fs.copyFileSync(path.join(golden, name), path.join(model, name));
  const template = "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}[assistant]";
  fs.writeFileSync(path.join(model, "tokenizer_config.json"), JSON.stringify({ chat_template: template, eos_token: "<|endoftext|>" }));
  [server, browser] = await Promise.all([h.serve(model), h.launch()]);
  page = await h.open(browser, server.url);
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

// Without chance, the model never comes to the end of a text.
async function say(text, most = 30, temperature = 0) {
  await fill(page, "#field-temperature", String(temperature));
  await fill(page, "#field-max_tokens", String(most));
  await page.focus("#input");
  await page.keyboard.sendCharacter(text); // at once, as a text that is pasted
  await page.keyboard.press("Enter");
}

// For a page of its own, whose fields may be hidden.
const withoutChance = (own) =>
  own.$eval("#field-temperature", (field) => {
    field.value = "0";
    field.dispatchEvent(new Event("input"));
  });

async function fill(page, field, text) {
  await h.empty(page, field);
  await page.type(field, text);
}

const texts = (own = page) => own.$$eval(".message .text", (all) => all.map((one) => one.textContent));
const settled = (count, own = page) =>
  h.until(own, (n) => document.querySelectorAll(".message").length === n && document.querySelector("#stop").hidden, count);

test("a message is answered, and the answer tells its tokens and their rate", async () => {
  await say("hello there");
  await settled(2);
  const [asked, answered] = await texts();
  assert.equal(asked, "hello there");
  assert.ok(answered.length > 10);
  assert.match(await page.$eval(".message:last-child .facts", (facts) => facts.textContent), /30 tokens · [\d.]+ tokens\/s · seed \d+ · cut at the limit/);
  assert.equal(await page.$eval("#conversations [data-current] .open", (open) => open.textContent), "hello there");
  assert.equal(await page.$eval("#input", (input) => input.value), "");
});

test("each option's words follow its field, at any width", async () => {
  const own = await h.open(browser, server.url);
  for (const width of [1400, 1000, 500]) {
    await own.setViewport({ width, height: 900 });
    await own.$eval("#options details", (details) => (details.open = true));
    const fields = await own.$$eval("#fields .field", (all) =>
      all.map((field) => {
        const [label, input, help] = ["label", "input, textarea", "small"].map((part) => field.querySelector(part)?.getBoundingClientRect());
        const middle = (box) => (box.top + box.bottom) / 2;
        const beside = input.left >= label.right - 1;
        return { apart: beside ? Math.abs(middle(label) - middle(input)) : 0, gap: help ? help.top - Math.max(label.bottom, input.bottom) : 0 };
      }),
    );
    assert.ok(fields.length > 7);
    for (const { apart, gap } of fields) assert.ok(apart <= 1 && gap >= 0 && gap <= 8, `${width}: ${apart}, ${gap}`);
  }
  await own.close();
});

test("a token under the pointer shows its probability and alternatives", async () => {
  const tokens = await page.$$(".message:last-child .token");
  assert.ok(tokens.length > 5);
  await tokens[3].hover();
  await h.until(page, () => !document.querySelector("#tip").hidden);
  const rows = await page.$$eval("#tip tr", (all) => all.map((row) => [...row.cells].map((cell) => cell.textContent)));
  assert.ok(rows.length >= 5 && rows.length <= 6);
  for (const row of rows) assert.match(row[2], /^(< )?[\d.]+ %$/);
  assert.equal((await page.$$("#tip tr[data-chosen]")).length, 1);
  // By keyboard.
  await page.mouse.move(2, 2);
  await page.focus(".message:last-child .text");
  await page.keyboard.press("ArrowRight");
  assert.match(await page.$eval("#said", (said) => said.textContent), /: (< )?[\d.]+ %$/);
  await page.keyboard.press("Escape");
  assert.ok(await page.$eval("#tip", (tip) => tip.hidden));
  await page.click("#field-shades");
  assert.ok(await page.$eval("#messages", (messages) => messages.hasAttribute("data-shades")));
});

test("an answer is written again, the same for the same seed", async () => {
  await fill(page, "#field-temperature", "1");
  await fill(page, "#field-seed", "5");
  const again = async () => {
    await page.click(".message:last-child [data-action=regenerate]");
    await h.until(page, () => document.querySelector("[data-writing]") || document.querySelector("#stop").hidden);
    await settled(2);
    return (await texts())[1];
  };
  const first = await again();
  assert.equal(await again(), first);
  await fill(page, "#field-seed", "6");
  assert.notEqual(await again(), first);
  await h.empty(page, "#field-seed");
});

test("a message that is edited is answered anew, and an answer can be edited", async () => {
  await page.click(".message:first-child [data-action=edit]");
  await fill(page, ".message textarea", "good bye");
  await page.click(".message .edits .main");
  await settled(2);
  assert.equal((await texts())[0], "good bye");
  await page.click(".message:last-child [data-action=edit]");
  await fill(page, ".message textarea", "so long");
  await page.click(".message .edits .main");
  assert.deepEqual(await texts(), ["good bye", "so long"]);
});

test("an answer can be stopped, by key too, and what is there stays", async () => {
  // Within the page, at its fourth token: the answer of a tiny model is faster than a click from outside.
  for (const key of [false, true]) {
    await page.evaluate((byKey) => {
      const seen = new MutationObserver(() => {
        if (document.querySelectorAll("[data-writing] .token").length < 4) return;
        seen.disconnect();
        if (byKey) document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
        else document.querySelector("#stop").click();
      });
      seen.observe(document.querySelector("#messages"), { subtree: true, childList: true });
    }, key);
    await say("go on", 1900);
    await h.until(page, () => document.querySelectorAll(".message").length === 4);
    await h.until(page, () => document.querySelector("#stop").hidden);
    assert.match(await page.$eval(".message:last-child .facts", (facts) => facts.textContent), /stopped/);
    await page.click(".message:nth-child(3) [data-action=remove]");
  }
  assert.equal((await texts()).length, 2);
});

test("what the server refuses is told, and nothing is lost", async () => {
  await say("x".repeat(9000));
  await h.until(page, () => !document.querySelector("#problem").hidden && document.querySelector("#stop").hidden);
  assert.match(await page.$eval("#problem", (problem) => problem.textContent), /room for 2048 tokens/);
  page.problems = page.problems.filter((problem) => !/status of 400/.test(problem));
  assert.equal((await texts()).length, 3);
  await page.click(".message:last-child [data-action=remove]");
});

/** From now on, the next answer of the server is window.stream, as the page sees it. */
const holdNextAnswer = () =>
  page.evaluate(() => {
    const ask = window.fetch;
    window.fetch = async (address, options) => {
      if (!String(address).endsWith("completions")) return ask(address, options);
      window.fetch = ask;
      return new Response(
        new ReadableStream({
          start(stream) {
            window.stream = stream;
            options.signal.addEventListener("abort", () => stream.error(options.signal.reason));
          },
        }),
      );
    };
  });

test("an answer that breaks off is told, keeps its text, and the next message can be sent", async () => {
  for (const begun of [false, true]) {
    await holdNextAnswer();
    await say("go on");
    await h.until(page, () => window.stream && document.querySelector("[data-writing]"));
    await page.evaluate((says) => {
      const piece = { choices: [{ delta: { content: "half a" }, logprobs: null, finish_reason: null }], seed: 1 };
      const { stream } = window;
      if (says) stream.enqueue(new TextEncoder().encode(`data: ${JSON.stringify(piece)}\n\n`));
      setTimeout(() => stream.error(new TypeError("network error")), says ? 100 : 0);
      window.stream = null;
    }, begun);
    await h.until(page, () => !document.querySelector("#problem").hidden && !document.querySelector("#send").hidden);
    assert.deepEqual((await texts()).slice(2), begun ? ["go on", "half a"] : ["go on"]);
    await page.click(".message:nth-child(3) [data-action=remove]");
    await h.until(page, () => document.querySelector("#connection").dataset.state === "live");
  }
  assert.deepEqual(page.problems, []);
});

test("a message that is removed while its answer is awaited takes no other one with it", async () => {
  await holdNextAnswer();
  await say("never mind");
  await h.until(page, () => window.stream && document.querySelector("[data-writing]"));
  await page.click(".message:nth-child(3) [data-action=remove]");
  await h.until(page, () => document.querySelector("#stop").hidden);
  assert.deepEqual(await texts(), ["good bye", "so long"]);
});

test("conversations stay in the browser, and can be deleted", async () => {
  await page.click("#new");
  await say("second talk", 5);
  await settled(2);
  await page.reload({ waitUntil: "domcontentloaded" });
  await h.until(page, () => document.querySelectorAll("#conversations li").length === 2);
  const titles = () => page.$$eval("#conversations .open", (all) => all.map((one) => one.textContent));
  assert.deepEqual(await titles(), ["second talk", "good bye"]);
  await page.click("#conversations li:nth-child(2) .open");
  assert.deepEqual(await texts(), ["good bye", "so long"]);
  await page.click("#conversations li:nth-child(1) .drop");
  assert.deepEqual(await titles(), ["good bye"]);
  assert.deepEqual(page.problems, []);
});

test("hostile texts stay texts", async () => {
  await page.click("#new");
  await say("<img src=x onerror=alert(1)><b>bold</b>", 3);
  await settled(2);
  assert.equal((await texts())[0], "<img src=x onerror=alert(1)><b>bold</b>");
  assert.equal((await page.$$("#messages img, #messages b")).length, 0);
});

test("the page speaks Chinese, is dark, and fits a phone", async () => {
  const own = await h.open(browser, server.url, { width: 360, height: 740, theme: "dark", language: "zh" });
  assert.equal(await own.$eval("#send", (send) => send.textContent), "发送");
  assert.equal(await own.$eval("html", (html) => html.lang), "zh-CN");
  const fits = () => own.evaluate(() => document.documentElement.scrollWidth <= innerWidth);
  assert.ok(await fits());
  assert.equal(await own.$eval("#side", (side) => getComputedStyle(side).display), "none");
  await own.click("#menu");
  assert.notEqual(await own.$eval("#side", (side) => getComputedStyle(side).display), "none");
  await own.click("#new");
  await withoutChance(own);
  await own.type("#input", "你好");
  await own.keyboard.press("Enter");
  await h.until(own, () => document.querySelectorAll(".token").length > 3);
  await own.keyboard.press("Escape");
  assert.ok(await fits());
  assert.deepEqual(own.problems, []);
  await own.close();
});

test("the page meets WCAG 2.1 AA as far as axe can tell", async () => {
  const axe = fs.readFileSync(path.join(h.sources, "tests/browser/node_modules/axe-core/axe.min.js"), "utf8");
  for (const theme of ["light", "dark"]) {
    const own = await h.open(browser, server.url, { theme });
    await withoutChance(own);
    await own.type("#input", "hello");
    await own.keyboard.press("Enter");
    await h.until(own, () => document.querySelectorAll(".token").length > 3);
    await own.keyboard.press("Escape");
    await h.until(own, () => document.querySelector("#stop").hidden);
    await own.evaluate(axe);
    const { violations } = await own.evaluate(() => axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"] }));
    assert.deepEqual(violations.map(({ id, nodes }) => [id, nodes.map((node) => node.html)]), []);
    await own.close();
  }
});

test("a model without a template continues texts", async () => {
  const run = path.join(folder, "run");
  await h.train(run, "--max-iters 5");
  const plain = await h.serve(run);
  const own = await h.open(browser, plain.url);
  assert.equal(await own.$eval("#send", (send) => send.textContent), "Continue");
  await fill(own, "#field-max_tokens", "8");
  await own.type("#input", "The ");
  await own.keyboard.press("Enter");
  await settled(2, own);
  // Enter alone goes on.
  await own.keyboard.press("Enter");
  await settled(3, own);
  assert.deepEqual(own.problems, []);
  await own.close();
  await plain.stop();
});

test("a server with keys asks for one", async () => {
  const keys = path.join(folder, "keys");
  fs.writeFileSync(keys, "open-sesame\n");
  const closed = await h.serve(model, "--api-key", keys);
  const own = await h.open(browser, closed.url, { state: "lost" });
  await h.until(own, () => document.querySelector("#key-dialog").open);
  await own.type("#key", "open-sesame");
  await own.keyboard.press("Enter");
  await h.until(own, () => document.querySelector("#connection").dataset.state === "live");
  await own.close();
  await closed.stop();
});
