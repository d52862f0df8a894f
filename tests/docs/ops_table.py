"""Makes docs/ops.md of torch_functions.h:  python3 tests/docs/ops_table.py"""

import pathlib
import re

HERE = pathlib.Path(__file__).parent
HEAD = """# PyTorch's functions here

Of PyTorch's functions of real dense tensors on CPUs that its tutorials use, {here} of {all} exist ({share} %): as an op, as
an expression of ops, or as a member of `Tensor` or `Rng`. The
list was collected by hand from PyTorch's introductory tutorials and those on images, text and reinforcement
learning; functions of devices, files, sparse and quantised tensors are none of it.

In the expressions, `x`, `y`, `a` and `b` are tensors, `w` and `bias` weights, `ids` an i32 tensor, `mask` a u8 tensor and `rng`
an `Rng`; numbers are examples. A test compiles each expression, and runs none (`tests/docs/test_ops_table.cpp`);
`python3 tests/docs/ops_table.py` makes this page of `tests/docs/torch_functions.h`. A name with a dot in front is
another name of the function, and `F` is `torch.nn.functional`. Shapes, errors and formulas stand in
[ops.h](../autograd/ops.h), [movement_ops.h](../autograd/movement_ops.h), [attention_ops.h](../autograd/attention_ops.h),
[loss_ops.h](../autograd/loss_ops.h), [composed_ops.h](../autograd/composed_ops.h), [image_ops.h](../autograd/image_ops.h)
and [recurrent_ops.h](../autograd/recurrent_ops.h).
"""

if __name__ == "__main__":
    lines, here, absent = [], 0, 0
    for line in (HERE / "torch_functions.h").read_text().splitlines():
        if section := re.fullmatch(r'TOPIC\("(.*)"\)', line):
            lines += ["", f"## {section[1]}", "", "| PyTorch | here |", "|---|---|"]
        elif row := re.fullmatch(r'HERE\("([^"]*)", (.*)\)', line):
            lines.append(f"| `{row[1]}` | `{row[2]}` |")
            here += 1
        elif row := re.fullmatch(r'ABSENT\("([^"]*)", "(.*)"\)', line):
            lines.append(f"| `{row[1]}` | not planned: {row[2]} |")
            absent += 1
        elif not line.startswith("//"):
            raise SystemExit(f"torch_functions.h: a line that is no row: {line}")
    head = HEAD.format(here=here, all=here + absent, share=here * 100 // (here + absent))
    (HERE.parents[1] / "docs/ops.md").write_text(head + "\n".join(lines) + "\n")
    print(f"{here} of {here + absent} exist")
