#!/usr/bin/env python3
"""usage: scripts/quickstart_picture.py RUN
Draws docs/quickstart.svg, the README's picture, from the run that this command makes:
  build/bin/train-gpt --preset char-fast --eval-interval 100 --out-dir RUN
The picture keeps the losses and the options as text; a test compares them with the program's."""
import json
import math
import sys
from xml.sax.saxutils import escape

LEFT, RIGHT, TOP, BOTTOM = 50, 700, 44, 284
BLUE, RED = "#6b93ba", "#c0392b"


def label(x, y, words, anchor, fill="#444"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}">{words}</text>'


def draw(folder):
    with open(f"{folder}/metrics.jsonl", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    with open(f"{folder}/config.json", encoding="utf-8") as file:
        config = json.load(file)
    training = [(line["iteration"], line["loss"]) for line in lines if "loss" in line]
    # Rounded as they are kept, so that the title has what the picture has.
    validation = [(line["iteration"], round(line["val_loss"], 4))
                  for line in lines if "val_loss" in line]
    losses = [loss for _, loss in training + validation]
    least, most = math.floor(min(losses)), math.ceil(max(losses))
    steps = validation[-1][0]

    def across(step):
        return LEFT + (RIGHT - LEFT) * step / steps

    def down(loss):
        return BOTTOM - (BOTTOM - TOP) * (loss - least) / (most - least)

    def curve(name, points, colour, width):
        values = " ".join(f"{step},{loss:.4f}" for step, loss in points)
        shown = " ".join(f"{across(step):.1f},{down(loss):.1f}" for step, loss in points)
        return (f'<polyline id="{name}" data-values="{values}" points="{shown}" fill="none" '
                f'stroke="{colour}" stroke-width="{width}"/>')

    options = {name: config[name] for name in ("model", "optimizer")}
    parts = [f"<title>Losses of a run of {steps} steps: from {validation[0][1]:.2f} to "
             f"{validation[-1][1]:.2f}</title>",
             f"<desc>{escape(json.dumps(options, separators=(',', ':')))}</desc>",
             '<rect width="100%" height="100%" fill="white"/>']
    for loss in range(least, most + 1):
        parts.append(f'<path d="M{LEFT} {down(loss):.1f}H{RIGHT}" stroke="#ddd"/>')
        parts.append(label(LEFT - 8, down(loss) + 4, loss, "end"))
    parts += [label(across(steps * i / 4), BOTTOM + 18, steps * i // 4, "middle") for i in range(5)]
    parts.append(label((LEFT + RIGHT) / 2, BOTTOM + 34, "steps", "middle"))
    parts += [curve("training", training, "#9bb8d3", 1), curve("validation", validation, RED, 2)]
    parts += [f'<circle cx="{across(step):.1f}" cy="{down(loss):.1f}" r="3" fill="{RED}"/>'
              for step, loss in validation]
    parts += [label(10, 24, "loss (nats per token)", "start"),
              label(RIGHT - 90, 24, "a training batch", "end", BLUE),
              label(RIGHT, 24, "validation", "end", RED)]
    with open("docs/quickstart.svg", "w", encoding="utf-8") as file:
        file.write('<svg xmlns="http://www.w3.org/2000/svg" width="720" height="324" '
                   'font-family="sans-serif" font-size="12">\n' + "\n".join(parts) + "\n</svg>\n")


draw(sys.argv[1]) if len(sys.argv) == 2 else sys.exit(__doc__)
