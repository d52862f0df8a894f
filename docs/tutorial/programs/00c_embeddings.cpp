// Embeddings: rows of a table, gradients for the rows that are read, and words that become similar.

#include "tapegrad/nn/layers.h"

using namespace tapegrad;

namespace {

const std::vector<std::string> words = {"cat",    "dog",  "tea",   "coffee",
                                        "sleeps", "runs", "cools", "steams"};
// Eight texts of two words: an animal sleeps or runs, a drink cools or steams.
const Tensor first = Tensor::from<std::int32_t>({0, 0, 1, 1, 2, 2, 3, 3}, {8});
const Tensor second = Tensor::from<std::int32_t>({4, 5, 4, 5, 6, 7, 6, 7}, {8});

void print_rows() {
  const Tensor table = Tensor::arange(0, 8).view({4, 2});
  const Tensor ids = Tensor::from<std::int32_t>({2, 0, 2}, {3});
  const Tensor one_hot = eq(ids.view({3, 1}), Tensor::arange(0, 4, 1, DType::i32)).to(DType::f32);
  Tape tape;
  tape.watch(table);
  const Tensor rows = embedding(table, ids);
  fmt::print("table:\n{}\n", table);
  fmt::print("rows 2, 0, 2:\n{}\n", rows);
  fmt::print("one-hot · table:\n{}\n", matmul(one_hot, table));
  fmt::print("gradient of the table:\n{}\n", tape.gradient(sum(rows), {table})[0]);
}

// The cosine of the angle between rows i and j: 1 if they point the same way, −1 if opposite ways.
double similarity(const Tensor& table, std::int64_t i, std::int64_t j) {
  const Tensor a = select(table, 0, i), b = select(table, 0, j);
  return (matmul(a, b) / sqrt(matmul(a, a) * matmul(b, b))).item();
}

void print_similarities(const std::string& label, const Tensor& table) {
  fmt::print("{:<8}", label);
  for (const auto& [i, j] : {std::pair(0, 1), {2, 3}, {0, 2}, {4, 5}}) {
    fmt::print("{:>14.4f}", similarity(table, i, j));
  }
  fmt::print("\n");
}

int lesson() {
  print_rows();

  Rng rng(123);
  const nn::Params params(rng, DType::f64);
  const nn::Embedding embed(params / "embed", 8, 4);
  const nn::Linear head(params / "head", 4, 8, false);
  const Tensor before = embed.weight.clone();
  fmt::print("\n{:<8}{:>14}{:>14}{:>14}{:>14}\n", "", "cat/dog", "tea/coffee", "cat/tea",
             "sleeps/runs");
  print_similarities("before", embed.weight);
  for (int step = 0; step <= 300; ++step) {
    Tape tape;
    const Tensor loss = cross_entropy(head(embed(first)), second);
    tape.backward(loss);
    if (step % 100 == 0) fmt::print("step {}, loss {:.4f}\n", step, loss.item());
    const TapePause pause;
    for (auto [name, weight] : params.parameters()) {
      weight -= weight.grad();
      weight.zero_grad();
    }
  }
  print_similarities("after", embed.weight);

  const Tensor moved = max(abs(embed.weight - before), 1).values;
  fmt::print("\nmoved by at most\n");
  for (std::size_t i = 0; i < words.size(); ++i) {
    fmt::print("  {:<8} {:.4f}\n", words[i], moved.at(static_cast<std::int64_t>(i)));
  }
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
