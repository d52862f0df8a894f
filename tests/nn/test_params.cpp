#include "tapegrad/nn/layers.h"
#include "tapegrad/nn/params.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/nn/models.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;
using namespace tapegrad::testing;
using nn::Params;

namespace {

SafeTensors checkpoint() {
  SafeTensors file;
  file.path = "some/model.safetensors";
  file.tensors["a.weight"] = Tensor::from<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  file.tensors["a.bias"] = Tensor::from<float>({7, 8}, {2});
  return file;
}

}  // namespace

TEST_CASE("asking for a parameter registers it under its scope, in the order of asking",
          "[params]") {
  Rng rng(1);
  const Params params(rng);
  const Tensor b = (params / "h" / 0).parameter("b", {2}, nn::ones());
  const Tensor a = params.parameter("a", {3, 2}, nn::zeros());
  REQUIRE(params.parameters().size() == 2);
  CHECK(params.parameters()[0].first == "h.0.b");
  CHECK(params.parameters()[1].first == "a");
  CHECK(params.parameters()[0].second.id() == b.id());
  CHECK(params.count() == 8);
  CHECK(a.requires_grad());
  CHECK(list(b) == std::vector<double>{1, 1});
}

TEST_CASE("a parameter that is asked for twice is an error that names it", "[params]") {
  Rng rng(1);
  const Params params(rng);
  (params / "h").parameter("b", {2}, nn::ones());
  CHECK_THROWS_WITH(params.parameter("h.b", {2}, nn::ones()),
                    ContainsSubstring("'h.b' is asked for twice"));
  CHECK_THROWS_WITH((params / "h").buffer("b", {2}, [] { return Tensor::ones({2}); }),
                    ContainsSubstring("'h.b' is asked for twice"));
}

TEST_CASE("a checkpoint hands out its tensors and draws nothing", "[params]") {
  const Params params(source_of(checkpoint()));
  const nn::Linear layer(params / "a", 3, 2);
  params.redraw(layer.weight, nn::normal(0, 1));
  CHECK(list(layer.weight) == std::vector<double>{1, 2, 3, 4, 5, 6});
  CHECK(list(layer.bias) == std::vector<double>{7, 8});
  CHECK(layer.bias.requires_grad());
  CHECK_NOTHROW(params.check_all_used());
}

TEST_CASE("a tensor that a checkpoint lacks is an error that names file and tensor", "[params]") {
  const Params params(source_of(checkpoint()));
  CHECK_THROWS_WITH(nn::Linear(params / "b", 3, 2),
                    ContainsSubstring("some/model.safetensors") && ContainsSubstring("b.weight"));
}

TEST_CASE("a tensor of the wrong shape is an error that names both shapes", "[params]") {
  const Params params(source_of(checkpoint()));
  CHECK_THROWS_WITH(nn::Linear(params / "a", 2, 3), ContainsSubstring("some/model.safetensors") &&
                                                        ContainsSubstring("'a.weight'") &&
                                                        ContainsSubstring("(2, 3)") &&
                                                        ContainsSubstring("(3, 2)"));
}

TEST_CASE("tensors that nobody asked for are named, the first five of many", "[params]") {
  SafeTensors file = checkpoint();
  {
    const Params params(source_of(file));
    nn::Linear(params / "a", 3, 2, false);
    CHECK_THROWS_WITH(params.check_all_used(), ContainsSubstring("some/model.safetensors") &&
                                                   ContainsSubstring("1 of its tensors: a.bias"));
  }
  for (int i = 0; i < 7; ++i) file.tensors["x" + std::to_string(i)] = Tensor::zeros({1});
  const Params params(source_of(file));
  const nn::Linear layer(params / "a", 3, 2);
  CHECK_THROWS_WITH(params.check_all_used(),
                    ContainsSubstring("7 of its tensors: x0, x1, x2, x3, x4, …"));
}

TEST_CASE("a checkpoint is converted to the dtype that is asked for", "[params]") {
  const Params params(source_of(checkpoint()), DType::f64);
  const nn::Linear layer(params / "a", 3, 2);
  CHECK(layer.weight.dtype() == DType::f64);
  CHECK(layer.weight.requires_grad());
  CHECK(list(layer.weight) == std::vector<double>{1, 2, 3, 4, 5, 6});
}

TEST_CASE("a buffer is saved and loaded, but is no parameter", "[params]") {
  const TempFolder folder;
  const std::string path = (folder / "model.safetensors").string();
  const auto make = [](int value) { return [value] { return Tensor::full({2}, value); }; };
  {
    Rng rng(1);
    const Params params(rng);
    const Tensor table = params.buffer("table", {2}, make(4));
    params.parameter("w", {1}, nn::ones());
    CHECK_FALSE(table.requires_grad());
    CHECK(params.parameters().size() == 1);
    CHECK(params.count() == 1);
    CHECK(params.tensors().size() == 2);
    CHECK(params.tensors()[0].first == "table");
    save_safetensors(path, params.tensors());
  }
  const Params params(open_safetensors(path));
  const Tensor table = params.buffer("table", {2}, make(5));
  CHECK(list(table) == std::vector<double>{4, 4});
  CHECK_FALSE(table.requires_grad());
  CHECK(params.parameters().empty());
}

TEST_CASE("a saved GPT is the same GPT when loaded, in either dtype", "[params]") {
  const DType dtype = GENERATE(DType::f32, DType::f64);
  const TempFolder folder;
  const std::string path = (folder / "model.safetensors").string();
  nn::DecoderConfig config = tiny_config();
  config.tied = GENERATE(true, false);
  Rng rng(7);
  const Params params(rng, dtype);
  const nn::GPT gpt(params, config);
  nn::init_gpt2(gpt, params, rng);
  save_safetensors(path, params.tensors());

  const Params loaded(open_safetensors(path), dtype);
  const nn::GPT copy(loaded, config);
  REQUIRE(loaded.parameters().size() == params.parameters().size());
  for (std::size_t i = 0; i < params.parameters().size(); ++i) {
    const auto& [name, t] = params.parameters()[i];
    INFO(name);
    CHECK(loaded.parameters()[i].first == name);
    CHECK(same_bits(loaded.parameters()[i].second, t));
  }
  const Tensor tokens = random_ids(rng, {2, 5}, config.vocab_size);
  CHECK(same_bits(copy(tokens), gpt(tokens)));
}

TEST_CASE("a GPT's checkpoint does not load into another config", "[params]") {
  Rng rng(7);
  const Params params(rng);
  const nn::GPT gpt(params, tiny_config());
  SafeTensors file;
  file.path = "run/model.safetensors";
  for (const auto& [name, t] : params.tensors()) file.tensors[name] = t;

  nn::DecoderConfig deeper = tiny_config(), shallower = tiny_config(), longer = tiny_config();
  deeper.n_layer = 3;
  shallower.n_layer = 1;
  longer.block_size = 7;
  CHECK_THROWS_WITH(nn::GPT(Params(source_of(file)), deeper), ContainsSubstring("h.2.ln_1.weight"));
  CHECK_THROWS_WITH(nn::GPT(Params(source_of(file)), shallower),
                    ContainsSubstring("run/model.safetensors") && ContainsSubstring("12 of its"));
  CHECK_THROWS_WITH(nn::GPT(Params(source_of(file)), longer), ContainsSubstring("'wpe.weight'") &&
                                                                  ContainsSubstring("(6, 8)") &&
                                                                  ContainsSubstring("(7, 8)"));
}
