"""docs/python.md and the README each show a program and what it prints."""

import contextlib
import io
import os
import re
import unittest
from pathlib import Path

from tapegrad import nn

SOURCES = Path(os.environ["TAPEGRAD_SOURCE_DIR"])


def text_of(page):
    return Path(SOURCES, page).read_text(encoding="utf-8")


def program_of(page):
    return re.search(r"```python\n(.*?)```", text_of(page), re.S)[1]


def run(page):
    """What the page's program prints, and its variables."""
    printed, variables = io.StringIO(), {}
    with contextlib.redirect_stdout(printed):
        exec(compile(program_of(page), page, "exec"), variables)
    return printed.getvalue(), variables


def printed_by(page):
    return run(page)[0]


class Pages(unittest.TestCase):
    def test_the_program_of_the_page_prints_what_it_shows(self):
        shown, summary = re.findall(r"```text\n(.*?)```", text_of("docs/python.md"), re.S)
        printed, variables = run("docs/python.md")
        self.assertEqual(printed, shown)
        self.assertEqual(f"{nn.summary(variables['net'], variables['x'])}\n", summary)

    def test_the_readme_trains_a_perceptron_in_ten_lines_on_its_first_screen(self):
        program = program_of("README.md")
        self.assertEqual(len([line for line in program.splitlines() if line]), 10)
        self.assertEqual(printed_by("README.md"), program.rpartition("# ")[2])
        first_screen = "\n".join(text_of("README.md").splitlines()[:40])
        self.assertIn(program, first_screen)
        for place in ("terminal", "Python", "C++", "page in the browser"):
            self.assertIn(place, first_screen)


if __name__ == "__main__":
    unittest.main()
