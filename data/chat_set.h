#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tapegrad/data/chat/chat_tokens.h"
#include "tapegrad/data/tokens.h"

namespace tapegrad::data {

// Which tokens of a conversation count as targets: those of the answers, those of the last answer,
// or all.
enum class ChatLoss { answers, all, last };
inline constexpr std::string_view kChatLossNames[] = {"answers", "all", "last"};
inline std::span<const std::string_view> names_of(ChatLoss) { return kChatLossNames; }

// How many targets of a conversation of `length` tokens count.
std::int64_t counted_targets(std::int64_t length, std::span<const TokenRange> answers,
                             ChatLoss loss);
inline std::int64_t counted_targets(const ChatTokens& chat, ChatLoss loss) {
  return counted_targets(std::ssize(chat.tokens), chat.answers, loss);
}

// Conversations of several files, one after the other, and which of their tokens are answers. A
// epoch has each conversation of a file as often as the weight says: with 2 twice; with 0.5 half of
// them, drawn anew for each epoch.
class ChatSet {
 public:
  struct File {
    std::int64_t conversations = 0;
    double weight = 1;
  };
  std::vector<File> files;
  bool pairs = false;  // each is a pair, two conversations that lie in one row: see ChatTokens

  ChatSet() = default;
  // Of conversations whose tokens are stored already.
  explicit ChatSet(TokenSource stored) : stored_(std::move(stored)) {}

  // Behind the last conversation. One that is in memory, or, in a set of stored tokens, those from
  // place `begin` on.
  void add(const ChatTokens& chat);
  void add(std::int64_t begin, std::int64_t length, std::span<const TokenRange> answers);

  std::int64_t size() const { return std::ssize(chats_); }
  bool empty() const { return chats_.empty(); }
  std::int64_t length(std::int64_t i) const { return at(i).length; }  // in tokens
  std::span<const TokenRange> answers(std::int64_t i) const;
  std::int64_t second(std::int64_t i) const { return at(i).second; }  // see ChatTokens
  // Copies the first tokens of conversation i.
  void copy(std::int64_t i, std::span<Token> out) const;
  ChatTokens operator[](std::int64_t i) const;

  std::int64_t counted(std::int64_t i, ChatLoss loss) const {
    return counted_targets(length(i), answers(i), loss);
  }
  // Of all conversations.
  std::int64_t tokens() const;
  std::int64_t counted(ChatLoss loss) const;

 private:
  struct Chat {
    std::int64_t begin, length;  // in the tokens
    std::size_t first, count;    // in answers_
    std::int64_t second = 0;
  };
  const Chat& at(std::int64_t i) const { return chats_[static_cast<std::size_t>(i)]; }

  std::vector<Chat> chats_;
  std::vector<TokenRange> answers_;
  std::vector<Token> memory_;
  TokenSource stored_;
};

// The ranges of tokens that count as targets; the first token of a conversation is none.
template <class Range>
void each_counted(std::int64_t length, std::span<const TokenRange> answers, ChatLoss loss,
                  const Range& range) {
  const auto take = [&](std::int64_t begin, std::int64_t end) {
    if (begin < 1) begin = 1;
    if (begin < end) range(begin, end);
  };
  if (loss == ChatLoss::all) return take(1, length);
  if (loss == ChatLoss::last && !answers.empty()) answers = answers.last(1);
  for (const TokenRange& answer : answers) take(answer.begin, answer.end);
}

}  // namespace tapegrad::data
