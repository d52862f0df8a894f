"""docs/python.md shows a program and what it prints."""

import contextlib
import io
import os
import re
import unittest
from pathlib import Path

SOURCES = Path(os.environ["TAPEGRAD_SOURCE_DIR"])


class Page(unittest.TestCase):
    def test_the_program_of_the_pages_prints_what_they_show(self):
        page, readme = (Path(SOURCES, name).read_text(encoding="utf-8") for name in ("docs/python.md", "README.md"))
        program = re.search(r"```python\n(.*?)```", page, re.S)[1]
        shown = re.search(r"```text\n(.*?)```", page, re.S)[1]
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(program, "docs/python.md", "exec"), {})
        self.assertEqual(printed.getvalue(), shown)
        self.assertIn(f"```python\n{program}```", readme)


if __name__ == "__main__":
    unittest.main()
