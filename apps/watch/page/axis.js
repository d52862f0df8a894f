// The axis of the charts: steps, or the tokens or the seconds of training until a step.
import { count, duration, number, t } from "./words.js";

export const AXES = ["step", "tokens", "time"];

/** The function from a step of this run to its place on an axis; null if the run has no numbers for it. */
export function along(run, axis) {
  if (axis === "step") return (step) => step;
  const sums = run.get(axis === "tokens" ? "total_tokens" : "total_seconds");
  if (sums.length === 0) return null;
  const xs = [0, ...sums.xs];
  const ys = [0, ...sums.ys];
  return (step) => {
    let low = 0;
    let high = xs.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (xs[middle] <= step) low = middle;
      else high = middle;
    }
    return ys[low] + ((step - xs[low]) * (ys[high] - ys[low])) / (xs[high] - xs[low]);
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
