// Attention by hand: queries, keys and values, the mask, heads; and the one op that does it all.

#include <cmath>

#include "tapegrad/nn/layers.h"

using namespace tapegrad;

namespace {

void print_rows(const char* label, const Tensor& t) {
  static const char* const tokens[] = {"Your", "journey", "starts", "with", "one", "step"};
  fmt::print("\n{}\n", label);
  for (std::int64_t i = 0; i < 6; ++i) {
    fmt::print("{:<8}", tokens[i]);
    for (std::int64_t j = 0; j < t.dim(1); ++j) fmt::print(" {:7.4f}", t.at({i, j}));
    fmt::print("\n");
  }
}

struct Projections {
  nn::Linear query, key, value;  // 3 -> 2 features, without biases
  explicit Projections(const nn::Params& p)
      : query(p / "query", 3, 2, false),
        key(p / "key", 3, 2, false),
        value(p / "value", 3, 2, false) {}
};

// q and k (6, D) -> weights (6, 6): each row adds up to 1.
Tensor weights_of(const Tensor& q, const Tensor& k) {
  const Tensor scores = matmul(q, k, {.transpose_b = true}) / std::sqrt(q.dim(1));
  const Tensor place = Tensor::arange(6);
  const Tensor ahead = gt(place.view({1, 6}), place.view({6, 1}));  // keys after the query
  return softmax(masked_fill(scores, ahead, -INFINITY));
}

int lesson() {
  const Tensor x = Tensor::from<float>({0.43F, 0.15F, 0.89F,   // Your
                                        0.55F, 0.87F, 0.66F,   // journey
                                        0.57F, 0.85F, 0.64F,   // starts
                                        0.22F, 0.58F, 0.33F,   // with
                                        0.77F, 0.25F, 0.10F,   // one
                                        0.05F, 0.80F, 0.55F},  // step
                                       {6, 3});
  Rng rng(789);
  const Projections one((nn::Params(rng)));
  const Tensor weights = weights_of(one.query(x), one.key(x));
  fmt::print("One head: how much each token takes from each");
  print_rows("            Your journey  starts    with     one    step", weights);
  print_rows("What it takes: weights · values", matmul(weights, one.value(x)));

  Rng again(123);
  const nn::Params params(again);
  const Projections both(params);
  const nn::Linear out(params / "out", 2, 2);
  const Tensor q = both.query(x), k = both.key(x), v = both.value(x);
  std::vector<Tensor> heads;
  for (const int h : {0, 1}) {  // each head has one of the two features
    const auto part = [h](const Tensor& t) { return slice(t, 1, h, h + 1); };
    heads.push_back(matmul(weights_of(part(q), part(k)), part(v)));
  }
  const Tensor by_op = attention(q.view({1, 6, 2}), k.view({1, 6, 2}), v.view({1, 6, 2}), 2);
  print_rows("Two heads and the output projection: by hand, by the op",
             concat({out(concat(heads, 1)), out(by_op.view({6, 2}))}, 1));
  return 0;
}

}  // namespace

int main() {
  try {
    return lesson();
  } catch (const Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
