#include "tapegrad/docs/tutorial/programs/placeholder_gpt.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/nn/models.h"

using namespace tapegrad;
using namespace tapegrad::testing;

TEST_CASE("a placeholder is embeddings and a head, and draws nothing else", "[placeholder]") {
  Rng rng(2);
  const nn::Params params(rng);
  const tutorial::PlaceholderGPT model(params, tiny_config());
  CHECK(params.parameters().size() == 3);
  CHECK(params.parameters()[2].first == "lm_head.weight");
  const Tensor tokens = random_ids(rng, {2, 6}, 11);
  const Tensor x = model.wte(tokens) + model.wpe(ids({0, 1, 2, 3, 4, 5}));
  CHECK(same_bits(model(tokens), model.lm_head(x)));
}
