// The table at the top: a row for each run, which can be sorted, filtered and searched. Rows and cells are
// kept and only their texts change, so that focus and selection stay.
import { variableOf } from "./colors.js";
import { el, kept, segments, setTags, setText } from "./dom.js";
import { experimentTable } from "./experiments.js";
import { flatOptions, telling } from "./options.js";
import { count, duration, endWords, number, t } from "./words.js";

const STATES = ["training", "ended", "stopped", "failed"];
const MOST_CHANGED = 6;
// `by` is what a column sorts by; those that count begin with the largest.
const COLUMNS = [
  { name: "name", by: (run) => run.name.toLowerCase() },
  { name: "state", by: (run) => STATES.indexOf(run.state) },
  { name: "step", by: (run) => run.step, falls: true },
  { name: "best", by: (run) => run.best?.value },
  { name: "train", by: (run) => run.best?.train },
  { name: "tokens", by: (run) => run.tokens, falls: true },
  { name: "time", by: (run) => run.seconds, falls: true },
  { name: "changed" },
];

export class RunTable {
  /** changed() is called after runs were shown, hidden, opened or closed. */
  constructor(parent, changed) {
    this.parent = parent;
    this.changed = changed;
    this.rows = new Map();
    this.grouped = kept.get("grouped") === "yes"; // by experiment
    this.query = "";
    this.state = "";
    this.sorted = COLUMNS.find(({ name }) => name === kept.get("sort"));
    this.falls = kept.get("falls") === "yes";
    this.build();
  }

  /** After a change of language. */
  build() {
    const search = el("input", { type: "search", id: "search", value: this.query, placeholder: t("search"), "aria-label": t("search") });
    search.addEventListener("input", () => ((this.query = search.value), this.again()));
    const states = [["", t("allStates")], ...STATES.map((state) => [state, t(state)])];
    const filter = segments(t("state"), states, this.state, (state) => ((this.state = state), this.again()));
    const button = (id, act) => el("button", { type: "button", id, click: act }, t(id));
    this.count = el("span", { role: "status" });
    const tools = el(
      "div",
      { class: "controls" },
      search,
      filter,
      button("showListed", () => this.showOnly(this.listed)),
      button("hideAll", () => this.showOnly([])),
      el("button", { type: "button", id: "grouped", "aria-pressed": String(this.grouped), click: (event) => this.group(event.currentTarget) }, t("experiments")),
      this.count,
    );
    this.heads = COLUMNS.map((column) => this.head(column));
    this.body = el("tbody");
    this.none = el("p", { class: "note", hidden: true }, t("noMatch"));
    const table = el("table", {}, el("thead", {}, el("tr", {}, ...this.heads, el("td"))), this.body);
    this.frame = el("div", { class: "table", tabindex: "0", role: "region", "aria-label": t("runs") }, table);
    this.means = el("div");
    this.parent.replaceChildren(tools, this.frame, this.means, this.none);
    this.told = "";
    this.rows = new Map();
    this.tellSort();
  }

  head(column) {
    if (!column.by) return el("th", { scope: "col" }, t(column.name));
    const sort = el("button", { type: "button", class: "sort", "data-sort": column.name, click: () => this.sortBy(column) }, t(column.name));
    return el("th", { scope: "col" }, sort);
  }

  sortBy(column) {
    this.falls = this.sorted === column ? !this.falls : (column.falls ?? false);
    this.sorted = column;
    kept.set("sort", column.name);
    kept.set("falls", this.falls ? "yes" : "");
    this.tellSort();
    this.again();
  }

  tellSort() {
    COLUMNS.forEach((column, i) => {
      if (column.by) this.heads[i].setAttribute("aria-sort", this.sorted !== column ? "none" : this.falls ? "descending" : "ascending");
    });
  }

  again() {
    this.show(this.runs, this.connection);
  }

  group(button) {
    this.grouped = !this.grouped;
    kept.set("grouped", this.grouped ? "yes" : "");
    button.setAttribute("aria-pressed", String(this.grouped));
    this.again();
  }

  showOnly(runs) {
    for (const run of this.runs) run.shown = runs.includes(run);
    this.changed();
  }

  /** After a change of the list. */
  rebuild(runs) {
    this.words = new Map(runs.map((run) => [run.key, flatOptions(run.options).map(([, name, value]) => `${name}=${value}`)]));
    this.compared = "";
    for (const key of [...this.rows.keys()]) if (!runs.some((run) => run.key === key)) this.rows.delete(key);
  }

