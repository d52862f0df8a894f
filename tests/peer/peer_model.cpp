// Runs GPT-2 124M with random weights in f32 on one sequence of random tokens and writes weights,
// tokens, logits and gradients to a file, which compare_model.py compares with PyTorch's:
// peer_model FILE [openblas|onednn]   (what multiplies, if one library is to do it all)

#include <fmt/core.h>

#include <cstdlib>

#include "tapegrad/autograd/gemm/gemm.h"
#include "tapegrad/nn/decoder.h"

namespace tapegrad {
namespace {

Tensor random_ids(std::int64_t n, std::int64_t vocab_size, Rng& rng) {
  Tensor ids = Tensor::empty({1, n}, DType::i32);
  auto* out = ids.mutable_data<std::int32_t>();
  for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<std::int32_t>(rng.randint(vocab_size));
  return ids;
}

void run(const std::string& path) {
  constexpr std::int64_t length = 1024;
  Rng rng(1337);
  const nn::Params params(rng);
  const nn::GPT gpt(params, {});
  nn::init_gpt2(gpt, params, rng);
  const Tensor ids = random_ids(length, gpt.config.vocab_size, rng),
               targets = random_ids(length, gpt.config.vocab_size, rng);
  NamedTensors tensors{{"ids", ids}, {"targets", targets}, {"logits", gpt(ids)}};
  {
    Tape tape;
    tape.backward(gpt.loss(ids, targets));
  }
  for (const auto& [name, t] : params.parameters()) {
    tensors.emplace_back("param/" + name, t);
    tensors.emplace_back("grad/" + name, t.grad());
  }
  save_safetensors(path, tensors);
}

}  // namespace
}  // namespace tapegrad

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: peer_model FILE [openblas|onednn]\n");
    return EXIT_FAILURE;
  }
  try {
    using tapegrad::GemmLibrary;
    if (argc > 2) {
      const bool other = std::string(argv[2]) == "onednn";
      tapegrad::set_gemm_library(other ? GemmLibrary::onednn : GemmLibrary::openblas);
    }
    tapegrad::run(argv[1]);
    return EXIT_SUCCESS;
  } catch (const tapegrad::Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return EXIT_FAILURE;
  }
}
