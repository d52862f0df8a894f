// Runs that differ in nothing but the seed are one row: mean ± standard deviation, as `tapegrad metrics` writes them.
import { el, table } from "./dom.js";
import { telling } from "./options.js";
import { count, number, t } from "./words.js";

const RESULTS = [
  ["val_loss", (run) => run.best.value, number],
  ["step", (run) => run.best.step, (step) => count(Math.round(step))],
  ["train", (run) => run.best.train, number],
];

/** {look, element}: the table, and what tells it from another one. */
export function experimentTable(runs) {
  const counted = runs.filter(({ best }) => best?.name === "val_loss");
  const options = telling(counted).filter(([name]) => name !== "seed");
  const groups = new Map();
  counted.forEach((run, i) => {
    const values = options.map((row) => row[i + 1] ?? "–");
    const key = JSON.stringify(values);
    if (!groups.has(key)) groups.set(key, { values, runs: [] });
    groups.get(key).runs.push(run);
  });
  const best = (group) => mean(group.runs.map((run) => run.best.value));
  const rows = [...groups.values()]
    .sort((a, b) => best(a) - best(b))
    .map((group) => [...group.values, String(group.runs.length), ...RESULTS.map(([, of, words]) => spread(group.runs.map(of), words))]);
  const head = [...options.map(([name]) => name), t("seeds"), ...RESULTS.map(([name]) => (name === "step" ? t("bestStep") : t(name === "val_loss" ? "best" : name)))];
  const caption = t("experiments");
  const nothing = el("p", { class: "note" }, runs.length > 0 ? t("noLosses") : "");
  const element = rows.length > 0 ? table(caption, head, rows) : nothing;
  return { look: JSON.stringify([head, rows]), element };
}

function mean(values) {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

function spread(values, words) {
  if (values.includes(undefined)) return "–";
  const middle = mean(values);
  if (values.length === 1) return words(middle);
  const deviation = Math.sqrt(values.reduce((sum, value) => sum + (value - middle) ** 2, 0) / (values.length - 1));
  return `${words(middle)} ± ${words(deviation)}`;
}
