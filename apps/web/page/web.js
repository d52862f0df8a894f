// The page around the engine: it asks by JSON (apps/web/web_engine.h), and draws the answers. inside.js stands before it.
const MODEL = "/model.safetensors"; // in the engine's file system, which is memory
const MOST_TO_TRAIN = 2e7; // parameters
const BREATH_MS = 30; // the page answers clicks that often

const at = (id) => document.getElementById(id);
const root = document.documentElement;
let language = navigator.language.startsWith("zh") ? "zh" : "en";
let engine = null, facts = null, failure = "", seen = null, stopped = false, breath = 0;
let begun = ""; // the prompt of the text that was written, and its tokens: {text, shown, probability, best}
let tokens = [];
let chosen = -1;
let losses = [], milliseconds = 0;
const breather = new MessageChannel(); // a timer waits for a second where a page is hidden

function ask(request) {
  const bytes = engine.allocateUTF8(JSON.stringify(request));
  try {
    const answer = JSON.parse(engine.UTF8ToString(engine._tapegrad_answer(bytes)));
    if (answer.error) throw new Error(answer.error);
    return answer;
  } finally {
    engine._free(bytes);
  }
}

// After a while, calls `show` and lets the browser draw.
async function pause(show) {
  if (performance.now() - breath < BREATH_MS) return;
  show();
  await new Promise((resolve) => {
    breather.port1.onmessage = resolve;
    breather.port2.postMessage(null);
  });
  breath = performance.now();
}

function fillWords() {
  const w = texts[language];
  root.lang = language === "zh" ? "zh-CN" : "en";
  for (const one of document.querySelectorAll("[data-word]")) one.textContent = w[one.dataset.word];
  at("language").textContent = w.other;
  at("output").setAttribute("aria-label", w.output);
  at("facts").textContent = facts ? w.facts(facts) : failure ? `${w.gone} ${failure}` : w.loading;
  document.title = document.querySelector("h1").textContent = facts?.name || "tapegrad";
  showChances();
  showLosses();
  if (seen) renderInside(at("inside"), seen, language);
}

// Runs what a button starts, with all buttons off but the one that stops it.
async function busy(work, stop) {
  const others = [...document.querySelectorAll(".buttons button")];
  for (const button of others) button.disabled = button !== stop;
  at("problem").hidden = true;
  stopped = false;
  breath = performance.now();
  try {
    await work();
  } catch (error) {
    at("problem").textContent = error.message || String(error);
    at("problem").hidden = false;
    at("problem").scrollIntoView({ block: "nearest" });
  }
  for (const button of others) button.disabled = button.id === "stop" || button.id === "halt";
}

function number(id) {
  const input = at(id);
  if (input.value === "" || !input.checkValidity()) {
    throw new Error(`${texts[language][id]}: ${input.validationMessage || texts[language].number}`);
  }
  return Number(input.value);
}

async function write() {
  const prompt = at("prompt").value, output = at("output");
  ask({ do: "begin", prompt, max_new_tokens: number("max_new_tokens"), greedy: at("greedy").checked,
    temperature: number("temperature"), top_k: number("top_k"), seed: number("seed") });
  begun = prompt;
  tokens = [];
  output.replaceChildren(el("span", { className: "prompt", textContent: prompt }));
  const began = performance.now();
  const show = () => {
    choose(tokens.length - 1);
    output.scrollTop = output.scrollHeight;
    const seconds = (performance.now() - began) / 1000;
    at("rate").textContent = texts[language].rate(tokens.length, Number((tokens.length / seconds).toPrecision(3)));
  };
  for (let next = ask({ do: "next" }); ; next = ask({ do: "next" })) {
    if (next.end) output.append(next.text);
    if (next.end) break;
    const shown = el("span", { className: "token", textContent: next.text });
    tint(shown, next.probability);
    tokens.push({ ...next, shown });
    output.append(shown);
    await pause(show);
    if (stopped) break;
  }
  show();
}

function choose(i) {
  tokens[chosen]?.shown.classList.remove("chosen");
  chosen = Math.max(0, Math.min(i, tokens.length - 1));
  tokens[chosen]?.shown.classList.add("chosen");
  showChances();
}

