#pragma once

#include <cstdint>
#include <vector>

#include "tapegrad/data/chat/chat_template.h"
#include "tapegrad/data/tokenize/tokenizer.h"

namespace tapegrad::data {

// True if texts of users, which are encoded without special tokens, cannot have this token.
bool is_special(const Tokenizer& tokenizer, Token token);

// Tokens [begin, end) of a conversation.
struct TokenRange {
  std::int64_t begin = 0, end = 0;
  bool operator==(const TokenRange&) const = default;
};

// A conversation as tokens, and which of them the model writes: a range for each answer, ascending
// and apart.
struct ChatTokens {
  std::vector<Token> tokens;
  std::vector<TokenRange> answers;
  // Of a pair (preference_pairs.h): the place of the first token of its second conversation, which
  // does not see the first one. 0: there is but one.
  std::int64_t second = 0;
  // True if its last turns are left out: see kMostRenderedMessages.
  bool divided = false;
  std::int64_t spelled = 0;  // special tokens that messages spell, which are text
};

// The tokens of the text that render_chat() makes of a conversation. Where no message spells a
// special token, they are those of transformers' apply_chat_template(tokenize=True).
//
// Where the template has {% generation %} blocks, an answer is a block: from the token that has its
// first byte to the one that has the first byte of its last character, as transformers'
// return_assistant_tokens_mask chooses them.
// Where it has none, an answer is what the template writes more for the messages up to it than for
// those before it with a generation prompt: all tokens that have a byte of this. A template that
// writes an answer otherwise when more messages follow (Qwen3, gpt-oss), or always with a
// generation prompt behind it (Llama 3), ends it at the first special token behind the answer's
// text, or behind its last call. If what stands before an answer is written otherwise, the answer
// begins behind the last generation prompt. Error if a text cannot be found in the whole. Each
// answer costs the rendering of all that is before it: once kMostRenderedMessages messages have
// been rendered, the turns that follow are left out. Answers that end behind `most_tokens` tokens
// may be left out, too. Errors of ChatTemplate::render.
ChatTokens chat_tokens(const Conversation& conversation, const ChatTemplate& chat_template,
                       const Tokenizer& tokenizer, std::int64_t most_tokens = INT64_MAX);
inline constexpr std::int64_t kMostRenderedMessages = 2'000'000;

// Leaves out turns from the end until a block of so many tokens has room for the others: it sees
// all tokens but the last, which is a target alone. False if it has no room for the first answer.
bool cut_at_turn(ChatTokens& chat, std::int64_t block_size);
// The same for a conversation of so many tokens, of which only the answers are known.
bool cut_at_turn(std::int64_t& length, std::vector<TokenRange>& answers, std::int64_t block_size);

}  // namespace tapegrad::data
