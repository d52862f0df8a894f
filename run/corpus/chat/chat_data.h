#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/data/chat/chat_template.h"
#include "tapegrad/data/chat_set.h"
#include "tapegrad/run/corpus/chat/chat_encode.h"
#include "tapegrad/run/corpus/chat/chat_text.h"

namespace tapegrad::run {

// Conversations as tokens, or pairs of them (data::pair_tokens), for training and for validation.
// Of a pair, what is said here of a conversation holds for it as a whole.
struct ChatData {
  std::shared_ptr<const data::ChatSet> train, val;
  data::ChatTemplate chat_template;
  data::ChatLoss loss;
  std::int64_t bad_lines = 0;  // that were left out, for whatever reason
  std::int64_t cut = 0;        // conversations that lost turns, to fit in a block
  std::int64_t divided = 0;    // of too many messages: they lost turns, too
  std::int64_t too_long = 0;   // that were left out: their first answer does not fit
  std::int64_t spelled = 0;    // special tokens that messages spell, which are text

  std::vector<ChatPrompt> prompts = {};  // of the first conversations to validate with
  std::vector<data::Token> ends = {};    // tokens that end an answer
  static constexpr std::size_t kPrompts = 2;
};

// Divides a text's conversations, unless it has others to validate with: random ones of all files.
// A conversation that the template refuses is a bad line, which is named on stderr; one that is
// longer than a block is cut at a turn. A prepared folder is divided already. Errors: a part of
// which no conversation is left; a bad line of a text that is strict; a folder that another
// template or tokenizer has made.
ChatData chat_data_of(const Text& text, const data::Tokenizer& tokenizer,
                      const ChatEncoding& encoding, double val_fraction, std::uint64_t seed);

// All conversations of a text, or those of a folder to validate with, to be evaluated.
ChatData chat_data_of(const Text& text, const data::Tokenizer& tokenizer,
                      const ChatEncoding& encoding);

// The conversations to train on: a tokenizer may learn from them. `text` must outlive them.
std::vector<const data::Conversation*> training_chats(const Text& text, double val_fraction,
                                                      std::uint64_t seed);

// "312 of 900 tokens count (35 %) …", for the header of a run.
std::string about_chat(const ChatData& chat);

}  // namespace tapegrad::run
