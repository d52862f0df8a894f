#!/usr/bin/env python3
"""usage: scripts/tutorial_pictures.py
Draws the tutorial's pictures of attention and of a loss curve from what the two chapters' programs
print. A test compares the pictures with that output."""
import re
import subprocess

IMAGES = "docs/tutorial/images"
STYLE = 'font-family="system-ui, sans-serif" font-size="13"'
BLUE, ORANGE, GREY, DARK = "#0072b2", "#d55e00", "#57606a", "#1f2328"


def run(chapter):
    return subprocess.run([f"build/bin/tutorial/{chapter}"], check=True, capture_output=True,
                          text=True).stdout


def text(x, y, words, anchor="middle", fill=GREY, more=""):
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{fill}"{more}>{words}</text>'


def save(name, title, width, height, parts):
    with open(f"{IMAGES}/{name}", "w", encoding="utf-8") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
                   f'{STYLE} role="img">\n<title>{title}</title>\n<rect width="{width}" '
                   f'height="{height}" rx="10" fill="#ffffff" stroke="#d0d7de"/>\n'
                   + "\n".join(parts) + "\n</svg>\n")


def heat_map(left, title, id_, rows):
    """One head: a row for each letter that is read, a column for each letter of the word."""
    top, cell = 84, 16
    mono = ' font-family="ui-monospace, monospace"'
    parts = [text(left + 4.5 * cell, 30, title, fill=DARK),
             text(left - 8, top - 8, "reads → writes", "end", more=' font-size="10"')
             if left < 120 else "",
             text(left + 4.5 * cell, top - 26, "looks at", more=' font-size="11"')]
    parts += [text(left + (j + 0.5) * cell, top - 8, letter, fill=DARK, more=mono)
              for j, letter in enumerate("attention")]
    for i, (read, written, _) in enumerate(rows):
        parts.append(text(left - 8, top + (i + 0.75) * cell, f"{read} → {written}", "end", DARK,
                          mono))
    parts.append(f'<g id="{id_}" fill="{BLUE}">')
    for i, (_, _, percents) in enumerate(rows):
        parts.append("".join(
            f'<rect x="{left + j * cell:g}" y="{top + i * cell}" width="{cell}" height="{cell}" '
            f'fill-opacity="{percent / 100:g}"/>' for j, percent in enumerate(percents)))
    parts.append(f'</g><rect x="{left}" y="{top}" width="{9 * cell}" height="{9 * cell}" '
                 f'fill="none" stroke="#8c959f"/>')
    return parts


def draw_attention():
    parts, task, found = [], "", {}
    for line in run("06-attention-at-work").splitlines():
        if line in ("backwards", "sorted"):
            task = line
        row = re.fullmatch(r" +(\S) +(\S)((?: +\d+){18})", line)
        if row:
            percents = [int(p) for p in row[3].split()]
            found.setdefault(task, []).append((row[1], row[2], percents))
    for i, task in enumerate(("backwards", "sorted")):
        for head in (0, 1):
            rows = [(r, w, p[9 * head:9 * head + 9]) for r, w, p in found[task]]
            parts += heat_map(100 + (2 * i + head) * 215, f"{task}, head {head + 1}",
                              f"{task}-{head + 1}", rows)
    parts.append(text(100, 262, "share of the attention:", "start"))
    for i, percent in enumerate((0, 25, 50, 75, 100)):
        x = 250 + 75 * i
        parts.append(f'<rect x="{x}" y="251" width="14" height="14" fill="{BLUE}" '
                     f'class="key" fill-opacity="{percent / 100:g}" stroke="#8c959f"/>')
        parts.append(text(x + 20, 262, f"{percent} %", "start"))
    save("attention.svg", "Four heads: what they look at while they write", 920, 284,
         [part for part in parts if part])


def axes(left, width, ticks, y_of, words):
    """The frame of a panel for the steps 0 to 600, with labelled lines across."""
    top, bottom = 48, 248
    parts = []
    for value in ticks:
        y = y_of(value)
        parts.append(f'<path d="M{left} {y:g}H{left + width}" stroke="#d0d7de"/>')
        parts.append(text(left - 8, y + 4, f"{value:g}", "end", more=' font-size="12"'))
    for step in (0, 200, 400, 600):
        x = left + width * step / 600
        parts.append(f'<path d="M{x:g} {bottom}v5" stroke="#8c959f"/>')
        parts.append(text(x, bottom + 19, step, more=' font-size="12"'))
    parts.append(f'<path d="M{left} {top}V{bottom}H{left + width}" fill="none" stroke="#8c959f"/>')
    parts.append(text(left + width / 2, bottom + 37, "steps"))
    parts.append(text(left - 8, top - 18, words, "start", DARK))
    return parts


def line(id_, points, left, width, y_of, colour):
    """A curve; data-values are its points as the program prints them."""
    values = " ".join(f"{x:g},{y:g}" for x, y in points)
    shown = " ".join(f"{left + width * x / 600:.1f},{y_of(y):.1f}" for x, y in points)
    return (f'<polyline id="{id_}" data-values="{values}" points="{shown}" fill="none" '
            f'stroke="{colour}" stroke-width="2"/>')


def draw_loss_curve():
    rows = [[float(word) for word in row.split()]
            for row in run("12-training-loop").splitlines()
            if re.fullmatch(r" *\d+( +\d+\.\d+){5}", row)]
    steps = [row[0] for row in rows]
    training, validation = ([(row[0], row[c]) for row in rows] for c in (4, 5))
    best, lowest = min(validation, key=lambda point: point[1])

    def y_loss(loss):
        return 248 - 100 * (loss - 1.5)

    def y_rate(rate):
        return 248 - 40 * rate

    left, width = 60, 440
    x_best = left + width * best / 600
    parts = axes(left, width, (1.5, 2, 2.5, 3, 3.5), y_loss, "loss (nats per character)")
    parts.append(f'<path d="M{x_best:g} 48V248" stroke="#8c959f" stroke-dasharray="4 4"/>')
    parts.append(text(x_best + 8, 66, f"step {best:g}: the lowest, {lowest:.3f}", "start"))
    parts.append(line("training", training, left, width, y_loss, BLUE))
    parts.append(line("validation", validation, left, width, y_loss, ORANGE))
    end = left + width
    parts.append(text(end - 4, y_loss(validation[-1][1]) - 12, "validation", "end", ORANGE))
    parts.append(text(end - 4, y_loss(training[-1][1]) - 30, "training", "end", BLUE))
    parts += axes(580, 200, (0, 1, 2, 3, 4, 5), y_rate, "learning rate (thousandths)")
    parts.append(line("rate", [(s, 1000 * row[1]) for s, row in zip(steps, rows)], 580,
                      200, y_rate, GREY))
    save("loss-curve.svg", "Training and validation loss, and the learning rate, of 600 steps", 810,
         300, parts)


draw_attention()
draw_loss_curve()
