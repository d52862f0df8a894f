#include "tapegrad/data/chat_set.h"

namespace tapegrad::data {

std::int64_t counted_targets(std::int64_t length, std::span<const TokenRange> answers,
                             ChatLoss loss) {
  std::int64_t count = 0;
  each_counted(length, answers, loss,
               [&](std::int64_t begin, std::int64_t end) { count += end - begin; });
  return count;
}

void ChatSet::add(const ChatTokens& chat) {
  const std::int64_t begin = std::ssize(memory_);
  memory_.insert(memory_.end(), chat.tokens.begin(), chat.tokens.end());
  add(begin, std::ssize(chat.tokens), chat.answers);
  chats_.back().second = chat.second;
}

void ChatSet::add(std::int64_t begin, std::int64_t length, std::span<const TokenRange> answers) {
  chats_.push_back({begin, length, answers_.size(), answers.size()});
  answers_.insert(answers_.end(), answers.begin(), answers.end());
}

std::span<const TokenRange> ChatSet::answers(std::int64_t i) const {
  return std::span(answers_).subspan(at(i).first, at(i).count);
}

void ChatSet::copy(std::int64_t i, std::span<Token> out) const {
  // A view of what is in memory, made here: the set may have been copied.
  const TokenSource from = memory_.empty() ? stored_ : TokenSource(memory_);
  from.copy(at(i).begin, out);
}

ChatTokens ChatSet::operator[](std::int64_t i) const {
  ChatTokens chat;
  chat.tokens.resize(static_cast<std::size_t>(length(i)));
  copy(i, chat.tokens);
  chat.second = second(i);
  const auto own = answers(i);
  chat.answers.assign(own.begin(), own.end());
  return chat;
}

std::int64_t ChatSet::tokens() const {
  std::int64_t sum = 0;
  for (const Chat& chat : chats_) sum += chat.length;
  return sum;
}

std::int64_t ChatSet::counted(ChatLoss loss) const {
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < size(); ++i) sum += counted(i, loss);
  return sum;
}

}  // namespace tapegrad::data
