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

/** [name, text of each run]: the options in which runs differ; a run without the option has null. */
export function differing(runs) {
  const rows = new Map();
  runs.forEach((run, i) => {
    for (const [section, name, value] of flatOptions(run.options)) {
      const key = `${section} ${name}`;
      if (!rows.has(key)) rows.set(key, [name, ...runs.map(() => null)]);
      rows.get(key)[i + 1] = value;
    }
  });
  return [...rows.values()].filter(([, first, ...others]) => others.some((value) => value !== first));
}

/** A table of the options in which the runs differ; null for fewer than two runs. */
export function differences(runs) {
  if (runs.length < 2) return null;
  const rows = differing(runs).map(([name, ...values]) => [name, ...values.map((value) => value ?? "–")]);
  if (rows.length === 0) return el("p", { class: "note" }, t("same"));
  return table(t("compare"), [t("option"), ...runs.map(({ name }) => name)], rows);
}