  /** The numbers of now. */
  show(runs, connection) {
    [this.runs, this.connection] = [runs, connection];
    this.parent.hidden = runs.length === 0;
    this.listed = this.inOrder(runs.filter((run) => this.matches(run)));
    this.compare(this.listed.length > 1 ? this.listed : runs);
    const elements = this.listed.map((run) => this.fill(run, connection));
    const { children } = this.body;
    if (children.length !== elements.length || elements.some((element, i) => element !== children[i])) {
      const focused = document.activeElement;
      this.body.replaceChildren(...elements);
      if (this.body.contains(focused)) focused.focus();
    }
    this.none.hidden = this.listed.length > 0;
    this.frame.hidden = this.grouped;
    this.showMeans();
    setText(this.count, t("listed", count(this.listed.length), count(runs.length)));
  }

  /** The options in which the runs of the table differ. */
  compare(runs) {
    const keys = JSON.stringify(runs.map(({ key }) => key).sort());
    if (keys === this.compared) return;
    this.compared = keys;
    const rows = telling(runs);
    const own = (i) => rows.map(([name, ...values]) => [name, values[i]]).filter(([, value]) => value !== null && value !== "");
    this.options = new Map(runs.map((run, i) => [run.key, own(i).map(([name, value]) => `${name}=${value}`)]));
  }

  showMeans() {
    const { look, element } = this.grouped ? experimentTable(this.listed) : { look: "", element: "" };
    if (look === this.told) return;
    this.told = look;
    this.means.replaceChildren(element);
  }

  matches(run) {
    if (this.state !== "" && run.state !== this.state) return false;
    const { tags, text } = run.notes;
    const words = [run.name, run.folder, ...tags, text, ...(this.words.get(run.key) ?? [])].join("\n").toLowerCase();
    return this.query.toLowerCase().split(/\s+/).every((word) => words.includes(word));
  }

  inOrder(runs) {
    if (!this.sorted) return runs;
    const keys = new Map(runs.map((run) => [run, this.sorted.by(run)]));
    const sign = this.falls ? -1 : 1;
    return runs.sort((a, b) => {
      const [x, y] = [keys.get(a), keys.get(b)];
      if (x === undefined || y === undefined) return (x === undefined) - (y === undefined); // at the end, either way
      return x < y ? -sign : x > y ? sign : 0;
    });
  }

  row(run) {
    const swatch = el("i", { class: "swatch" });
    const name = el("span");
    const toggle = el("button", { type: "button", class: "run-toggle", click: () => ((run.shown = !run.shown), this.changed()) }, swatch, name);
    const tags = el("span", { class: "tags" });
    const note = el("small", { class: "cell-note" });
    const more = el("button", { type: "button", class: "more", click: () => ((run.open = !run.open), this.changed()) }, t("detailsShort"));
    const cells = Object.fromEntries(COLUMNS.slice(1).map((column) => [column.name, el("td", { "data-cell": column.name })]));
    const state = el("span", { class: "state" });
    const why = el("small", { class: "cell-note" });
    cells.state.append(state, why);
    const low = el("span");
    const at = el("small", { class: "cell-note" });
    cells.best.append(low, at);
    const element = el("tr", {}, el("th", { scope: "row" }, toggle, tags, note), ...Object.values(cells), el("td", {}, more));
    return { element, swatch, name, toggle, tags, note, more, cells, state, why, low, at };
  }

  fill(run, connection) {
    if (!this.rows.has(run.key)) this.rows.set(run.key, this.row(run));
    const { element, swatch, name, toggle, tags: labels, note, more, cells, state, why, low, at } = this.rows.get(run.key);
    setText(name, run.name);
    toggle.setAttribute("aria-label", t("show", run.name));
    toggle.setAttribute("aria-pressed", String(run.shown));
    swatch.style.background = `var(${variableOf(run)})`;
    setTags(labels, run.notes.tags);
    setText(note, run.notes.text.split("\n")[0]);
    state.dataset.state = connection === "lost" && run.state === "training" ? "unknown" : run.state;
    setText(state, t(state.dataset.state));
    setText(why, endWords(run.reason));
    const all = run.maxIters ? ` / ${count(run.maxIters)}` : "";
    const { step, best, tokens, seconds } = run;
    setText(cells.step, run.ready ? count(step) + all : "…"); // until its numbers have come
    setText(low, best === undefined ? "" : number(best.value));
    setText(at, best === undefined ? "" : t("atStep", count(best.step)));
    cells.best.title = best === undefined ? "" : t(best.name);
    setText(cells.train, best?.train === undefined ? "" : number(best.train));
    setText(cells.tokens, tokens === undefined ? "" : count(tokens));
    setText(cells.time, seconds === undefined ? "" : duration(seconds));
    const changed = this.options.get(run.key) ?? [];
    const rest = changed.length - MOST_CHANGED;
    setText(cells.changed, changed.slice(0, MOST_CHANGED).join(", ") + (rest > 0 ? t("andMore", rest) : ""));
    cells.changed.title = changed.join("\n");
    more.setAttribute("aria-expanded", String(run.open));
    more.setAttribute("aria-label", t("detailsOf", run.name));
    return element;
  }
}
