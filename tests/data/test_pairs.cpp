#include <set>

#include "tapegrad/base/error.h"
#include "tapegrad/data/pairs.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad::data;

namespace {

std::vector<std::string> texts(const std::vector<Pair>& pairs) {
  std::vector<std::string> list;
  for (const Pair& p : pairs) {
    list.push_back(std::to_string(p.line) + ":" + std::string(p.source) + ">" +
                   std::string(p.target));
  }
  return list;
}

using Strings = std::vector<std::string>;
using Tokens = std::vector<Token>;

// n pairs "s0 > t0", "s1 > t1", … as text.
std::string numbered(int n) {
  std::string text;
  for (int i = 0; i < n; ++i) {
    text += "s" + std::to_string(i) + "\tt" + std::to_string(i) + "\n";
  }
  return text;
}

}  // namespace

TEST_CASE("pairs are lines of source, tab and target", "[pairs]") {
  CHECK(texts(parse_pairs("a b\tc\nd\te f\n", "p")) == Strings{"1:a b>c", "2:d>e f"});
  CHECK(texts(parse_pairs("\n\na\tb\r\n\r\nc\td", "p")) == Strings{"3:a>b", "5:c>d"});
}

TEST_CASE("a malformed line is named by its number", "[pairs]") {
  const auto message = [](const std::string& line) { return "a\tb\n\n" + line + "\nc\td\n"; };
  CHECK_THROWS_WITH(parse_pairs(message("no tab"), "x.tsv"),
                    "[pairs] x.tsv: line 3 has no tab; a line is a source, a tab and a target");
  CHECK_THROWS_WITH(parse_pairs(message("a\tb\tc"), "x.tsv"),
                    ContainsSubstring("x.tsv: line 3 has more than one tab"));
  CHECK_THROWS_WITH(parse_pairs(message("\tb"), "x"), "[pairs] x: line 3 has an empty source");
  CHECK_THROWS_WITH(parse_pairs(message("a\t\r"), "x"), "[pairs] x: line 3 has an empty target");
  CHECK_THROWS_WITH(parse_pairs("\n\r\n", "x"), ContainsSubstring("x has no pairs"));
}

TEST_CASE("held-out pairs are the same for each call and never seen", "[pairs]") {
  const std::string text = numbered(50) + "s7\tother\n" + numbered(50);
  const auto pairs = parse_pairs(text, "p");
  const PairSplit split = hold_out(pairs, 20);
  CHECK(texts(split.held_out) == texts(hold_out(pairs, 20).held_out));
  CHECK(split.held_out.size() == 20);
  std::set<std::string_view> sources;
  for (const Pair& p : split.held_out) sources.insert(p.source);
  for (const Pair& p : split.train) CHECK(sources.count(p.source) == 0);
  // Nothing else is dropped.
  std::size_t kept = 0;
  for (const Pair& p : pairs) kept += sources.count(p.source) == 0;
  CHECK(split.train.size() == kept);
  // Drawn from the whole text, not from its end.
  CHECK(split.held_out.front().line < 30);
  CHECK(split.held_out.back().line > 70);

  CHECK_THROWS_WITH(hold_out(pairs, 0), ContainsSubstring("0 of 101 pairs cannot be held out"));
  CHECK_THROWS_WITH(hold_out(pairs, 101), ContainsSubstring("101 of 101"));
  const std::string same = "a\tb\na\tc\n";
  CHECK_THROWS_WITH(hold_out(parse_pairs(same, "p"), 1), ContainsSubstring("none is left"));
}

TEST_CASE("a pair that is too long or cannot be encoded is named with its lengths", "[pairs]") {
  const std::string text = "abc\tba\nabcab\tab\nab\tabcabc\n";
  const auto pairs = parse_pairs(text, "x.tsv");
  const Tokenizer tokenizer = Tokenizer::of_characters("abc");
  const auto encode = [&](std::int64_t block_size) {
    return encode_pairs(pairs, tokenizer, block_size, "x.tsv");
  };
  CHECK(encode(7)[1].source == Tokens{0, 1, 2, 0, 1});
  CHECK(encode(7)[0].target == Tokens{1, 0});
  CHECK_THROWS_WITH(
      encode(4), "[pairs] x.tsv: the source of line 2 has 5 tokens, and the model's longest has 4");
  // The token that ends a target needs a place, too.
  CHECK_THROWS_WITH(
      encode(6), "[pairs] x.tsv: the target of line 3 has 6 tokens, and the model's longest has 5");
  CHECK_THROWS_WITH(encode_pairs(pairs, Tokenizer::of_characters("ac"), 9, "x.tsv"),
                    ContainsSubstring("x.tsv: line 1, source: ") && ContainsSubstring("'b'"));
}

TEST_CASE("a batch is padded to its longest source and target", "[pairs]") {
  const std::vector<TokenPair> pairs = {{{1, 2, 3}, {4}}, {{5}, {6, 7}}};
  const SpecialTokens special(10);
  const PairBatch batch = make_batch(pairs, special);
  CHECK(batch.B == 2);
  CHECK(batch.S == 3);
  CHECK(batch.T == 3);
  CHECK(batch.sources == Tokens{1, 2, 3, 5, 10, 10});
  CHECK(batch.inputs == Tokens{11, 4, 10, 11, 6, 7});
  CHECK(batch.labels == Tokens{4, 12, -1, 6, 7, 12});
}

TEST_CASE("batches are stretches of pairs of like lengths, each pair drawn as often", "[pairs]") {
  std::vector<TokenPair> pairs;
  for (Token i = 0; i < 40; ++i) {
    pairs.push_back({Tokens(static_cast<std::size_t>(1 + i * 7 % 40), i), {i}});
  }
  const SpecialTokens special(40);
  PairLoader loader(pairs, 4, special, tapegrad::Rng(1));
  std::vector<int> drawn(40);
  for (int n = 0; n < 4000; ++n) {
    const PairBatch batch = loader.next();
    REQUIRE(batch.B == 4);
    for (std::int64_t b = 0; b < 4; ++b) {
      ++drawn[static_cast<std::size_t>(batch.labels[static_cast<std::size_t>(b * batch.T)])];
    }
    // All lengths from 1 to 40 occur once, so that a stretch spans 4 unless it goes on at 1.
    const auto first = batch.inputs[1],
               last = batch.inputs[static_cast<std::size_t>(3 * batch.T + 1)];
    const auto shorter =
        static_cast<std::int64_t>(pairs[static_cast<std::size_t>(first)].source.size());
    const auto longer =
        static_cast<std::int64_t>(pairs[static_cast<std::size_t>(last)].source.size());
    CHECK((longer == shorter + 3 || longer == shorter + 3 - 40));
  }
  for (const int n : drawn) CHECK((n > 300 && n < 500));
}

TEST_CASE("a loader goes on from its state", "[pairs]") {
  const std::vector<TokenPair> pairs = {{{1}, {1}}, {{2, 2}, {2}}, {{3, 3, 3}, {3}}};
  PairLoader a(pairs, 2, SpecialTokens(9), tapegrad::Rng(5));
  a.next();
  const std::string state = a.state();
  const PairBatch next = a.next();
  PairLoader b(pairs, 2, SpecialTokens(9), tapegrad::Rng(6));
  b.set_state(state);
  CHECK(b.next().sources == next.sources);
  CHECK_THROWS(b.set_state("nonsense"));
  CHECK_THROWS_WITH(PairLoader({}, 2, SpecialTokens(9), tapegrad::Rng(6)),
                    ContainsSubstring("batches of 2 of 0 pairs"));
}
