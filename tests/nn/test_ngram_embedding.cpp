// Embeddings of n-grams: which rows tokens have, in batches, documents and caches.

#include <set>

#include "tapegrad/nn/layers/ngram_embedding.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/nn/models.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

constexpr std::int32_t kNoToken = 11;  // with tiny_config()'s 11 tokens

nn::DecoderConfig ngram_config(int ngrams, std::int64_t rows = 16384) {
  nn::DecoderConfig config = tiny_config();
  config.positions = nn::Positions::rotary;
  config.ngrams = ngrams, config.ngram_rows = rows;
  return config;
}

struct NgramModel {
  explicit NgramModel(const nn::DecoderConfig& config)
      : params(rng, DType::f64), decoder(params, config) {
    randomize(params.parameters(), rng);
  }
  // Row `row` of the embedding of that name.
  Tensor row(const std::string& name, std::int64_t row) const {
    for (const auto& [other, t] : params.parameters()) {
      if (other == name + ".weight") return slice(t, 0, row, row + 1);
    }
    throw std::runtime_error(name);
  }
  Rng rng{7};
  nn::Params params;
  nn::Decoder decoder;
};

Tensor row_of(const std::vector<std::int32_t>& tokens) {
  return Tensor::from(tokens, {1, std::ssize(tokens)});
}

// What a model of pairs and triples adds up for the last of three tokens.
Tensor sum_of(const NgramModel& m, const std::vector<std::int32_t>& ngram) {
  const auto last = std::span(ngram);
  return m.row("wte", ngram[2]) + m.row("ngrams.2", nn::ngram_row(last.last(2), 11, 144)) +
         m.row("ngrams.3", nn::ngram_row(last, 11, 1728));
}

}  // namespace

TEST_CASE("n-grams have rows of their own while these last, and share them then", "[ngrams]") {
  CHECK(nn::ngram_rows(11, 2, 16384) == 144);
  CHECK(nn::ngram_rows(11, 3, 1728) == 1728);
  CHECK(nn::ngram_rows(11, 3, 1727) == 1727);
  CHECK(nn::ngram_rows(1 << 24, 8, 1 << 24) == 1 << 24);
  std::set<std::int64_t> own, shared;
  for (std::int32_t a = 0; a <= kNoToken; ++a) {
    for (std::int32_t b = 0; b <= kNoToken; ++b) {
      own.insert(nn::ngram_row(std::vector{a, b}, 11, 144));
      shared.insert(nn::ngram_row(std::vector{a, b}, 11, 100));
    }
  }
  CHECK(own.size() == 144);
  CHECK(*own.rbegin() == 143);
  CHECK(shared.size() > 55);  // of 100 rows, 144 n-grams at random leave 24 empty
  CHECK(*shared.rbegin() < 100);
  CHECK(*shared.begin() >= 0);
}

TEST_CASE("a token's embedding gets those of the n-grams that it ends", "[ngrams]") {
  const NgramModel m(ngram_config(3));
  const Tensor ids = Tensor::from({3, 1, 4, 1, 5, 9}, {2, 3});
  const auto same = [](const Tensor& embedded, std::int64_t b, std::int64_t t, const Tensor& sum) {
    const Tensor x = slice(slice(embedded, 0, b, b + 1), 1, t, t + 1);
    return difference(x.view({1, 8}), sum, 1e-12, 1e-12) == "";
  };
  const Tensor x = m.decoder.embed(ids);
  CHECK(same(x, 0, 0, sum_of(m, {kNoToken, kNoToken, 3})));
  CHECK(same(x, 0, 1, sum_of(m, {kNoToken, 3, 1})));
  CHECK(same(x, 0, 2, sum_of(m, {3, 1, 4})));
  CHECK(same(x, 1, 0, sum_of(m, {kNoToken, kNoToken, 1})));
  CHECK(same(x, 1, 2, sum_of(m, {1, 5, 9})));
  // A document begins at the last token of the second row.
  const Tensor starts = Tensor::from({0, 0, 0, 0, 0, 2}, {2, 3});
  const Tensor apart = m.decoder.embed({ids, starts});
  CHECK(same(apart, 1, 1, sum_of(m, {kNoToken, 1, 5})));
  CHECK(same(apart, 1, 2, sum_of(m, {kNoToken, kNoToken, 9})));
}

TEST_CASE("a cache knows the tokens before, whatever became of it", "[ngrams]") {
  const NgramModel m(ngram_config(3));
  const auto after = [&](nn::KVCache& cache, std::int32_t token) {
    nn::KVCache* const one = &cache;
    return m.decoder.embed(row_of({token}), {&one, 1});
  };
  const auto last_of = [&](const std::vector<std::int32_t>& tokens) {
    return nn::last_position(m.decoder.embed(row_of(tokens))).view({1, 1, 8});
  };
  nn::KVCache cache;
  m.decoder.states(row_of({3, 1, 4, 1}), cache);
  CHECK(same_bits(after(cache, 5), last_of({3, 1, 4, 1, 5})));
  nn::KVCache copy = cache.first(3, 6);
  CHECK(same_bits(after(copy, 5), last_of({3, 1, 4, 5})));
  copy.truncate(1);
  CHECK(same_bits(after(copy, 5), last_of({3, 5})));
  m.decoder.drop(cache, 1, 3);
  CHECK(same_bits(after(cache, 5), last_of({3, 1, 5})));
  m.decoder.states(row_of({7}), cache);
  CHECK(same_bits(after(cache, 5), last_of({3, 1, 7, 5})));
  cache.clear();
  CHECK(same_bits(after(cache, 5), last_of({5})));
}

TEST_CASE("rows of one cache are tokens that follow each other", "[ngrams]") {
  const NgramModel m(ngram_config(3, 50));
  nn::KVCache a, b;
  m.decoder.states(row_of({3, 1}), a);
  m.decoder.states(row_of({2}), b);
  const std::vector<nn::KVCache*> caches = {&a, &a, &a, &b};
  const Tensor states = m.decoder.states(Tensor::from({4, 1, 5, 9}, {4, 1}), caches);
  const auto whole = [&](const std::vector<std::int32_t>& tokens) {
    return nn::last_position(m.decoder.residual_stream(m.decoder.embed(row_of(tokens))).back());
  };
  const auto row = [&](std::int64_t i) { return slice(states, 0, i, i + 1).view({1, 8}); };
  CHECK(difference(row(0), whole({3, 1, 4}), 1e-11, 1e-12) == "");
  CHECK(difference(row(2), whole({3, 1, 4, 1, 5}), 1e-11, 1e-12) == "");
  CHECK(difference(row(3), whole({2, 9}), 1e-11, 1e-12) == "");
  CHECK(std::ssize(a.tokens()) == a.length());
}

TEST_CASE("rows of n-grams need n-grams", "[ngrams]") {
  CHECK_THROWS_WITH(NgramModel(ngram_config(1, 50)), "ngram_rows needs ngrams");
}
