// The texts of the runs, beside the step at which they wrote it, the newest first.
import { variableOf } from "./colors.js";
import { el } from "./dom.js";
import { nearest } from "./series.js";
import { count, number, t } from "./words.js";

const FEW = 4;

export class Samples {
  constructor(parent) {
    this.parent = parent;
    this.all = false;
    this.button = el("button", { type: "button", click: () => this.toggle() });
  }

  toggle() {
    this.all = !this.all;
    this.shown = null;
    this.show(this.runs);
  }

  show(runs) {
    this.runs = runs;
    const samples = runs.flatMap((run) => run.samples.map((sample) => ({ run, ...sample })));
    samples.sort((a, b) => b.iteration - a.iteration);
    // Drawn only when there is something new: a reader may be choosing a piece of text.
    const shown = JSON.stringify([t("step"), this.all, samples.map((sample) => [sample.run.key, sample.iteration, sample.text, lossAt(sample)])]);
    if (shown === this.shown) return;
    this.shown = shown;
    if (samples.length === 0) {
      this.parent.replaceChildren(el("p", { class: "note" }, t("noSamples")));
      return;
    }
    const some = this.all ? samples : samples.slice(0, FEW);
    this.parent.replaceChildren(...some.map((sample) => entry(sample, runs.length > 1)));
    if (samples.length > FEW) {
      this.button.textContent = this.all ? t("fewerSamples") : t("moreSamples", count(samples.length));
      const focused = document.activeElement === this.button;
      this.parent.append(this.button);
      if (focused) this.button.focus();
    }
  }
}

function entry(sample, named) {
  const { run, iteration, text } = sample;
  const swatch = el("i", { class: "swatch" });
  swatch.style.background = `var(${variableOf(run)})`;
  return el(
    "article",
    { class: "written" },
    el(
      "header",
      {},
      el("h3", {}, el("small", {}, t("step")), " ", count(iteration)),
      named ? el("span", {}, swatch, run.name) : null,
      el("small", {}, lossAt(sample)),
    ),
    sample.wanted === undefined ? el("pre", { tabindex: "0" }, text) : answered(sample),
  );
}

/** A question of a conversation, the answer that stands there, and the model's. */
function answered({ prompt, wanted, text }) {
  const part = (name, value) => el("div", {}, el("h4", {}, t(name)), el("pre", { tabindex: "0" }, value));
  return el("div", { class: "answered" }, part("asked", prompt), part("wanted", wanted), part("given", text));
}

/** The loss at a sample's step: of the evaluation if there was one, or the train loss of the nearest step that has one. */
function lossAt({ run, iteration }) {
  for (const name of ["val_loss", "loss"]) {
    const { xs, ys } = run.get(name);
    const i = nearest(xs, iteration);
    if (xs[i] === iteration) return `${t(name)} ${number(ys[i])}`;
    if (i >= 0 && name === "loss") return t("lossAt", t(name), number(ys[i]), count(xs[i]));
  }
  return "";
}
