// Passes over all windows, and mixtures of tokens.

#include <cstdlib>
#include <map>
#include <vector>

#include "tapegrad/base/error.h"
#include "tapegrad/data/loader.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/data/counting_tokens.h"

using namespace tapegrad;
using namespace tapegrad::data;
using namespace tapegrad::testing;

namespace {

// The batches of one pass, as the numbers of their windows.
std::vector<std::vector<Token>> pass_of(EpochLoader& loader, int64_t stride) {
  std::vector<std::vector<Token>> batches;
  for (int64_t i = 0; i < loader.batches_per_epoch(); ++i) {
    batches.push_back(starts(loader.next()));
    for (Token& start : batches.back()) start /= static_cast<Token>(stride);
  }
  return batches;
}

}  // namespace

// In PyTorch 2.6: torch.manual_seed(5), then for two passes
// list(DataLoader(torch.arange(10), batch_size=3, shuffle=True, drop_last=True)), then one over a
// DataLoader without shuffle and drop_last, and torch.rand(()).
TEST_CASE("passes are those of PyTorch's DataLoader, and draw what it draws", "[loader]") {
  const std::vector<Token> tokens = counting(10 * 4 + 1);
  EpochLoader shuffled(tokens, {.batch_size = 3, .block_size = 4, .stride = 4}, Rng(5));
  using Passes = std::vector<std::vector<Token>>;
  CHECK(pass_of(shuffled, 4) == Passes{{8, 3, 0}, {5, 9, 1}, {6, 2, 4}});
  CHECK(pass_of(shuffled, 4) == Passes{{5, 8, 9}, {7, 2, 0}, {4, 1, 3}});
  EpochLoader ordered(
      tokens, {.batch_size = 3, .block_size = 4, .stride = 4, .shuffle = false, .drop_last = false},
      shuffled.rng());
  CHECK(pass_of(ordered, 4) == Passes{{0, 1, 2}, {3, 4, 5}, {6, 7, 8}, {9}});
  CHECK(ordered.rng().uniform() == 0.606428564F);
}

TEST_CASE("windows begin a stride apart, as long as their last target exists", "[loader]") {
  for (const auto& [tokens, windows] : {std::pair{5, 1}, {7, 1}, {8, 2}, {10, 2}, {11, 3}}) {
    const std::vector<Token> text = counting(tokens);
    EpochLoader loader(text, {.batch_size = 1, .block_size = 4, .stride = 3, .shuffle = false},
                       Rng(1));
    CHECK(loader.batches_per_epoch() == windows);
    std::vector<Token> last;
    for (int i = 0; i < windows; ++i) {
      const Batch batch = loader.next();
      CHECK(starts(batch) == std::vector<Token>{static_cast<Token>(3 * i)});
      last = batch.targets;
    }
    CHECK(last.back() <= text.back());
    CHECK(last.back() + 3 > text.back());
  }
}

TEST_CASE("a restored pass goes on where it was", "[loader]") {
  const std::vector<Token> tokens = counting(101);
  const EpochLoader::Options options{.batch_size = 3, .block_size = 5, .stride = 4};
  for (const int done : {0, 1, 7, 8, 9}) {
    EpochLoader loader(tokens, options, Rng(42));
    CHECK(loader.batches_per_epoch() == 8);
    for (int i = 0; i < done; ++i) loader.next();
    EpochLoader restored(tokens, options, Rng(0));
    restored.set_state(loader.state());
    CHECK(restored.state() == loader.state());
    for (int i = 0; i < 20; ++i) CHECK(restored.next().inputs == loader.next().inputs);
  }
}

