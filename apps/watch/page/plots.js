// The charts of numbers over steps: which lines each has.
import { along } from "./axis.js";
import { Chart } from "./charts.js";
import { variableOf } from "./colors.js";
import { colorOf } from "./dom.js";
import { smooth } from "./series.js";
import { named, t } from "./words.js";

const KNOWN = ["loss", "val_loss", "train_loss", "lr", "norm", "tokens_per_second", "ms", "total_seconds", "total_tokens"];
const MOST_OTHERS = 8;

export class Plots {
  /** settings: {log, smoothing, range, axis}; zoom(range) is called when a reader chooses a part. */
  constructor(parent, settings, zoom) {
    this.parent = parent;
    this.settings = settings;
    this.zoom = zoom;
    this.charts = new Map(); // by their words
    this.others = new Map(); // by a name of metrics.jsonl
    this.chart("lossChart", 250, [
      ["key-line", "loss"],
      ["key-dashes", "val_loss"],
    ]);
    for (const title of ["lrChart", "normChart", "tokensChart"]) this.chart(title, 250);
    this.charts.get("lossChart").element.classList.add("wide");
  }

  chart(title, height, key) {
    const chart = new Chart({ title: () => t(title), height, zoom: this.zoom, key });
    this.charts.set(title, chart);
    this.parent.append(chart.element);
  }

  other(name) {
    if (!this.others.has(name)) {
      const chart = new Chart({ title: () => named(name), height: 250, zoom: this.zoom });
      this.others.set(name, chart);
      this.parent.append(chart.element);
    }
    return this.others.get(name);
  }

  show(runs) {
    const { log, range, axis } = this.settings;
    const look = { log, range, axis };
    this.places = new Map(runs.map((run) => [run, along(run, axis)]));
    const one = runs.length === 1;
    const lines = (name, options = {}) => runs.flatMap((run) => this.linesOf(run, name, one, options));
    const losses = runs.flatMap((run) => {
      const [first, ...more] = this.linesOf(run, "loss", one, {});
      if (first) first.marks = run.skipped.map(this.places.get(run));
      return [first, ...more, ...this.linesOf(run, "val_loss", one, { points: true, width: 2, dash: [6, 4] })];
    });
    this.charts.get("lossChart").show(losses.filter(Boolean), look);
    this.charts.get("lrChart").show(lines("lr"), look);
    this.charts.get("normChart").show(lines("norm", { smoothed: true }), look);
    this.charts.get("tokensChart").show(lines("tokens_per_second", { smoothed: true }), look);
    this.showOthers(runs, lines, look);
  }

  linesOf(run, name, one, { smoothed = name === "loss", ...look }) {
    const { xs: steps, ys } = run.get(name);
    const place = this.places.get(run);
    if (steps.length === 0 || !place) return [];
    const xs = steps.map(place);
    const label = one ? named(name) : `${run.name}: ${named(name)}`;
    const line = { label, xs, ys, color: colorOf(variableOf(run)), ...look };
    const weight = this.settings.smoothing;
    if (!smoothed || weight === 0) return [line];
    const soft = { ...line, label: t("smoothed", label), ys: smooth(steps, ys, weight), width: 2 };
    return [{ ...line, alpha: 0.25 }, soft];
  }

  /** Numbers that only some tasks have get a chart of their own, once they are more than a last word. */
  showOthers(runs, lines, look) {
    const names = new Set();
    for (const run of runs) {
      for (const [name, series] of run.series) {
        if (!KNOWN.includes(name) && series.length > 1 && names.size < MOST_OTHERS) names.add(name);
      }
    }
    for (const name of names) this.other(name).show(lines(name), look);
    for (const [name, chart] of this.others) {
      if (!names.has(name)) chart.show([], look);
    }
  }
}
