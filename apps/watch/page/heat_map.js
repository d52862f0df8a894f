// A map of positive values: rows over steps, on a logarithmic scale of colour. What vanishes fades into
// the page.
import { KEYS } from "./charts.js";
import { colorOf, el, setText } from "./dom.js";
import { nearest } from "./series.js";
import { count, number, t } from "./words.js";

const MOST_POWERS = 8; // smaller values look like the smallest that is shown
const RAMPS = {
  // From faint to strong, in either theme; and from the first layer to the last.
  light: ["#f3f6fb", "#cfe0f5", "#8fbbe8", "#4b86d1", "#2a4fa3", "#1b1f63"],
  dark: ["#161b24", "#1d3152", "#2558a0", "#3f8ee0", "#86cdf5", "#f0fbff"],
  depthLight: ["#7a1fa2", "#3b4cc0", "#1283a8", "#1f8a4c", "#a07a00", "#c2410c"],
  depthDark: ["#d78bff", "#8fa2ff", "#59c8ea", "#63d68f", "#e8c547", "#ff9a62"],
};

function isDark() {
  const [red, green, blue] = colorOf("--bg").match(/\d+/g);
  return +red + +green + +blue < 384;
}

/** A colour of a ramp, at 0 to 1. */
export function ramp(at, kind) {
  const name = kind === "depth" ? (isDark() ? "depthDark" : "depthLight") : isDark() ? "dark" : "light";
  return mix(RAMPS[name], at);
}

function mix(stops, at) {
  const place = Math.max(0, Math.min(1, at)) * (stops.length - 1);
  const i = Math.min(stops.length - 2, Math.floor(place));
  const parts = [1, 3, 5].map((k) => {
    const [from, to] = [stops[i], stops[i + 1]].map((stop) => parseInt(stop.slice(k, k + 2), 16));
    return Math.round(from + (to - from) * (place - i));
  });
  return `rgb(${parts.join(",")})`;
}

export class HeatMap {
  constructor() {
    this.names = el("ol", { class: "map-names", "aria-hidden": "true" });
    this.values = el("ol", { class: "map-values", "aria-hidden": "true" });
    this.canvas = el("canvas");
    this.tip = el("div", { class: "tip", hidden: true });
    this.frame = el("i", { class: "map-frame", hidden: true });
    this.plot = el(
      "div",
      {
        class: "plot map-plot",
        tabindex: "0",
        role: "slider",
        keydown: (event) => this.key(event),
        mousemove: (event) => this.point(event),
        mouseleave: () => this.mark(null),
        blur: () => this.mark(null),
      },
      this.canvas,
      this.frame,
      this.tip,
    );
    this.ends = el("div", { class: "map-steps" }, el("span"), el("span"));
    this.scale = el("div", { class: "map-scale" }, el("span"), el("i"), el("span"));
    const under = el("div", { class: "map-under" }, this.ends);
    this.element = el("div", { class: "map" }, this.names, this.plot, this.values, under, this.scale);
    new ResizeObserver(() => this.rows && this.draw()).observe(this.plot);
  }

  /** rows: [{name, values}], a value (or null) for each step. */
  show(title, rows, steps) {
    Object.assign(this, { title, rows, steps });
    const height = rows.length > 40 ? 9 : rows.length > 20 ? 14 : 22;
    this.rowHeight = height;
    this.element.style.setProperty("--row", `${height}px`);
    this.element.style.setProperty("--row-text", `${Math.min(12, height + (height < 12 ? 2 : -1))}px`);
    const last = steps.length - 1;
    // Names of a small row would cover each other: the first one of each block stands for all.
    const block = (name) => name.match(/^.*?\d+(?=\.)/)?.[0] ?? name;
    const label = (name, i) =>
      height >= 12 ? name : i === 0 || block(rows[i - 1].name) !== block(name) ? block(name) : "";
    list(this.names, rows.map(({ name }, i) => label(name, i)));
    list(this.values, rows.map(({ values }) => (height >= 12 ? number(values[last]) : "")));
    this.values.hidden = height < 12;
    setText(this.ends.firstChild, count(steps[0]));
    setText(this.ends.lastChild, `${t("step")} ${count(steps[last])}`);
    this.plot.setAttribute("aria-label", title);
    this.plot.setAttribute("aria-valuemin", steps[0]);
    this.plot.setAttribute("aria-valuemax", steps[last]);
    if (!this.at) this.tell(last, rows.length - 1);
    this.draw();
  }

