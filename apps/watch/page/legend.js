// Which colour is which run, above the charts. A click takes a run out of them.
import { variableOf } from "./colors.js";
import { el } from "./dom.js";
import { language, t } from "./words.js";

export class Legend {
  constructor(parent, hide) {
    this.parent = parent;
    this.hide = hide;
  }

  show(runs) {
    const look = JSON.stringify([language, runs.map(({ key, name, color }) => [key, name, color])]);
    this.parent.hidden = runs.length === 0;
    if (look === this.look) return;
    this.look = look;
    this.parent.setAttribute("aria-label", t("legend"));
    this.parent.replaceChildren(...runs.map((run) => this.entry(run)));
  }

  entry(run) {
    const swatch = el("i", { class: "swatch" });
    swatch.style.background = `var(${variableOf(run)})`;
    const button = el("button", { type: "button", "aria-label": t("hide", run.name), click: () => this.hide(run) }, swatch, run.name);
    return el("li", {}, button);
  }
}
