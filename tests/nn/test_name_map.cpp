#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/nn/models.h"

using namespace tapegrad;
using namespace tapegrad::testing;

TEST_CASE("a map of names has prefixes with numbers, and suffixes", "[params]") {
  const nn::NameMap map(
      {{"h.#.attn.", "blocks.#.a.", {{"w", "weight"}}}, {"h.#.", "layers.#."}, {"pe", "table"}});
  CHECK(map("h.12.attn.w") == "blocks.12.a.weight");
  CHECK(map("h.3.ln.w") == "layers.3.ln.w");
  CHECK(map("h.3.attn.b") == "layers.3.attn.b");  // no suffix of the first rule: the next one holds
  CHECK(map("pe") == "table");
  CHECK(map("h.x.ln.w") == "h.x.ln.w");
  CHECK(map("other") == "other");
  CHECK(nn::NameMap()("h.0.w") == "h.0.w");
}

TEST_CASE("a model is read under the names of its source, and errors have those", "[params]") {
  SafeTensors file;
  file.path = "foreign.safetensors";
  file.tensors["a.0.gain"] = Tensor::ones({3});
  file.tensors["a.0.shift"] = Tensor::zeros({3});
  const nn::NameMap names({{"h.#.", "a.#.", {{"weight", "gain"}, {"bias", "shift"}}}});
  const auto opened = [&] {
    return nn::Params(source_of(file), DType::f32, Precision::full, names);
  };
  {
    const nn::Params params = opened();
    const nn::LayerNorm norm(params / "h" / 0, 3);
    CHECK_NOTHROW(params.check_all_used());
    CHECK(params.parameters()[0].first == "h.0.weight");
  }
  CHECK_THROWS_WITH(nn::LayerNorm(opened() / "h" / 0, 4),
                    ContainsSubstring("foreign.safetensors: tensor 'a.0.gain' has shape (3)"));
  CHECK_THROWS_WITH(nn::LayerNorm(opened() / "h" / 1, 3), ContainsSubstring("'a.1.gain'"));
  const nn::Params unused = opened();
  const nn::LayerNorm norm(unused / "h" / 0, 3, false);
  CHECK_THROWS_WITH(unused.check_all_used(), ContainsSubstring("1 of its tensors: a.0.shift"));
}
