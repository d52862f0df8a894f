#include <algorithm>

#include "tapegrad/apps/inspect/token_text.h"
#include "tapegrad/apps/inspect/views.h"
#include "tapegrad/base/text/utf8.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;

namespace {

nn::DecoderConfig config_of(int blocks, int heads, std::int64_t block_size) {
  nn::DecoderConfig config;
  config.n_layer = blocks, config.n_head = heads, config.n_embd = 2 * heads, config.n_inner = 8;
  config.block_size = block_size, config.vocab_size = 300;
  return config;
}

}  // namespace

TEST_CASE("the JSON of a look fits into its bound, whatever the model", "[inspect]") {
  CHECK(inspect::most_tokens(config_of(4, 4, 64)) == 64);
  CHECK(inspect::most_tokens(config_of(4, 4, 4096)) == 256);
  CHECK(inspect::most_tokens(config_of(12, 12, 1024)) == 182);  // as docs/watching.md says
  CHECK_THROWS_WITH(inspect::most_tokens(config_of(4096, 4096, 64)),
                    ContainsSubstring("4096 blocks of 4096 heads, which is too many to show"));
  // TokenSource with the longest texts, of a model whose attention is spread evenly or at random.
  std::string longest = "\"\"\\\\";
  for (int i = 0; i < 60; ++i) longest += "\"";
  std::vector<std::string> bytes(300);
  for (std::size_t i = 0; i < 300; ++i) bytes[i] = longest + std::to_string(i);
  for (const auto& [blocks, heads] : {std::pair(12, 12), std::pair(2, 2), std::pair(150, 1)}) {
    const nn::DecoderConfig config = config_of(blocks, heads, 1024);
    const std::int64_t T = inspect::most_tokens(config);
    CHECK(T > 40);
    Rng rng(1);
    const nn::Params params(rng);
    const nn::Decoder model(params, config);
    std::vector<data::Token> tokens;
    for (std::int64_t t = 0; t < T; ++t) tokens.push_back(static_cast<data::Token>(t % 300));
    inspect::Look look{
        .model = std::string(4096, '"'),
        .step = std::int64_t{1} << 62,
        .bytes_of = [&](data::Token t) { return bytes[static_cast<std::size_t>(t)]; },
        .text_tokens = 1 << 20,
        .inside = inspect::look_inside(model, tokens)};
    const auto size = std::ssize(inspect::json_text(look));
    CHECK(size <= inspect::kMostJson);
    if (blocks * heads > 4) CHECK(size > inspect::kMostJson / 3);  // the bound is not far off
  }
}

TEST_CASE("attention of many heads fits into its bound, however it is spread", "[inspect]") {
  const int heads = 4000;
  const std::int64_t T = inspect::most_tokens(config_of(1, heads, 1024));
  std::vector<std::uint16_t> longest;  // as many digits as rows that sum to 1000 can have
  for (int n = 1; n <= T; ++n) {
    const int long_ones = std::clamp((1000 - 10 * n) / 90, 0, n);
    for (int i = 0; i < n; ++i) longest.push_back(n == 1 ? 1000 : i < long_ones ? 100 : 10);
  }
  inspect::Look look{.model = "m", .step = {}, .bytes_of = {}, .text_tokens = T, .inside = {}};
  look.inside.attention.emplace_back(heads, longest);
  const auto size = std::ssize(inspect::json_text(look));
  CHECK(size <= inspect::kMostJson);
  CHECK(size > inspect::kMostJson / 2);
}

TEST_CASE("a token's text is short, valid UTF-8 that controls nothing", "[inspect]") {
  using inspect::token_text;
  CHECK(token_text(" the\n\t") == " the\n\t");
  CHECK(token_text("\xE2\x82") == "<0xE2><0x82>");
  CHECK(token_text("\xE2\x82\xAC\xAC") == "€<0xAC>");
  CHECK(token_text("a\x1B\x7F") == "a<U+001B><U+007F>");
  CHECK(token_text("\xE2\x80\xAE!") == "<U+202E>!");
  CHECK(token_text("\xC2\xAD\xD8\x9C\xE1\xA0\x8E") == "<U+00AD><U+061C><U+180E>");
  CHECK(token_text("\xEF\xBF\xB9\xEF\xBF\xBB\xEF\xBF\xBC") == "<U+FFF9><U+FFFB>\uFFFC");
  CHECK(token_text("\xF3\xA0\x80\x80\xF3\xA0\x81\xBF") == "<U+E0000><U+E007F>");
  CHECK(token_text(std::string(64, 'a')) == std::string(64, 'a'));
  CHECK(token_text(std::string(65, 'a')) == std::string(61, 'a') + "…");
  for (std::size_t n = 1; n < 60; ++n) {
    std::string bytes;
    for (std::size_t i = 0; i < n; ++i) bytes += i % 3 == 0 ? "\xFF" : "中";
    const std::string text = token_text(bytes);
    CHECK(text.size() <= inspect::kMostTokenText);
    CHECK(!find_invalid_utf8(text));
  }
}
