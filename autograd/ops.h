#pragma once

// The menu of differentiable ops. Each works in f32 and f64 and throws Error, naming the op and the
// shapes, if its inputs do not fit. Ops that only move elements (those of the section "Shape",
// where and broadcast_to) take i32 and u8, too, without gradients. Conventions where a derivative
// does not exist are PyTorch's, and so are NaNs and infinities: docs/exactness.md says how exact
// each op is, and where it differs. Where an op blocks a gradient, it is 0 even if what comes in is
// infinite or NaN; abs at 0 and dropout multiply by 0, which makes NaN of these.
// "(…, C)" is any number of leading dimensions; dim arguments may be negative, counting from the
// end.

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "tapegrad/autograd/kernels/keep_mask.h"
#include "tapegrad/autograd/tape.h"
#include "tapegrad/autograd/weight.h"
#include "tapegrad/base/random.h"

namespace tapegrad {

// `value` as a scalar of x's dtype. Error if that is i32 or u8 and does not hold it.
Tensor scalar_like(const Tensor& x, double value);

// --- Elementwise. Binary ops broadcast; a number on either side stands for a scalar tensor. ---

// add, sub and mul also work in i32: Error for a number or a result that i32 does not hold.
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
Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor sigmoid(const Tensor& x);  // 1 / (1 + e⁻ˣ)
Tensor erf(const Tensor& x);
Tensor relu(const Tensor& x);  // derivative 0 at 0, 1 at NaN
Tensor abs(const Tensor& x);   // derivative 0 at 0
// x·max(x, 0) (So et al., "Primer: Searching for Efficient Transformers for Language Modeling",
// 2021), 0 also at −∞. Its second derivative at 0 is 0.
Tensor relu2(const Tensor& x);
// x limited to [low, high]; the gradient passes inside and at the edges.
Tensor clamp(const Tensor& x, double low, double high);
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

// Hendrycks & Gimpel, "Gaussian Error Linear Units" (2016), section 2.
enum class Gelu {
  tanh,  // 0.5·x·(1 + tanh(√(2/π)·(x + 0.044715·x³))), GPT-2's
  erf,   // x·Φ(x) = 0.5·x·(1 + erf(x/√2)), PyTorch's default
};
Tensor gelu(const Tensor& x, Gelu form = Gelu::tanh);

// condition (u8, non-zero is true) ? a : b; the three broadcast.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
// x with `value` where mask (u8, broadcast to x) is non-zero; no gradient there.
Tensor masked_fill(const Tensor& x, const Tensor& mask, double value);

// Comparisons: u8, 1 where a = b, a ≠ b, a < b, a ≤ b, a > b, a ≥ b, else 0. They broadcast, work
// in all dtypes, and are not differentiable. NaN differs from everything, itself included. A number
// is rounded to the dtype of an f32 tensor.
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
// broadcasts to a's shape. These are not recorded: where a live tape tracks a or b, they are an
// Error. To update a parameter by hand, end the tape first, or hold a TapePause.
Tensor& operator+=(Tensor& a, const Tensor& b);
Tensor& operator-=(Tensor& a, const Tensor& b);
Tensor& operator*=(Tensor& a, const Tensor& b);
Tensor& operator/=(Tensor& a, const Tensor& b);
inline Tensor& operator+=(Tensor& a, double b) { return a += scalar_like(a, b); }
inline Tensor& operator-=(Tensor& a, double b) { return a -= scalar_like(a, b); }
inline Tensor& operator*=(Tensor& a, double b) { return a *= scalar_like(a, b); }
inline Tensor& operator/=(Tensor& a, double b) { return a /= scalar_like(a, b); }

// --- Reductions. `dims` empty: over all elements, giving a scalar. keepdim leaves sizes of 1. A
// scalar has a dimension 0 (or -1) to reduce along. ---

// The sum of nothing is 0. f32 sums are accumulated in double. Sums and means of i32 and u8 are
// f64.
Tensor sum(const Tensor& x, const std::vector<int>& dims = {}, bool keepdim = false);
// The mean of nothing is NaN.
Tensor mean(const Tensor& x, const std::vector<int>& dims = {}, bool keepdim = false);
// Σ(x − mean)² / (n − 1), or / n if not unbiased.
Tensor var(const Tensor& x, const std::vector<int>& dims = {}, bool unbiased = true,
           bool keepdim = false);
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
// largest.
Tensor argmax(const Tensor& x, int dim);
// Element k is the sum of elements 0 to k along dim. f32 is accumulated in double.
Tensor cumsum(const Tensor& x, int dim);
struct SortResult {
  Tensor values;
  Tensor indices;  // i32, of the values along dim
};
// The elements along dim in order. Equal elements keep theirs; NaN counts as largest.
SortResult sort(const Tensor& x, int dim = -1, bool descending = false);
// The first k of them: the largest, descending, or the smallest, ascending. Error unless 0 <= k and
// k is at most the size of dim.
SortResult topk(const Tensor& x, std::int64_t k, int dim = -1, bool largest = true);
// x summed down to `shape`, which broadcasts to x's: the derivative of broadcasting.
Tensor sum_to(const Tensor& x, const Shape& shape);
Tensor broadcast_to(const Tensor& x, const Shape& shape);

// --- Shape ---

// One size may be -1. Shares the data.
Tensor reshape(const Tensor& x, const Shape& shape);
Tensor transpose(const Tensor& x, int dim0, int dim1);
// Dimension i of the result is dimension order[i] of x.
Tensor permute(const Tensor& x, const std::vector<int>& order);
// Elements [begin, end) of dim. Negative numbers count from the end: slice(x, 0, -3, -1) has the
// third and the second last.
Tensor slice(const Tensor& x, int dim, std::int64_t begin, std::int64_t end);
// x in a tensor of zeros whose dim has `size` elements, from `begin` on: the derivative of slice.
Tensor pad(const Tensor& x, int dim, std::int64_t begin, std::int64_t size);
Tensor concat(const std::vector<Tensor>& parts, int dim);
// Parts of the given sizes, which must add up to the dimension.
std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& sizes, int dim);
// x[…, index, …] along dim, which is removed: a row, a column. A negative index counts from the
// end.
Tensor select(const Tensor& x, int dim, std::int64_t index);
// x[ids[0][…], ids[1][…], …]: elements of x, or rows if there are fewer ids than dimensions. The
// ids (i32) broadcast to a shape (S…), and the result is (S…, the dimensions without ids…).
// Negative ids count from the end; repeated places accumulate their gradients.
Tensor index(const Tensor& x, const std::vector<Tensor>& ids);
// Rows x[ids[i]] of x (N, …), for ids (i32) of any shape → (ids…, …). Repeated ids accumulate their
// gradients. Error on an id outside [0, N) with the id and its position.
Tensor gather_rows(const Tensor& x, const Tensor& ids);
// gather_rows of a weight (V, C): ids (B, T) → (B, T, C).
Tensor embedding(const Weight& weight, const Tensor& ids);
// x[…, index[…], …] along dim. index (i32) has x's shape without dim, or with another size of dim,
// and so has the result. Repeated indices accumulate their gradients. Error on an index outside
// [0, size of dim).
Tensor gather(const Tensor& x, const Tensor& index, int dim);

