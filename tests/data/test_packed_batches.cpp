// Rows of whole conversations.

#include <algorithm>
#include <map>

#include "tapegrad/base/error.h"
#include "tapegrad/data/packed_batches.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::data;

namespace {

// Conversation i has the tokens 100 i, 100 i + 1, …, of which the last two are an answer, and two
// more before them if there are six or more.
ChatTokens chat(int i, int length) {
  ChatTokens chat;
  for (int t = 0; t < length; ++t) chat.tokens.push_back(100 * i + t);
  if (length >= 6) chat.answers.push_back({length - 5, length - 3});
  chat.answers.push_back({length - 2, length});
  return chat;
}

std::shared_ptr<const ChatSet> set_of(const std::vector<int>& lengths) {
  auto set = std::make_shared<ChatSet>();
  for (int i = 0; i < static_cast<int>(lengths.size()); ++i) {
    set->add(chat(i, lengths[static_cast<std::size_t>(i)]));
  }
  set->files.push_back({set->size(), 1});
  return set;
}

// How often each conversation is in the batches, by its first token.
std::map<Token, int> visits(PackedBatches& batches, std::int64_t count) {
  std::map<Token, int> seen;
  for (std::int64_t i = 0; i < count; ++i) {
    const Batch batch = batches.next();
    for (std::size_t t = 0; t < batch.inputs.size(); ++t) {
      const bool begins = batch.document_starts[t] == static_cast<int>(t) % batch.T;
      const bool counts =
          std::any_of(batch.targets.begin() + static_cast<std::ptrdiff_t>(t),
                      batch.targets.begin() + static_cast<std::ptrdiff_t>((t / 8 + 1) * 8),
                      [](Token target) { return target != kIgnoredTarget; });
      if (begins && counts) ++seen[batch.inputs[t] / 100];
    }
  }
  return seen;
}

const PackedBatches::Options kInOrder{.batch_size = 4, .block_size = 8, .shuffle = false};

}  // namespace

TEST_CASE("a row has whole conversations, and their answers are its targets", "[packed_batches]") {
  // 5 + 3 places fill a row; 4 and 2 share one with two places left.
  PackedBatches batches(set_of({5, 4, 6, 3}), kInOrder, Rng(1));
  const Batch batch = batches.next();
  REQUIRE(batch.B == 2);
  constexpr Token x = kIgnoredTarget;
  CHECK(batch.inputs == std::vector<Token>{200, 201, 202, 203, 204, 100, 101, 102,  //
                                           0, 1, 2, 3, 300, 301, 0, 0});
  CHECK(batch.targets == std::vector<Token>{201, 202, x, 204, 205, x, 102, 103,  //
                                            x, x, 3, 4, 301, 302, x, x});
  CHECK(batch.document_starts == std::vector<std::int32_t>{0, 0, 0, 0, 0, 5, 5, 5,  //
                                                           0, 0, 0, 0, 4, 4, 6, 6});
  CHECK(batches.batches_per_epoch() == 1);
  CHECK(batches.next().inputs == batch.inputs);  // the next epoch
}

TEST_CASE("the loss counts all answers, the last one or everything", "[packed_batches]") {
  const ChatTokens c = chat(1, 6);
  CHECK(counted_targets(c, ChatLoss::answers) == 4);
  CHECK(counted_targets(c, ChatLoss::last) == 2);
  CHECK(counted_targets(c, ChatLoss::all) == 5);
  const auto loss = GENERATE(ChatLoss::answers, ChatLoss::last, ChatLoss::all);
  PackedBatches::Options options = kInOrder;
  options.loss = loss;
  PackedBatches batches(set_of({6}), options, Rng(1));
  const auto counted = batches.counted(1);
  const Batch batch = batches.next();
  CHECK(std::ssize(batch.targets) -
            std::count(batch.targets.begin(), batch.targets.end(), kIgnoredTarget) ==
        counted_targets(c, loss));
  CHECK(counted == std::vector<std::int64_t>{counted_targets(c, loss)});
}

