#include "tapegrad/nn/layers.h"
#include "tapegrad/nn/layers/image_layers.h"
#include "tapegrad/nn/layers/module_summary.h"
#include "tapegrad/nn/layers/recurrent.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::testing;

TEST_CASE("the summary of a module is a table by part, with outputs of an example", "[summary]") {
  Rng rng(1);
  const nn::Params params(rng);
  const nn::Embedding tokens(params / "tokens", 7, 4);
  const nn::LayerNorm norm(params / "norm", 4);
  const nn::Linear out(params / "out", 4, 7);
  params.buffer("scale", {1}, [] { return Tensor::ones({1}); });
  const Tensor ids = Tensor::from<std::int32_t>({0, 1, 2, 3, 4, 6}, {2, 3});
  const nn::ModuleSummary summary =
      nn::module_summary(params.tensors(), [&] { out(norm(tokens(ids))); });
  CHECK(summary.str() ==
        "part    shapes       parameters  fixed  output\n"
        "tokens  (7, 4)               28      0  (2, 3, 4)\n"
        "norm    (4), (4)              8      0  (2, 3, 4)\n"
        "out     (7, 4), (7)          35      0  (2, 3, 7)\n"
        "scale   (1)                   0      1\n"
        "all                          71      1\n"
        "\n"
        "71 parameters; all tensors take 288 B\n");
  const nn::ModuleSummary without = nn::module_summary(params.tensors());
  CHECK(without.parameters() == params.count());
  CHECK(without.parts.front().output == std::nullopt);
  CHECK_THAT(without.str(), !ContainsSubstring("output"));
}

TEST_CASE("tensors of one part are together, wherever they were made", "[summary]") {
  Rng rng(1);
  const nn::Params params(rng);
  params.parameter("block.scale", {2}, nn::ones());
  const nn::Linear inner(params / "block.inner", 2, 2);
  params.parameter("block.shift", {3}, nn::zeros());
  params.freeze({"block.inner.*"});
  const auto parts = nn::module_summary(params.tensors()).parts;
  REQUIRE(parts.size() == 2);
  CHECK((parts[0].name == "block" && parts[0].shapes == std::vector<Shape>{{2}, {3}}));
  CHECK((parts[0].parameters == 5 && parts[0].fixed == 0));
  CHECK((parts[1].name == "block.inner" && parts[1].parameters == 0 && parts[1].fixed == 6));
}

TEST_CASE("the output of a part is that of the op which its weights first meet", "[summary]") {
  Rng rng(1);
  const nn::Params params(rng);
  const nn::Embedding tokens(params / "tokens", 7, 4);
  const nn::Linear head(tokens.weight);
  const Tensor turned = params.parameter("turned", {3, 4}, nn::ones());
  const Tensor gain = params.parameter("gain", {4}, nn::zeros());
  const nn::GRU gru(params / "gru", 3, 6, {.layers = 2});
  const nn::Linear unused(params / "unused", 2, 2);
  const Tensor ids = Tensor::from<std::int32_t>({0, 1, 2, 3, 4, 6}, {2, 3});
  const auto parts = nn::module_summary(params.tensors(), [&] {
                       const Tensor x = rms_norm(tokens(ids), gain + 1);
                       head(x);
                       gru(matmul(x, transpose(turned, 0, 1)));
                     }).parts;
  REQUIRE(parts.size() == 5);
  CHECK(parts[0].output == Shape{2, 3, 4});  // not the head's
  CHECK(parts[1].output == Shape{2, 3, 3});  // not that of the transposition
  CHECK(parts[2].output == Shape{2, 3, 4});  // not that of the sum
  CHECK(parts[3].output == Shape{2, 3, 6});
  CHECK(parts[4].output == std::nullopt);
}

TEST_CASE("a summary changes no buffer and is in the record of no tape", "[summary]") {
  Rng rng(1);
  const nn::Params params(rng);
  const nn::BatchNorm norm(params / "norm", 2);
  const Tensor x = Tensor::from({1.0f, 2.0f, 3.0f, 4.0f}, {2, 2});
  const Tape tape;
  const auto parts =
      nn::module_summary(params.tensors(), [&] { norm(x, nn::Mode::training); }).parts;
  CHECK(parts[0].output == Shape{2, 2});
  CHECK((parts[0].parameters == 4 && parts[0].fixed == 5));
  CHECK(norm.running_mean.at(0) == 0);
  CHECK(norm.num_batches_tracked.item() == 0);
  CHECK(tape.size() == 0);
}
