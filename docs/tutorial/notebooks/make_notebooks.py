#!/usr/bin/env python3
"""usage: docs/tutorial/notebooks/make_notebooks.py FOLDER
Writes to FOLDER a notebook for each of the tutorial's programs that can be said in Python: made from the C++ one's text. Those that
the table LEFT_OUT names use what the Python module does not have."""

import json
import re
import sys
from pathlib import Path

sys.dont_write_bytecode = True  # beside the sources
from cpp_reader import Untranslatable  # noqa: E402
from cpp_statements import Program  # noqa: E402

TUTORIAL = Path(__file__).resolve().parents[1]
LEFT_OUT = {
    "03-gelu": "FeedForward has no class in Python",
    "06-attention-at-work": "a Decoder's layers are its parameters in Python",
    "07-transformer-block": "Python has no Block",
    "08-gpt2-size": "Python has no summary",
    "10-sampling": "Python streams texts of models that were opened",
    "12-training-loop": "Python has no loaders of tokens",
    "13-fine-tuning": "Python has no loaders of tokens",
    "14-encoder-decoder": "Python has no Transformer",
    "15-answers": "Python has no conversations",
}


def title_of(chapter):
    page = TUTORIAL / "en" / f"{chapter}.md"
    return re.match(r"# (.*)", page.read_text(encoding="utf-8"))[1]


def cells_of(source):
    """The text at the head, and the cells of code."""
    head, declarations, lesson = Program(source).program()
    cells = []
    for part, glued in declarations:
        if glued and cells:
            cells[-1] += part.lines
        else:
            cells.append(list(part.lines))
    cells += [part.lines for part in lesson]
    code = "\n".join(line for cell in cells for line in cell)
    imports = [f"import {name}" for name in ("collections", "math") if f"{name}." in code]
    imports += [""] * bool(imports) + ["import tapegrad as tg"] + ["from tapegrad import nn"] * ("nn." in code)
    return head, ["\n".join(lines) for lines in (imports, *cells)]


def cell(kind, text, number):
    lines = text.splitlines(keepends=True)
    made = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": lines}
    return made if kind == "markdown" else {**made, "execution_count": None, "outputs": []}


def notebook(chapter, source):
    head, cells = cells_of(source)
    page = f"docs/tutorial/en/{chapter}.md"
    text = f"# {title_of(chapter)}\n\n{head}\n\nMade of the program that `{page}` explains, by `make_notebooks.py`."
    made = [cell("markdown", text, 0), *(cell("code", code, number) for number, code in enumerate(cells, 1))]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": made, "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}}, "nbformat": 4, "nbformat_minor": 5}


def main(folder):
    Path(folder).mkdir(parents=True, exist_ok=True)
    for path in sorted((TUTORIAL / "programs").glob("[0-9]*.cpp")):
        chapter = path.stem.replace("_", "-")
        if chapter in LEFT_OUT:
            continue
        try:
            made = notebook(chapter, path.read_text(encoding="utf-8"))
        except Untranslatable as problem:
            sys.exit(f"{path.name}: no Python for {problem}")
        Path(folder, f"{chapter}.ipynb").write_text(json.dumps(made, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    main(sys.argv[1])
