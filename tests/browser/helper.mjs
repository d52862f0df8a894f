// Helpers of the tests: programs of the build, a browser, and a page that remembers what went wrong on it.
import { spawn, spawnSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import puppeteer from "puppeteer-core";

const build = process.env.TAPEGRAD_BUILD;
export const sources = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");
export const program = (name) => path.join(build, "tests/bin", name);
export const hasInspect = fs.existsSync(program("inspect"));
export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** A folder that is gone when the tests are over. */
export function temporaryFolder() {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "tapegrad-browser-"));
  process.on("exit", () => fs.rmSync(folder, { recursive: true, force: true }));
  return folder;
}

const children = new Set();
process.on("exit", () => children.forEach((child) => child.kill("SIGKILL")));

const corpus = path.join(sources, "CONTRIBUTING.md");
const TINY = `${corpus} --tokenizer char --n-layer 2 --n-head 2 --n-embd 32 --block-size 32 --batch-size 4 --threads 1`;

/** Trains a model. With `serve`, returns while it trains: {url, stop}. */
export async function train(folder, options, serve = false, model = TINY) {
  const words = ["--out-dir", folder, ...model.split(" "), ...options.split(" ")];
  if (serve) return start("train-gpt", [...words, "--serve", "0"]);
  const { status, stderr } = spawnSync(program("train-gpt"), words, { encoding: "utf8" });
  if (status !== 0) throw new Error(`train-gpt: ${stderr}`);
}

export const watch = (...words) => start("watch", words.includes("--port") ? words : [...words, "--port", "0"]);

export const serve = (...words) => start("serve", [...words, "--port", "0", "--threads", "1"]);

/** Starts a program that says where its page is. */
async function start(name, words) {
  const child = spawn(program(name), words, { stdio: ["ignore", "pipe", "pipe"] });
  children.add(child);
  const ended = new Promise((resolve) => child.on("exit", resolve));
  const stop = (signal = "SIGKILL") => (child.kill(signal), ended);
  const url = await new Promise((resolve, reject) => {
    let said = "";
    const hear = (bytes) => {
      said += bytes;
      const found = said.match(/http:\/\/[^\s]+/);
      if (found) resolve(found[0]);
    };
    child.stdout.on("data", hear);
    child.stderr.on("data", hear);
    child.on("exit", (code) => reject(new Error(`${name} ended with ${code}: ${said}`)));
  });
  return { url, stop };
}

export async function launch() {
  return puppeteer.launch({
    executablePath: process.env.CHROMIUM,
    headless: true,
    args: ["--no-sandbox", "--disable-gpu", "--js-flags=--expose-gc"],
  });
}

/** Opens a page; page.problems lists errors, refused resources and requests that left this host. */
export async function open(browser, url, { width = 1280, height = 900, theme = "light", language = "en", context, state = "live" } = {}) {
  context ??= await browser.createBrowserContext(); // with a memory of its own
  const page = await context.newPage();
  page.problems = [];
  page.on("pageerror", (error) => page.problems.push(error.stack));
  page.on("console", (message) => {
    if (["error", "warn"].includes(message.type())) page.problems.push(message.text());
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(url)) page.problems.push(`request to ${request.url()}`);
  });
  await page.setViewport({ width, height });
  // A page that still scrolls would move what a click aims at.
  await page.emulateMediaFeatures([
    { name: "prefers-color-scheme", value: theme },
    { name: "prefers-reduced-motion", value: "reduce" },
  ]);
  await page.evaluateOnNewDocument((l) => localStorage.setItem("tapegrad-language", l), language);
  await page.goto(url, { waitUntil: "domcontentloaded" });
  await until(page, (wanted) => document.querySelector("#connection").dataset.state === wanted, state);
  return page;
}

/** The problems without those that the browser itself reports while there is no server. */
export const withoutServer = (problems) =>
  problems.filter((problem) => !/ERR_(CONNECTION_REFUSED|INCOMPLETE_CHUNKED|EMPTY_RESPONSE|CONNECTION_RESET)/.test(problem));

const PATIENCE_MS = 60000; // other programs may keep the machine busy

/** Waits until a condition holds on the page, and says which did not. */
export async function until(page, condition, ...values) {
  try {
    return await page.waitForFunction(condition, { timeout: PATIENCE_MS, polling: 50 }, ...values);
  } catch (error) {
    throw new Error(`never came true: ${condition} ${values} (${error.message}); ${page.problems}`);
  }
}

/** The plot with this name, which is also what it tells a screen reader. */
export async function plot(page, name) {
  await until(page, (n) => document.querySelector(`.plot[aria-label="${n}"] canvas`), name);
  return page.$(`.plot[aria-label="${name}"]`);
}

export const told = (handle) => handle.evaluate((element) => element.getAttribute("aria-valuetext"));

/** The tooltip of a plot: {step, rows: [[label, value]]}; null if it is hidden. */
export const tip = (handle) =>
  handle.evaluate((element) => {
    const box = element.querySelector(".tip");
    if (box.hidden) return null;
    const rows = [...box.querySelectorAll(":scope > span")].map((row) => [
      row.querySelector("span").textContent,
      Number(row.querySelector("b").textContent.replaceAll(",", "")),
    ]);
    return { step: box.querySelector("strong").textContent, rows };
  });

/** The colours of a plot's picture: 1 for an empty one. */
export const colors = (handle) =>
  handle.evaluate((element) => {
    const canvas = element.querySelector("canvas");
    const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
    copy.drawImage(canvas, 0, 0);
    const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
    return new Set(new Uint32Array(data.buffer)).size;
  });

/** The last step in a run's metrics.jsonl. */
export function lastStep(folder) {
  const lines = fs.readFileSync(path.join(folder, "metrics.jsonl"), "utf8").split("\n");
  return JSON.parse(lines[lines.length - 2]).iteration;
}

/** The step that a run's card shows. */
export const shownStep = (page, name) =>
  page.evaluate((n) => {
    const card = [...document.querySelectorAll(".run")].find((run) => run.querySelector(".run-name").innerText.trim() === n);
    return Number(card?.querySelector("[data-value=step]").textContent.replaceAll(",", ""));
  }, name);

/** Empties a field as a person does. */
export async function empty(page, field) {
  await page.focus(field);
  await page.keyboard.down("Control");
  await page.keyboard.press("a");
  await page.keyboard.up("Control");
  await page.keyboard.press("Backspace");
}

export const toggle = (page, name) => page.click(`.run-toggle[aria-label="Show ${name} in the charts"]`);
