"""Makes docs/ops.md of torch_functions.h:  python3 tests/docs/ops_table.py"""

import pathlib
import re

HERE = pathlib.Path(__file__).parent
HEAD = """# PyTorch's functions here

Of PyTorch's functions of real dense tensors on CPUs that its tutorials use, {here} of {all} exist ({share} %): as an op, as
an expression of ops, or as a member of `Tensor` or `Rng`. {near} of these are marked *near*: their results are known to
differ from PyTorch's for some inputs by more than rounding, as the row says; [Exactness](exactness.md) says more about infinities, NaN and
empty tensors. 238 of the expressions are compared with PyTorch 2.14, at random, special and empty inputs, with their
gradients. The list was collected by hand from PyTorch's introductory tutorials and those on images, text and reinforcement
learning; functions of devices, files, sparse and quantised tensors are none of it.

In the expressions, `x`, `y`, `a` and `b` are tensors, `w` and `bias` weights, `ids` an i32 tensor, `mask` a u8 tensor and `rng`
an `Rng`, `f` a function of a tensor, `loss` one of an example's number; numbers are examples. A test runs the expressions and compares (`tests/docs/test_ops_values.cpp`);
`python3 tests/docs/ops_table.py` makes this page of `tests/docs/torch_functions.h`. A name with a dot in front is
another name of the function, and `F` is `torch.nn.functional`. Shapes, errors and formulas stand in
[ops.h](../autograd/ops.h), [movement_ops.h](../autograd/ops/movement_ops.h), [attention_ops.h](../autograd/ops/attention_ops.h),
[loss_ops.h](../autograd/ops/loss_ops.h), [composed_ops.h](../autograd/ops/composed_ops.h), [image_ops.h](../autograd/ops/image_ops.h),
[recurrent_ops.h](../autograd/ops/recurrent_ops.h) and [expert_ops.h](../autograd/ops/expert_ops.h); derivatives of functions in
[derivatives.h](../autograd/derivatives.h).

### Dtypes

| dtype | PyTorch's | holds |
|---|---|---|
| f32, f64 | `float32`, `float64` | what has gradients |
| i32, i64 | `int32`, `int64` | token ids, indices, counts |
| u8 | `uint8` | pixels, masks |
| bool, in C++ `DType::boolean` | `bool` | truth values: what comparisons give, and masks |

Ops that need no gradient take integers and truth values, too: those that move elements, comparisons, `where`, sums,
`cumsum`, `cumprod`, `argmax`, `max`, `min`, `sort`, `topk`, `abs`, `clamp`, `maximum`, `minimum`, and `+`, `-` and `*`. Where two of them meet, the result has the later one of
bool, u8, i32 and i64, as in PyTorch. Sums are i64. There are differences from PyTorch:

- A result that the dtype does not hold is an error that names the op and the numbers. PyTorch wraps around. So is a number that does not
  fit, as in `Tensor::full({{2}}, 1e10, DType::i32)`: PyTorch raises, too, but makes 255 of -1 in u8.
- Integers and floats do not meet: `counts * x` is an error, and `counts.to(DType::f32) * x` works.
- A tensor of one element without dimensions counts as any other: i32 and `Tensor::scalar(1, DType::i64)` give i64.
- Indices that ops return are i32. Ids and indices that ops take are i32 or i64.
- Means, products and quotients of integers are f64.

`x[{{all, Range(0, 5), -1}}]` reads a part: all of dimension 0, elements 0 to 4 of dimension 1, and the last element of
dimension 2, as `x[:, 0:5, -1]` in PyTorch. Gradients flow through it. It copies, and ends that do not exist are errors.

### ONNX

`export_onnx` writes a function as a graph of ONNX, by [a row of each op](interop.md#functions-to-onnx). These are names of ops as tapes record them;
functions that are made of ops need no row. `adaptive_avg_pool2d` and
`adaptive_max_pool2d` have one where windows are equal, `causal_conv1d` where there are no `document_starts`.

Ops with a row: `abs`, `adaptive_avg_pool2d`, `adaptive_max_pool2d`, `add`, `attention`, `attention_qkv`, `avg_pool2d`, `batch_norm`, `binary_cross_entropy`, `binary_cross_entropy_with_logits`, `broadcast_to`, `causal_conv1d`, `ceil`, `clamp`, `clamped_swiglu`, `clone`, `concat`, `conv2d`, `conv_transpose2d`, `cos`, `cross_entropy`, `cumsum`, `div`, `erf`, `exp`, `expm1`, `floor`, `gated_delta_rule`, `gather`, `gather_rows`, `gelu`, `gelu_erf`, `gru`, `hardswish`, `kl_div`, `layer_norm`, `linear`, `linear_cross_entropy`, `linear_distillation`, `linear_log_probs`, `log`, `log1p`, `log2`, `log_softmax`, `log_sum_exp`, `lstm`, `matmul`, `max`, `max_pool2d`, `maximum`, `mean`, `mish`, `mul`, `neg`, `norm`, `pad`, `permute`, `pow`, `prod`, `relu`, `relu2`, `reshape`, `rms_norm`, `rnn`, `rnn_relu`, `rope`, `round`, `rows`, `sigmoid`, `sign`, `silu`, `sin`, `slice`, `softmax`, `softplus`, `sqrt`, `state_space_scan`, `stddev`, `sub`, `sum`, `swiglu`, `tan`, `tanh`, `to`, `trunc`, `unfold`, `upsample`, `var`, `where`.

Ops without: `atan2`, `cumprod`, `cumprod_backward`, `dropout`, `grouped_linear`, `quantized_linear`, `quotient_of_products`, `scatter`, `scatter_rows`.
"""

if __name__ == "__main__":
    lines, here, near, absent = [], 0, 0, 0
    for line in (HERE / "torch_functions.h").read_text().splitlines():
        if section := re.fullmatch(r'TOPIC\("(.*)"\)', line):
            lines += ["", f"## {section[1]}", "", "| PyTorch | here |", "|---|---|"]
        elif row := re.fullmatch(r'HERE\("([^"]*)", (.*)\)', line):
            lines.append(f"| `{row[1]}` | `{row[2]}` |")
            here += 1
        elif row := re.fullmatch(r'NEAR\("([^"]*)", "([^"]*)", (.*)\)', line):
            lines.append(f"| `{row[1]}` | `{row[3]}`, near: {row[2]} |")
            here, near = here + 1, near + 1
        elif row := re.fullmatch(r'ABSENT\("([^"]*)", "(.*)"\)', line):
            lines.append(f"| `{row[1]}` | not planned: {row[2]} |")
            absent += 1
        elif not line.startswith("//"):
            raise SystemExit(f"torch_functions.h: a line that is no row: {line}")
    head = HEAD.format(here=here, near=near, all=here + absent, share=here * 100 // (here + absent))
    (HERE.parents[1] / "docs/ops.md").write_text(head + "\n".join(lines) + "\n")
    print(f"{here} of {here + absent} exist")
