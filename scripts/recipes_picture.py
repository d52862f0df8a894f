#!/usr/bin/env python3
"""usage: scripts/recipes_picture.py
Draws docs/recipes.svg, loss over work, from the first table of docs/recipes.md. The picture keeps
the numbers as text; a test compares them with the table's."""
import math
import re

LEFT, RIGHT, TOP, BOTTOM = 50, 640, 44, 304
LEAST_LOSS, MOST_LOSS = 1.4, 1.9
LEAST_WORK, MOST_WORK = 4, 2000  # TFLOP
BEST_OF_NANOGPT = 1.4697
COLOURS = {"4 × 64": "#1b7837", "4 × 96": "#5aae61", "4 × 128": "#2166ac", "4 × 192": "#762a83",
           "6 × 192": "#b35806", "nanoGPT": "#c0392b"}


def across(work):
    share = math.log(work / LEAST_WORK) / math.log(MOST_WORK / LEAST_WORK)
    return LEFT + (RIGHT - LEFT) * share


def down(loss):
    return BOTTOM - (BOTTOM - TOP) * (loss - LEAST_LOSS) / (MOST_LOSS - LEAST_LOSS)


def label(x, y, words, anchor, fill="#444"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}">{words}</text>'


def rows():
    """Size, TFLOP and loss of each row that has them. Rows without a size go on with the last."""
    with open("docs/recipes.md", encoding="utf-8") as file:
        table = file.read().split("| blocks × channels")[1].split("\n\n")[0]
    size, found = "", []
    for line in table.splitlines()[2:]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        named = re.match(r"[\d]+ × [\d]+", cells[0])
        if named:
            size = named[0]
        if "nanoGPT" in cells[0]:
            size = "nanoGPT"
        if re.fullmatch(r"[\d.,]+", cells[3]):
            loss = re.search(r"\d\.\d{3}", cells[-1])
            found.append((size, float(cells[3].replace(",", "")), float(loss[0])))
    return found


def draw():
    points = rows()
    values = " ".join(f"{work:g},{loss:.3f}" for _, work, loss in points)
    parts = ["<title>Loss over the work of runs on tiny shakespeare</title>",
             f'<g id="runs" data-values="{values}"/>',
             '<rect width="100%" height="100%" fill="white"/>']
    for tenth in range(14, 20):
        y = down(tenth / 10)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{RIGHT}" stroke="#ddd"/>')
        parts.append(label(LEFT - 8, y + 4, f"{tenth / 10:.1f}", "end"))
    for work in (5, 10, 20, 50, 100, 200, 500, 1000):
        parts.append(f'<path d="M{across(work):.1f} {TOP}V{BOTTOM}" stroke="#eee"/>')
        parts.append(label(across(work), BOTTOM + 18, work, "middle"))
    y = down(BEST_OF_NANOGPT)
    parts.append(f'<path d="M{LEFT} {y:.1f}H{RIGHT}" stroke="{COLOURS["nanoGPT"]}" '
                 'stroke-dasharray="4 3"/>')
    parts.append(label(RIGHT, y - 6, f"nanoGPT's lowest, {BEST_OF_NANOGPT}", "end",
                       COLOURS["nanoGPT"]))
    for size, work, loss in points:
        parts.append(f'<circle cx="{across(work):.1f}" cy="{down(loss):.1f}" r="4" '
                     f'fill="{COLOURS[size]}" fill-opacity="0.8"><title>{size}: {work:g} TFLOP, '
                     f'{loss:.3f}</title></circle>')
    for i, (size, colour) in enumerate(COLOURS.items()):
        parts.append(f'<circle cx="{RIGHT + 16}" cy="{TOP + 6 + 20 * i}" r="4" fill="{colour}"/>')
        parts.append(label(RIGHT + 26, TOP + 10 + 20 * i, size, "start"))
    parts += [label(10, 24, "loss of the whole validation split (nats per character)", "start"),
              label((LEFT + RIGHT) / 2, BOTTOM + 36, "TFLOP of the run (logarithmic)", "middle")]
    with open("docs/recipes.svg", "w", encoding="utf-8") as file:
        file.write('<svg xmlns="http://www.w3.org/2000/svg" width="720" height="348" '
                   'font-family="sans-serif" font-size="12">\n' + "\n".join(parts) + "\n</svg>\n")


draw()
