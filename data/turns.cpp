#include "tapegrad/data/turns.h"

#include <algorithm>

#include "tapegrad/base/error.h"

namespace tapegrad::data {
namespace {

constexpr std::int64_t kChunkNumbers = 4096;

}  // namespace

void append_turns(const ChatTokens& chat, std::vector<Token>& numbers) {
  check(std::ssize(chat.tokens) <= INT32_MAX, "[turns] a conversation of {} tokens",
        chat.tokens.size());
  numbers.push_back(static_cast<Token>(chat.tokens.size()));
  numbers.push_back(static_cast<Token>(chat.answers.size()));
  for (const TokenRange& answer : chat.answers) {
    numbers.push_back(static_cast<Token>(answer.begin));
    numbers.push_back(static_cast<Token>(answer.end));
  }
}

TurnReader::TurnReader(TokenSource numbers, std::int64_t tokens, std::string name)
    : numbers_(std::move(numbers)), tokens_(tokens), name_(std::move(name)) {}

std::int64_t TurnReader::number() {
  check(at_ < numbers_.size(), "{}: it ends within a conversation", name_);
  if (chunk_at_ == chunk_.size()) {
    chunk_.resize(static_cast<std::size_t>(std::min(kChunkNumbers, numbers_.size() - at_)));
    numbers_.copy(at_, chunk_);
    chunk_at_ = 0;
  }
  ++at_;
  return chunk_[chunk_at_++];
}

bool TurnReader::next(Chat& chat) {
  if (at_ == numbers_.size()) {
    check(begin_ == tokens_, "{}: its conversations have {} tokens, and their files {}", name_,
          begin_, tokens_);
    return false;
  }
  chat.begin = begin_;
  chat.length = number();
  const std::int64_t answers = number();
  check(
      chat.length >= 0 && chat.length <= tokens_ - begin_ && answers >= 0 && answers <= chat.length,
      "{}: it says {} tokens and {} answers of a conversation behind token {} of {}", name_,
      chat.length, answers, begin_, tokens_);
  chat.answers.clear();
  std::int64_t before = 0;
  for (std::int64_t i = 0; i < answers; ++i) {
    const std::int64_t begin = number(), end = number();
    check(begin >= before && begin < end && end <= chat.length,
          "{}: an answer of the tokens {} to {} of a conversation of {}", name_, begin, end,
          chat.length);
    chat.answers.push_back({begin, end});
    before = end;
  }
  begin_ += chat.length;
  return true;
}

}  // namespace tapegrad::data
