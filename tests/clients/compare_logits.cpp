// usage: compare_logits FOLDER EXPECTED
// Loads the model of a folder in Hugging Face's layout, and prints the largest difference of its
// logits from those in EXPECTED, a safetensors file with input_ids (B, T), logits (B, T, V),
// prompt (P) and greedy (N): what follows the prompt. Returns 1 if a logit is off by more than
// 3e-4, or a token differs.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "tapegrad/autograd/formats/safetensors.h"
#include "tapegrad/nn/generation/generate.h"
#include "tapegrad/run/models/model.h"

int main(int argc, char** argv) {
  using namespace tapegrad;
  try {
    check(argc == 3, "usage: compare_logits FOLDER EXPECTED");
    const auto begin = std::chrono::steady_clock::now();
    const run::TextModel model = run::load(argv[1]);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    const SafeTensors expected = load_safetensors(argv[2]);
    const Tensor ids = expected.at("input_ids"), logits = model.gpt(ids);
    const Tensor& theirs = expected.at("logits");
    check(logits.shape() == theirs.shape(), "logits are {}, not {}", logits.shape(),
          theirs.shape());
    double worst = 0;
    for (std::int64_t i = 0; i < logits.numel(); ++i) {
      worst = std::max(
          worst, std::abs(static_cast<double>(logits.data<float>()[i]) - theirs.data<float>()[i]));
    }
    const Tensor& greedy = expected.at("greedy");
    const auto prompt = expected.at("prompt").values<std::int32_t>();
    const nn::Tokens made = nn::stream(model.gpt, {prompt.begin(), prompt.end()},
                                       {.max_new_tokens = greedy.numel(), .greedy = true})
                                .tokens();
    const auto wanted = greedy.values<std::int32_t>();
    const bool same = std::equal(made.begin(), made.end(), wanted.begin(), wanted.end());
    fmt::print("{}: loaded in {:.2f} s, logits differ by at most {:.1e}, greedy tokens {}\n",
               argv[1], seconds.count(), worst, same ? "equal" : "DIFFER");
    return worst <= 3e-4 && same ? 0 : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "compare_logits: {}\n", error.what());
    return 1;
  }
}
