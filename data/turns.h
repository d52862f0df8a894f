#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tapegrad/data/chat/chat_tokens.h"
#include "tapegrad/data/tokens.h"

namespace tapegrad::data {

// A file of turns describes conversations whose tokens lie in other files, one conversation
// behind the other. It is a shard of numbers of 32 bits: of each conversation, how many tokens it
// has, how many answers, and of each answer where it begins and ends.

inline constexpr int kTurnBits = 32;

// Appends a conversation's numbers.
void append_turns(const ChatTokens& chat, std::vector<Token>& numbers);

// Reads the conversations of a file of turns.
class TurnReader {
 public:
  // `tokens`: of all the conversations; `name`: of the file, for errors.
  TurnReader(TokenSource numbers, std::int64_t tokens, std::string name);

  struct Chat {
    std::int64_t begin = 0, length = 0;  // in the tokens of all conversations
    std::vector<TokenRange> answers = {};
  };
  // The next conversation; false behind the last one. Error for numbers that cannot be those of the
  // tokens.
  bool next(Chat& chat);

 private:
  std::int64_t number();

  const TokenSource numbers_;
  const std::int64_t tokens_;
  const std::string name_;
  std::int64_t at_ = 0, begin_ = 0;
  std::vector<Token> chunk_;  // of the numbers; number at_ is at chunk_at_
  std::size_t chunk_at_ = 0;
};

}  // namespace tapegrad::data
