#pragma once

// The menu of differentiable ops, with those of attention_ops.h, loss_ops.h and movement_ops.h.
// docs/ops.md lists PyTorch's functions and what stands for each here. An op works in f32 and f64
// and throws Error, naming the op and the shapes, if its inputs do not fit. Ops that move elements
// (those of movement_ops.h, where and broadcast_to), comparisons, sums, cumsum, cumprod, sort and
// argmax, abs, clamp, maximum and minimum, and +, − and × take i32, i64, u8 and bool, too, without
// gradients. Where two of these meet, the result has
// the later one of bool, u8, i32 and i64, as in PyTorch. Where one meets a float, that is an Error:
// convert it with to(). Conventions where a derivative does not exist are PyTorch's, and so are
// NaNs and infinities: docs/exactness.md says how exact each op is, and where it differs. Where an
// op blocks a gradient, it is 0 even if what comes in is infinite or NaN; abs at 0 and dropout
// multiply by 0, which makes NaN of these. "(…, C)" is any number of leading dimensions; dim
// arguments may be negative, counting from the end.

#include <functional>
#include <string_view>
#include <vector>

#include "tapegrad/autograd/ops/attention_ops.h"
#include "tapegrad/autograd/ops/loss_ops.h"
#include "tapegrad/autograd/ops/movement_ops.h"
#include "tapegrad/autograd/tape.h"
#include "tapegrad/autograd/weight.h"
#include "tapegrad/base/random.h"

namespace tapegrad {

// `value` as a scalar of x's dtype; of i64 if that is bool. Error if integers do not hold it; one
// that f32 does not hold is infinite.
Tensor scalar_like(const Tensor& x, double value);

// --- Elementwise. Binary ops broadcast; a number on either side stands for a scalar tensor. ---

// add, sub and mul also work in i32, i64 and u8: Error for a number or a result that the dtype does
// not hold. Of two tensors of bool, add is "or" and mul is "and"; sub is an Error.
Tensor add(const Tensor& a, const Tensor& b);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, const Tensor& b);
// a^b. The gradient for b is aᵇ·log a, taken as 0 where a = 0 and b >= 0; for a it is 0 where
// b = 0. Gradients of the gradients are 0 there as well, where PyTorch has NaNs.
Tensor pow(const Tensor& a, const Tensor& b);
Tensor pow(const Tensor& a, double b);
// The larger of a and b; where they tie, each gets half of the gradient. NaN if either is NaN; then
// each gets the gradient.
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);  // the smaller one, otherwise as maximum

