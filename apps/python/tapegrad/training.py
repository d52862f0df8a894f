"""Runs: trained by the program's own code, as `tapegrad train` does it, and opened again."""

import difflib
import html
import json
import os
import re
import sys
from pathlib import Path

import numpy as np

from tapegrad import _core
from tapegrad._core import Error

_ELSEWHERE = ("eval_only", "plan", "summary")


def _words(name, value):
    """An option as the command line has it. None: it is not given."""
    option = name.replace("_", "-")
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool):
        return [] if value is None else [f"--{option}" if value else f"--no-{option}"]
    return [f"--{option}={part}" for part in (value if isinstance(value, (list, tuple)) else [value])]


def _check_name(name, names):
    if name in _ELSEWHERE:
        raise Error(f"[train] {name} does not train: tapegrad train --{name.replace('_', '-')} prints it")
    if name not in names:
        meant = difflib.get_close_matches(name, names, 1)
        raise TypeError(f"train() got an unexpected keyword argument '{name}'" + (f"; did you mean {meant[0]}?" if meant else ""))


class _Progress:
    """The program's lines, and below them a bar of tqdm's if that is installed."""

    def __init__(self, shown):
        self.shown, self.bar, self.line, self.folder = shown, None, "", None
        try:
            from tqdm.auto import tqdm
        except ImportError:
            tqdm = None
        self.tqdm = tqdm if shown else None

    def print(self, text):
        if self.shown and self.bar is None:
            print(text, end="", flush=True)
        elif self.shown:
            *lines, self.line = (self.line + text).split("\n")
            for line in lines:
                self.tqdm.write(line)

    def error(self, text):
        print(text, end="", file=sys.stderr, flush=True)

    def step(self, step, metrics):
        if self.tqdm is None or "ms" not in metrics:
            return
        if self.bar is None:
            total = Run(self.folder).config["optimizer"]["max_iters"]
            self.bar = self.tqdm(total=total, initial=step, unit="step", disable=None)
        self.bar.set_postfix(loss=f"{metrics['loss']:.4f}", refresh=False)
        self.bar.update()

    def close(self):
        if self.bar is not None:
            self.bar.close()


def train(*corpus, callback=None, progress=True, **options):
    """Trains a GPT as `tapegrad train` does, to the bit, and returns the Run. Texts are paths, and keywords the options of the
    command line, with underscores: train("notes/", preset="fast", max_minutes=10, out_dir="runs/notes"). `tapegrad help train all`
    lists them.

    callback(step, metrics) gets a dict of numbers of each step, and those of each evaluation and sample. What it raises, and
    Ctrl-C, ends the run behind the step that is under way: its checkpoint is saved, and then the exception comes out.
    init_from="resume" goes on. Other threads run meanwhile. Without `progress`, nothing is printed but warnings."""
    names = [option.removeprefix("--").replace("-", "_") for option in ("--config", *_core._train_options())]
    for name in options:
        _check_name(name, names)
    words = [word for name, value in options.items() for word in _words(name, value)] + ["--", *corpus]
    shown = _Progress(progress)

    def on_step(step, metrics, folder):
        shown.folder = folder
        shown.step(step, metrics)
        if callback is not None:
            callback(step, metrics)

    try:
        return Run(_core._train([os.fsencode(word) for word in words], on_step, shown.print, shown.error))
    except _core._UsageError as error:
        sentence = re.sub(r"--([a-z][a-z0-9-]*)", lambda option: option[1].replace("-", "_"), str(error))
        raise Error(f"[train] {sentence}") from None
    finally:
        shown.close()


class Run:
    """The folder of a run, whoever has trained it: its numbers, a curve of its loss, its model."""

    def __init__(self, path):
        self.path = Path(path)
        if not (self.path / "config.json").is_file():
            raise Error(f"[Run] {self.path}: there is no run here, which has a config.json")

    @property
    def config(self):
        """The options, by sections, as config.json has them."""
        return json.loads((self.path / "config.json").read_text(encoding="utf-8"))

    @property
    def metrics(self):
        """Arrays by name, as long as there are steps with numbers; "iteration" has these. What a step lacks is NaN."""
        rows, path = {}, self.path / "metrics.jsonl"
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
            try:
                row = json.loads(line)
            except ValueError:  # a line that the program is writing
                continue
            numbers = {name: value for name, value in row.items() if isinstance(value, (int, float))}
            rows.setdefault(numbers.pop("iteration"), {}).update(numbers)
        names = dict.fromkeys(name for numbers in rows.values() for name in numbers)
        columns = {name: np.array([numbers.get(name, np.nan) for numbers in rows.values()], float) for name in names}
        return {"iteration": np.array(list(rows), np.int64), **columns}

    def frame(self):
        """The same as a frame of pandas, by iteration."""
        import pandas

        return pandas.DataFrame(self.metrics).set_index("iteration")

    def model(self, checkpoint="last", **options):
        """Opens the model: load() of the folder."""
        return _core.load(self.path, checkpoint=checkpoint, **options)

    def __repr__(self):
        return f"tapegrad.Run({str(self.path)!r})"

    def _repr_html_(self):
        page = html.escape(_core._loss_page(self.path))
        return f'<p>{html.escape(repr(self))}</p><iframe srcdoc="{page}" style="width: 100%; height: 400px; border: 0"></iframe>'
