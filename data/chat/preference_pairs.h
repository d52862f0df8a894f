#pragma once

#include <cstdint>
#include <string_view>

#include "tapegrad/data/chat/chat_tokens.h"
#include "tapegrad/data/chat/conversations.h"

namespace tapegrad::data {

// Two answers to one prompt, of which people, or a judge, prefer the first.
struct PreferencePair {
  Conversation chosen, rejected;
};

// The pair of a line of JSON, in one of the forms that TRL reads:
//   {"prompt": "…", "chosen": "…", "rejected": "…"}, or each a list of messages
//   {"chosen": [messages, the prompt's before the answer's], "rejected": [messages]}, beside which
//   a prompt that is a text is left out: these have it
// Texts and messages are those of conversation_of_line(), whose errors begin with the answer that
// they are of. Errors, too: chosen and rejected are equal; one of them has no answer behind what
// both begin with.
PreferencePair pair_of_line(std::string_view line, LeftOutKeys& left_out);

struct PairTokens {
  // Both conversations, one after the other: ChatTokens::second. Answers are those behind the
  // messages that both begin with.
  ChatTokens tokens;
  bool fits = true, cut = false;  // see below
};
// As tokens that fit into a block of so many: together, or else each is cut at a turn to a half of
// the block. If that leaves one of them no answer, they do not fit. Errors of chat_tokens(), and if
// the template makes one text of both.
PairTokens pair_tokens(const Conversation& chosen, const Conversation& rejected,
                       const ChatTemplate& chat_template, const Tokenizer& tokenizer,
                       std::int64_t block_size);

}  // namespace tapegrad::data
