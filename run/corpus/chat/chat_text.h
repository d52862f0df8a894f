#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tapegrad/data/chat/conversations.h"
#include "tapegrad/run/corpus/mixture.h"
#include "tapegrad/run/corpus/text.h"

namespace tapegrad::run {

struct ChatFolder;

// Conversations that were read.
struct ChatText {
  std::vector<data::ConversationFile> files;
  std::vector<double> weights;  // of each
  bool strict = false;          // the first bad line is an Error
  data::BadLines bad;           // that were left out
  // In place of all this: a folder that tapegrad prepare --chat has made.
  std::shared_ptr<const ChatFolder> folder = {};
};
// The conversations of a source that is_chat, or its pairs; Text::chat has them. Names lines and
// keys that are left out on stderr. Errors of data::read_conversations().
Text read_chat(const CorpusSource& source);

// Names bad lines that came since `before` on stderr.
void note_bad_lines(const data::BadLines& bad, std::int64_t before);
// Names keys that are left out on stderr.
void note_left_out_keys(std::span<const data::ConversationFile> files);

// Says how many conversations lost their last turns because of data::kMostRenderedMessages.
void note_divided(std::int64_t count);

// Says how many special tokens messages spell, which are encoded as text.
void note_spelled(std::int64_t count);

// Which of `count` conversations are to validate with: random ones. Error if there is but one.
std::vector<bool> held_out_chats(std::int64_t count, double val_fraction, std::uint64_t seed);

}  // namespace tapegrad::run
