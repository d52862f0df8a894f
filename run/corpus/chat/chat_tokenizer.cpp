#include "tapegrad/run/corpus/chat/chat_tokenizer.h"

#include "tapegrad/run/corpus/chat/chat_data.h"
#include "tapegrad/run/models/chat_template_of.h"

namespace tapegrad::run {
namespace {

constexpr std::string_view kChatMLTokens[] = {"<|im_start|>", "<|im_end|>"};

}  // namespace

data::Tokenizer with_chatml_tokens(const data::Tokenizer& tokenizer) {
  check(
      tokenizer.kind() != "char",
      "--chat needs a tokenizer of bytes, to which the tokens {} and {} can be added, and not one "
      "of characters",
      kChatMLTokens[0], kChatMLTokens[1]);
  const data::Tokenizer more = tokenizer.with_special(kChatMLTokens);
  const auto id = more.encode(kChatMLTokens[1], true);
  check(id.size() == 1, "the tokenizer cannot have the token {}", kChatMLTokens[1]);
  std::vector<std::int64_t> ends{id.front()};
  for (const data::Token end : tokenizer.ends()) {
    if (end != id.front()) ends.push_back(end);
  }
  return more.ending_at(ends);
}

data::Tokenizer make_chat_tokenizer(const std::string& spec,
                                    const std::function<void(data::PieceCounts&)>& count) {
  const auto size = data::bpe_size(spec);
  if (!size) return with_chatml_tokens(data::make_tokenizer(spec, std::string_view()));
  const std::int64_t added = std::ssize(kChatMLTokens);
  check(*size >= 257 + added,
        "--tokenizer {}: with --chat, it must have {} tokens at "
        "least",
        spec, 257 + added);
  data::PieceCounts pieces;
  count(pieces);
  return with_chatml_tokens(data::Tokenizer::train_bpe(pieces, *size - added));
}

void count_words(const data::Conversation& conversation, data::PieceCounts& pieces) {
  for (const data::Message& message : with_tools_as_text(conversation).messages) {
    pieces.add(message.content);
  }
}

data::Tokenizer make_chat_tokenizer(const std::string& spec, const Text& text, double val_fraction,
                                    std::uint64_t seed) {
  return make_chat_tokenizer(spec, [&](data::PieceCounts& pieces) {
    for (const data::Conversation* chat : training_chats(text, val_fraction, seed)) {
      count_words(*chat, pieces);
    }
  });
}

ModelSettings settings_with_template(ModelSettings settings, const data::Tokenizer& tokenizer,
                                     const data::ChatTemplate& chat_template) {
  if (!chat_template_of(settings, tokenizer)) {
    settings.files.emplace(kChatTemplateFile, chat_template.source());
  }
  return settings;
}

}  // namespace tapegrad::run
