#!/usr/bin/env python3
"""usage: tests/bench/growth.py [SVG]
How the time and the memory of a training step grow with the length of the sequences, their number,
the width of the model and the threads: runs train-gpt --plan, prints a table, and draws it."""
import math
import re
import subprocess
import sys

BASE = {"n-layer": 4, "n-head": 4, "n-embd": 256, "block-size": 256, "batch-size": 4, "threads": 2}
SERIES = [
    ("sequence length T", "block-size", [64, 128, 256, 512, 1024, 2048, 4096]),
    ("batch size B", "batch-size", [1, 2, 4, 8, 16, 32]),
    ("width C", "n-embd", [64, 128, 256, 512, 1024]),
    ("threads", "threads", [1, 2]),
]


def measure(option, value):
    options = dict(BASE, **{option: value})
    args = [a for name, v in options.items() for a in (f"--{name}", str(v))]
    out = subprocess.run(["build/bin/train-gpt", "--preset", "char-cpu", "--plan", *args],
                         check=True, capture_output=True, text=True).stdout
    found = re.search(r"measured: +([0-9.]+) ms per step.* ([0-9.]+) MB of tensors", out)
    return float(found[1]), float(found[2])


def panel(left, title, xs, ys, unit, colour):
    """One curve on logarithmic axes, with a dashed line of slope 1 through its first point."""
    width, height, top = 170, 150, 40
    low, high = math.log(min(ys) / 1.5), math.log(max(ys) * 1.5)
    span = max(1e-9, math.log(xs[-1] / xs[0]))

    def at(x, y):
        return (left + width * math.log(x / xs[0]) / span,
                top + height * (high - math.log(y)) / (high - low))

    points = [at(x, y) for x, y in zip(xs, ys)]
    text = [f'<text x="{left + width / 2}" y="{top - 14}" text-anchor="middle">{title}</text>',
            f'<rect x="{left}" y="{top}" width="{width}" height="{height}" class="frame"/>',
            f'<clipPath id="c{left}{unit}"><rect x="{left}" y="{top}" width="{width}" '
            f'height="{height}"/></clipPath>']
    (x0, y0), (x1, y1) = at(xs[0], ys[0]), at(xs[-1], ys[0] * xs[-1] / xs[0])
    if title != "threads":
        text.append(f'<line x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}" class="guide" '
                    f'clip-path="url(#c{left}{unit})"/>')
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    text.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
    for (x, y), label, value in zip(points, xs, ys):
        text.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>')
        text.append(f'<text x="{x:.1f}" y="{top + height + 14}" text-anchor="middle" class="tick">'
                    f'{label}</text>')
        shown = f"{value:.0f}" if value >= 10 else f"{value:.1f}"
        text.append(f'<text x="{x:.1f}" y="{y - 7:.1f}" text-anchor="middle" class="tick">'
                    f'{shown}</text>')
    return "\n".join(text)


def main():
    rows = []
    for title, option, values in SERIES:
        for value in values:
            ms, mb = measure(option, value)
            rows.append((title, value, ms, mb))
            print(f"{title:<18} {value:>6} {ms:>10.1f} ms {mb:>8.0f} MB", flush=True)
    if len(sys.argv) < 2:
        return
    parts = []
    for down, (unit, column, colour) in enumerate([("ms per step", 2, "#1f6fb4"),
                                                   ("MB at once", 3, "#b45f1f")]):
        parts.append(f'<g transform="translate(0,{220 * down})">'
                     f'<text x="14" y="115" transform="rotate(-90 14 115)" '
                     f'text-anchor="middle">{unit}</text>')
        for i, (title, _, values) in enumerate(SERIES):
            ys = [row[column] for row in rows if row[0] == title]
            parts.append(panel(40 + 200 * i, title, values, ys, unit[:2], colour))
        parts.append("</g>")
    style = ("text{font:13px sans-serif;fill:#222}.tick{font-size:10px;fill:#555}"
             ".frame{fill:none;stroke:#bbb}.guide{stroke:#999;stroke-dasharray:4 3}")
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 840 440">'
                   f'<style>{style}</style><rect width="840" height="440" fill="#fff"/>\n'
                   + "\n".join(parts) + "\n</svg>\n")


main()
