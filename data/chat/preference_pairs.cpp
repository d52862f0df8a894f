#include "tapegrad/data/chat/preference_pairs.h"

#include <algorithm>
#include <iterator>

#include "tapegrad/base/error.h"
#include "tapegrad/base/json/internal/json_file.h"

namespace tapegrad::data {
namespace {

constexpr int kMostPairDepth = 64;

bool is_message_of_model(const Message& message) { return message.role == "assistant"; }

// How many messages both begin with.
std::size_t shared_messages(const Conversation& a, const Conversation& b) {
  const auto same = [](const Message& x, const Message& y) {
    return json_of_message(x) == json_of_message(y);
  };
  return static_cast<std::size_t>(std::mismatch(a.messages.begin(), a.messages.end(),
                                                b.messages.begin(), b.messages.end(), same)
                                      .first -
                                  a.messages.begin());
}

std::int64_t answers_in(const Conversation& conversation, std::size_t first, std::size_t end) {
  const auto begin = conversation.messages.begin();
  return std::count_if(begin + static_cast<std::ptrdiff_t>(first),
                       begin + static_cast<std::ptrdiff_t>(end), is_message_of_model);
}

// The conversation that ends with one of the answers.
Conversation conversation_with(const Json& line, const char* answer, LeftOutKeys& left_out) {
  const auto prompt = line.find("prompt");
  const Json& value = line.at(answer);
  const bool has_prompt = prompt != line.end() && !prompt->is_null();
  const bool is_whole = value.is_array() && (!has_prompt || prompt->is_string());
  Json object;
  for (const char* key : {"system", "tools", "functions"}) {
    if (line.contains(key)) object[key] = line.at(key);
  }
  if (is_whole) {
    object["messages"] = value;
  } else {
    check(has_prompt, "there is no 'prompt', and '{}' is no list of messages that has it", answer);
    object["prompt"] = *prompt;
    object["completion"] = value;
  }
  try {
    return conversation_of_line(json_text(object), left_out);
  } catch (const Error& error) {
    fail("'{}': {}", answer, error.what());
  }
}

// A conversation's tokens, of whose answers the first ones are left out.
ChatTokens tokens_of_side(const Conversation& conversation, std::int64_t left_out,
                          const ChatTemplate& chat_template, const Tokenizer& tokenizer) {
  ChatTokens chat = chat_tokens(conversation, chat_template, tokenizer);
  check(!chat.divided,
        "its {} messages are too many for a template without {{% generation %}} marks, which is "
        "rendered anew for each answer: divide the conversation",
        conversation.messages.size());
  const std::int64_t all = answers_in(conversation, 0, conversation.messages.size());
  check(std::ssize(chat.answers) == all, "the template marks {} answers of {}", chat.answers.size(),
        all);
  chat.answers.erase(chat.answers.begin(), chat.answers.begin() + left_out);
  // The first token of all follows from nothing: it is no target, and of a pair's second text, what
  // stands before it is the first.
  for (TokenRange& range : chat.answers) range.begin = std::max<std::int64_t>(range.begin, 1);
  std::erase_if(chat.answers, [](const TokenRange& range) { return range.begin >= range.end; });
  check(!chat.answers.empty(), "the template gives its answer no token that follows another");
  return chat;
}

}  // namespace

PreferencePair pair_of_line(std::string_view line, LeftOutKeys& left_out) {
  Json object;
  try {
    object = parse_json<Json>(line, kMostPairDepth);
  } catch (const Error& error) {
    fail("no JSON: {}", error.what());
  }
  check(object.is_object(), "it is no JSON object");
  check(object.contains("chosen") && object.contains("rejected"),
        "it has no '{}': a pair has prompt, chosen and rejected",
        object.contains("chosen") ? "rejected" : "chosen");
  LeftOutKeys keys, of_rejected;
  const PreferencePair pair{conversation_with(object, "chosen", keys),
                            conversation_with(object, "rejected", of_rejected)};
  const std::size_t shared = shared_messages(pair.chosen, pair.rejected);
  check(shared < std::max(pair.chosen.messages.size(), pair.rejected.messages.size()),
        "chosen and rejected are equal");
  for (const auto& [name, side] : {std::pair{"chosen", &pair.chosen},  //
                                   std::pair{"rejected", &pair.rejected}}) {
    check(answers_in(*side, shared, side->messages.size()) > 0,
          "'{}' has no answer behind the {} messages that both begin with", name, shared);
  }
  for (const auto& [key, count] : keys) left_out[key] += count;
  return pair;
}

PairTokens pair_tokens(const Conversation& chosen, const Conversation& rejected,
                       const ChatTemplate& chat_template, const Tokenizer& tokenizer,
                       std::int64_t block_size) {
  const std::int64_t before = answers_in(chosen, 0, shared_messages(chosen, rejected));
  ChatTokens first = tokens_of_side(chosen, before, chat_template, tokenizer);
  ChatTokens second = tokens_of_side(rejected, before, chat_template, tokenizer);
  check(first.tokens != second.tokens, "the template makes one text of chosen and rejected");
  const std::size_t whole = first.tokens.size() + second.tokens.size();
  PairTokens pair;
  if (static_cast<std::int64_t>(whole) > block_size + 1) {
    const std::int64_t half = (block_size + 1) / 2 - 1;
    pair.fits = cut_at_turn(first, half) && cut_at_turn(second, half);
  }
  pair.cut = first.tokens.size() + second.tokens.size() < whole;
  pair.tokens = std::move(first);
  const std::int64_t begin = pair.tokens.second = std::ssize(pair.tokens.tokens);
  for (const TokenRange& range : second.answers) {
    pair.tokens.answers.push_back({begin + range.begin, begin + range.end});
  }
  pair.tokens.spelled += second.spelled;
  pair.tokens.tokens.insert(pair.tokens.tokens.end(), second.tokens.begin(), second.tokens.end());
  return pair;
}

}  // namespace tapegrad::data
