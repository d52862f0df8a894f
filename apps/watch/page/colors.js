// Colours of runs: no two runs in the charts have the same. The style sheet has the first ones; further
// ones are made by turning the hue by the golden angle, light enough or dark enough for either theme.
const OF_STYLE = 12;
let known = OF_STYLE;

function define(color) {
  for (; known <= color; ++known) {
    const hue = (20 + (known - OF_STYLE) * 137.508) % 360;
    const pair = `light-dark(hsl(${hue} 72% 32%), hsl(${hue} 78% 70%))`;
    document.documentElement.style.setProperty(`--run-${known}`, pair);
  }
}

/** Gives each run that is shown the first free colour; it keeps it until it is hidden. */
export function shareOutColors(runs) {
  for (const run of runs) if (!run.shown) run.color = null;
  const used = new Set(runs.map((run) => run.color));
  for (const run of runs.filter(({ shown, color }) => shown && color === null)) {
    let color = 0;
    while (used.has(color)) ++color;
    used.add((run.color = color));
    define(color);
  }
}

/** The CSS variable of a run's colour. */
export function variableOf({ color }) {
  return color === null ? "--muted" : `--run-${color}`;
}
