// Numbers over steps, bounded: a page may stay open for days.

const MOST_POINTS = 4000;

/** Points (x, y) with rising x. Beyond MOST_POINTS, the lowest and the highest of each four are kept. */
export class Series {
  constructor(xs = [], ys = []) {
    this.xs = [];
    this.ys = [];
    xs.forEach((x, i) => this.push(x, ys[i]));
  }

  get length() {
    return this.xs.length;
  }

  get last() {
    return this.ys[this.ys.length - 1];
  }

  push(x, y) {
    if (!Number.isFinite(x) || !Number.isFinite(y)) return;
    // A run that went back to a checkpoint repeats steps: the newest count.
    while (this.length > 0 && this.xs[this.length - 1] >= x) {
      this.xs.pop();
      this.ys.pop();
    }
    this.xs.push(x);
    this.ys.push(y);
    if (this.length > MOST_POINTS) this.thin();
  }

  thin() {
    const { xs, ys } = this;
    const keep = new Set([0, xs.length - 1]);
    for (let begin = 0; begin < xs.length; begin += 4) {
      let low = begin;
      let high = begin;
      for (let i = begin + 1; i < Math.min(begin + 4, xs.length); ++i) {
        if (ys[i] < ys[low]) low = i;
        if (ys[i] > ys[high]) high = i;
      }
      keep.add(low).add(high);
    }
    this.xs = xs.filter((_, i) => keep.has(i));
    this.ys = ys.filter((_, i) => keep.has(i));
  }

  /** The index of the point that is nearest to x, or -1. */
  nearest(x) {
    return nearest(this.xs, x);
  }

  /** The median of the last n values: one slow step does not move it. */
  median(n) {
    const values = this.ys.slice(-n).sort((a, b) => a - b);
    return values[values.length >> 1];
  }
}

export function nearest(xs, x) {
  if (xs.length === 0) return -1;
  let low = 0;
  let high = xs.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (xs[middle] < x) low = middle + 1;
    else high = middle;
  }
  return low > 0 && x - xs[low - 1] <= xs[low] - x ? low - 1 : low;
}

/**
 * Exponential mean with weight w of what was, without the pull of a first value (as Adam's moments). The
 * weight is that of the usual distance of two points: those of a history are further apart than new ones.
 */
export function smooth(xs, ys, w) {
  const gaps = xs.slice(1).map((x, i) => x - xs[i]);
  const usual = [...gaps].sort((a, b) => a - b)[gaps.length >> 1];
  let mean = 0;
  let power = 1;
  return ys.map((y, i) => {
    const kept = i === 0 ? w : w ** (gaps[i - 1] / usual);
    mean = kept * mean + (1 - kept) * y;
    power *= kept;
    return mean / (1 - power);
  });
}
