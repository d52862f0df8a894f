// GPT-2's shape and size, counted on the model itself.

#include "apps/cli.h"
#include "data/tokenizer.h"
#include "nn/gpt.h"

using namespace tapegrad;

namespace {

// The number of parameters whose names start with `prefix`.
std::int64_t count(const nn::Params& params, const std::string& prefix) {
  std::int64_t n = 0;
  for (const auto& [name, t] : params.parameters()) {
    if (name.rfind(prefix, 0) == 0) n += t.numel();
  }
  return n;
}

std::string thousands(std::int64_t n) {
  std::string digits = std::to_string(n);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<std::size_t>(at), ",");
  }
  return digits;
}

int lesson() {
  Rng rng(123);
  const nn::Params params(rng);
  const nn::GPT gpt(params, {.qkv_bias = false, .tied = false});

  const auto tokenizer = data::Tokenizer::gpt2();
  std::vector<data::Token> ids = tokenizer.encode("Every effort moves you");
  for (const data::Token id : tokenizer.encode("Every day holds a")) ids.push_back(id);
  const Tensor batch = Tensor::from(ids, {2, 4});
  fmt::print("ids {} -> logits {}\n\n", batch.shape(), gpt(batch).shape());

  for (const std::string part : {"wte", "wpe", "h", "h.0.attn", "h.0.mlp", "ln_f", "lm_head"}) {
    fmt::print("{:<10} {:>11}\n", part, thousands(count(params, part + ".")));
  }
  const std::int64_t total = params.count();
  fmt::print("{:<10} {:>11}, {:.2f} MB in f32\n", "all", thousands(total),
             static_cast<double>(total) * 4 / (1024 * 1024));
  fmt::print("{:<10} {:>11} if the head shares the weight of wte\n", "tied",
             thousands(total - count(params, "lm_head.")));
  return 0;
}

}  // namespace

int main() { return apps::run_main("05-gpt2-size", lesson); }
