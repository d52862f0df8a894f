// The charts of numbers over steps: which lines each has.
import { Chart } from "./charts.js";
import { colorOf } from "./dom.js";
import { smooth } from "./series.js";
import { named, t } from "./words.js";

const KNOWN = ["loss", "val_loss", "train_loss", "lr", "norm", "tokens_per_second", "ms"];
const MOST_OTHERS = 8;

export class Plots {
  /** settings: {log, smoothing, range}; zoom(range) is called when a reader chooses a part. */
  constructor(parent, settings, zoom) {
    this.parent = parent;
    this.settings = settings;
    this.zoom = zoom;
    this.charts = new Map(); // by their words
    this.others = new Map(); // by a name of metrics.jsonl
    this.chart("lossChart", 340, [
      ["key-line", "loss"],
      ["key-dashes", "val_loss"],
    ]);
    for (const title of ["lrChart", "normChart", "tokensChart"]) this.chart(title, 190);
    this.charts.get("lossChart").element.classList.add("wide");
  }

  chart(title, height, key) {
    const chart = new Chart({ title: () => t(title), height, zoom: this.zoom, key });
    this.charts.set(title, chart);
    this.parent.append(chart.element);
  }

  other(name) {
    if (!this.others.has(name)) {
      const chart = new Chart({ title: () => named(name), height: 190, zoom: this.zoom });
      this.others.set(name, chart);
      this.parent.append(chart.element);
    }
    return this.others.get(name);
  }

  show(runs) {
    const { log, range } = this.settings;
    const one = runs.length === 1;
    const lines = (name, look = {}) => runs.flatMap((run) => this.linesOf(run, name, one, look));
    const losses = runs.flatMap((run) => {
      const [first, ...more] = this.linesOf(run, "loss", one, {});
      if (first) first.marks = run.skipped;
      return [first, ...more, ...this.linesOf(run, "val_loss", one, { points: true, width: 2, dash: [6, 4] })];
    });
    this.charts.get("lossChart").show(losses.filter(Boolean), { log, range });
    this.charts.get("lrChart").show(lines("lr"), { range });
    this.charts.get("normChart").show(lines("norm", { smoothed: true }), { log, range });
    this.charts.get("tokensChart").show(lines("tokens_per_second", { smoothed: true }), { range });
    this.showOthers(runs, lines, range);
  }

  linesOf(run, name, one, { smoothed = name === "loss", ...look }) {
    const { xs, ys } = run.get(name);
    if (xs.length === 0) return [];
    const label = one ? named(name) : `${run.name}: ${named(name)}`;
    const line = { label, xs, ys, color: colorOf(`--run-${run.color}`), ...look };
    const weight = this.settings.smoothing;
    if (!smoothed || weight === 0) return [line];
    const soft = { ...line, label: t("smoothed", label), ys: smooth(xs, ys, weight), width: 2 };
    return [{ ...line, alpha: 0.25 }, soft];
  }

  /** Numbers that only some tasks have get a chart of their own, once they are more than a last word. */
  showOthers(runs, lines, range) {
    const names = new Set();
    for (const run of runs) {
      for (const [name, series] of run.series) {
        if (!KNOWN.includes(name) && series.length > 1 && names.size < MOST_OTHERS) names.add(name);
      }
    }
    for (const name of names) this.other(name).show(lines(name), { range });
    for (const [name, chart] of this.others) {
      if (!names.has(name)) chart.show([], { range });
    }
  }
}
