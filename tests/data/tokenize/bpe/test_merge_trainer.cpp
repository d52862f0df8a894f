// The pairs that training merges.

#include "tapegrad/data/tokenize/bpe/internal/merge_trainer.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad::data;

TEST_CASE("a run of a token that several merges make merges from the left", "[merge_trainer]") {
  constexpr Token a = 0, b = 1, c = 2, d = 3, made = 4, pair = 5;
  MergeTrainer trainer({1, 1, 1, 1}, 100);
  bool begins = true;
  for (const Token token : {c, d, a, b, a, b}) {
    trainer.append(token, begins, 2);
    begins = false;
  }
  trainer.count();
  CHECK(trainer.merge({a, b}) == made);
  trainer.merge_into({c, d}, made);
  CHECK(trainer.merge({made, made}) == pair);
  CHECK(trainer.take_best() == Merge{pair, made});
}