// Rows of any dimension: the elements ids[0], ids[1], … of dim, for ids (i32) of one dimension. As
// torch.index_select.
Tensor index_select(const Tensor& x, int dim, const Tensor& ids);
// A dimension of size 1 more, before dimension dim of x; -1: behind the last one.
Tensor unsqueeze(const Tensor& x, int dim);
// Without all dimensions of size 1, or without dim, if its size is 1.
Tensor squeeze(const Tensor& x);
Tensor squeeze(const Tensor& x, int dim);
// Dimensions first to last, both included, as one.
Tensor flatten(const Tensor& x, int first = 0, int last = -1);
// Tensors of one shape side by side along a new dimension.
Tensor stack(const std::vector<Tensor>& parts, int dim = 0);
// At most `count` parts of one size; the last may be smaller.
std::vector<Tensor> chunk(const Tensor& x, int count, int dim = 0);
// x, times[i] times along dimension i. There may be more times than dimensions, of which x then has
// more of size 1 in front. As torch.Tensor.repeat.
Tensor repeat(const Tensor& x, const std::vector<std::int64_t>& times);
Tensor flip(const Tensor& x, int dim);  // from the last element of dim to the first
// Element i of dim comes to i + by, and what leaves one end comes in at the other.
Tensor roll(const Tensor& x, std::int64_t by, int dim);
// The matrices (…, M, N) with 0 above the diagonal, or below it. A diagonal of k begins k columns
// to the right.
Tensor tril(const Tensor& x, int diagonal = 0);
Tensor triu(const Tensor& x, int diagonal = 0);
// ids (…) in i32 → (…, classes): 1 where the last index is the id, else 0.
Tensor one_hot(const Tensor& ids, std::int64_t classes, DType dtype = DType::f32);

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
// by a packed weight is that by the unpacked matrix, as if x had not been rounded.
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

