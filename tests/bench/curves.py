"""What pictures of losses are made of, for the scripts beside: reading runs, frames with ticks, lines, words."""
import json
import math
import os


def read_run(folder):
    """A run's options, without their groups, and the lines of its metrics."""
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        config = flat(json.load(file))
    with open(os.path.join(folder, "metrics.jsonl"), encoding="utf-8") as file:
        return config, [json.loads(line) for line in file]


def flat(config):
    found = {}
    for name, value in config.items():
        found.update(flat(value) if isinstance(value, dict) else {name: value})
    return found


def line(points, colour, more=""):
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" {more}/>'


def words(x, y, text, anchor="middle", kind="tick"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">{text}</text>'


def frame(width, top, height, low, high, tick_format):
    """The frame, its ticks, and the function from a value to a place."""
    def place(value):
        return top + height * (high - value) / (high - low)

    step = 10 ** math.floor(math.log10((high - low) / 2))
    step *= next(m for m in (5, 2, 1) if (high - low) / (m * step) >= 2)
    parts = [f'<rect x="0" y="{top}" width="{width}" height="{height}" class="frame"/>']
    tick = math.ceil(low / step) * step
    while tick <= high:
        parts.append(f'<line x1="0" y1="{place(tick):.1f}" x2="{width}" y2="{place(tick):.1f}" class="grid"/>')
        parts.append(words(-5, place(tick) + 3.5, tick_format.format(tick), "end"))
        tick += step
    return parts, place


def write_svg(path, width, height, parts):
    style = ("text{font:13px sans-serif;fill:#222}.tick{font-size:10px;fill:#555}"
             ".frame{fill:none;stroke:#999}.grid{stroke:#e4e4e4}")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">'
                   f'<style>{style}</style><rect width="{width}" height="{height}" fill="#fff"/>\n'
                   + "\n".join(parts) + "\n</svg>\n")
