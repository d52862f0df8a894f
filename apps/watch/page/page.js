// The start of the page: its parts, its settings, and when it draws.
import { Cards, differences } from "./cards.js";
import { el, forgetColors, kept, segments, setText } from "./dom.js";
import { InsideForm } from "./inside_form.js";
import { Layers } from "./layers.js";
import { Plots } from "./plots.js";
import { Runs } from "./runs.js";
import { Samples } from "./samples.js";
import { fillWords, language, setLanguage, t } from "./words.js";

const DRAW_EVERY_MS = 500;
const SMOOTHING = { off: 0, some: 0.8, strong: 0.97 };

const at = (id) => document.getElementById(id);
const root = document.documentElement;

const settings = {
  log: kept.get("log") === "yes",
  smoothing: SMOOTHING[kept.get("smoothing")] ?? 0,
  range: null,
};

const runs = new Runs(changed);
const cards = new Cards(at("runs"), (run) => {
  run.shown = !run.shown;
  draw();
});
const plots = new Plots(at("plots"), settings, zoom);
const samples = new Samples(at("samples"));
const layers = new Layers(at("layers"), zoom);
const inside = new InsideForm(at("inside"));

// Drawing: at most twice a second, and never out of sight.

let drawn = 0;
let timer = 0;
const EVERYTHING = ["runs", "metrics", "samples", "layers"];
const waiting = new Set(EVERYTHING); // what changed since it was drawn

function changed(...what) {
  if (what.includes("connection")) {
    tellConnection();
    cards.show(runs.list, runs.connection);
    return;
  }
  for (const each of what.includes("runs") ? EVERYTHING : what) waiting.add(each);
  schedule();
}

function schedule() {
  if (timer || document.hidden) return;
  timer = setTimeout(drawChanged, Math.max(0, drawn + DRAW_EVERY_MS - performance.now()));
}

function draw() {
  changed("runs");
  drawChanged();
}

function drawChanged() {
  clearTimeout(timer);
  timer = 0;
  drawn = performance.now();
  const now = new Set(waiting);
  waiting.clear();
  if (now.has("runs")) showList();
  cards.show(runs.list, runs.connection);
  const ready = runs.shown.filter((run) => run.ready);
  if (now.has("metrics")) plots.show(ready);
  if (now.has("samples")) samples.show(ready);
  if (now.has("layers")) layers.show(ready, settings);
  if (now.has("samples")) inside.show(runs);
  const some = ready.some((run) => run.series.size > 0);
  at("waiting").hidden = some;
  setText(at("waiting"), t(runs.list.length > 0 && runs.shown.length === 0 ? "nothing" : "waiting"));
  at("whole").hidden = settings.range === null;
}

function showList() {
  cards.rebuild(runs.list);
  at("full").hidden = !runs.full;
  const table = differences(runs.shown);
  at("compare").hidden = table === null;
  if (at("differences").innerHTML !== (table?.outerHTML ?? "")) at("differences").replaceChildren(table ?? "");
}

document.addEventListener("visibilitychange", () => !document.hidden && schedule());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", inThisTheme);

function zoom(range) {
  settings.range = range;
  draw();
}

function tellConnection() {
  const place = at("connection");
  place.dataset.state = runs.connection;
  setText(place, t(runs.connection));
}

// Settings.

function buildControls() {
  const scales = [
    ["linear", t("linear")],
    ["log", t("log")],
  ];
  const scale = segments(t("scale"), scales, settings.log ? "log" : "linear", (chosen) => {
    settings.log = chosen === "log";
    kept.set("log", settings.log ? "yes" : "");
    draw();
  });
  const strengths = Object.keys(SMOOTHING).map((name) => [name, t(name)]);
  const strength = Object.keys(SMOOTHING).find((name) => SMOOTHING[name] === settings.smoothing);
  const smoothing = segments(t("smoothing"), strengths, strength, (chosen) => {
    settings.smoothing = SMOOTHING[chosen];
    kept.set("smoothing", chosen);
    draw();
  });
  const whole = el("button", { type: "button", id: "whole", hidden: true, click: () => zoom(null) }, t("whole"));
  at("controls").replaceChildren(scale, el("span", { "aria-hidden": "true" }, t("smoothing")), smoothing, whole);
}

function isDark() {
  return root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function tellTheme() {
  setText(at("theme"), t(isDark() ? "light" : "dark")); // what a click brings
}

function inThisTheme() {
  forgetColors();
  tellTheme();
  draw();
}

function inThisLanguage() {
  fillWords();
  buildControls();
  tellConnection();
  tellTheme();
  at("language").lang = language === "zh" ? "en" : "zh-CN";
  layers.build();
  inside.words();
  draw();
}

at("language").addEventListener("click", () => {
  setLanguage(language === "zh" ? "en" : "zh");
  inThisLanguage();
});
at("theme").addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  kept.set("theme", root.dataset.theme);
  inThisTheme();
});

if (kept.get("theme")) root.dataset.theme = kept.get("theme");
inThisLanguage();
runs.start();
