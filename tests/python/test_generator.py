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
    def generate(self, declarations, of_classes=False):
        """(the program's end, all that it wrote) for the library's headers and one more."""
        classes = ["base/random.h", "autograd/tensor/tensor.h", "arrays/array_loader.h", "data/tokenize/tokenizer.h", "nn/decoder.h", "nn/layers.h", "nn/layers/recurrent.h"]
        headers = ["autograd/ops.h", "nn/init.h", *sorted(str(p.relative_to(SOURCES)) for p in (SOURCES / "autograd" / "ops").glob("*_ops.h"))]
        with tempfile.TemporaryDirectory() as folder:
            header = Path(folder, "new_ops.h")
            header.write_text(f"#pragma once\n\nnamespace tapegrad {{\n\n{declarations}\n\n}}  // namespace tapegrad\n")
            headers += ["--", *classes, header] if of_classes else [header]
            ended = subprocess.run(
                [sys.executable, "-B", SCRIPT, folder, "1", SOURCES, *headers], capture_output=True, text=True, check=False
            )
            return ended, "".join(path.read_text() for path in Path(folder).glob("*.cpp")) + "".join(
                path.read_text() for path in Path(folder).glob("op_types.h")
            )

    def test_a_new_op_is_bound_with_names_defaults_and_comment(self):
        ended, written = self.generate(
            "enum class Knob { left, right };\nstruct TurnOptions {\n  double by = 2, limit = 1e3;\n  Knob knob = Knob::left;\n"
            "  Tensor weight = {};  // (C)\n};\n// Turns x.\nTensor turn(const Tensor& x, const TurnOptions& options = {});\n"
            "// The halves.\nstd::vector<Tensor> halve(const Tensor& x);\n// Fills.\nInit turned(double by = 1);\nInit still();"
        )
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertIn('m.def("turn", [](const Tensor& x, Number by, Number limit, const std::string& knob, const Tensor* weight)', written)
        self.assertIn('py::arg("limit") = static_cast<double>(1e3), py::arg("knob") = "left", py::arg("weight") = py::none(), "Turns x."', written)
        self.assertIn('NameOf<Knob>{"right", Knob::right}', written)
        self.assertIn('m.def("halve"', written)
        self.assertIn('init_of(m).def("turned_", [](Tensor& x, Rng& rng, Number by) -> Tensor&', written)
        self.assertIn('filled(x, tapegrad::turned(by), rng)', written)
        self.assertIn('init_of(m).def("still_", [](Tensor& x) -> Tensor&', written)

    def test_a_struct_of_two_tensors_is_a_pair(self):
        ended, written = self.generate(
            "struct Turner {\n  struct State {\n    Tensor a, b;\n  };\n  struct Result {\n    Tensor y;\n    State state;\n  };\n"
            "  Turner(const Params& p);\n  Result operator()(const Tensor& x, const State& state = {}) const;\n};",
            of_classes=True,
        )
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertIn("const std::optional<std::array<Tensor, 2>>& state", written)
        self.assertIn("state ? Turner::State{(*state)[0], (*state)[1]} : Turner::State{}", written)
        self.assertIn("make_result<Turner::Result>(result.y, to_python(result.state))", written)
        self.assertLess(written.index("to_python(const Turner::State&"), written.index("to_python(const Turner::Result&"))

    def test_layers_optimisers_and_values_are_classes(self):
        ended, written = self.generate(
            "struct TurnOptions {\n  double by = 2;\n};\n// A layer.\nstruct Turner {\n  Tensor weight;  // (C)\n  double by = 1;\n"
            "  Turner(const Params& p, std::int64_t in, const TurnOptions& options = {});\n"
            "  // Turns x.\n  Tensor operator()(const Tensor& x) const { return x; }\n  void turn(std::span<float> x);\n  Tensor shift(const Tensor& x, double by = 1, std::span<float> to = {}) const;\n  void shift();\n  void shift(std::span<float> x);\n private:\n  int hidden_;\n};\n"
            "class Stepper : public OptimizerState {\n public:\n  Stepper(NamedTensors parameters, const TurnOptions& options = {});\n};\n"
            "struct Rate {\n  enum class Kind { up, down };\n  Kind kind = Kind::up;\n  double end = 3;\n  double operator()(std::int64_t i) const;\n};\n"
            "class Kept {\n public:\n  Kept(NamedTensors parameters);\n  NamedTensors state() const;\n  void load_state(const TensorSource& file);\n};",
            of_classes=True,
        )
        self.assertEqual(ended.returncode, 0, ended.stderr)
        for text in (
            'py::class_<Layer<Turner>, AnyLayer> c(nn, "Turner", "A layer.")',
            'py::arg("rng"), py::arg("in_"), py::arg("by") = static_cast<double>(2), py::arg_v("dtype"',
            'c.def("__call__", [](Layer<Turner>& self, const Tensor& x) { return to_python(run_op(elements(x), [&] { return checked(self.layer)(x); })); }',
            'py::arg("x"), "Turns x.")',
            'c.def_property_readonly("weight"',
            'c.def("shift", [](Layer<Turner>& self, const Tensor& x, Number by) { return',
            'left_out["Turner.turn"] = "the type \'std::span<float>\'"',
            'py::class_<OptimizerOf<Stepper>, AnyOptimizer> c(m, "Stepper"',
            'py::arg("parameters"), py::arg("lr") = 1e-3, py::arg("by")',
            'py::kw_only(), py::arg("kind") = "up", py::arg("end")',
            'c.def(py::init([](const Parameters& parameters) { return std::make_unique<Kept>(parameters); }), py::arg("parameters"));',
        ):
            self.assertIn(text, written)
        self.assertEqual(written.count("add_state_dict(c);"), 1)
        self.assertNotIn("hidden_", written)
        self.assertNotIn('left_out["Turner.shift"]', written)  # another overload is bound
        ended, written = self.generate(
            "struct Turner {\n  Turner(const Params& p);\n  Tensor operator()(std::span<float> x) const;\n};", of_classes=True
        )
        self.assertIn("Turner: Python has no translation for the call of Turner: the type 'std::span<float>'", ended.stderr)

    def test_what_has_no_translation_is_an_error_that_names_it(self):
        for declarations, text in [
            ("Tensor turn(const Tensor& x, const std::map<int, int>& turns);", "turn: Python has no translation for the type"),
            ("std::wstring turn(const Tensor& x);", "turn: Python has no translation for the result 'std::wstring'"),
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
