"""Every op that C++ declares is in Python, or says why not. The headers are read here by another rule than the generator's."""

import os
import re
import unittest
from pathlib import Path

import tapegrad as tg
from tapegrad._core import ops_left_out

SOURCES = Path(os.environ["TAPEGRAD_SOURCE_DIR"])
OPS = SOURCES / "autograd"


def declared():
    headers = [OPS / "ops.h", *sorted((OPS / "ops").glob("*_ops.h"))]
    names = set()
    for header in headers:
        code = re.sub(r"//.*", "", header.read_text(encoding="utf-8"))
        names |= set(re.findall(r"^(?:inline )?(?:Tensor&?|bool|double|\w+Result|\w+Steps|std::vector<Tensor>) (\w+)\(", code, re.M))
    return names - {"operator"}


class OpNames(unittest.TestCase):
    def test_every_declared_op_exists_or_is_left_out_with_a_reason(self):
        names = declared()
        self.assertGreater(len(names), 150)
        missing = {name for name in names if not hasattr(tg, name)}
        self.assertEqual(missing - set(ops_left_out), set())
        self.assertTrue(all(ops_left_out.values()))

    def test_what_is_left_out_does_not_exist(self):
        def exists(name):  # "embed", "Decoder.embed"
            *owner, last = name.split(".")
            return any(hasattr(getattr(where, owner[0], None) if owner else where, last) for where in (tg, tg.nn))

        self.assertTrue(exists("Decoder.hidden") and exists("Linear.__call__") and not exists("Decoder.nothing"))
        self.assertEqual([name for name in ops_left_out if exists(name)], [])

    def test_ops_of_a_tensor_are_its_methods(self):
        x = tg.tensor([[1.0, 2.0], [3.0, 4.0]])
        self.assertEqual(x.sum(0).tolist(), [4, 6])
        self.assertEqual(x.matmul(x, transpose_b=True).tolist(), tg.matmul(x, x, transpose_b=True).tolist())
        self.assertEqual(x.softmax(-1).tolist(), tg.softmax(x, -1).tolist())
        self.assertEqual(x.max(1).indices.tolist(), [1, 1])
        self.assertIs(x.fill(1), x)
        first = re.compile(r"^(?:inline )?(?:Tensor&?|bool|\w+Result) (\w+)\(const (?:Tensor|Weight)&", re.M)
        ops = {name for header in (OPS / "ops").glob("*_ops.h") for name in first.findall(header.read_text(encoding="utf-8"))}
        self.assertGreater(len(ops), 60)
        self.assertEqual({op for op in ops if not hasattr(tg.Tensor, op)} - set(ops_left_out), set())

    def test_the_ops_of_the_table_in_the_documentation_exist(self):
        table = (SOURCES / "docs" / "ops.md").read_text(encoding="utf-8")
        used = set()
        for row in re.findall(r"^\|[^|]*\|(.*)\|$", table, re.M):
            for code in re.findall(r"`([^`]*)`", row):
                used |= set(re.findall(r"(?<![\w.:])([a-z]\w*)\(", code))
        ops = used & declared()
        self.assertGreater(len(ops), 100)
        self.assertEqual({op for op in ops if not hasattr(tg, op)} - set(ops_left_out), set())

    def test_signatures_have_the_headers_defaults_and_comments(self):
        self.assertIn("p: float = 2.0", tg.norm.__doc__)
        self.assertIn("reduction: str = 'mean'", tg.nll_loss.__doc__)
        self.assertIn("stride: int | tuple[int, int] = (1, 1)", tg.conv2d.__doc__)
        self.assertIn("cross-correlation", tg.conv2d.__doc__)
        self.assertIn("dtype: tapegrad.DType = f32", tg.one_hot.__doc__)


if __name__ == "__main__":
    unittest.main()
