// LayerNorm by hand: the variance divided by n, by n - 1, and epsilon outside the root.

#include "tapegrad/autograd/ops.h"

using namespace tapegrad;

namespace {

void print_row(const std::string& label, const Tensor& t) {
  fmt::print("{:<28}", label);
  for (int i = 0; i < 4; ++i) fmt::print(" {:9.6f}", t.at(i));
  fmt::print("\n");
}

int lesson() {
  std::vector<double> numbers;  // f64: both ways of each row round to the same digits
  for (int i = 1; i <= 24; ++i) numbers.push_back(i);
  const Tensor x = Tensor::from(numbers, {2, 3, 4});  // 2 texts of 3 tokens with 4 features each

  const Tensor mu = mean(x, {-1}, true);
  const Tensor biased = var(x, {-1}, false, true);   // Σ(x - mu)² / n
  const Tensor unbiased = var(x, {-1}, true, true);  // Σ(x - mu)² / (n - 1)
  const Tensor gpt2 = (x - mu) / sqrt(biased + 1e-5);
  const Tensor bessel = (x - mu) / sqrt(unbiased + 1e-5);
  const Tensor outside = (x - mu) / (sqrt(unbiased) + 1e-6);

  fmt::print("x {}, mean {}, variance {}\n\n", x.shape(), mu.shape(), biased.shape());
  fmt::print("token               mean  variance  normalised\n");
  for (std::int64_t i = 0; i < 6; ++i) {
    fmt::print("[{:2.0f}, {:2.0f}, {:2.0f}, {:2.0f}]", x.at(4 * i), x.at(4 * i + 1),
               x.at(4 * i + 2), x.at(4 * i + 3));
    fmt::print("    {:4.1f}      {:.2f} ", mu.at(i), biased.at(i));
    for (std::int64_t j = 0; j < 4; ++j) fmt::print(" {:5.2f}", gpt2.at(4 * i + j));
    fmt::print("\n");
  }

  fmt::print("\nThe first token\n");
  print_row("variance / n, by hand", gpt2);
  print_row("  layer_norm", layer_norm(x));
  print_row("variance / (n - 1), by hand", bessel);
  print_row("  layer_norm", layer_norm(x, {}, {}, {.unbiased = true}));
  print_row("std + eps, by hand", outside);
  print_row("  layer_norm",
            layer_norm(x, {}, {}, {.eps = 1e-6, .unbiased = true, .eps_outside = true}));
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
