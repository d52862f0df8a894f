#include "tapegrad/autograd/formats/safetensors.h"
#include "tapegrad/run/models/model.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/golden/golden.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

// Part i of a tensor of parts.
Tensor part(const Tensor& parts, std::int64_t i, const Shape& shape) {
  return reshape(slice(parts, 0, i, i + 1), shape);
}

// The tokens that follow each of ids (B, T), as transformers shifts its labels.
Tensor next_of(const Tensor& ids) {
  const std::int64_t B = ids.dim(0), T = ids.dim(1);
  std::vector<std::int32_t> next;
  for (std::int64_t b = 0; b < B; ++b) {
    for (std::int64_t t = 1; t < T; ++t) next.push_back(ids.data<std::int32_t>()[b * T + t]);
    next.push_back(-100);
  }
  return Tensor::from(next, {B, T});
}

}  // namespace

TEST_CASE("states, attention and the input's gradient are those of transformers", "[golden]") {
  for (const char* name : {"hf_gpt2", "hf_llama", "hf_qwen2", "hf_qwen3"}) {
    INFO(name);
    const std::filesystem::path folder = golden_file(name);
    const run::TextModel model = run::load(folder);
    const Tensor ids = load_safetensors((folder / "expected.safetensors").string()).at("input_ids");
    const SafeTensors expected = load_safetensors((folder / "inside.safetensors").string());
    const std::vector<Tensor> states = model.gpt.residual_stream(model.gpt.embed(ids));
    const int layers = model.gpt.config.n_layer;
    REQUIRE(expected.at("attention").dim(0) == layers);
    REQUIRE(expected.at("states").dim(0) == layers + 1);
    for (int layer = 0; layer < layers; ++layer) {
      const Tensor& state = states[static_cast<std::size_t>(layer)];
      CHECK(difference(state, part(expected.at("states"), layer, state.shape()), 1e-4, 1e-4) == "");
      const Tensor weights = model.gpt.attention_weights(layer, state);
      CHECK(difference(weights, part(expected.at("attention"), layer, weights.shape()), 1e-4,
                       1e-5) == "");
    }
    const Tensor normed = model.gpt.hidden(ids);  // their last state
    CHECK(difference(normed, part(expected.at("states"), layers, normed.shape()), 1e-4, 1e-4) ==
          "");
    const Tensor gradient = model.gpt.input_gradient(ids, next_of(ids));
    CHECK(difference(gradient, expected.at("input_gradient"), 1e-3, 1e-5) == "");
  }
}