function showChances() {
  const token = tokens[chosen];
  if (!token) return at("chances").replaceChildren();
  const own = token.best.find((one) => one.id === token.id);
  const list = token.best.map((guess) => {
    const bar = el("span", { className: "bar" });
    bar.style.setProperty("--share", `${100 * guess.probability}%`);
    return el("li", { className: guess === own ? "right" : "" }, el("span", { className: "guess", textContent: visible(guess.text) }),
      el("span", { className: "track" }, bar), el("span", { className: "number", textContent: percent(guess.probability) }));
  });
  const line = texts[language].chances(quoted(own?.text ?? token.text), percent(token.probability));
  at("chances").replaceChildren(el("p", { textContent: line }), el("ol", { className: "best" }, ...list));
}

function lookInside() {
  const prompt = at("prompt").value; // another one than that of the text that was written stands alone
  const text = prompt + (prompt === begun ? tokens.map((token) => token.text).join("") : "");
  if (text === "") throw new Error(texts[language].empty);
  seen = ask({ do: "look", text });
  renderInside(at("inside"), seen, language);
}

async function train() {
  ask({ do: "train", text: at("text").value, batch_size: number("batch_size"), learning_rate: number("learning_rate"), seed: number("seed") });
  losses = [];
  let spent = 0;
  for (const steps = number("steps"); losses.length < steps && !stopped; await pause(showLosses)) {
    const began = performance.now();
    losses.push(ask({ do: "step" }).loss);
    spent += performance.now() - began;
    milliseconds = spent / losses.length;
  }
  showLosses();
}

function showLosses() {
  const w = texts[language], svg = at("losses"), n = losses.length;
  svg.toggleAttribute("hidden", n < 2);
  if (n === 0) return;
  at("learnt").textContent = w.learnt(n, losses[n - 1].toFixed(3), Number(milliseconds.toPrecision(3)));
  const high = losses.reduce((a, b) => Math.max(a, b)), low = losses.reduce((a, b) => Math.min(a, b), high - 1e-3);
  const every = Math.ceil(n / 530); // a point for each pixel, and the last one
  const place = (i) => `${60 + (530 * i) / Math.max(1, n - 1)},${10 + (170 * (high - losses[i])) / (high - low)}`;
  const points = [...losses.keys()].filter((i) => i % every === 0 || i === n - 1).map(place);
  const make = (tag, attributes, text = "") => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.textContent = text;
    return made;
  };
  svg.setAttribute("aria-label", w.losses(losses[0].toFixed(2), losses[n - 1].toFixed(2), n));
  svg.replaceChildren(make("line", { x1: 60, x2: 590, y1: 180, y2: 180 }), make("text", { x: 0, y: 20 }, high.toFixed(2)),
    make("text", { x: 0, y: 180 }, low.toFixed(2)), make("text", { x: 590, y: 197, "text-anchor": "end" }, n),
    make("polyline", { points: points.join(" ") }));
}

function forget() {
  ask({ open: MODEL });
  losses = [];
  at("losses").toggleAttribute("hidden", true);
  at("learnt").textContent = texts[language].forgotten;
}

// The weights, in the page or beside it.
async function weights() {
  const text = at("model").textContent;
  if (text.startsWith("/*")) {
    const answer = await fetch(MODEL.slice(1));
    if (!answer.ok) throw new Error(`${answer.url}: ${answer.status}`);
    return new Uint8Array(await answer.arrayBuffer());
  }
  const binary = atob(text), bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; ++i) bytes[i] = binary.charCodeAt(i);
  at("model").textContent = "";
  return bytes;
}

async function load() {
  try {
    engine = await tapegradEngine();
    engine.FS.writeFile(MODEL, await weights());
    facts = ask({ open: MODEL });
    at("learning").hidden = facts.parameters > MOST_TO_TRAIN;
    fillWords();
    await busy(() => {});
  } catch (error) {
    failure = error.message || String(error);
    fillWords();
  }
}

at("language").addEventListener("click", () => {
  language = texts[language].otherLanguage;
  fillWords();
});
at("theme").addEventListener("click", () => {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});
at("go").addEventListener("click", () => busy(write, at("stop")));
at("look").addEventListener("click", () => busy(lookInside));
at("train").addEventListener("click", () => busy(train, at("halt")));
at("forget").addEventListener("click", () => busy(forget));
for (const id of ["stop", "halt"]) at(id).addEventListener("click", () => (stopped = true));
for (const kind of ["pointerover", "click"]) {
  at("output").addEventListener(kind, (event) => {
    const i = tokens.findIndex((token) => token.shown === event.target);
    if (i >= 0) choose(i);
  });
}
at("output").addEventListener("keydown", (event) => {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (step) choose(chosen + step), event.preventDefault();
});
fillWords();
load();
