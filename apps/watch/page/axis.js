// What lies along the charts: steps, or the tokens or the seconds of training until a step.
import { count, duration, number, t } from "./words.js";

export const AXES = ["step", "tokens", "time"];

const none = { xs: [], ys: [] };

/**
 * The function from a step of this run to its place on an axis; null if the run has no numbers for it. A
 * recorded value holds for the steps since the one before.
 */
export function along(run, axis) {
  if (axis === "step") return (step) => step;
  const ms = run.series.get("ms") ?? none;
  const rates = run.series.get("tokens_per_second") ?? none;
  const rateAt = new Map(rates.xs.map((x, i) => [x, rates.ys[i]]));
  const xs = [0];
  const sums = [0];
  const perStep = (i) => ((axis === "tokens" ? (rateAt.get(ms.xs[i]) ?? NaN) : 1) * ms.ys[i]) / 1000;
  ms.xs.forEach((x, i) => {
    const value = perStep(i);
    const last = xs.length - 1;
    if (x <= xs[last] || !Number.isFinite(value)) return;
    xs.push(x);
    sums.push(sums[last] + (x - xs[last]) * value);
  });
  if (xs.length < 2) return null;
  return (step) => {
    let low = 0;
    let high = xs.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (xs[middle] <= step) low = middle;
      else high = middle;
    }
    return sums[low] + ((step - xs[low]) * (sums[high] - sums[low])) / (xs[high] - xs[low]);
  };
}

/** A place on an axis, in words. */
export function placeOf(axis, x) {
  return `${t(axis)} ${placeText(axis, x)}`;
}

/** The same without the axis's name. */
export function placeText(axis, x) {
  if (axis !== "time") return count(x);
  return x < 10 ? t("seconds", number(x)) : duration(x);
}