// --- Normalisation and attention ---

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

// The changes of the scores q·k before the softmax.
struct ScoreOptions {
  double scale = 0;  // they are multiplied by it; 0 is 1/√D
  // Then cap·tanh(score / cap), which stays between −cap and cap (Gemma Team, "Gemma 2", 2024,
  // section 2); 0: no cap.
  double softcap = 0;
  // Causal attention slides: a query sees itself and the window − 1 keys before it (Jiang et al.,
  // "Mistral 7B", 2023, section 2). 0: all. Keys that no query of a block sees cost nothing.
  std::int64_t window = 0;
  // Causal attention of documents that stand side by side in the T positions, and do not see each
  // other: (B, T) i32, the position at which the document of each position begins. Undefined: one
  // document. What lies between documents costs nothing, as outside of a window. Error unless a row
  // is 0 at its beginning, and at position t > 0 either t or what it is at t − 1.
  Tensor document_starts = {};
};
struct AttentionOptions {
  bool causal = true;  // query i sees keys up to i
  double dropout = 0;  // of the attention weights, if rng is given
  Rng* rng = nullptr;
  // (B, Tk) u8 or undefined; keys where it is not 0 are padding that no query sees, as in PyTorch's
  // nn.MultiheadAttention. A query that sees no key at all, or none with a score above −∞, gets
  // zeros, and passes no gradient.
  Tensor key_padding_mask = {};
  ScoreOptions scores = {};
};
// softmax(Q·Kᵀ/√D)·V for n_head heads of D = C / n_head channels each (Vaswani et al., 2017,
// section 3.2). qkv (B, T, 3C) holds Q, K and V side by side, as one linear makes them → (B, T, C).
// Fused: no (T, T) matrix outlives the call, and blocks that the causal mask hides are not
// computed. With dropout from a generator of Kind::torch a bit for each of the (B, H, T, T) weights
// does, until backward.
Tensor attention(const Tensor& qkv, int n_head, const AttentionOptions& options = {});
// q (B, Tq, C), k and v (B, Tk, C) → (B, Tq, C). Causal needs Tq = Tk. Queries may share keys and
// values in groups (Ainslie et al., "GQA", 2023, section 2.2): k and v (B, Tk, K·D) have K heads,
// where K divides n_head, and head h of q meets head h / (n_head / K) of theirs.
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, int n_head,
                 const AttentionOptions& options = {});
// The weights of attention alone, softmax(Q·Kᵀ/√D), for looking at them: each query's row over the
// keys sums to one, or is zeros if it sees none. q (B, Tq, C), k (B, Tk, K·D) → (B, H, Tq, Tk).
Tensor attention_weights(const Tensor& q, const Tensor& k, int n_head, bool causal = true,
                         const Tensor& key_padding_mask = {}, const ScoreOptions& scores = {});
// Attention written with matmul and softmax: what the fused op is checked against, and
// differentiated through where second derivatives are asked for. `keep` is dropout's decision on
// the weights (B, H, Tq, Tk).
Tensor attention_reference(const Tensor& q, const Tensor& k, const Tensor& v, int n_head,
                           bool causal, const KeepMask& keep = {},
                           const Tensor& key_padding_mask = {}, const ScoreOptions& scores = {});

