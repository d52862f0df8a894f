#include "tapegrad/nn/measure.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/nn/models.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

std::string error_of(const nn::DecoderConfig& config) {
  try {
    config.validate();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("Q, K and V have biases where the rest has, unless they are told otherwise", "[gpt]") {
  nn::DecoderConfig config;
  CHECK(config.with_qkv_bias());
  config.bias = false;
  CHECK_FALSE(config.with_qkv_bias());
  config.qkv_bias = true;
  CHECK(config.with_qkv_bias());
  config.n_layer = 1;
  const auto count = [&] { return nn::shapes_of<nn::GPT>(config).count(); };
  const std::int64_t with = count();
  config.qkv_bias.reset();
  CHECK(count() == with - 3 * 768);
}

TEST_CASE("a config that no model can have is an error that names its values", "[gpt]") {
  nn::DecoderConfig config;
  CHECK(error_of(config) == "");
  config.n_embd = 770;
  CHECK(error_of(config) == "n_embd 770 is not divisible by n_head 12");
  Rng rng(1);
  CHECK_THROWS_WITH(nn::GPT(nn::Params(rng), config), "n_embd 770 is not divisible by n_head 12");

  const auto broken = [](auto change) {
    nn::DecoderConfig c = tiny_config();
    change(c);
    return error_of(c);
  };
  CHECK(broken([](auto& c) { c.vocab_size = 0; }).find("vocab_size") == 0);
  CHECK(broken([](auto& c) { c.block_size = -1; }).find("block_size") == 0);
  CHECK(broken([](auto& c) { c.n_layer = 0; }).find("n_layer") == 0);
  CHECK(broken([](auto& c) { c.n_layer = 1 << 30; }).find("n_layer") == 0);
  CHECK(broken([](auto& c) { c.n_head = 0; }).find("n_head") == 0);
  CHECK(broken([](auto& c) { c.n_embd = std::int64_t{1} << 60; }).find("n_embd") == 0);
  CHECK(broken([](auto& c) { c.n_inner = 0; }).find("n_inner") == 0);
  CHECK(broken([](auto& c) { c.n_inner = std::int64_t{1} << 40; }).find("n_inner") == 0);
  CHECK(broken([](auto& c) { c.n_embd = 6, c.positions = nn::Positions::rotary; }) ==
        "positions rotary need an even number of channels per head, not 3 (n_embd 6, n_head 2)");
  CHECK(broken([](auto& c) {
          c.n_embd = c.n_head = 1, c.norm = nn::NormKind::unbiased;
        }).find("norm unbiased") == 0);
  CHECK(broken([](auto& c) { c.dropout = 1; }).find("dropout") == 0);
  CHECK(broken([](auto& c) { c.dropout = -0.1; }).find("dropout") == 0);
  CHECK(broken([](auto& c) { c.dropout = std::nan(""); }).find("dropout") == 0);
}