TEST_CASE("an epoch has each conversation as often as its file's weight says", "[packed_batches]") {
  std::vector<int> lengths;
  for (int i = 0; i < 40; ++i) lengths.push_back(3 + i % 7);
  auto set = std::make_shared<ChatSet>(*set_of(lengths));
  set->files = {{10, 2}, {20, 0.5}, {10, 1}};
  PackedBatches batches(set, {.batch_size = 1, .block_size = 8}, Rng(1));

  batches.skip();
  while (!batches.ended_epoch(1)) batches.skip();
  // What begins now is an epoch. Its rows may be fewer or more than the last one's.
  std::map<Token, int> seen;
  do {
    for (const auto& [i, count] : visits(batches, 1)) seen[i] += count;
  } while (!batches.ended_epoch(1));
  int drawn = 0;
  for (int i = 0; i < 40; ++i) {
    if (i < 10) CHECK(seen[i] == 2);
    if (i >= 10 && i < 30) drawn += seen[i];
    if (i >= 30) CHECK(seen[i] == 1);
  }
  CHECK(drawn == 10);
}

TEST_CASE("epochs are shuffled anew, and fill every batch", "[packed_batches]") {
  std::vector<int> lengths;
  for (int i = 0; i < 50; ++i) lengths.push_back(3 + i % 7);
  PackedBatches batches(set_of(lengths), {.batch_size = 3, .block_size = 8}, Rng(1));
  std::vector<std::vector<Token>> first, second;
  const auto rows = batches.batches_per_epoch();
  for (std::int64_t i = 0; i < rows; ++i) first.push_back(batches.next().inputs);
  for (std::int64_t i = 0; i < rows; ++i) second.push_back(batches.next().inputs);
  CHECK(first != second);
  for (const auto& inputs : first) CHECK(inputs.size() == 24);
}

TEST_CASE("counted() tells what the next batches count, across epochs, whoever draws between them",
          "[packed_batches]") {
  std::vector<int> lengths;
  for (int i = 0; i < 30; ++i) lengths.push_back(3 + i % 7);
  PackedBatches batches(set_of(lengths), {.batch_size = 3, .block_size = 8}, Rng(1));
  for (int round = 0; round < 20; ++round) {
    for (const std::int64_t count : batches.counted(2)) {
      const Batch batch = batches.next();
      batches.rng().next64();  // as dropout does with one generator for everything
      CHECK(std::ssize(batch.targets) -
                std::count(batch.targets.begin(), batch.targets.end(), kIgnoredTarget) ==
            count);
    }
  }
}

TEST_CASE("packed batches go on where their state was taken", "[packed_batches]") {
  std::vector<int> lengths;
  for (int i = 0; i < 30; ++i) lengths.push_back(3 + i % 7);
  const auto set = set_of(lengths);
  const PackedBatches::Options options{.batch_size = 3, .block_size = 8};
  PackedBatches batches(set, options, Rng(1)), again(set, options, Rng(2));
  again.set_state(batches.state());  // before the first epoch
  for (int i = 0; i < 25; ++i) {
    CHECK(batches.next().inputs == again.next().inputs);
    if (i % 4 == 0) again.set_state(batches.state());
    if (i % 5 == 0) batches.skip(), again.skip();
  }
  const std::string state = batches.state();
  for (const std::string& broken :
       {std::string(), std::string("window 1 2 3"), std::string("packed row x"),
        std::string("packed row 1"), "packed row 999 1 " + Rng(1).state(), state + "x"}) {
    CHECK_THROWS_AS(batches.set_state(broken), Error);
    CHECK(batches.state() == state);
  }
}

TEST_CASE("conversations that no row has room for are refused", "[packed_batches]") {
  CHECK_THROWS_WITH(PackedBatches(set_of({10}), kInOrder, Rng(1)),
                    ContainsSubstring("10 tokens is longer than a row of 8"));
  CHECK_THROWS_WITH(PackedBatches(std::make_shared<ChatSet>(), kInOrder, Rng(1)),
                    ContainsSubstring("no conversation"));
  auto faint = std::make_shared<ChatSet>(*set_of({5}));
  faint->files[0].weight = 0.1;
  CHECK_THROWS_WITH(PackedBatches(faint, kInOrder, Rng(1)), ContainsSubstring("weights leave no"));
}

TEST_CASE("a conversation longer than the block loses its last turns", "[packed_batches]") {
  ChatTokens long_one = chat(1, 10);  // answers [5, 7) and [8, 10)
  REQUIRE(cut_at_turn(long_one, 9));
  CHECK(long_one.tokens.size() == 10);  // nine places
  REQUIRE(cut_at_turn(long_one, 8));
  CHECK(long_one.tokens.size() == 7);
  CHECK(long_one.answers == std::vector<TokenRange>{{5, 7}});
  CHECK_FALSE(cut_at_turn(long_one, 5));
}