// Ways to go on beyond the positions of a model's first training. Llama 3's: pairs whose wave is
// longer than original_positions / low_freq_factor positions turn `factor` times slower, those
// whose wave is shorter than original_positions / high_freq_factor turn as they did, and the
// frequencies in between are interpolated. The linear one (Chen et al., "Extending Context Window
// of Large Language Models via Positional Interpolation", 2023): all pairs turn slower.
struct RopeScaling {
  enum class Kind { llama3, linear };
  double factor = 8;
  double low_freq_factor = 1, high_freq_factor = 4;  // of llama3
  std::int64_t original_positions = 8192;            // of llama3
  Kind kind = Kind::llama3;
};
struct RopeOptions {
  std::int64_t first = 0;                     // the position of row 0
  std::vector<std::int64_t> firsts = {};      // of x (B, T, C): one for each of the B, if not empty
  Tensor document_starts = {};                // of x (B, T, C): see below
  std::optional<std::int64_t> channels = {};  // turn the first so many only [all]
  std::optional<std::int64_t> turned = {};    // channels of a head that turn [all]
  double base = 10000;
  std::optional<RopeScaling> scaling = {};
  bool back = false;  // undo, up to rounding, what the same options without `back` do
};
// Rotary position embedding (Su et al., "RoFormer", 2021, section 3.2.2): attention scores between
// rows that are turned depend on how far they are apart, not on where they are. x (…, T, C) holds
// heads of D = head_size channels. In the row at position m, channels i and i + D/2 of each head
// are turned, as a pair, by the angle m·base^(−2i/D). Pairs are half a head apart, as in Hugging
// Face's models; the paper pairs neighbours, which differs in the order of channels alone. Of
// packed (B, T, 3C), `channels` = 2C turns Q and K, and leaves V as it is. With document_starts
// (B, T), as in ScoreOptions, positions begin anew at each document: a row is at the position of
// row 0 plus the rows between it and the beginning of its document. In f32, angles are
// rounded where transformers rounds them, which shows from some hundred positions on. With `turned`
// = R, the first R channels of each head are turned as a head of R, and the others stay.
Tensor rope(const Tensor& x, std::int64_t head_size, const RopeOptions& options = {});

// --- Losses and dropout ---

// Mean of −log softmax(logits)[target] over the targets that are not ignore_index; NaN if all are.
// logits (…, V), targets (…) i32. Error on a target outside [0, V) with the target and its
// position.
Tensor cross_entropy(const Tensor& logits, const Tensor& targets, std::int32_t ignore_index = -100);
// cross_entropy(linear(x, weight), targets) without the logits: kLossChunk rows at a time are made,
// turned into their gradients, and dropped. x (…, C), weight (V, C), targets (…) i32. The softmax
// is of f32 logits. With a cap, logits become softcap(logits, cap).
inline constexpr std::int64_t kLossChunk = 384;
Tensor linear_cross_entropy(const Tensor& x, const Weight& weight, const Tensor& targets,
                            std::int32_t ignore_index = -100, double cap = 0);
// mean((x − target)²); the shapes must be equal.
Tensor mse_loss(const Tensor& x, const Tensor& target);

// The reduction of the losses of all elements; batchmean is the sum divided by the first dimension.
enum class Reduction { none, mean, sum, batchmean };
struct BinaryLossOptions {
  Tensor weight = {};      // of the elements; broadcasts to them
  Tensor pos_weight = {};  // with logits only: a factor of −t·log p, broadcasts
  Reduction reduction = Reduction::mean;
};
// −t·log p − (1 − t)·log(1 − p) for probabilities p and targets t of one shape. As in PyTorch, the
// logarithms are −100 at least, and p·(1 − p) in the gradient 1e-12 at least. Error on a p or t
// outside [0, 1].
Tensor binary_cross_entropy(const Tensor& p, const Tensor& target,
                            const BinaryLossOptions& options = {});
// binary_cross_entropy() with p = σ(logits), exact for logits of any size.
Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& target,
                                        const BinaryLossOptions& options = {});
struct KlDivOptions {
  Reduction reduction = Reduction::mean;  // the divergence of a batch is batchmean
  bool log_target = false;                // the target holds logarithms, too
};
// target·(log target − x), 0 where the target is 0: the Kullback–Leibler divergence of the
// distribution x, given as logarithms, from the target. The two broadcast.
Tensor kl_div(const Tensor& x, const Tensor& target, const KlDivOptions& options = {});
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
