#include "tapegrad/nn/summary.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/nn/models.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

nn::DecoderConfig book_config() { return {.qkv_bias = false, .tied = false, .separate_qkv = true}; }

}  // namespace

TEST_CASE("the summary has the tutorials' counts for GPT-2", "[summary]") {
  const nn::Summary book = nn::summary(book_config());
  CHECK(book.parameters() == 163'009'536);
  CHECK(book.parameters_if_tied() == 124'412'160);
  CHECK(book.feed_forward_parameters() == 4'722'432);
  CHECK(book.mixer_parameters() == 4 * 768 * 768 + 768);
  const std::string text = book.str();
  CHECK_THAT(text, ContainsSubstring("163,009,536 parameters, 621.83 MB in f32") &&
                       ContainsSubstring("124,412,160 if the head shared wte's") &&
                       ContainsSubstring("4,722,432 of the feed-forward") &&
                       ContainsSubstring("2,360,064 of the attention"));

  const nn::Summary openai = nn::summary({});
  CHECK(openai.parameters() == 124'439'808);
  CHECK(openai.parameters_if_tied() == openai.parameters());
  CHECK(openai.mixer_parameters() == 2'362'368);
}

TEST_CASE("the summary counts what models are made of, whatever their options", "[summary]") {
  std::vector<nn::DecoderConfig> configs;
  for (int i = 0; i < 64; ++i) {
    nn::DecoderConfig c = tiny_config();
    c.bias = (i & 1) != 0;
    c.qkv_bias = (i & 2) != 0;
    c.tied = (i & 4) != 0;
    c.separate_qkv = (i & 8) != 0;
    if ((i & 16) != 0) c.positions = nn::Positions::rotary;
    if ((i & 32) != 0) c.n_inner = 13, c.mixer_pattern = "C", c.conv_bias = true;
    configs.push_back(c);
  }
  for (const nn::DecoderConfig& c : configs) {
    Rng rng(1);
    const nn::Params params(rng);
    const nn::GPT gpt(params, c);
    const nn::Summary s = nn::summary(c);
    CHECK(s.parameters() == params.count());
    // The rows are the layers, by their names.
    std::map<std::string, std::int64_t> counts;
    for (const auto& [name, t] : params.parameters()) {
      counts[name.substr(0, name.rfind('.'))] += t.numel();
    }
    for (const auto* rows : {&s.embeddings, &s.kinds.front().rows, &s.head}) {
      for (const nn::SummaryRow& row : *rows) {
        INFO(row.name);
        CHECK((counts.count(row.name) > 0 ? counts.at(row.name) : 0) == row.parameters());
      }
    }
  }
}

// A token of a forward pass: twice the weights of every linear, and for each of the 7/2 keys that
// it meets on average, 2·C for the score and 2·C for the value.
TEST_CASE("the summary's FLOPs are those of the products", "[summary]") {
  nn::DecoderConfig c = tiny_config();  // V 11, T 6, 2 layers, C 8
  const double block = 2 * (3 * 64 + 64 + 2 * 256) + 4 * 8 * 3.5;
  CHECK(nn::summary(c).flops() == 2 * block + 2 * 8 * 11);
  const nn::Summary shorter = nn::summary(c, 2);  // 3/2 keys, and no weight less
  CHECK(shorter.flops() == 2 * (block - 4 * 8 * 2) + 2 * 8 * 11);
  CHECK(shorter.parameters() == nn::summary(c).parameters());
  CHECK_THAT(shorter.str(), ContainsSubstring("a forward pass over 2 tokens"));
  c.separate_qkv = true;
  CHECK(nn::summary(c).flops() == 2 * block + 2 * 8 * 11);
}

TEST_CASE("the summary is a table by layer", "[summary]") {
  nn::DecoderConfig c = tiny_config();
  CHECK(nn::summary(c).str() ==
        "layer            weights        parameters  bytes  FLOPs per token\n"
        "wte              (11, 8)                88    352                0\n"
        "wpe              (6, 8)                 48    192                0\n"
        "h.0.ln_1         (8), (8)               16     64                0\n"
        "h.0.attn.c_attn  (24, 8), (24)         216    864              384\n"
        "h.0.attn         2 heads of 4            0      0              112\n"
        "h.0.attn.c_proj  (8, 8), (8)            72    288              128\n"
        "h.0.ln_2         (8), (8)               16     64                0\n"
        "h.0.mlp.c_fc     (32, 8), (32)         288  1,152              512\n"
        "h.0.mlp.c_proj   (8, 32), (8)          264  1,056              512\n"
        "h.0                                    872  3,488            1,648\n"
        "h.1              as h.0                872  3,488            1,648\n"
        "ln_f             (8), (8)               16     64                0\n"
        "lm_head          wte's                   0      0              176\n"
        "all                                  1,896  7,584            3,472\n"
        "\n"
        "1,896 parameters, 0.01 MB in f32\n"
        "in each block 288 of the attention, 552 of the feed-forward\n"
        "3.47e-06 GFLOPs per token of a forward pass over 6 tokens\n");
}

TEST_CASE("no model is too large for a summary", "[summary]") {
  nn::DecoderConfig c;
  c.vocab_size = 1 << 24;
  c.n_embd = 1 << 20;
  c.n_head = 1 << 16;
  c.n_layer = 4096;
  c.tied = false;
  CHECK(nn::summary(c).parameters() > std::int64_t{1} << 55);
  c.n_layer = 0;
  CHECK_THROWS_WITH(nn::summary(c), ContainsSubstring("n_layer"));
}
