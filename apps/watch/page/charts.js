// A line chart: uPlot, a tooltip, the keyboard, and the same numbers as a table.
import { placeOf, placeText } from "./axis.js";
import { colorOf, el, fade, setText, table } from "./dom.js";
import { logSplits, room, shortCount, shortTime, shortValue, TIME_STEPS, usualBounds } from "./scales.js";
import { nearest } from "./series.js";
import { count, language, number, t } from "./words.js";

const TABLE_ROWS = 40;
export const KEYS = { ArrowLeft: -1, ArrowRight: 1, PageUp: -0.1, PageDown: 0.1, Home: -1e9, End: 1e9 };

/**
 * The lines of a chart, a list:
 * {label, xs, ys, color, width?, alpha?, dash?, points?: true draws each point, marks?: [x] at the bottom}.
 */
export class Chart {
  /**
   * title() names the chart in the page's language; zoom(range or null) is called when a part is chosen; `single` tells of the nearest line only, and has its
   * table elsewhere; key: [class, word] pairs that explain kinds of lines.
   */
  constructor({ title, height, zoom, single = false, key = [] }) {
    this.legend = key;
    this.title = title;
    this.height = height;
    this.zoom = zoom;
    this.single = single;
    this.lines = [];
    this.tip = el("div", { class: "tip", hidden: true });
    this.plot = el("div", { class: "plot", tabindex: "0", role: "slider", keydown: (event) => this.key(event) });
    this.plot.append(this.tip);
    this.plot.addEventListener("blur", () => this.leave());
    this.plot.addEventListener("mouseleave", () => this.leave());
    this.heading = el("figcaption");
    this.cut = el("span", { class: "cut", hidden: true });
    this.words = el("summary");
    this.body = el("div");
    this.details = el("details", { toggle: () => this.fillTable() }, this.words, this.body);
    this.element = el("figure", { class: "chart" }, this.heading, this.plot, single ? null : this.details);
    new ResizeObserver(() => this.resize()).observe(this.plot);
  }

  /** Draws these lines over `axis`. range: [from, to] on it, or null for all. */
  show(lines, { log = false, range = null, axis = "step" } = {}) {
    this.lines = lines.filter((line) => line.xs.length > 0);
    this.range = range;
    this.log = log;
    this.axis = axis;
    this.element.classList.toggle("empty", this.lines.length === 0);
    this.data = this.lines.length === 0 ? null : uPlot.join(this.lines.map((line) => withMarks(line, log)));
    const [from, to] = this.extent();
    this.name(to);
    this.plot.setAttribute("aria-valuemin", from);
    this.plot.setAttribute("aria-valuemax", to);
    this.fillTable();
    this.bounds = usualBounds(this.lines, range, log);
    this.tellCut();
    if (this.lines.length === 0) return this.drop();
    const shape = JSON.stringify([log, axis, language, ...this.lines.map(({ xs, ys, marks, ...look }) => look), colorOf("--line")]);
    if (shape !== this.shape) {
      this.shape = shape;
      this.build();
    }
    this.uplot.batch(() => {
      this.uplot.setData(this.data, false);
      const [min, max] = range ?? [from, to];
      this.uplot.setScale("x", { min, max: max > min ? max : min + 1 });
    });
    if (!this.tip.hidden) this.update();
  }

  /** The chart's words, in a language that is new. */
  name(to) {
    if (this.language === language) return;
    this.language = language;
    const key = this.legend.map(([look, word]) => el("span", {}, el("i", { class: look }), t(word)));
    this.heading.replaceChildren(this.title(), ...key, this.cut);
    setText(this.words, t("numbers"));
    this.plot.setAttribute("aria-label", this.title());
    this.tell(to, t("keys"));
  }

  /** How many values lie beyond the edges, where drawMarks() marks them. */
  tellCut() {
    let beyond = 0;
    for (const { xs, ys, alpha } of this.lines) {
      if (alpha !== undefined) continue; // the smoothed line beside it counts
      xs.forEach((x, i) => (beyond += this.isInRange(x) && this.isCut(ys[i]) ? 1 : 0));
    }
    this.cut.hidden = beyond === 0;
    setText(this.cut, beyond === 0 ? "" : t("cut", count(beyond)));
  }

  isInRange(x) {
    return !this.range || (x >= this.range[0] && x <= this.range[1]);
  }

  isCut(y) {
    return this.bounds !== null && ((y < this.bounds[0] && (!this.log || y > 0)) || y > this.bounds[1]);
  }

  drop() {
    this.uplot?.destroy();
    this.uplot = this.shape = null;
    this.tip.hidden = true;
  }

  extent() {
    return this.data ? [this.data[0][0], this.data[0][this.data[0].length - 1]] : [0, 1];
  }

