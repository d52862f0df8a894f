// Where documents begin in the windows of loaders.

#include "tapegrad/data/loader.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::data;

TEST_CASE("loaders say where documents begin, if they are kept apart", "[loader]") {
  using Starts = std::vector<std::int32_t>;
  const std::vector<Token> list = {5, 6, 9, 7, 8, 9, 9, 5, 5, 5, 9};  // 9 ends a document
  const auto rows = [&](bool begins_next, std::int64_t batch, std::int64_t block) {
    const TokenSource tokens = TokenSource(list).isolated({9, begins_next});
    return SequentialBatches(tokens, batch, block)[0].document_starts;
  };
  CHECK(rows(true, 1, 10) == Starts{0, 0, 2, 2, 2, 5, 6, 6, 6, 6});
  CHECK(rows(false, 1, 10) == Starts{0, 0, 0, 3, 3, 3, 6, 7, 7, 7});
  CHECK(rows(true, 2, 5) == Starts{0, 0, 2, 2, 2, 0, 1, 1, 1, 1});
  CHECK(rows(false, 2, 5) == Starts{0, 0, 0, 3, 3, 0, 1, 2, 2, 2});

  const TokenSource apart = TokenSource(list).isolated({9});
  CHECK(SequentialBatches(list, 1, 10)[0].document_starts.empty());
  CHECK(SequentialBatches(list, 1, 10)[0].targets == SequentialBatches(apart, 1, 10)[0].targets);
  EpochLoader pass(apart, {.batch_size = 2, .block_size = 5, .stride = 5, .shuffle = false},
                   Rng(1));
  CHECK(pass.next().document_starts == rows(true, 2, 5));
  Loader drawn(apart, 3, 4, Rng(1)), same(list, 3, 4, Rng(1));
  for (int i = 0; i < 5; ++i) {
    const Batch batch = drawn.next();
    CHECK(batch.inputs == same.next().inputs);
    REQUIRE(batch.document_starts.size() == 12);
    for (std::size_t t = 0; t < 12; ++t) {
      const auto begins = t % 4 > 0 && batch.inputs[t] == 9;
      const std::int32_t before = t % 4 == 0 ? 0 : batch.document_starts[t - 1];
      CHECK(batch.document_starts[t] == (begins ? static_cast<std::int32_t>(t % 4) : before));
    }
  }
}

TEST_CASE("tokens have several documents if an end lies between two", "[loader]") {
  const auto several = [](const std::vector<Token>& tokens, bool begins_next) {
    return has_documents(tokens, {9, begins_next});
  };
  for (const bool begins_next : {true, false}) {
    CHECK_FALSE(several({}, begins_next));
    CHECK_FALSE(several({9}, begins_next));
    CHECK_FALSE(several({1, 2, 9}, begins_next));
    CHECK(several({1, 9, 2}, begins_next));
    std::vector<Token> many(20'000, 3);
    CHECK_FALSE(several(many, begins_next));
    many[19'998] = 9;
    CHECK(several(many, begins_next));
  }
  CHECK_FALSE(several({9, 1, 2}, true));
  CHECK(several({9, 1, 2}, false));
}
