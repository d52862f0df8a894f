// Options of runs, and in which of them runs differ.
import { el, table } from "./dom.js";
import { t } from "./words.js";

/** Options as [section, name, text] rows. */
export function flatOptions(options) {
  return Object.entries(options).flatMap(([section, values]) =>
    values !== null && typeof values === "object" && !Array.isArray(values)
      ? Object.entries(values).map(([name, value]) => [section, name, textOf(value)])
      : [["", section, textOf(values)]],
  );
}

function textOf(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** [name, text of each run]: the options in which runs differ, the optimiser's first; a run without the option has null. */
export function differing(runs) {
  const rows = new Map();
  const late = ([section, name]) => (name === "seed" ? 3 : name === "optimizer" ? 0 : section === "optimizer" ? 1 : 2);
  runs.forEach((run, i) => {
    for (const [section, name, value] of flatOptions(run.options).sort((a, b) => late(a) - late(b))) {
      const key = `${section} ${name}`;
      if (!rows.has(key)) rows.set(key, [name, ...runs.map(() => null)]);
      rows.get(key)[i + 1] = value;
    }
  });
  return [...rows.values()].filter(([, first, ...others]) => others.some((value) => value !== first));
}

/** The same without options that some runs only lack, if the others tell the same runs apart: of two kinds of models, nearly all are such. */
export function telling(runs) {
  const known = new Set(); // block_size stands in two sections
  const rows = differing(runs).filter((row) => !known.has(String(row)) && known.add(String(row)));
  const told = rows.filter(([, ...values]) => new Set(values.filter((value) => value !== null)).size > 1);
  return kinds(runs, told) === kinds(runs, rows) ? told : rows;
}

function kinds(runs, rows) {
  const options = rows.filter(([name]) => name !== "seed");
  return new Set(runs.map((_, i) => JSON.stringify(options.map((row) => row[i + 1])))).size;
}

/** A table of the options in which the runs differ; null for fewer than two runs. */
export function differences(runs) {
  if (runs.length < 2) return null;
  const rows = differing(runs).map(([name, ...values]) => [name, ...values.map((value) => value ?? "–")]);
  if (rows.length === 0) return el("p", { class: "note" }, t("same"));
  return table(t("compare"), [t("option"), ...runs.map(({ name }) => name)], rows);
}
