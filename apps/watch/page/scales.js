// Scales of charts: their bounds, ticks, and how ticks are written.
import { count } from "./words.js";

const FEW = 20; // values, of which none is far from the others

/**
 * The bounds [low, high] beyond which values would flatten the chart, or null: those that are more than twice
 * as far from the middle 96 % as these spread. On a log scale, ratios count.
 */
export function usualBounds(lines, range, log) {
  const values = [];
  for (const { xs, ys } of lines) {
    xs.forEach((x, i) => {
      const drawn = Number.isFinite(ys[i]) && (!log || ys[i] > 0) && (!range || (x >= range[0] && x <= range[1]));
      if (drawn) values.push(log ? Math.log(ys[i]) : ys[i]);
    });
  }
  if (values.length < FEW) return null;
  values.sort((a, b) => a - b);
  const [lowest, highest] = [values[0], values[values.length - 1]];
  const [low, high] = [0.02, 0.98].map((share) => values[Math.round(share * (values.length - 1))]);
  const spread = Math.max(high - low, 1e-3 * Math.max(Math.abs(low), Math.abs(high)));
  const least = low - 2 * spread;
  const most = high + 2 * spread;
  if (lowest >= least && highest <= most) return null;
  const bounds = [values.find((value) => value >= least), values.findLast((value) => value <= most)];
  return log ? bounds.map(Math.exp) : bounds;
}

/** Bounds with some room around the values. */
export function room(low, high, log) {
  if (low == null) return [log ? 0.1 : 0, 1];
  if (log) return [low / 1.08, high * 1.08];
  const gap = (high - low) * 0.06 || Math.abs(high) * 0.1 || 1;
  return [low >= 0 ? Math.max(0, low - gap) : low - gap, high + gap];
}

/** Ticks of a log scale: 1, 2, 5 of each power of ten; even steps within a small range; few powers of a large one. */
export function logSplits(low, high) {
  if (high / low < 8) {
    const step = niceStep((high - low) / 5);
    const first = Math.ceil(low / step);
    return Array.from({ length: Math.floor(high / step) - first + 1 }, (_, i) => (first + i) * step);
  }
  const powers = Math.log10(high / low);
  const every = Math.ceil(powers / 7);
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); 10 ** power <= high; power += every) {
    for (const digit of powers < 3 ? [1, 2, 5] : [1]) {
      const tick = digit * 10 ** power;
      if (tick >= low && tick <= high) ticks.push(tick);
    }
  }
  return ticks;
}

function niceStep(rough) {
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * [1, 2, 5, 10].find((digit) => digit * power >= rough);
}

export function shortValue(value) {
  const size = Math.abs(value);
  if (size !== 0 && size < 1e-3) return Number(value.toPrecision(3)).toExponential();
  if (size >= 1e9) return `${+(value / 1e9).toPrecision(3)}G`;
  if (size >= 1e6) return `${+(value / 1e6).toPrecision(3)}M`;
  if (size >= 1e4) return `${+(value / 1e3).toPrecision(3)}k`;
  return String(+value.toPrecision(4));
}

/** Steps or tokens. */
export function shortCount(value) {
  const [size, unit] = [[1e9, "G"], [1e6, "M"], [1e4, "k"]].find(([each]) => value >= each) ?? [1, ""];
  if (unit === "") return Number.isInteger(value) ? count(value) : "";
  return `${+(value / (unit === "k" ? 1e3 : size)).toPrecision(4)}${unit}`;
}

// Distances of ticks of time, in seconds.
export const TIME_STEPS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30].concat(
  [1, 2, 5, 10, 15, 30].map((minutes) => 60 * minutes),
  [1, 2, 3, 6, 12, 24, 48, 120, 240, 480, 960].map((hours) => 3600 * hours),
);

const UNITS = [
  [86400, "d"],
  [3600, "h"],
  [60, "min"],
];

/** Seconds, in the unit that suits the distance of ticks. */
export function shortTime(seconds, distance) {
  const [size, unit] = UNITS.find(([each]) => distance >= each) ?? [1, "s"];
  return seconds === 0 ? "0" : `${+(seconds / size).toPrecision(3)} ${unit}`;
}