Tensor neg(const Tensor& x);
Tensor exp(const Tensor& x);
Tensor expm1(const Tensor& x);  // eˣ − 1, exact near 0
Tensor log(const Tensor& x);
Tensor log1p(const Tensor& x);  // log(1 + x), exact near 0
Tensor log2(const Tensor& x);
Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
Tensor tan(const Tensor& x);
// The angle of the point (x, y) in (−π, π]. The gradients, dy·x/(x² + y²) and −dy·y/(x² + y²), are
// 0 where x² + y² is 0.
Tensor atan2(const Tensor& y, const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor sigmoid(const Tensor& x);  // 1 / (1 + e⁻ˣ)
Tensor erf(const Tensor& x);
Tensor relu(const Tensor& x);  // derivative 0 at 0, 1 at NaN
// |x|, of the derivative 0 at 0. Error for an integer whose |x| its dtype does not hold.
Tensor abs(const Tensor& x);
// x·max(x, 0) (So et al., "Primer: Searching for Efficient Transformers for Language Modeling",
// 2021), 0 also at −∞. Its second derivative at 0 is 0.
Tensor relu2(const Tensor& x);
// x limited to [low, high]; the gradient passes inside and, as in PyTorch before 2.14, at the
// edges. Limits of integers are whole, or infinite: none; bool becomes i64. Error if the dtype does
// not hold a limit.
Tensor clamp(const Tensor& x, double low, double high);
// Whole numbers near x; the derivative is 0 everywhere. round() goes to the nearest one, halves to
// the even one, floor() down, ceil() up, trunc() to 0. sign() is −1, 0 or 1, and 0 for NaN.
Tensor round(const Tensor& x);
Tensor floor(const Tensor& x);
Tensor ceil(const Tensor& x);
Tensor trunc(const Tensor& x);
Tensor sign(const Tensor& x);
// cap·tanh(x / cap): x where it is small, and never beyond ±cap. 0 leaves x as it is; Error below.
Tensor softcap(const Tensor& x, double cap);

// log(1 + e^(beta·x)) / beta: a smooth relu. Error unless beta > 0. PyTorch gives x where beta·x is
// above a threshold of 20.
Tensor softplus(const Tensor& x, double beta = 1);
// x·σ(x) (Elfwing, Uchibe & Doya, "Sigmoid-Weighted Linear Units", 2017), also known as swish.
Tensor silu(const Tensor& x);
// silu(gate)·up: what stands between the linear layers of a feed-forward layer in Llama's family
// (Shazeer, "GLU Variants Improve Transformer", 2020, section 2). The shapes must be equal.
Tensor swiglu(const Tensor& gate, const Tensor& up);
// g·σ(alpha·g)·(u + 1), where g is the gate, limited to `limit`, and u is `up`, limited to ±limit:
// gpt-oss's in place of swiglu (OpenAI, "gpt-oss-120b & gpt-oss-20b Model Card", 2025, section
// 2.2). The gradient passes inside and at the edges. The shapes must be equal.
struct ClampedSwiglu {
  double alpha = 1.702, limit = 7;
};
Tensor clamped_swiglu(const Tensor& gate, const Tensor& up, const ClampedSwiglu& options = {});

// Hendrycks & Gimpel, "Gaussian Error Linear Units" (2016), section 2.
enum class Gelu {
  tanh,  // 0.5·x·(1 + tanh(√(2/π)·(x + 0.044715·x³))), GPT-2's
  erf,   // x·Φ(x) = 0.5·x·(1 + erf(x/√2)), PyTorch's default
};
Tensor gelu(const Tensor& x, Gelu form = Gelu::tanh);

// condition (bool, or u8: non-zero is true) ? a : b; the three broadcast.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
// x with `value` where mask (bool or u8, broadcast to x) is true; no gradient there. Error if x's
// dtype does not hold the value.
Tensor masked_fill(const Tensor& x, const Tensor& mask, double value);

// Comparisons: bool, true where a = b, a ≠ b, a < b, a ≤ b, a > b, a ≥ b. They broadcast, work in
// all dtypes, exactly in i64, and are not differentiable. NaN differs from everything, itself
// included. A number is rounded to the dtype of an f32 tensor.
Tensor eq(const Tensor& a, const Tensor& b);
Tensor ne(const Tensor& a, const Tensor& b);
Tensor lt(const Tensor& a, const Tensor& b);
Tensor le(const Tensor& a, const Tensor& b);
Tensor gt(const Tensor& a, const Tensor& b);
Tensor ge(const Tensor& a, const Tensor& b);
Tensor eq(const Tensor& a, double b);
Tensor ne(const Tensor& a, double b);
Tensor lt(const Tensor& a, double b);
Tensor le(const Tensor& a, double b);
Tensor gt(const Tensor& a, double b);
Tensor ge(const Tensor& a, double b);

// bool: true where both, one, or x not is other than 0. The operands broadcast.
Tensor logical_and(const Tensor& a, const Tensor& b);
Tensor logical_or(const Tensor& a, const Tensor& b);
Tensor logical_not(const Tensor& x);
// True if |a − b| <= atol + rtol·|b| everywhere; the two broadcast. Equal infinities are close, and
// NaNs to each other if `equal_nan`.
bool allclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8,
              bool equal_nan = false);

// A number stands on the right. == and != do not exist, since they would make tensors where one
// expects a test: eq and ne.
inline Tensor operator<(const Tensor& a, const Tensor& b) { return lt(a, b); }
inline Tensor operator<=(const Tensor& a, const Tensor& b) { return le(a, b); }
inline Tensor operator>(const Tensor& a, const Tensor& b) { return gt(a, b); }
inline Tensor operator>=(const Tensor& a, const Tensor& b) { return ge(a, b); }
inline Tensor operator<(const Tensor& a, double b) { return lt(a, b); }
inline Tensor operator<=(const Tensor& a, double b) { return le(a, b); }
inline Tensor operator>(const Tensor& a, double b) { return gt(a, b); }
inline Tensor operator>=(const Tensor& a, double b) { return ge(a, b); }

inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
inline Tensor operator-(const Tensor& x) { return neg(x); }
inline Tensor operator+(const Tensor& a, double b) { return a + scalar_like(a, b); }
inline Tensor operator-(const Tensor& a, double b) { return a - scalar_like(a, b); }
inline Tensor operator*(const Tensor& a, double b) { return a * scalar_like(a, b); }
inline Tensor operator/(const Tensor& a, double b) { return a / scalar_like(a, b); }
inline Tensor operator+(double a, const Tensor& b) { return scalar_like(b, a) + b; }
inline Tensor operator-(double a, const Tensor& b) { return scalar_like(b, a) - b; }
inline Tensor operator*(double a, const Tensor& b) { return scalar_like(b, a) * b; }
inline Tensor operator/(double a, const Tensor& b) { return scalar_like(b, a) / b; }

