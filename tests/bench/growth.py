#!/usr/bin/env python3
"""usage: tests/bench/growth.py measure >TABLE
       tests/bench/growth.py draw SVG <TABLE
How the time and the memory of a training step grow with the length of the sequences, their number,
the width of the model and the threads: the first runs train-gpt --plan, the second draws a picture."""
import math
import re
import subprocess
import sys

BASE = {"n-layer": 4, "n-head": 4, "n-embd": 256, "block-size": 256, "batch-size": 4, "threads": 2}
SERIES = [
    ("sequence length T", "tokens", "block-size", [64, 128, 256, 512, 1024, 2048, 4096]),
    ("batch size B", "sequences", "batch-size", [1, 2, 4, 8, 16, 32]),
    ("width C", "channels", "n-embd", [64, 128, 256, 512, 1024]),
    ("threads", "threads", "threads", [1, 2]),
]
WIDTH, HEIGHT, TOP = 190, 150, 40  # of a panel's frame


def measure():
    """Lines of an option, its value, milliseconds and MB."""
    for _, _, option, values in SERIES:
        for value in values:
            options = dict(BASE, **{option: value})
            args = [a for name, v in options.items() for a in (f"--{name}", str(v))]
            out = subprocess.run(["build/bin/train-gpt", "--preset", "char-cpu", "--plan", *args],
                                 check=True, capture_output=True, text=True).stdout
            found = re.search(r"measured: +([0-9.]+) ms per step.* ([0-9.]+) MB of tensors", out)
            print(option, value, found[1], found[2], flush=True)


def panel(left, title, x_unit, xs, ys, unit, colour):
    """A curve on logarithmic axes, a dashed line of slope 1 through its first point, and the numbers
    below their points."""
    room = 2.2 if title == "threads" else 1.4
    low, high = math.log(min(ys) / room), math.log(max(ys) * room)
    first, last = math.log(xs[0]) - 0.12, math.log(xs[-1]) + 0.12

    def x_of(x):
        return left + WIDTH * (math.log(x) - first) / (last - first)

    def y_of(y):
        return TOP + HEIGHT * (high - math.log(y)) / (high - low)

    parts = [f'<text x="{left + WIDTH / 2}" y="{TOP - 14}" text-anchor="middle">{title}</text>']
    ticks = [m * 10 ** e for e in range(5) for m in (1, 2, 5)]
    for tick in ticks:
        if low < math.log(tick) < high:
            parts.append(f'<line x1="{left}" y1="{y_of(tick):.1f}" x2="{left + WIDTH}" '
                         f'y2="{y_of(tick):.1f}" class="grid"/>')
            parts.append(f'<text x="{left - 5}" y="{y_of(tick) + 3.5:.1f}" text-anchor="end" '
                         f'class="tick">{tick}</text>')
    parts.append(f'<rect x="{left}" y="{TOP}" width="{WIDTH}" height="{HEIGHT}" class="frame"/>')
    if title != "threads":
        end = min(xs[-1], xs[0] * math.exp(high) / ys[0])  # where the dashed line leaves the frame
        parts.append(f'<line x1="{x_of(xs[0]):.1f}" y1="{y_of(ys[0]):.1f}" x2="{x_of(end):.1f}" '
                     f'y2="{y_of(ys[0] * end / xs[0]):.1f}" class="guide"/>')
    path = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in zip(xs, ys))
    parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
    bottom = TOP + HEIGHT
    for x, y in zip(xs, ys):
        parts.append(f'<circle cx="{x_of(x):.1f}" cy="{y_of(y):.1f}" r="3" fill="{colour}"/>')
        for down, label, fill in ((15, x, "#555"), (42, f"{y:.0f}", colour)):
            parts.append(f'<text x="{x_of(x):.1f}" y="{bottom + down}" text-anchor="middle" '
                         f'class="tick" style="fill:{fill}">{label}</text>')
    parts.append(f'<text x="{left + WIDTH / 2}" y="{bottom + 28}" text-anchor="middle" '
                 f'class="tick">{x_unit}</text>')
    parts.append(f'<text x="{left + WIDTH / 2}" y="{bottom + 56}" text-anchor="middle" class="tick" '
                 f'style="fill:{colour}">{unit}</text>')
    return "\n".join(parts)


def draw(path):
    rows = [line.split() for line in sys.stdin]
    parts = []
    for down, (words, unit, column, colour) in enumerate([
            ("time of a step (ms)", "ms", 2, "#1f6fb4"), ("memory at once (MB)", "MB", 3, "#b45f1f")]):
        parts.append(f'<g transform="translate(0,{258 * down})">'
                     f'<text x="18" y="{TOP + HEIGHT / 2}" text-anchor="middle" '
                     f'transform="rotate(-90 18 {TOP + HEIGHT / 2})">{words}</text>')
        for i, (title, x_unit, option, values) in enumerate(SERIES):
            ys = [float(row[column]) for row in rows if row[0] == option]
            parts.append(panel(62 + 236 * i, title, x_unit, values, ys, unit, colour))
        parts.append("</g>")
    parts.append('<line x1="62" y1="530" x2="86" y2="530" class="guide"/>'
                 '<text x="92" y="533.5" class="tick">dashed: proportional</text>')
    style = ("text{font:13px sans-serif;fill:#222}.tick{font-size:10px;fill:#555}"
             ".frame{fill:none;stroke:#999}.grid{stroke:#e4e4e4}"
             ".guide{stroke:#999;stroke-dasharray:4 3}")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 980 548">'
                   f'<style>{style}</style><rect width="980" height="548" fill="#fff"/>\n'
                   + "\n".join(parts) + "\n</svg>\n")


if sys.argv[1:] == ["measure"]:
    measure()
elif len(sys.argv) == 3 and sys.argv[1] == "draw":
    draw(sys.argv[2])
else:
    sys.exit(__doc__)
