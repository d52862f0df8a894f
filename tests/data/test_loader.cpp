#include <set>
#include <vector>

#include "tapegrad/base/error.h"
#include "tapegrad/data/loader.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/data/counting_tokens.h"

using namespace tapegrad;
using namespace tapegrad::data;
using namespace tapegrad::testing;

TEST_CASE("windows begin where torch.randint(len - block_size, (batch_size,)) says", "[loader]") {
  const std::vector<Token> tokens = counting(100);
  Loader loader(tokens, 4, 8, Rng(1337));
  CHECK(starts(loader.next()) == std::vector<Token>{83, 37, 52, 56});
  CHECK(starts(loader.next()) == std::vector<Token>{11, 33, 75, 82});
}

TEST_CASE("a batch holds rows of consecutive tokens, and targets one step ahead", "[loader]") {
  const std::vector<Token> tokens = counting(50);
  Loader loader(tokens, 3, 5, Rng(1));
  const Batch batch = loader.next();
  CHECK(batch.B == 3);
  CHECK(batch.T == 5);
  REQUIRE(batch.inputs.size() == 15);
  REQUIRE(batch.targets.size() == 15);
  for (size_t i = 0; i < 15; ++i) {
    CHECK(batch.inputs[i] == batch.inputs[i / 5 * 5] + static_cast<Token>(i % 5));
    CHECK(batch.targets[i] == batch.inputs[i] + 1);
  }
}

TEST_CASE("every window occurs, the first and the last included", "[loader]") {
  const std::vector<Token> tokens = counting(10);
  Loader loader(tokens, 100, 7, Rng(3));
  const std::vector<Token> firsts = starts(loader.next());
  CHECK(std::set<Token>(firsts.begin(), firsts.end()) == std::set<Token>{0, 1, 2});
}

TEST_CASE("a restored loader goes on with the same batches", "[loader]") {
  const std::vector<Token> tokens = counting(1000);
  Loader loader(tokens, 5, 7, Rng(42));
  loader.next();
  const std::string state = loader.state();
  const Batch second = loader.next();
  const Batch third = loader.next();

  Loader restored(tokens, 5, 7, Rng(0));
  restored.set_state(state);
  CHECK(restored.next().inputs == second.inputs);
  CHECK(restored.next().inputs == third.inputs);
  CHECK(restored.state() == loader.state());
}

TEST_CASE("a broken loader state is an Error and changes nothing", "[loader]") {
  const std::vector<Token> tokens = counting(1000);
  Loader loader(tokens, 5, 7, Rng(42));
  const std::string state = loader.state();
  CHECK_THROWS_AS(loader.set_state("rubbish"), Error);
  CHECK_THROWS_AS(loader.set_state(state.substr(0, state.size() / 2)), Error);
  CHECK(loader.state() == state);
}

TEST_CASE("a split shorter than a window is an Error with the numbers", "[loader]") {
  const std::vector<Token> tokens = counting(64);
  CHECK_THROWS_WITH(Loader(std::span(tokens).first(40), 4, 64, Rng(1)),
                    ContainsSubstring("the training split has 40 tokens, but block_size 64 needs "
                                      "at least 65: "));
  CHECK_THROWS_WITH(Loader(tokens, 4, 64, Rng(1), "validation"),
                    ContainsSubstring("the validation split has 64 tokens"));
  CHECK_NOTHROW(Loader(tokens, 4, 63, Rng(1)).next());
}

TEST_CASE("batch sizes without sense are Errors", "[loader]") {
  const std::vector<Token> tokens = counting(64);
  for (const auto& [batch_size, block_size] :
       {std::pair<int64_t, int64_t>{0, 8}, {-1, 8}, {4, 0}, {4, -8}, {INT64_MAX, 8}}) {
    CHECK_THROWS_AS(Loader(tokens, batch_size, block_size, Rng(1)), Error);
    CHECK_THROWS_AS(SequentialBatches(tokens, batch_size, block_size), Error);
  }
  CHECK_THROWS_AS(SequentialBatches(tokens, 1, INT64_MAX), Error);
}