  build() {
    this.uplot?.destroy();
    const [muted, line] = [colorOf("--muted"), colorOf("--line")];
    const font = "12px " + getComputedStyle(document.body).fontFamily;
    const axis = { stroke: muted, font, grid: { stroke: line, width: 1 }, ticks: { show: false } };
    const log = this.log;
    const options = {
      width: Math.max(120, this.plot.clientWidth),
      height: this.height,
      padding: [10, 18, 0, 0], // half of the last step's text
      legend: { show: false },
      scales: {
        x: { time: false },
        y: { distr: log ? 3 : 1, range: (_, low, high) => this.roomOf(low, high) },
      },
      axes: [
        { ...axis, ...this.across(font) },
        {
          ...axis, // a range within one power of ten has too few ticks of its own on a log scale
          splits: log ? (_, __, low, high) => logSplits(low, high) : undefined,
          filter: log ? (_, splits) => splits : undefined,
          values: (_, values) => values.map(shortValue),
          size: 58,
          gap: 6,
        },
      ],
      series: [{}, ...this.lines.map((each) => this.style(each))],
      cursor: {
        sync: { key: this.axis, scales: ["x", null] },
        drag: { x: true, y: false, setScale: false },
        points: { size: 7 },
        bind: { dblclick: () => () => (this.zoom(null), null) },
      },
      hooks: {
        setCursor: [() => this.update()],
        setSelect: [(chart) => this.select(chart)],
        draw: [(chart) => this.drawMarks(chart)],
      },
    };
    this.uplot = new uPlot(options, this.data, this.plot);
  }

  roomOf(low, high) {
    if (low == null || !this.bounds) return room(low, high, this.log);
    return room(Math.max(low, this.bounds[0]), Math.min(high, this.bounds[1]), this.log);
  }

  /** The axis at the bottom, with its name. */
  across(labelFont) {
    const name = { label: t(`${this.axis}Axis`), labelSize: 18, labelGap: 0, labelFont };
    const look = { ...name, space: 64, gap: 6, size: 26 };
    if (this.axis !== "time") return { ...look, values: (_, ticks) => ticks.map(shortCount) };
    const values = (_, ticks, __, ___, distance) => ticks.map((tick) => shortTime(tick, distance));
    return { ...look, incrs: TIME_STEPS, values };
  }

  style({ label, color, width = 1.5, alpha = 1, dash, points = false }) {
    const stroke = fade(color, alpha);
    const one = (chart, i) => points || chart.data[i].reduce((n, y) => n + (y != null), 0) < 2;
    const dots = { show: one, size: points ? 6 : 4, fill: stroke, stroke };
    return { label, stroke, width, dash, spanGaps: true, points: dots };
  }

  select(chart) {
    const { left, width } = chart.select;
    if (width < 4) return;
    const range = [chart.posToVal(left, "x"), chart.posToVal(left + width, "x")];
    chart.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.zoom(range);
  }

  drawMarks({ ctx, bbox, valToPos }) {
    const [top, bottom, half] = [bbox.top, bbox.top + bbox.height, 4 * devicePixelRatio];
    const triangle = (x, base, tip) => {
      const at = valToPos(x, "x", true);
      if (at < bbox.left || at > bbox.left + bbox.width) return;
      ctx.beginPath();
      ctx.moveTo(at - half, base);
      ctx.lineTo(at + half, base);
      ctx.lineTo(at, tip);
      ctx.fill();
    };
    for (const { marks = [], color, xs, ys, alpha } of this.lines) {
      ctx.fillStyle = color;
      for (const x of marks) triangle(x, bottom, bottom - 2 * half);
      if (alpha !== undefined || !this.bounds) continue;
      xs.forEach((x, i) => {
        if (!this.isCut(ys[i])) return;
        if (ys[i] > this.bounds[1]) triangle(x, top + 2 * half, top);
        else triangle(x, bottom - 2 * half, bottom);
      });
    }
  }

  resize() {
    const width = this.plot.clientWidth;
    if (this.uplot && width > 0 && width !== this.uplot.width) this.uplot.setSize({ width, height: this.height });
  }

  // The cursor.

  get active() {
    return this.plot.matches(":hover") || document.activeElement === this.plot;
  }

  leave() {
    if (!this.active) this.tip.hidden = true;
  }

