// A file of turns: the first byte says how many tokens its conversations have; the rest is the
// file. What is accepted must describe exactly these tokens, and must be fit for rows.

#include <memory>

#include "tapegrad/data/chat_set.h"
#include "tapegrad/data/packed_batches.h"
#include "tapegrad/data/shards.h"
#include "tapegrad/data/turns.h"
#include "tapegrad/tests/fuzz/fuzz.h"

using namespace tapegrad;

namespace {

constexpr std::int64_t kBlock = 16;

// Whole conversations that a row has room for.
void check_rows(const std::shared_ptr<const data::ChatSet>& set) {
  data::PackedBatches batches(set, {.batch_size = 2, .block_size = kBlock, .shuffle = false},
                              Rng(1));
  std::int64_t counted = 0;
  for (std::int64_t i = batches.batches_per_epoch(); i > 0; --i) {
    for (const data::Token target : batches.next().targets) {
      if (target != data::kIgnoredTarget) ++counted;
    }
  }
  if (counted != set->counted(data::ChatLoss::answers)) fuzz::finding("targets are lost");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view input = fuzz::text_of(data, size);
  if (input.empty()) return 0;
  const std::vector<data::Token> tokens(static_cast<unsigned char>(input.front()), 7);
  input.remove_prefix(1);
  const auto path = fuzz::put("train_turns.bin", input);
  fuzz::accepts(path.string(), [&] {
    const data::TokenFile file =
        data::open_shard(path, data::TokenFormat::nanogpt, data::kTurnBits);
    data::scan_shard(file, INT32_MAX);
    data::TurnReader turns(data::TokenSource({file}), std::ssize(tokens), path.string());
    auto set = std::make_shared<data::ChatSet>(data::TokenSource(tokens));
    std::int64_t seen = 0;
    for (data::TurnReader::Chat chat; turns.next(chat);) {
      if (chat.begin != seen) fuzz::finding("a conversation begins elsewhere");
      seen += chat.length;
      for (const data::TokenRange& answer : chat.answers) {
        if (answer.begin >= answer.end || answer.end > chat.length) fuzz::finding("a bad answer");
      }
      if (!data::cut_at_turn(chat.length, chat.answers, kBlock)) continue;
      if (data::counted_targets(chat.length, chat.answers, data::ChatLoss::answers) == 0) continue;
      set->add(chat.begin, chat.length, chat.answers);
    }
    if (seen != std::ssize(tokens)) fuzz::finding("tokens of no conversation");
    set->files = {{set->size(), 1}};
    if (!set->empty()) check_rows(set);
  });
  return 0;
}