TEST_CASE("a pass goes on at its next window with another batch size", "[loader]") {
  const std::vector<Token> tokens = counting(101);  // 24 windows
  const auto options = [](int64_t batch_size, bool drop_last = true) {
    return EpochLoader::Options{
        .batch_size = batch_size, .block_size = 5, .stride = 4, .drop_last = drop_last};
  };
  EpochLoader whole(tokens, options(24), Rng(42));
  const std::vector<Token> order = starts(whole.next()), next_order = starts(whole.next());
  for (const int64_t before : {1, 3, 10}) {
    for (const int64_t after : {1, 2, 5, 7}) {
      EpochLoader loader(tokens, options(before), Rng(42));
      for (int i = 0; i < 2; ++i) loader.next();
      EpochLoader resumed(tokens, options(after, false), Rng(0));
      resumed.set_state(loader.state());
      std::vector<Token> rest;
      while (rest.size() < order.size() - static_cast<size_t>(2 * before)) {
        const std::vector<Token> batch = starts(resumed.next());
        rest.insert(rest.end(), batch.begin(), batch.end());
      }
      CHECK(rest == std::vector<Token>(order.begin() + 2 * before, order.end()));
      // What comes then is the next pass.
      const std::vector<Token> first = starts(resumed.next());
      CHECK(first == std::vector<Token>(next_order.begin(), next_order.begin() + after));
    }
  }
  // At the end of a pass, and with too few windows for one more batch.
  EpochLoader loader(tokens, options(5), Rng(42));
  for (int i = 0; i < 4; ++i) loader.next();
  EpochLoader resumed(tokens, options(6), Rng(0));
  resumed.set_state(loader.state());
  CHECK(starts(resumed.next()) == std::vector<Token>(next_order.begin(), next_order.begin() + 6));
}

TEST_CASE("a loader knows whether a pass ended with one of the last batches", "[loader]") {
  const std::vector<Token> tokens = counting(101);  // 24 windows
  for (const bool drop_last : {true, false}) {
    EpochLoader loader(
        tokens, {.batch_size = 5, .block_size = 5, .stride = 4, .drop_last = drop_last}, Rng(1));
    CHECK_FALSE(loader.ended_epoch(1));
    CHECK_FALSE(loader.ended_epoch(100));
    const int64_t pass = loader.batches_per_epoch();
    for (int64_t made = 1; made <= 4 * pass; ++made) {
      loader.next();
      for (int64_t last = 1; last <= std::min(made, 3 * pass); ++last) {
        INFO(made << " batches, of the last " << last);
        CHECK(loader.ended_epoch(last) == (made / pass > (made - last) / pass));
      }
    }
  }
}

TEST_CASE("a broken state of a pass is an Error and changes nothing", "[loader]") {
  const std::vector<Token> tokens = counting(101);
  EpochLoader loader(tokens, {.batch_size = 3, .block_size = 5, .stride = 4}, Rng(42));
  loader.next();
  const std::string state = loader.state();
  const std::string rng = state.substr(state.find("torch"));
  for (const std::string& bad :
       {std::string("rubbish"), "window 25 1 " + rng, "window -2 1 " + rng, "window 1 " + rng,
        std::string("window 1 2 "), std::string("window 1 2"), "window 1 2 x" + rng, "1 2 " + rng,
        std::string("window"), std::string()}) {
    CHECK_THROWS_AS(loader.set_state(bad), Error);
  }
  CHECK_THROWS_WITH(loader.set_state("window 25 1 " + rng),
                    "[loader] saved state: window 25 of an epoch of 24 windows");
  CHECK(loader.state() == state);
}

TEST_CASE("tokens that do not fill a batch are an Error with the numbers", "[loader]") {
  const std::vector<Token> tokens = counting(9);
  CHECK_THROWS_WITH(
      EpochLoader(tokens, {.batch_size = 3, .block_size = 4, .stride = 4}, Rng(1)),
      ContainsSubstring("the training split has 2 windows of 4 tokens, which do not fill a batch "
                        "of 3"));
  CHECK_THROWS_WITH(EpochLoader(tokens, {.batch_size = 3, .block_size = 9, .stride = 4}, Rng(1)),
                    ContainsSubstring("9 tokens"));
  CHECK_THROWS_WITH(EpochLoader(tokens, {.batch_size = 1, .block_size = 4, .stride = 0}, Rng(1)),
                    ContainsSubstring("stride is 0"));
  CHECK_NOTHROW(EpochLoader(
      tokens, {.batch_size = 3, .block_size = 4, .stride = INT64_MAX, .drop_last = false}, Rng(1)));
}