// In place: a's own elements change, and with them those of every tensor that shares a's data. b
// broadcasts to a's shape. These are not recorded: where a live tape tracks b, a, or what a is a
// view of, they are an Error. To update by hand, end the tape first, or hold a TapePause.
Tensor& operator+=(Tensor& a, const Tensor& b);
Tensor& operator-=(Tensor& a, const Tensor& b);
Tensor& operator*=(Tensor& a, const Tensor& b);
Tensor& operator/=(Tensor& a, const Tensor& b);
Tensor& assign(Tensor& a, const Tensor& b);  // a's elements become b's: PyTorch's copy_
inline Tensor& operator+=(Tensor& a, double b) { return a += scalar_like(a, b); }
inline Tensor& operator-=(Tensor& a, double b) { return a -= scalar_like(a, b); }
inline Tensor& operator*=(Tensor& a, double b) { return a *= scalar_like(a, b); }
inline Tensor& operator/=(Tensor& a, double b) { return a /= scalar_like(a, b); }
inline Tensor& fill(Tensor& a, double b) { return assign(a, scalar_like(a, b).to(a.dtype())); }

// --- Reductions. `dims` empty: over all elements, giving a scalar. keepdim leaves sizes of 1. A
// scalar has a dimension 0 (or -1) to reduce along. ---

// Where the result lies in the dtype's range, no sum, power or product on the way to it leaves it.

// The sum of nothing is 0. f32 sums are accumulated in double. Sums of i32, i64, u8 and bool are
// i64: Error for one that i64 does not hold. Their means are f64.
Tensor sum(const Tensor& x, const std::vector<int>& dims = {}, bool keepdim = false);
// The mean of nothing is NaN.
Tensor mean(const Tensor& x, const std::vector<int>& dims = {}, bool keepdim = false);
// Σ(x − mean)² / (n − 1), or / n if not unbiased.
Tensor var(const Tensor& x, const std::vector<int>& dims = {}, bool unbiased = true,
           bool keepdim = false);
// √var, whose derivative is 0 where the variance is 0. (`std` would be ambiguous in C++.)
Tensor stddev(const Tensor& x, const std::vector<int>& dims = {}, bool unbiased = true,
              bool keepdim = false);
// (Σ|x|ᵖ)^(1/p), the derivative 0 where an element or the norm is 0. Error unless p is finite and
// above 0.
Tensor norm(const Tensor& x, double p = 2, const std::vector<int>& dims = {}, bool keepdim = false);
// The product of nothing is 1. Of integers it is f64.
Tensor prod(const Tensor& x, const std::vector<int>& dims = {}, bool keepdim = false);
// The largest element; ties share the gradient equally, and so do NaNs. Error if x is empty.
Tensor max(const Tensor& x);
struct MaxResult {
  Tensor values;
  Tensor indices;  // i32, of the first largest element
};
MaxResult max(const Tensor& x, int dim, bool keepdim = false);
// The smallest, otherwise as max.
Tensor min(const Tensor& x);
MaxResult min(const Tensor& x, int dim, bool keepdim = false);
// Index of the first largest element along dim, i32, dim removed. Not differentiable. NaN counts as
// largest. Error, as for all indices, if dim has more than 2³¹ − 1 elements.
Tensor argmax(const Tensor& x, int dim);
// Element k is the sum of elements 0 to k along dim. f32 is accumulated in double. Sums of i32,
// i64, u8 and bool are i64: Error for one that i64 does not hold.
Tensor cumsum(const Tensor& x, int dim);
// The product of elements 0 to k, f32 accumulated in double. Products of i32, i64, u8 and bool are
// i64: Error for one that i64 does not hold.
Tensor cumprod(const Tensor& x, int dim);
struct SortResult {
  Tensor values;
  Tensor indices;  // i32, of the values along dim
};
// The elements along dim in order. Equal elements keep theirs; NaN counts as largest.
SortResult sort(const Tensor& x, int dim = -1, bool descending = false);
// The first k of them: the largest, descending, or the smallest, ascending. Error unless 0 <= k and
// k is at most the size of dim.
SortResult topk(const Tensor& x, std::int64_t k, int dim = -1, bool largest = true);
// x summed down to `shape`, which broadcasts to x's: the derivative of broadcasting. Integers and
// truth values become i64, also where there is nothing to sum.
Tensor sum_to(const Tensor& x, const Shape& shape);
Tensor broadcast_to(const Tensor& x, const Shape& shape);

// --- Products ---