  key(event) {
    const xs = this.data?.[0];
    if (!this.uplot || event.ctrlKey || event.metaKey || event.altKey) return;
    const at = this.at ?? xs.length - 1;
    if (event.key in KEYS) {
      const move = KEYS[event.key];
      this.at = at + (Math.abs(move) < 1 ? Math.trunc(move * xs.length) || Math.sign(move) : move);
    } else if (this.single && (event.key === "ArrowUp" || event.key === "ArrowDown")) {
      const next = (this.chosen ?? 0) + (event.key === "ArrowUp" ? -1 : 1);
      this.chosen = Math.max(0, Math.min(this.lines.length - 1, next));
    } else if (event.key === "+" || event.key === "-" || event.key === "0") {
      this.zoomAt(xs[at], { "+": 0.5, "-": 2, 0: 0 }[event.key]);
    } else {
      return;
    }
    event.preventDefault();
    this.at = Math.max(0, Math.min(xs.length - 1, this.at ?? at));
    this.byKey = true;
    const left = this.uplot.valToPos(xs[this.at], "x");
    this.uplot.setCursor({ left, top: this.uplot.over.clientHeight / 3 });
    this.byKey = false;
  }

  zoomAt(x, factor) {
    const [from, to] = this.extent();
    const [low, high] = this.range ?? [from, to];
    const half = ((high - low) * factor) / 2;
    if (factor === 0 || 2 * half >= to - from) return this.zoom(null);
    const middle = Math.max(from + half, Math.min(to - half, x));
    this.zoom([middle - half, middle + half]);
  }

  /** The tooltip and what a screen reader says: the values at the cursor. */
  update() {
    const { left, top, idx } = this.uplot.cursor;
    if (left == null || left < 0 || idx == null || !this.active) {
      this.tip.hidden = true;
      return;
    }
    this.at = idx;
    const x = this.data[0][idx];
    if (this.single && !this.byKey) this.chosen = this.nearestLine(x, top);
    const rows = this.lines
      .filter((_, i) => !this.single || i === this.chosen)
      .map(({ label, color, xs, ys }) => {
        const i = nearest(xs, x);
        return { label, color, value: number(ys[i]), step: xs[i] === x ? "" : ` (${placeText(this.axis, xs[i])})` };
      });
    const skipped = this.lines.some(({ marks = [] }) => marks.includes(x));
    this.tip.replaceChildren(
      el("strong", {}, placeOf(this.axis, x)),
      skipped ? el("em", {}, t("skippedStep")) : "",
      ...rows.map(({ label, color, value, step }) => {
        const swatch = el("i", { class: "swatch" });
        swatch.style.background = color;
        return el("span", {}, swatch, el("span", {}, label + step), el("b", {}, value));
      }),
    );
    this.tip.hidden = false;
    const right = left > this.uplot.over.clientWidth / 2;
    const at = this.uplot.over.offsetLeft + left + (right ? -12 : 12);
    this.tip.style.left = `${at}px`;
    this.tip.style.transform = right ? "translateX(-100%)" : "";
    const told = rows.map(({ label, value, step }) => `${label}${step} ${value}`).join("; ");
    this.tell(x, `${placeOf(this.axis, x)}: ${skipped ? t("skippedStep") + "; " : ""}${told}`);
  }

  tell(x, text) {
    this.plot.setAttribute("aria-valuenow", x);
    this.plot.setAttribute("aria-valuetext", text);
  }

  nearestLine(x, top) {
    let best = 0;
    let distance = Infinity;
    this.lines.forEach(({ xs, ys }, i) => {
      const away = Math.abs(this.uplot.valToPos(ys[nearest(xs, x)], "y") - top);
      if (away < distance) [best, distance] = [i, away];
    });
    return best;
  }

  fillTable() {
    if (!this.details.open || this.lines.length === 0) return;
    const xs = uPlot.join(this.lines.map((line) => [line.xs, line.ys]))[0];
    const every = Math.ceil(xs.length / TABLE_ROWS);
    const steps = xs.filter((_, i) => (xs.length - 1 - i) % every === 0);
    const rows = steps.map((x) => [
      placeText(this.axis, x),
      ...this.lines.map((line) => {
        const i = nearest(line.xs, x);
        return line.xs[i] === x ? number(line.ys[i]) : "";
      }),
    ]);
    const head = [t(this.axis), ...this.lines.map(({ label }) => label)];
    this.body.replaceChildren(table(this.title(), head, rows.reverse()));
  }
}

/** The steps and values that are drawn of a line: a marked step has a place even if it has no value. */
function withMarks({ xs, ys, marks = [] }, log) {
  const drawn = log ? ys.map((y) => (y > 0 ? y : null)) : ys;
  const bare = marks.filter((x) => xs[nearest(xs, x)] !== x);
  if (bare.length === 0) return [xs, drawn];
  const values = new Map([...bare.map((x) => [x, null]), ...xs.map((x, i) => [x, drawn[i]])]);
  const steps = [...values.keys()].sort((a, b) => a - b);
  return [steps, steps.map((x) => values.get(x))];
}
