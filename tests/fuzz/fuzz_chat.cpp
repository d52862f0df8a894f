// Conversations to learn from: JSON lines, which become tokens with answers and packed rows.

#include <algorithm>

#include "tapegrad/data/chat/chat_tokens.h"
#include "tapegrad/data/chat/conversations.h"
#include "tapegrad/data/packed_batches.h"
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

// ChatML with marks, and without them.
const data::ChatTemplate& chat_template(bool marked) {
  static const auto with = data::ChatTemplate::chatml();
  static const data::ChatTemplate without(
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}");
  return marked ? with : without;
}

// The answers are ranges of the tokens, in order.
void check_answers(const data::ChatTokens& chat) {
  std::int64_t before = 0;
  for (const data::TokenRange& answer : chat.answers) {
    if (answer.begin < before || answer.end <= answer.begin ||
        answer.end > std::ssize(chat.tokens)) {
      fuzz::finding("an answer that is no range of the tokens");
    }
    before = answer.end;
  }
}

std::shared_ptr<data::ChatSet> set_of(const data::ConversationFile& file) {
  auto set = std::make_shared<data::ChatSet>();
  for (std::size_t i = 0; i < file.conversations.size(); ++i) {
    try {
      data::ChatTokens chat =
          data::chat_tokens(file.conversations[i], chat_template(i % 2 == 0), tokenizer());
      check_answers(chat);
      const bool fits = data::cut_at_turn(chat, kBlock);
      check_answers(chat);
      if (!fits || data::counted_targets(chat, data::ChatLoss::answers) == 0) continue;
      set->add(chat);
    } catch (const Error&) {  // an answer that cannot be told
    }
  }
  set->files.push_back({set->size(), 1});
  return set;
}

void check_batches(const std::shared_ptr<const data::ChatSet>& set) {
  data::PackedBatches batches(set, {.batch_size = 2, .block_size = kBlock, .shuffle = false},
                              Rng(1));
  std::int64_t counted = 0;
  for (std::int64_t i = batches.batches_per_epoch(); i > 0; --i) {
    const data::Batch batch = batches.next();
    counted += std::ssize(batch.targets) -
               std::count(batch.targets.begin(), batch.targets.end(), data::kIgnoredTarget);
    for (std::size_t t = 0; t < batch.inputs.size(); ++t) {
      const auto place = static_cast<std::int32_t>(static_cast<std::int64_t>(t) % batch.T);
      const std::int32_t start = batch.document_starts[t];
      const bool begins = start == place;
      if (!begins && (place == 0 || start != batch.document_starts[t - 1])) {
        fuzz::finding("documents that do not stand side by side");
      }
    }
  }
  if (counted != set->counted(data::ChatLoss::answers)) fuzz::finding("a pass loses targets");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::filesystem::path path = fuzz::put("chats.jsonl", fuzz::text_of(data, size));
  fuzz::accepts("chats.jsonl", [&] {
    data::BadLines bad;
    const auto file = data::read_conversations(path, {.max_bytes = 1 << 20}, bad);
    const auto set = set_of(file);
    if (!set->empty()) check_batches(set);
  });
  return 0;
}