// (…, M, K) · (…, K, N) → (…, M, N); leading dimensions broadcast. A vector on the left stands for
// (1, K), on the right for (K, 1), and that dimension is dropped again. A transposed operand is
// stored with its last two dimensions swapped. K = 0 gives zeros.
struct MatmulOptions {
  bool transpose_a = false;
  bool transpose_b = false;
  // In bf16, the operands are rounded to it (f32 only), here and in the products of the gradient,
  // which is that of the product as if nothing were rounded. Sums and results are f32.
  Precision precision = Precision::full;
};
Tensor matmul(const Tensor& a, const Tensor& b, MatmulOptions options = {});
// y = x·Wᵀ + b.  x (…, in), weight (out, in), bias (out) or undefined → (…, out). The gradient of x
// by a quantised weight is that by the dequantised matrix, as if x had not been rounded.
Tensor linear(const Tensor& x, const Weight& weight, const Tensor& bias = {});
// While one lives, linear() of its thread gives each row of x the bits that it has alone: which
// other rows there are does not matter. For the newest tokens of several texts, see Gemm in gemm.h.
class BatchInvariant {
 public:
  BatchInvariant();
  ~BatchInvariant();
  BatchInvariant(const BatchInvariant&) = delete;
  BatchInvariant& operator=(const BatchInvariant&) = delete;

 private:
  bool before_;
};
// The product of the operands, summed over the dimensions that the output does not name, as in
// torch.einsum: "bij,bjk->bik" is a batched product, "ii->i" a diagonal, "i,j->ij" an outer
// product. Each letter names a dimension. Dimensions of one letter have one size, or 1. "..."
// stands for the other dimensions, aligned at the last one. Without "->", the output has "..." and
// then, in the order of the alphabet, the letters that appear once. Operands are multiplied from
// left to right, by matmul wherever a dimension is summed over.
Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands);

struct Conv1dOptions {
  std::int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
};
// y[n, o, t] = bias[o] + Σ weight[o, c, k]·x[n, c, t·stride + k·dilation − padding], x being 0
// outside of itself: a cross-correlation, as in PyTorch.  x (N, C, L) or (C, L), weight
// (C_out, C / groups, K), bias (C_out) or undefined → (N, C_out, L_out) or (C_out, L_out), with
// L_out = (L + 2·padding − dilation·(K − 1) − 1) / stride + 1. Group g of the outputs sees group g
// of the channels. Error if C or C_out is no multiple of groups, or the kernel reaches over more
// than L + 2·padding.
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const Conv1dOptions& options = {});
// The same of each channel by itself, over sequences whose positions do not see later ones:
// y[b, t, c] = bias[c] + Σ weight[c, 0, k]·x[b, t − K + 1 + k, c].  x (B, T, C), weight (C, 1, K),
// bias (C) or undefined → (B, T, C). It is conv1d with as many groups as channels and a padding of
// K − 1, without the last K − 1 outputs. With document_starts (B, T) i32, of documents side by side
// (ScoreOptions), no position sees those of another document. A position gets the same bits
// whatever stands beside it and K − 1 positions or more before it.
Tensor causal_conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                     const Tensor& document_starts = {});

// --- Normalisation ---

// eˣ / Σeˣ along dim, the maximum subtracted first. A row of all −∞ gives NaN, as in PyTorch, and
// so does one with +∞.
Tensor softmax(const Tensor& x, int dim = -1);
Tensor log_softmax(const Tensor& x, int dim = -1);
// log Σeˣ along dim; −∞ for a row of all −∞, whose gradient is NaN.
Tensor log_sum_exp(const Tensor& x, int dim = -1, bool keepdim = false);
struct LayerNormOptions {
  double eps = 1e-5;
  bool unbiased = false;     // the variance divides by C − 1, which leaves NaN of one channel
  bool eps_outside = false;  // divides by √var + eps, not by √(var + eps)
};
// (x − mean)/√(var + eps)·weight + bias over the last dimension, with the biased variance (Ba et
// al., "Layer Normalization", 2016).  x (…, C); weight and bias (C), each may be undefined.
Tensor layer_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {},
                  const LayerNormOptions& options = {});

// x/√(mean(x²) + eps)·weight over the last dimension (Zhang & Sennrich, "Root Mean Square Layer
// Normalization", 2019, section 4).  x (…, C); weight (C), or undefined.
Tensor rms_norm(const Tensor& x, const Tensor& weight = {}, double eps = 1e-5);

// --- Dropout ---

// Each element kept with probability 1 − p and scaled by 1/(1 − p), else 0. Draws x.numel() numbers
// from rng unless p = 0. Error unless 0 <= p <= 1.
Tensor dropout(const Tensor& x, double p, Rng& rng);

// --- Recomputation ---

// f(x…), of which only the inputs are kept: backward runs f again (Chen et al., "Training Deep Nets
// with Sublinear Memory Cost", 2016). f gets the inputs and `rng` (which may be null). When it is
// run again, it sees the same draws, and must call the same ops. Parameters that f uses get their
// gradients too. A checkpoint inside another is a part of that one.
using CheckpointFunction = std::function<Tensor(Inputs, Rng*)>;
Tensor checkpoint(const CheckpointFunction& f, const std::vector<Tensor>& inputs,
                  Rng* rng = nullptr);

}  // namespace tapegrad
