// Pairs of answers to learn from: JSON lines, which become tokens, packed rows and what a loss
// reads of them.

#include "tapegrad/data/chat/preference_pairs.h"
#include "tapegrad/data/packed_batches.h"
#include "tapegrad/run/train/preferences.h"
#include "tapegrad/tests/fuzz/fuzz.h"

using namespace tapegrad;

namespace {

constexpr std::int64_t kBlock = 48;

const data::Tokenizer& tokenizer() {
  constexpr std::string_view names[] = {"<|im_start|>", "<|im_end|>"};
  static const auto made =
      data::Tokenizer::train_bpe("the user asks and the assistant says yes or no to the user", 262)
          .with_special(names);
  return made;
}

void check_pairs(const std::shared_ptr<const data::ChatSet>& set) {
  data::PackedBatches batches(set, {.batch_size = 2, .block_size = kBlock, .shuffle = false},
                              Rng(1));
  std::int64_t pairs = 0;
  for (std::int64_t i = batches.batches_per_epoch(); i > 0; --i) {
    const std::int64_t counted = batches.counted(1).front();
    const run::PairRows rows = run::pair_rows(batches.next());
    if (rows.pairs != counted) fuzz::finding("a batch has other pairs than it says");
    pairs += rows.pairs;
  }
  if (pairs != set->size()) fuzz::finding("a pass loses pairs");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::filesystem::path path = fuzz::put("pairs.jsonl", fuzz::text_of(data, size));
  fuzz::accepts("pairs.jsonl", [&] {
    data::BadLines bad;
    const auto file =
        data::read_conversations(path, {.max_bytes = 1 << 20}, bad, data::LineForm::pair);
    auto set = std::make_shared<data::ChatSet>();
    set->pairs = true;
    for (std::size_t i = 0; i < file.conversations.size(); ++i) {
      try {
        data::PairTokens pair =
            data::pair_tokens(file.conversations[i], file.rejected[i], data::ChatTemplate::chatml(),
                              tokenizer(), kBlock);
        if (pair.fits) set->add(pair.tokens);
      } catch (const Error&) {  // an answer that cannot be told
      }
    }
    set->files.push_back({set->size(), 1});
    if (!set->empty()) check_pairs(set);
  });
  return 0;
}