  bounds() {
    let [low, high] = [Infinity, 0];
    for (const { values } of this.rows) {
      for (const value of values) {
        if (value > high) high = value;
        if (value > 0 && value < low) low = value;
      }
    }
    if (high === 0) return [0.1, 1];
    low = Math.max(low, high / 10 ** MOST_POWERS);
    return low < high ? [low, high] : [high / 2, high];
  }

  draw() {
    const width = this.plot.clientWidth;
    const height = this.rows.length * this.rowHeight;
    if (width === 0) return;
    const { canvas, steps } = this;
    const ratio = devicePixelRatio;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    canvas.style.height = `${height}px`;
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    const [low, high] = this.bounds();
    const colors = RAMPS[isDark() ? "dark" : "light"];
    const table = Array.from({ length: 64 }, (_, i) => mix(colors, i / 63));
    const span = Math.log(high / low);
    const cell = width / steps.length;
    const gap = this.rowHeight >= 12 ? 1 : 0;
    this.rows.forEach(({ values }, row) => {
      values.forEach((value, i) => {
        if (value === null || value === undefined) return;
        const part = value > 0 ? Math.log(value / low) / span : 0;
        context.fillStyle = table[Math.max(0, Math.min(63, Math.round(63 * part)))];
        context.fillRect(i * cell, row * this.rowHeight, cell + 0.5, this.rowHeight - gap);
      });
    });
    setText(this.scale.firstChild, number(low));
    setText(this.scale.lastChild, number(high));
    this.scale.children[1].style.background = `linear-gradient(to right, ${colors.join(",")})`;
    if (this.at) this.mark(this.at);
  }

  point(event) {
    const box = this.canvas.getBoundingClientRect();
    const i = Math.floor(((event.clientX - box.left) / box.width) * this.steps.length);
    const row = Math.floor((event.clientY - box.top) / this.rowHeight);
    const inside = i >= 0 && i < this.steps.length && row >= 0 && row < this.rows.length;
    this.mark(inside ? { step: this.steps[i], row } : null);
  }

  key(event) {
    if (!this.rows || event.ctrlKey || event.metaKey || event.altKey) return;
    const last = this.steps.length - 1;
    const rows = { ArrowUp: -1, ArrowDown: 1 };
    const { step, row } = this.at ?? this.kept ?? { step: this.steps[last], row: this.rows.length - 1 };
    const i = nearest(this.steps, step);
    const move = KEYS[event.key];
    if (move === undefined && !(event.key in rows)) return;
    event.preventDefault();
    const by = Math.abs(move) < 1 ? Math.trunc(move * last) || Math.sign(move) : (move ?? 0);
    this.mark({
      step: this.steps[Math.max(0, Math.min(last, i + by))],
      row: Math.max(0, Math.min(this.rows.length - 1, row + (rows[event.key] ?? 0))),
    });
  }

  /** Marks the cell {step, row} and tells its value. */
  mark(at) {
    this.kept = at ?? this.at ?? this.kept;
    this.at = at;
    this.tip.hidden = this.frame.hidden = !at;
    if (!at) return;
    const i = nearest(this.steps, at.step);
    const row = Math.min(at.row, this.rows.length - 1);
    const { name, values } = this.rows[row];
    this.tip.replaceChildren(
      el("strong", {}, name),
      el("span", {}, el("span", {}, `${t("step")} ${count(this.steps[i])}`), el("b", {}, number(values[i]))),
    );
    const cell = this.plot.clientWidth / this.steps.length;
    const right = i > this.steps.length / 2;
    Object.assign(this.tip.style, {
      left: `${(i + 0.5) * cell + (right ? -12 : 12)}px`,
      top: `${(row + 1) * this.rowHeight + 6}px`,
      transform: right ? "translateX(-100%)" : "",
    });
    Object.assign(this.frame.style, {
      left: `${i * cell - 1}px`,
      top: `${row * this.rowHeight - 1}px`,
      width: `${Math.max(cell, 3) + 2}px`,
      height: `${this.rowHeight + 1}px`,
    });
    this.tell(i, row);
  }

  tell(i, row) {
    const { name, values } = this.rows[row];
    this.plot.setAttribute("aria-valuenow", this.steps[i]);
    this.plot.setAttribute("aria-valuetext", `${name}, ${t("step")} ${count(this.steps[i])}: ${number(values[i])}`);
  }
}

function list(parent, texts) {
  while (parent.children.length > texts.length) parent.lastChild.remove();
  while (parent.children.length < texts.length) parent.append(el("li"));
  texts.forEach((text, i) => setText(parent.children[i], text));
}
