#!/usr/bin/env python3
"""usage: tests/bench/traffic.py SVG FOLDER PROGRAM ARGUMENT…
What local steps cost in loss and save in bytes: `PROGRAM train ARGUMENT…` by 2, 4 and 8 processes that meet in each step,
or in each 10, 50 and 200. Runs are in FOLDER; those that ended there are not made again. Prints a table, and draws
validation losses at equal tokens (above) and at equal bytes (below).
A step has 8 batches, whichever processes make them; more ARGUMENTs are --comm-dtype, --max-iters, --eval-interval 200."""
import math
import os
import re
import subprocess
import sys

from curves import frame, line, read_run, words, write_svg

GROUPS = (2, 4, 8)
COLOURS = {1: "#555", 10: "#1f6fb4", 50: "#b45f1f", 200: "#2a8a4a"}  # by local steps
LEFT, TOP, WIDTH, HEIGHT, GAP = 62, 40, 220, 150, 50
STEP = 290  # from panel to panel


def made(folder, command, groups, steps):
    """The run's validation losses by step, the final one, and the bytes that each process sends in a step on average."""
    run = os.path.join(folder, f"{groups}-{steps}")
    output = run + ".txt"
    if not os.path.exists(output):
        local = ["--local-steps", str(steps)] if steps > 1 else []
        done = subprocess.run(
            ["mpirun", "-n", str(groups), "--oversubscribe", "--bind-to", "none", *command, "--threads", "1", "--overwrite",
             "--gradient-accumulation-steps", str(GROUPS[-1]), "--no-sample", "--out-dir", run, *local],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode:
            sys.exit(done.stdout)
        with open(output + ".part", "w", encoding="utf-8") as file:
            file.write(done.stdout)
        os.replace(output + ".part", output)
    with open(output, encoding="utf-8") as file:
        sent = float(re.search(r"sent ([\d.]+) MB a step", file.read()).group(1)) * 1e6
    _, lines = read_run(run)
    curve = [(at["iteration"], at["val_loss"]) for at in lines if "val_loss" in at]
    final = [at["final_val_loss"] for at in lines if "final_val_loss" in at]
    return curve, final[-1] if final else math.nan, sent


def loss_at(curve, step):
    """Between two evaluations, on the line from one to the other."""
    for (begin, high), (end, low) in zip(curve, curve[1:]):
        if step <= end:
            return high + (low - high) * (step - begin) / (end - begin)
    return curve[-1][1]


def table(runs):
    print("| groups | local steps | MB that a process sends in a step | final val loss | at equal bytes, meeting in each step |")
    print("|---|---|---|---|---|")
    for (groups, steps), (curve, final, sent) in sorted(runs.items()):
        each, _, most = runs[groups, 1]
        equal = loss_at(each, curve[-1][0] * sent / most)
        print(f"| {groups} | {steps} | {sent * 1e-6:.3f} | {final:.4f} | {equal:.4f} |")


def panel(groups, runs):
    """Losses by step, and by bytes, whose axis is logarithmic."""
    mine = {steps: runs[groups, steps] for steps in COLOURS}
    shown = [loss for curve, _, _ in runs.values() for _, loss in curve[1:]]
    room = 0.05 * (max(shown) - min(shown))
    last = max(curve[-1][0] for curve, _, _ in mine.values())
    total = [(sent * step) for curve, _, sent in mine.values() for step, _ in curve[1:]]
    low, high = math.log10(min(total)), math.log10(max(total))

    parts = [words(WIDTH / 2, TOP - 14, f"{groups} groups", kind="title")]
    for top, x_of in ((TOP, lambda step, _: WIDTH * step / last),
                      (TOP + HEIGHT + GAP, lambda step, sent: WIDTH * (math.log10(sent * step) - low) / (high - low))):
        lines, y_of = frame(WIDTH, top, HEIGHT, min(shown) - room, max(shown) + room, "{:.1f}")
        parts += lines
        for steps, colour in COLOURS.items():
            curve, _, sent = mine[steps]
            parts.append(line([(x_of(step, sent), y_of(loss)) for step, loss in curve[1:]], colour, 'stroke-width="1.5"'))
    upper, lower = TOP + HEIGHT + 15, TOP + 2 * HEIGHT + GAP + 15
    parts += [words(0, upper, "0", "start"), words(WIDTH, upper, f"{last:,} steps", "end")]
    parts += [words(0, lower, f"{10**low * 1e-6:.3g} MB", "start"), words(WIDTH, lower, f"{10**high * 1e-6:,.0f} MB sent", "end")]
    return "\n".join(parts)


def draw(path, runs):
    bottom = TOP + 2 * HEIGHT + GAP
    parts = [f'<g transform="translate({LEFT + STEP * i},0)">{panel(groups, runs)}</g>' for i, groups in enumerate(GROUPS)]
    for down in (TOP + HEIGHT / 2, bottom - HEIGHT / 2):
        parts.append(f'<text x="14" y="{down}" text-anchor="middle" transform="rotate(-90 14 {down})">validation loss</text>')
    for i, (steps, colour) in enumerate(COLOURS.items()):
        at = LEFT + 150 * i
        parts.append(line([(at, bottom + 40), (at + 24, bottom + 40)], colour, 'stroke-width="2"'))
        parts.append(words(at + 30, bottom + 43.5, "all meet in each step" if steps == 1 else f"in each {steps}", "start"))
    write_svg(path, LEFT + STEP * len(GROUPS), bottom + 58, parts)


if len(sys.argv) < 4:
    sys.exit(__doc__)
os.makedirs(sys.argv[2], exist_ok=True)
program = [sys.argv[3], "train", *sys.argv[4:]]
found = {(groups, steps): made(sys.argv[2], program, groups, steps) for groups in GROUPS for steps in COLOURS}
table(found)
draw(sys.argv[1], found)
