// Tensors and their shapes: elements in order, broadcasting, and a product of matrices by hand.

#include "tapegrad/autograd/ops.h"

using namespace tapegrad;

namespace {

void print_kinds() {
  fmt::print("              shape      dimensions  numbers\n");
  const auto line = [](const char* kind, const Tensor& t) {
    fmt::print("{:<12}  {:<9} {:>11} {:>8}\n", kind, t.shape().str(), t.rank(), t.numel());
  };
  line("a scalar", Tensor::scalar(5));
  line("a vector", Tensor::ones({3}));
  line("a matrix", Tensor::ones({2, 3}));
  line("two of them", Tensor::ones({2, 2, 3}));
}

// Element (i, j) is the sum over k of a(i, k) · b(k, j).
Tensor product_by_hand(const Tensor& a, const Tensor& b) {
  std::vector<float> elements;
  for (std::int64_t i = 0; i < a.dim(0); ++i) {
    for (std::int64_t j = 0; j < b.dim(1); ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < a.dim(1); ++k) sum += a.at({i, k}) * b.at({k, j});
      elements.push_back(static_cast<float>(sum));
    }
  }
  return Tensor::from(elements, {a.dim(0), b.dim(1)});
}

int lesson() {
  print_kinds();

  const Tensor x = Tensor::from<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  fmt::print("\nx:\n{}\n", x);
  fmt::print("row 1, column 2: {}, which is number 1 * 3 + 2 in order: {}\n", x.at({1, 2}),
             x.at(1 * 3 + 2));
  fmt::print("the same numbers in another shape:\n{}\n", reshape(x, {3, 2}));

  const Tensor row = Tensor::from<float>({10, 20, 30}, {3});
  const Tensor column = Tensor::from<float>({100, 200}, {2, 1});
  fmt::print("\nx {} + row {}:\n{}\n", x.shape(), row.shape(), x + row);
  fmt::print("x {} + column {}:\n{}\n", x.shape(), column.shape(), x + column);
  fmt::print("row {} + column {}:\n{}\n", row.shape(), column.shape(), row + column);
  fmt::print("mean of each row of x:\n{}\n", mean(x, {-1}, true));

  const Tensor w = Tensor::from<float>({1, 0, 0, 1, 1, 1}, {3, 2});
  fmt::print("\nx · w, by hand:\n{}\n", product_by_hand(x, w));
  fmt::print("x · w, by matmul:\n{}\n", matmul(x, w));
  const Tensor batch = Tensor::ones({8, 4, 3});  // 8 texts of 4 tokens with 3 features each
  fmt::print("batch {} · w {} = {}\n", batch.shape(), w.shape(), matmul(batch, w).shape());
  try {
    matmul(x, x);
  } catch (const Error& error) {
    fmt::print("x · x: {}\n", error.what());
  }

  const Tensor predicted = Tensor::from<float>({1, 2, 3}, {3, 1});
  const Tensor target = Tensor::from<float>({1, 2, 3}, {3, 1});
  const Tensor off = predicted - target;
  fmt::print("\npredicted {} - target {} = {}, mean square {:.4f}\n", predicted.shape(),
             target.shape(), off.shape(), mean(off * off).item());
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
