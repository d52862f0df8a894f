#!/usr/bin/env python3
"""usage: tests/bench/precisions.py SVG TITLE=SWEEP…
Of sweeps over --dtype and --seed: the final losses as a table, and a picture of the validation losses while they were
trained, with their differences to f32 of the same seed beside what seeds differ by."""
import math
import os
import statistics
import sys

from curves import frame, line, read_run, words, write_svg

COLOURS = {"f32": "#1f6fb4", "bf16": "#b45f1f", "int8": "#2a8a4a"}
LEFT, TOP, WIDTH, HEIGHT, LOW = 62, 40, 200, 150, 110  # of a panel's frames; LOW is the lower one's height
STEP = 262  # from panel to panel


def read(sweep):
    """{dtype: {seed: ([(step, val loss)…], final loss)}}"""
    runs = {}
    for name in sorted(os.listdir(sweep)):
        folder = os.path.join(sweep, name)
        if not name.isdigit() or not os.path.exists(os.path.join(folder, "metrics.jsonl")):
            continue
        config, lines = read_run(folder)
        curve = [(line["iteration"], line["val_loss"]) for line in lines if "val_loss" in line]
        final = [line["final_val_loss"] for line in lines if "final_val_loss" in line]
        runs.setdefault(config["dtype"], {})[config["seed"]] = (curve, final[-1] if final else math.nan)
    return runs


def table(title, runs):
    """A row for each precision: losses by seed, the mean difference to f32, and the deviation of f32's seeds."""
    deviation = statistics.stdev(final for _, final in runs["f32"].values())
    for dtype in COLOURS:
        finals = [runs[dtype][seed][1] for seed in sorted(runs["f32"])]
        gaps = [runs[dtype][seed][1] - runs["f32"][seed][1] for seed in runs["f32"]]
        losses = ", ".join(f"{final:.4f}" for final in finals)
        print(f"| {title} | {dtype} | {losses} | {statistics.mean(gaps):+.4f} | {deviation:.4f} |")


def panel(title, runs):
    seeds = sorted(runs["f32"])
    steps = [step for step, _ in runs["f32"][seeds[0]][0]][1:]
    losses = {dtype: {seed: dict(curve) for seed, (curve, _) in of.items()} for dtype, of in runs.items()}

    def x_of(step):
        return WIDTH * step / steps[-1]

    shown = [losses[d][s][step] for d in COLOURS for s in seeds for step in steps]
    room = 0.05 * (max(shown) - min(shown))
    parts, y_of = frame(WIDTH, TOP, HEIGHT, min(shown) - room, max(shown) + room, "{:.1f}")
    spread = [statistics.stdev(losses["f32"][s][step] for s in seeds) for step in steps]
    gaps = {d: [statistics.mean(losses[d][s][step] - losses["f32"][s][step] for s in seeds) for step in steps]
            for d in COLOURS}
    most = 1.1 * max(max(spread), max(abs(gap) for of in gaps.values() for gap in of))
    lower, gap_of = frame(WIDTH, TOP + HEIGHT + 30, LOW, -most, most, "{:g}")
    band = [(x_of(step), gap_of(value)) for step, value in zip(steps, spread)]
    band += [(x_of(step), gap_of(-value)) for step, value in reversed(list(zip(steps, spread)))]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in band)
    parts += [words(WIDTH / 2, TOP - 14, title, kind="title"), f'<polygon points="{path}" fill="#ddd"/>'] + lower
    for dtype, colour in COLOURS.items():
        for seed in seeds:
            parts.append(line([(x_of(step), y_of(losses[dtype][seed][step])) for step in steps], colour, 'opacity="0.6"'))
        parts.append(line([(x_of(step), gap_of(gap)) for step, gap in zip(steps, gaps[dtype])], colour, 'stroke-width="2"'))
    bottom = TOP + HEIGHT + 30 + LOW
    parts += [words(0, bottom + 15, "0", "start"), words(WIDTH, bottom + 15, f"{steps[-1]:,} steps", "end")]
    return "\n".join(parts)


def draw(path, sweeps):
    width, bottom = LEFT + STEP * len(sweeps), TOP + HEIGHT + 30 + LOW
    parts = []
    for down, text in ((TOP + HEIGHT / 2, "validation loss"), (bottom - LOW / 2, "difference to f32")):
        parts.append(f'<text x="14" y="{down}" text-anchor="middle" transform="rotate(-90 14 {down})">{text}</text>')
    for i, (title, runs) in enumerate(sweeps):
        parts.append(f'<g transform="translate({LEFT + STEP * i},0)">{panel(title, runs)}</g>')
    for i, (dtype, colour) in enumerate(COLOURS.items()):
        at = LEFT + 70 * i
        parts.append(line([(at, bottom + 40), (at + 24, bottom + 40)], colour, 'stroke-width="2"'))
        parts.append(words(at + 30, bottom + 43.5, dtype, "start"))
    parts.append(f'<rect x="{LEFT + 220}" y="{bottom + 34}" width="24" height="12" fill="#ddd"/>')
    parts.append(words(LEFT + 250, bottom + 43.5, "one standard deviation of f32's seeds", "start"))
    write_svg(path, width, bottom + 58, parts)


if len(sys.argv) < 3 or not all("=" in arg for arg in sys.argv[2:]):
    sys.exit(__doc__)
found = [(title, read(sweep)) for title, sweep in (arg.split("=", 1) for arg in sys.argv[2:])]
for each in found:
    table(*each)
draw(sys.argv[1], found)
