"""docs/python.md shows a program and what it prints."""

import contextlib
import io
import os
import re
import unittest
from pathlib import Path

PAGE = Path(os.environ["TAPEGRAD_SOURCE_DIR"], "docs", "python.md")


class Page(unittest.TestCase):
    def test_the_program_of_the_page_prints_what_the_page_shows(self):
        page = PAGE.read_text(encoding="utf-8")
        program = re.search(r"```python\n(.*?)```", page, re.S)[1]
        shown = re.search(r"```text\n(.*?)```", page, re.S)[1]
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(program, "docs/python.md", "exec"), {})
        self.assertEqual(printed.getvalue(), shown)


if __name__ == "__main__":
    unittest.main()
