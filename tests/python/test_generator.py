"""What generate_ops.py makes of declarations, and of those that it cannot translate."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCES = Path(os.environ["TAPEGRAD_SOURCE_DIR"])
SCRIPT = SOURCES / "apps" / "python" / "generate_ops.py"


class Generator(unittest.TestCase):
    def generate(self, declarations):
        """(the program's end, all that it wrote) for the library's headers and one more."""
        headers = ["autograd/ops.h", *sorted(str(p.relative_to(SOURCES)) for p in (SOURCES / "autograd" / "ops").glob("*_ops.h"))]
        with tempfile.TemporaryDirectory() as folder:
            header = Path(folder, "new_ops.h")
            header.write_text(f"#pragma once\n\nnamespace tapegrad {{\n\n{declarations}\n\n}}  // namespace tapegrad\n")
            ended = subprocess.run(
                [sys.executable, "-B", SCRIPT, folder, "1", SOURCES, *headers, header], capture_output=True, text=True, check=False
            )
            source = Path(folder, "ops_0.cpp")
            types = Path(folder, "op_types.h")
            return ended, source.read_text() + types.read_text() if source.exists() else ""

    def test_a_new_op_is_bound_with_names_defaults_and_comment(self):
        ended, written = self.generate(
            "enum class Knob { left, right };\nstruct TurnOptions {\n  double by = 2, limit = 1e3;\n  Knob knob = Knob::left;\n"
            "  Tensor weight = {};  // (C)\n};\n// Turns x.\nTensor turn(const Tensor& x, const TurnOptions& options = {});\n"
            "// The halves.\nstd::vector<Tensor> halve(const Tensor& x);"
        )
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertIn('m.def("turn", [](const Tensor& x, Number by, Number limit, const std::string& knob, const Tensor* weight)', written)
        self.assertIn('py::arg("limit") = static_cast<double>(1e3), py::arg("knob") = "left", py::arg("weight") = py::none(), "Turns x."', written)
        self.assertIn('NameOf<Knob>{"right", Knob::right}', written)
        self.assertIn('m.def("halve"', written)

    def test_what_has_no_translation_is_an_error_that_names_it(self):
        for declarations, text in [
            ("Tensor turn(const Tensor& x, const std::map<int, int>& turns);", "turn: Python has no translation for the type"),
            ("std::string turn(const Tensor& x);", "turn: Python has no translation for the result 'std::string'"),
            ("using Turner = std::function<Tensor()>;", "Turner is no struct, enum or function"),
            ("struct TurnOptions {\n  int by;\n};\nTensor turn(const Tensor& x, TurnOptions options);", "no struct of fields with defaults"),
            ("Tensor turn[3];", "does not know such a declaration"),
        ]:
            with self.subTest(declarations):
                ended, written = self.generate(declarations)
                self.assertNotEqual(ended.returncode, 0)
                self.assertIn(text, ended.stderr)
                self.assertEqual(written, "")


if __name__ == "__main__":
    unittest.main()
