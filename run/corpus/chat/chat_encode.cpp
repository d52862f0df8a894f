#include "tapegrad/run/corpus/chat/chat_encode.h"

#include <algorithm>

#include "tapegrad/base/error.h"
#include "tapegrad/data/chat/preference_pairs.h"
#include "tapegrad/data/chat/render_chat.h"
#include "tapegrad/data/chat/tools/internal/tool_convention.h"

namespace tapegrad::run {

EncodedChat encode_chat(const data::Conversation& conversation, const data::Tokenizer& tokenizer,
                        const ChatEncoding& encoding) {
  EncodedChat result;
  try {
    result.chat = data::chat_tokens(data::with_tools_for(encoding.chat_template, conversation),
                                    encoding.chat_template, tokenizer, encoding.block_size + 1);
    const std::size_t whole = result.chat.tokens.size();
    check(!result.chat.answers.empty(), "the template writes no answer");
    result.fits = data::cut_at_turn(result.chat, encoding.block_size);
    result.cut = result.chat.tokens.size() < whole;
    check(!result.fits || data::counted_targets(result.chat, encoding.loss) > 0,
          "no token of it is a target");
  } catch (const Error& error) {
    result.error = error.what();
  }
  return result;
}

EncodedChat encode_pair(const data::Conversation& chosen, const data::Conversation& rejected,
                        const data::Tokenizer& tokenizer, const ChatEncoding& encoding) {
  try {
    const data::ChatTemplate& chat_template = encoding.chat_template;
    data::PairTokens pair = data::pair_tokens(data::with_tools_for(chat_template, chosen),
                                              data::with_tools_for(chat_template, rejected),
                                              chat_template, tokenizer, encoding.block_size);
    return {.chat = std::move(pair.tokens), .fits = pair.fits, .cut = pair.cut};
  } catch (const Error& error) {
    return {.chat = {}, .error = error.what()};
  }
}

data::Conversation with_tools_as_text(const data::Conversation& conversation) {
  static const data::ChatTemplate chatml = data::ChatTemplate::chatml();
  return data::with_tools_for(chatml, conversation);
}

ChatPrompt chat_prompt(const data::Conversation& conversation, const data::Tokenizer& tokenizer,
                       const data::ChatTemplate& chat_template) {
  data::Conversation before = conversation;
  while (before.messages.back().role != "assistant") before.messages.pop_back();
  const data::Conversation answer =
      with_tools_as_text({.messages = {std::move(before.messages.back())}});
  before.messages.pop_back();
  std::string question = before.messages.back().content;
  before = data::with_tools_for(chat_template, std::move(before));
  return {std::move(question), answer.messages.back().content,
          data::tokens_of(data::render_chat(chat_template, tokenizer, before, true), tokenizer)};
}

std::vector<data::Token> ends_of_answers(const data::Tokenizer& tokenizer,
                                         const data::ChatTokens& chat) {
  std::vector<data::Token> ends = tokenizer.ends();
  const data::TokenRange answer = chat.answers.front();
  for (std::int64_t i = answer.end - 1; i >= answer.begin; --i) {
    const data::Token token = chat.tokens[static_cast<std::size_t>(i)];
    if (!data::is_special(tokenizer, token)) continue;
    if (std::count(ends.begin(), ends.end(), token) == 0) ends.push_back(token);
    break;
  }
  return ends;
}

}  // namespace tapegrad::run
