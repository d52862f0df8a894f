// The start of the page: its parts, its settings, and when it draws.
import { AXES } from "./axis.js";
import { Cards } from "./cards.js";
import { shareOutColors } from "./colors.js";
import { el, forgetColors, inShell, kept, segments, setText } from "./dom.js";
import { InsideForm } from "./inside_form.js";
import { Layers } from "./layers.js";
import { Legend } from "./legend.js";
import { differences } from "./options.js";
import { Plots } from "./plots.js";
import { RunTable } from "./run_table.js";
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
  axis: AXES.includes(kept.get("axis")) ? kept.get("axis") : "step",
};

const runs = new Runs(changed);
const runTable = new RunTable(at("run-table"), draw);
const cards = new Cards(at("runs"), draw, () => runs.fetchRuns());
const legend = new Legend(at("legend"), (run) => {
  run.shown = false;
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
    showNumbers();
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
  showNumbers();
  const ready = runs.shown.filter((run) => run.ready);
  if (now.has("metrics")) plots.show(ready);
  if (now.has("samples")) samples.show(ready);
  if (now.has("layers")) layers.show(ready, settings.axis === "step" ? settings : { range: null });
  if (now.has("samples")) inside.show(runs);
  const some = ready.some((run) => run.series.size > 0);
  at("waiting").hidden = some;
  setText(at("waiting"), t(runs.list.length > 0 && runs.shown.length === 0 ? "nothing" : "waiting"));
  at("whole").hidden = settings.range === null;
}

function showNumbers() {
  runTable.show(runs.list, runs.connection);
  cards.show(runs.list, runs.connection, runs.keepsNotes);
}

function showList() {
  shareOutColors(runs.list);
  runTable.rebuild(runs.list);
  cards.rebuild(runs.list);
  legend.show(runs.shown);
  showNoRuns();
  at("full").hidden = !runs.full;
  const table = differences(runs.shown);
  at("compare").hidden = table === null;
  if (at("differences").innerHTML !== (table?.outerHTML ?? "")) at("differences").replaceChildren(table ?? "");
}

/** Without runs: where one would be found, and how to make one. */
function showNoRuns() {
  const none = at("no-runs");
  none.hidden = runs.list.length > 0 || runs.version === "";
  if (none.hidden) return;
  const folder = runs.folders[0] ?? "runs";
  const command = `tapegrad train-gpt TEXT --out-dir ${inShell(folder)}/NAME`;
  none.replaceChildren(t("noRunsIn", runs.folders.join(", ") || folder), " ", el("code", {}, command));
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
  const axes = segments(t("axis"), AXES.map((axis) => [axis, t(axis)]), settings.axis, (chosen) => {
    settings.axis = chosen;
    settings.range = null;
    kept.set("axis", chosen);
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
  at("controls").replaceChildren(whole, el("span", { "aria-hidden": "true" }, t("axis")), axes, scale, el("span", { "aria-hidden": "true" }, t("smoothing")), smoothing);
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
  runTable.build();
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
