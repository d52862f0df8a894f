// One Transformer block of GPT-2: its shapes, its parts, and what each token may see.

#include <algorithm>
#include <cmath>

#include "tapegrad/nn/decoder.h"

using namespace tapegrad;

namespace {

const nn::DecoderConfig config{.qkv_bias = false};  // 12 heads, 768 wide: GPT-2's smallest

double rms(const Tensor& x) { return std::sqrt(mean(x * x).item()); }

int lesson() {
  Rng rng(123);
  Tensor x = Tensor::empty({2, 4, 768});
  rng.uniform(std::span(x.mutable_data<float>(), 2 * 4 * 768), 0, 1);  // torch.rand(2, 4, 768)
  const nn::Params params(rng);
  const nn::Block block(params, config);

  const Tensor attended = block.attn(block.ln_1(x));
  const Tensor middle = x + attended;
  const Tensor fed = block.mlp(block.ln_2(middle));
  const Tensor y = middle + fed;
  fmt::print("                  shape          size (root mean square)\n");
  fmt::print("x                 {}   {:.4f}\n", x.shape(), rms(x));
  fmt::print("attn(ln_1(x))     {}   {:.4f}\n", attended.shape(), rms(attended));
  fmt::print("+ x = m           {}   {:.4f}\n", middle.shape(), rms(middle));
  fmt::print("mlp(ln_2(m))      {}   {:.4f}\n", fed.shape(), rms(fed));
  fmt::print("+ m = y           {}   {:.4f}\n", y.shape(), rms(y));

  Tensor changed = x.clone();
  float* tokens = changed.mutable_data<float>();
  std::fill_n(tokens + 2 * 768, 768, 0.5F);  // the third token of the first text
  const Tensor apart = abs(block(changed) - y);
  fmt::print("\nWhat the change does to the outputs of the first text:\n");
  for (int t = 0; t < 4; ++t) {
    const double most = max(slice(slice(apart, 0, 0, 1), 1, t, t + 1)).item();
    fmt::print("  token {}: {}\n", t + 1, most > 0 ? fmt::format("up to {:.4f}", most) : "nothing");
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