namespace {

// 0 … 99 and 100 … 159, of which the latter have the weight.
TokenSource two_parts(const std::vector<Token>& tokens, double weight) {
  return TokenSource(tokens).mixed({{0, 100, 1}, {100, 160, weight}});
}

}  // namespace

TEST_CASE("random windows are drawn from each part of a mixture as its weight says", "[loader]") {
  const std::vector<Token> tokens = counting(160);
  Loader loader(two_parts(tokens, 3), 100, 10, Rng(1));
  int in_second = 0;
  for (int i = 0; i < 50; ++i) {
    for (const Token start : starts(loader.next())) {
      CHECK((start < 90 || (start >= 100 && start < 150)));
      in_second += start >= 100 ? 1 : 0;
    }
  }
  // 3 · 50 starts of 90 + 150: 3,125 of 5,000, with a standard deviation of 34.
  CHECK(std::abs(in_second - 3125) < 5 * 34);
}

TEST_CASE("a pass has the windows of each part of a mixture as often as its weight says",
          "[loader]") {
  const std::vector<Token> tokens = counting(160);
  const double weight = GENERATE(2.0, 0.5, 1.5);
  const EpochLoader::Options options{.batch_size = 2, .block_size = 9, .stride = 10};
  EpochLoader loader(two_parts(tokens, weight), options, Rng(1));
  for (int pass = 0; pass < 2; ++pass) {
    std::map<Token, int> seen;
    for (std::int64_t i = 0; i < loader.batches_per_epoch(); ++i) {
      for (const Token start : starts(loader.next())) ++seen[start];
    }
    int of_second = 0;
    for (const auto& [start, count] : seen) {
      CHECK(start % 10 == 0);
      if (start >= 100) of_second += count;
    }
    // The last batch is left out if it is not full.
    const int all = 10 + static_cast<int>(6 * weight),
              made = 2 * static_cast<int>(loader.batches_per_epoch());
    CHECK(made == all / 2 * 2);
    CHECK(std::abs(of_second - static_cast<int>(6 * weight)) <= all - made);
  }
}

TEST_CASE("loaders of a mixture go on where their state was taken, and skip what they would read",
          "[loader]") {
  const std::vector<Token> tokens = counting(160);
  const TokenSource mixed = two_parts(tokens, 1.5);
  const EpochLoader::Options options{.batch_size = 3, .block_size = 9, .stride = 4};
  EpochLoader passes(mixed, options, Rng(1)), passes_again(mixed, options, Rng(2));
  Loader random(mixed, 3, 9, Rng(1)), random_again(mixed, 3, 9, Rng(2));
  for (int i = 0; i < 60; ++i) {
    if (i % 7 == 0) passes_again.set_state(passes.state());
    if (i % 7 == 0) random_again.set_state(random.state());
    CHECK(passes.next().inputs == passes_again.next().inputs);
    CHECK(random.next().inputs == random_again.next().inputs);
    if (i % 5 == 0) {
      passes.skip();
      passes_again.next();
      random.skip();
      random_again.next();
    }
  }
}

TEST_CASE("a part of a mixture must have a window, and parts lie side by side", "[loader]") {
  const std::vector<Token> tokens = counting(160);
  CHECK_THROWS_WITH(Loader(two_parts(tokens, 2), 1, 60, Rng(1)),
                    ContainsSubstring("part of the training split's mixture has 60 tokens"));
  CHECK_THROWS_WITH(TokenSource(tokens).mixed({{0, 100, 1}, {90, 160, 1}}),
                    ContainsSubstring("behind 100"));
  CHECK_THROWS_WITH(TokenSource(tokens).mixed({{0, 100, 1}}),
                    ContainsSubstring("where there are 160"));
}