TEST_CASE("sequential batches have every target exactly once, in order", "[loader]") {
  for (const int64_t n : {2, 3, 5, 9, 16, 17, 33, 100, 101}) {
    for (const int64_t batch_size : {1, 3, 4}) {
      const std::vector<Token> tokens = counting(n);
      const SequentialBatches batches(tokens, batch_size, 8);
      std::vector<Token> targets;
      for (int64_t i = 0; i < batches.size(); ++i) {
        const Batch batch = batches[i];
        CHECK(batch.B <= batch_size);
        CHECK(batch.T <= 8);
        REQUIRE(batch.inputs.size() == static_cast<size_t>(batch.B * batch.T));
        for (size_t k = 0; k < batch.inputs.size(); ++k) {
          REQUIRE(batch.targets[k] == batch.inputs[k] + 1);
        }
        targets.insert(targets.end(), batch.targets.begin(), batch.targets.end());
      }
      CHECK(targets == std::vector<Token>(tokens.begin() + 1, tokens.end()));
    }
  }
}

TEST_CASE("every token but the first is a target once, whatever the stride", "[loader]") {
  for (const int64_t n : {2, 7, 8, 9, 10, 16, 17, 18, 100}) {
    for (const int64_t stride : {1, 2, 5, 7, 8}) {
      INFO(n << " tokens, stride " << stride);
      const std::vector<Token> tokens = counting(n);
      const SequentialBatches batches(tokens, 3, 8, stride), side_by_side(tokens, 3, 8);
      std::vector<Token> found;
      for (int64_t i = 0; i < batches.size(); ++i) {
        const Batch batch = batches[i];
        std::copy_if(batch.targets.begin(), batch.targets.end(), std::back_inserter(found),
                     [](Token t) { return t != kIgnoredTarget; });
        if (stride == 8) CHECK(batch.inputs == side_by_side[i].inputs);
      }
      CHECK(found == std::vector<Token>(tokens.begin() + 1, tokens.end()));
    }
  }
}

TEST_CASE("sequential batches with a stride are those of the recipe for perplexity", "[loader]") {
  constexpr int64_t length = 8;
  for (const int64_t n : {2, 3, 7, 8, 9, 16, 17, 33, 100, 101}) {
    for (const int64_t stride : {1, 3, 7}) {
      INFO(n << " tokens, stride " << stride);
      const std::vector<Token> tokens = counting(n);
      // As the recipe makes them: windows, and how many of their last tokens are new.
      std::vector<std::pair<Token, Token>> expected, found;  // target, its first context
      for (int64_t begin = 0, before = 0;; begin += stride) {
        const int64_t end = std::min(begin + length, n);
        for (int64_t t = std::max(before, begin + 1); t < end; ++t) {
          expected.emplace_back(tokens[static_cast<size_t>(t)], tokens[static_cast<size_t>(begin)]);
        }
        before = end;
        if (end == n) break;
      }
      const SequentialBatches batches(tokens, 3, length, stride);
      for (int64_t i = 0; i < batches.size(); ++i) {
        const Batch batch = batches[i];
        for (size_t k = 0; k < batch.targets.size(); ++k) {
          if (batch.targets[k] == kIgnoredTarget) continue;
          CHECK(batch.targets[k] == batch.inputs[k] + 1);
          const auto row = k / static_cast<size_t>(batch.T) * static_cast<size_t>(batch.T);
          found.emplace_back(batch.targets[k], batch.inputs[row]);
        }
      }
      CHECK(found == expected);
    }
  }
  const std::vector<Token> tokens = counting(20);
  CHECK_THROWS_WITH(SequentialBatches(tokens, 1, 8, 9), ContainsSubstring("stride is 9"));
  CHECK_THROWS_WITH(SequentialBatches(tokens, 1, 8, 0), ContainsSubstring("stride is 0"));
  CHECK_THROWS_WITH(SequentialBatches(tokens, 1, 1, 1), ContainsSubstring("at least 2"));
}

TEST_CASE("sequential batches are full until the rest", "[loader]") {
  const std::vector<Token> tokens = counting(1 + 5 * 8 + 3);
  const SequentialBatches batches(tokens, 4, 8);
  std::vector<std::pair<int64_t, int64_t>> shapes;
  for (int64_t i = 0; i < batches.size(); ++i) shapes.emplace_back(batches[i].B, batches[i].T);
  CHECK(shapes == std::vector<std::pair<int64_t, int64_t>>{{4, 8}, {1, 8}, {1, 3}});
}

TEST_CASE("sequential batches need two tokens", "[loader]") {
  const std::vector<Token> tokens = counting(1);
  CHECK_THROWS_WITH(SequentialBatches(tokens, 1, 8),
                    ContainsSubstring("the validation split has 1 tokens, but needs at least 2"));
  CHECK_THROWS_AS(SequentialBatches({}, 1, 8), Error);
}
