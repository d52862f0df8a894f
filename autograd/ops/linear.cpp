#include <cstdint>
#include <optional>

#include "tapegrad/autograd/apply.h"
#include "tapegrad/autograd/gemm/gemm.h"
#include "tapegrad/autograd/gemm/int8_columns.h"
#include "tapegrad/autograd/gemm/int8_rows.h"
#include "tapegrad/autograd/internal/batch_invariant.h"
#include "tapegrad/autograd/kernels/elementwise.h"
#include "tapegrad/autograd/onnx/onnx_call.h"
#include "tapegrad/autograd/ops.h"
#include "tapegrad/autograd/ops/internal/ids.h"
#include "tapegrad/autograd/profile.h"
#include "tapegrad/autograd/quantized/internal/quantized_products.h"
#include "tapegrad/autograd/quantized/quantized_matrix.h"

namespace tapegrad {
namespace {

Int8Rows rounded_rows(const Tensor& x) {
  const std::int64_t columns = x.dim(-1);
  return {x.data<float>(), x.shape().with(-1, 1).numel(), columns, columns};
}

Int8Columns rounded_columns(const Tensor& x) { return {x.data<float>(), x.dim(0), x.dim(1)}; }

template <class T>
void run_linear(Inputs in, Precision precision, Tensor& y) {
  const Tensor &x = in[0], &w = in[1], &bias = in[2];
  const std::int64_t rows = x.shape().with(-1, 1).numel();
  if (bias.defined()) lay_rows(bias.data<T>(), w.dim(0), rows, y.mutable_data<T>());
  if constexpr (std::is_same_v<T, float>) {
    if (precision == Precision::int8) {
      return multiply(rounded_rows(x), rounded_rows(w), y.mutable_data<T>(), w.dim(0),
                      bias.defined());
    }
  }
  gemm(Gemm<T>{.tb = true,
               .m = rows,
               .n = w.dim(0),
               .k = w.dim(1),
               .a = x.data<T>(),
               .lda = w.dim(1),
               .b = w.data<T>(),
               .ldb = w.dim(1),
               .c = y.mutable_data<T>(),
               .ldc = w.dim(0),
               .beta = static_cast<T>(bias.defined() ? 1 : 0),
               .batch_invariant = is_batch_invariant()},
       precision);
}

Tensor gradient_of_w(const Tensor& dy, const Tensor& x, Precision precision);

// dy·W, with dy (rows, out): the gradient of x. In 8 bits, it is a matmul of its own, whose scales
// are those of W's rows (multiply_back).
Tensor gradient_of_x(const Tensor& dy, const Tensor& weight, Precision precision) {
  if (precision != Precision::int8) return matmul(dy, weight, {.precision = precision});
  return apply(
      "matmul", {dy, weight},
      [](Inputs in, Saved& saved) {
        saved.keep(saved.needs(1) ? in[0] : Tensor());
        saved.keep(saved.needs(0) ? in[1] : Tensor());
        Tensor dx = Tensor::empty({in[0].dim(0), in[1].dim(1)});
        multiply_back(in[0].data<float>(), in[0].dim(0), rounded_rows(in[1]),
                      dx.mutable_data<float>());
        return dx;
      },
      [](const Tensor& g, const Saved& saved, const Needs& needs) -> Grads {
        Grads grads(2);
        if (needs[0]) grads[0] = linear(g, {saved[1], Precision::int8});
        if (needs[1]) grads[1] = gradient_of_w(saved[0], g, Precision::int8);
        return grads;
      });
}

// dyᵀ·x, with dy (rows, out) and x (rows, in): the gradient of W. In 8 bits, it is a matmul of its
// own, whose scales are those of columns (multiply_columns).
Tensor gradient_of_w(const Tensor& dy, const Tensor& x, Precision precision) {
  if (precision != Precision::int8) {
    return matmul(dy, x, {.transpose_a = true, .precision = precision});
  }
  return apply(
      "matmul", {dy, x},
      [](Inputs in, Saved& saved) {
        saved.keep(saved.needs(1) ? in[0] : Tensor());
        saved.keep(saved.needs(0) ? in[1] : Tensor());
        Tensor dw = Tensor::empty({in[0].dim(1), in[1].dim(1)});
        multiply_columns(rounded_columns(in[0]), rounded_columns(in[1]), dw.mutable_data<float>());
        return dw;
      },
      [](const Tensor& g, const Saved& saved, const Needs& needs) -> Grads {
        Grads grads(2);
        if (needs[0]) grads[0] = linear(saved[1], {g, Precision::int8});
        if (needs[1]) grads[1] = gradient_of_x(saved[0], g, Precision::int8);
        return grads;
      });
}

}  // namespace

Tensor linear(const Tensor& x, const Weight& weight, const Tensor& bias) {
  if (weight.quantized != nullptr) {
    const WeightAndBias one{weight, bias};
    return quantized::products(x, {&one, 1})[0];
  }
  check(weight.rank() == 2 && x.rank() >= 1 && x.dim(-1) == weight.dim(1),
        "[linear] x {} does not fit weight {} (out, in)", x.shape(), weight.shape());
  const std::int64_t out = weight.dim(0), in = weight.dim(1);
  check(!bias.defined() || bias.shape() == Shape{out}, "[linear] bias {} does not fit weight {}",
        bias.defined() ? bias.shape() : Shape{}, weight.shape());
  check(weight.precision != Precision::int8 || x.dtype() == DType::f32,
        "[linear] products of f64 cannot be rounded to int8");
  return apply(
      "linear", {x, weight, bias},
      [precision = weight.precision](Inputs inputs, Saved& saved) {
        const Tensor &x2 = inputs[0], &w = inputs[1];
        saved.keep(saved.needs(1) ? x2 : Tensor());
        saved.keep(saved.needs(0) ? w : Tensor());
        Tensor y = Tensor::empty(x2.shape().with(-1, w.dim(0)), x2.dtype());
        dispatch(y.dtype(), [&](auto zero) { run_linear<decltype(zero)>(inputs, precision, y); });
        return y;
      },
      [out, in, precision = weight.precision, shape = x.shape()](
          const Tensor& dy, const Saved& saved, const Needs& needs) -> Grads {
        const Tensor rows = reshape(dy, {shape.with(-1, 1).numel(), out});
        Grads grads(3);
        if (needs[0]) grads[0] = reshape(gradient_of_x(rows, saved[1], precision), shape);
        if (needs[1]) {
          grads[1] = gradient_of_w(rows, reshape(saved[0], {rows.dim(0), in}), precision);
        }
        if (needs[2]) grads[2] = sum(rows, {0});
        return grads;
      },
      {.onnx = [](OnnxCall& c) {
        const OnnxValue w = c("Transpose", {c.in(1)}, {{"perm", OnnxWholes{1, 0}}});
        const OnnxValue y = c("MatMul", {c.in(0), w});
        return c.in(2).empty() ? y : c("Add", {y, c.in(2)});
      }});
}

Tensor embedding(const Weight& weight, const Tensor& ids, std::optional<std::int64_t> padding_idx) {
  if (weight.quantized != nullptr) {
    padding_row("embedding", padding_idx, weight.quantized->out());
    const ProfiledOp profiled("embedding", false);  // rows() is no op
    return weight.quantized->rows(ids_as_i32("embedding", "ids", ids));
  }
  check(weight.rank() == 2, "[embedding] the weight must be (V, C), not {}", weight.shape());
  const Tensor rows = gather_rows(weight, ids);
  const auto padding = padding_row("embedding", padding_idx, weight.dim(0));
  if (!padding) return rows;
  const Tensor padded = eq(ids, static_cast<double>(*padding));
  return where(reshape(padded, ids.shape().inserted(ids.rank(), 1)), rows.detach(), rows);
}

}  // namespace tapegrad
