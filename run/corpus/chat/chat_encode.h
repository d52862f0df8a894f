#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tapegrad/data/chat/chat_template.h"
#include "tapegrad/data/chat/chat_tokens.h"
#include "tapegrad/data/chat_set.h"
#include "tapegrad/data/tokenize/tokenizer.h"

namespace tapegrad::run {

// How conversations become tokens.
struct ChatEncoding {
  data::ChatTemplate chat_template;
  data::ChatLoss loss = data::ChatLoss::answers;
  std::int64_t block_size = 1024;
};

// A question for a model while it trains: a conversation up to its last answer.
struct ChatPrompt {
  std::string question, wanted;  // the last message, and the answer that follows
  std::vector<data::Token> tokens;
};

// A conversation as tokens.
struct EncodedChat {
  data::ChatTokens chat;
  std::string error = {};         // why it is no conversation to learn from
  bool fits = true, cut = false;  // a block has room for its first answer, and lost others
};
EncodedChat encode_chat(const data::Conversation& conversation, const data::Tokenizer& tokenizer,
                        const ChatEncoding& encoding);

// The same of a pair: see data::pair_tokens().
EncodedChat encode_pair(const data::Conversation& chosen, const data::Conversation& rejected,
                        const data::Tokenizer& tokenizer, const ChatEncoding& encoding);

// A conversation whose tools, calls and results are texts of its messages, as ChatML, a template
// without any, is given them.
data::Conversation with_tools_as_text(const data::Conversation& conversation);

// The prompt of a conversation that has an answer. Errors of data::render_chat().
ChatPrompt chat_prompt(const data::Conversation& conversation, const data::Tokenizer& tokenizer,
                       const data::ChatTemplate& chat_template);

// The tokens that end texts, and those that end an answer of the template.
std::vector<data::Token> ends_of_answers(const data::Tokenizer& tokenizer,
                                         const data::ChatTokens& chat);

}  // namespace tapegrad::run
