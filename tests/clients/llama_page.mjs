// usage: [LLAMA_PAGE=FOLDER] node tests/clients/llama_page.mjs, which llama_page.sh starts
// Talks to `tapegrad serve` by the page that llama.cpp comes with (SimpleChat, of Debian's llama.cpp-tools), in a real
// browser and from another origin: this program serves the page's files and prints its origin first, which the server is to be
// started with (--allow-origin); a line of input, URL and key, tells where that is.
import fs from "node:fs";
import http from "node:http";
import path from "node:path";
import readline from "node:readline";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

const here = path.dirname(fileURLToPath(import.meta.url));
const puppeteer = createRequire(path.join(here, "../browser/package.json"))("puppeteer-core");
const folder = process.env.LLAMA_PAGE ?? "/usr/share/llama.cpp/llama-server/simplechat-legacy-ui";
const types = { ".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".mjs": "text/javascript" };
const files = http.createServer((request, response) => {
  const file = path.join(folder, path.basename(request.url === "/" ? "index.html" : request.url));
  if (!fs.existsSync(file)) return response.writeHead(404).end();
  response.writeHead(200, { "content-type": types[path.extname(file)] ?? "text/plain" }).end(fs.readFileSync(file));
});
await new Promise((resolve) => files.listen(0, "127.0.0.1", resolve));
console.log(`http://127.0.0.1:${files.address().port}`);
const [url, key] = (await readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]().next()).value.split(" ");

const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"],
});
const page = await browser.newPage();
const wrong = [];
page.on("dialog", (dialog) => { wrong.push(dialog.message()); dialog.dismiss(); });
page.on("pageerror", (error) => wrong.push(error.message));
page.on("response", (r) => { if (r.status() >= 400 && !r.url().endsWith("favicon.ico")) wrong.push(`${r.status()} ${r.url()}`); });
await page.goto(`http://127.0.0.1:${files.address().port}/`);
await page.waitForFunction(() => document.gMe?.multiChat);
for (const stream of [true, false]) {
  await page.evaluate((base, authorization, bStream) => {
    const me = document.gMe;
    me.baseURL = `${base}/v1`;
    me.headers.Authorization = `Bearer ${authorization}`;
    me.bStream = bStream;
    me.apiRequestOptions.max_tokens = 24;
    me.apiRequestOptions.n_predict = 24;
  }, url, key, stream);
  const before = await page.evaluate(() => document.querySelectorAll("#chat-div .role-assistant").length);
  await page.type("#user-in", "What is the weather in Rome?");
  await page.click("#user-btn");
  await page.waitForFunction((count) => {
    const answers = document.querySelectorAll("#chat-div .role-assistant");
    return answers.length > count && !document.querySelector("#user-in").disabled && answers[answers.length - 1].textContent.length > 12;
  }, { timeout: 20000 }, before).catch(() => wrong.push(`no answer ${stream ? "as a stream" : "at once"}`));
}
const shown = await page.evaluate(() => document.querySelector("#chat-div").innerText);
await browser.close();
files.close();
if (wrong.length > 0) { console.error(wrong.join("\n"), `\n${shown}`); process.exit(1); }
console.log("llama.cpp's page: two answers, one of them a stream, from another origin");
process.exit(0);
