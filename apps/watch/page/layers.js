// Statistics of layers over time, of one run: a map (layers in the model's order, steps from left to right),
// and the same as lines that are coloured by depth.
import { Chart } from "./charts.js";
import { el, kept, segments, setText, table } from "./dom.js";
import { HeatMap, ramp } from "./heat_map.js";
import { count, number, t } from "./words.js";

const KINDS = ["gradient", "weight", "update"];

export class Layers {
  constructor(parent, zoom) {
    this.parent = parent;
    this.kind = "gradient";
    this.part = kept.get("layers") ?? "";
    this.map = new HeatMap();
    const key = [
      ["key-first", "first"],
      ["key-last", "last"],
    ];
    this.chart = new Chart({ title: () => t("lines"), height: 300, zoom, single: true, key });
    this.chart.element.classList.add("wide");
    this.build();
  }

  /** After a change of language. */
  build() {
    const again = () => this.show(this.runs, this.settings);
    this.run = el("select", { change: (event) => ((this.key = event.target.value), again()) });
    this.parts = el("select", {
      change: (event) => {
        kept.set("layers", (this.part = event.target.value));
        again();
      },
    });
    const kinds = KINDS.map((kind) => [kind, t(kind)]);
    const choice = segments(t("statistic"), kinds, this.kind, (kind) => ((this.kind = kind), again()));
    this.runLabel = el("label", {}, el("span", {}, t("run")), this.run);
    this.controls = el(
      "div",
      { class: "controls" },
      choice,
      this.runLabel,
      el("label", {}, el("span", {}, t("layersKind")), this.parts),
    );
    this.about = el("p", { class: "note" });
    this.newest = el("div");
    this.summary = el("summary");
    this.details = el("details", { toggle: again }, this.summary, this.newest);
    this.parent.replaceChildren(this.controls, this.about, this.map.element, this.chart.element, this.details);
  }

  show(runs, settings) {
    [this.runs, this.settings] = [runs, settings];
    const able = runs.filter((run) => run.layers.iterations.length > 0);
    this.parent.classList.toggle("bare", able.length === 0);
    if (able.length === 0) {
      setText(this.about, t("noLayers"));
      return;
    }
    const run = able.find(({ key }) => key === this.key) ?? able[0];
    choices(this.run, able.map(({ key, name }) => [key, name]), run.key);
    this.runLabel.hidden = able.length < 2;
    const { names, iterations } = run.layers;
    const kinds = kindsOf(names);
    if (!kinds.includes(this.part)) this.part = "";
    choices(this.parts, [["", t("allLayers")], ...kinds.map((kind) => [kind, kind])], this.part);
    setText(this.about, t(`${this.kind}About`));

    const chosen = names.map((_, i) => i).filter((i) => this.part === "" || kindOf(names[i]) === this.part);
    const rows = chosen.map((i) => ({ name: names[i], values: iterations.map((_, at) => this.value(run, at, i)) }));
    this.map.show(t(this.kind), rows, iterations);
    this.chart.show(
      rows.map(({ name, values }, i) => {
        const known = values.map((value, at) => [iterations[at], value]).filter(([, value]) => value > 0);
        const color = ramp(rows.length > 1 ? i / (rows.length - 1) : 0, "depth");
        return { label: name, xs: known.map(([x]) => x), ys: known.map(([, y]) => y), color };
      }),
      { log: true, range: settings.range },
    );
    const last = iterations.length - 1;
    setText(this.summary, t("numbers"));
    if (!this.details.open) return;
    const caption = t("newest", count(iterations[last]));
    const head = [`${t("layer")} (${caption})`, ...KINDS.map((kind) => t(kind))];
    const numbers = chosen.map((i) => [names[i], ...KINDS.map((kind) => number(this.value(run, last, i, kind)))]);
    this.newest.replaceChildren(table(caption, head, numbers));
  }

  value({ layers }, at, layer, kind = this.kind) {
    const value = layers[kind][at]?.[layer] ?? null;
    if (kind !== "update" || value === null) return value;
    const weight = layers.weight[at]?.[layer];
    return weight > 0 ? value / weight : null;
  }
}

/** "h.3.attn.c_attn" is an "attn.c_attn"; what is there once has no kind. */
function kindOf(name) {
  return name.replace(/^.*?\d+\./, "");
}

function kindsOf(names) {
  const kinds = names.map(kindOf);
  return [...new Set(kinds.filter((kind, i) => kinds.indexOf(kind) !== i))];
}

/** Fills a select, unless it has these choices already: an open list must not close. */
function choices(select, pairs, chosen) {
  const wanted = JSON.stringify(pairs);
  if (select.wanted !== wanted) {
    select.wanted = wanted;
    select.replaceChildren(...pairs.map(([value, text]) => el("option", { value }, text)));
  }
  select.value = chosen;
}
export { choices };
