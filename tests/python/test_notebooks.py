"""The tutorial's notebooks, which are made of its programs, print the programs' numbers."""

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from decimal import Decimal, InvalidOperation
from pathlib import Path

TUTORIAL = Path(os.environ["TAPEGRAD_SOURCE_DIR"], "docs", "tutorial")
MAKER = TUTORIAL / "notebooks" / "make_notebooks.py"
sys.path.insert(0, str(MAKER.parent))
import make_notebooks  # noqa: E402
from cpp_reader import Untranslatable  # noqa: E402
from cpp_statements import Program  # noqa: E402


def words_of(text):
    """Words and numbers. C++ prints 9 for 9.0, (3) for (3,) and true for True."""
    found = []
    for word in re.findall(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|[^\s\d]+", text.replace(",)", ")")):
        try:
            found.append(Decimal(word))
        except InvalidOperation:
            found.append({"True": "true", "False": "false"}.get(word, word))
    return found


def printed_by(cells):
    names, printed = {"__name__": "__main__"}, io.StringIO()
    with contextlib.redirect_stdout(printed):
        for number, cell in enumerate(cells):
            exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)
    return printed.getvalue()


class Notebooks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        subprocess.run([sys.executable, "-B", MAKER, cls.folder.name], check=True)
        cls.notebooks = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(Path(cls.folder.name).iterdir())}

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_each_chapter_has_a_notebook_or_a_reason_for_having_none(self):
        chapters = [path.stem.replace("_", "-") for path in sorted((TUTORIAL / "programs").glob("[0-9]*.cpp"))]
        self.assertEqual(chapters, sorted([*self.notebooks, *make_notebooks.LEFT_OUT]))
        self.assertGreaterEqual(len(self.notebooks), 7)

    def test_they_are_notebooks_of_format_4_5(self):
        """Its schema, as far as such notebooks go; all of it where nbformat is installed."""
        for chapter, notebook in self.notebooks.items():
            self.assertEqual((notebook["nbformat"], notebook["nbformat_minor"]), (4, 5))
            self.assertEqual(notebook["metadata"]["kernelspec"]["name"], "python3")
            ids = [cell["id"] for cell in notebook["cells"]]
            self.assertEqual(len(set(ids)), len(ids))
            self.assertTrue(all(re.fullmatch("[a-zA-Z0-9-_]{1,64}", name) for name in ids), chapter)
            for cell in notebook["cells"]:
                more = {"code": {"execution_count", "outputs"}, "markdown": set()}[cell["cell_type"]]
                self.assertEqual(set(cell), {"cell_type", "id", "metadata", "source"} | more)
                self.assertTrue(cell["source"] and all(isinstance(line, str) for line in cell["source"]))
            self.assertEqual(notebook["cells"][0]["cell_type"], "markdown")
            try:
                import nbformat
            except ImportError:
                continue
            nbformat.validate(notebook)

    def test_they_print_what_the_programs_print(self):
        programs = Path(os.environ["TAPEGRAD_PROGRAM"]).parent / "tutorial" if os.environ["TAPEGRAD_PROGRAM"] else None
        for chapter, notebook in self.notebooks.items():
            with self.subTest(chapter):
                printed = printed_by(cell for cell in notebook["cells"] if cell["cell_type"] == "code")
                if programs is None or not (programs / chapter).exists():
                    self.skipTest("the tutorial's programs are not built")
                program = subprocess.run([programs / chapter], check=True, capture_output=True, text=True, encoding="utf-8").stdout
                self.assertEqual(words_of(printed), words_of(program))
                self.assertGreater(len(words_of(printed)), 20)

    def test_cpp_that_is_not_known_is_an_error_that_names_the_line(self):
        head = "// A program.\nusing namespace tapegrad;\nnamespace {\n"
        for body, said in {
            "int lesson() {\n  while (true) {}\n}": "line 5",
            "int lesson() {\n  float* p = x.mutable_data<float>();\n}": "line 5",
            "int lesson() {\n  const auto f = Tensor::from(y, {1});\n}": "line 5: .*dtype",
            'int lesson() {\n  fmt::print("{} {}", 1);\n}': "2 places for 1 values",
        }.items():
            with self.subTest(body), self.assertRaisesRegex(Untranslatable, said):
                Program(head + body + "\n}  // namespace\nint main() {}\n").program()


if __name__ == "__main__":
    unittest.main()
