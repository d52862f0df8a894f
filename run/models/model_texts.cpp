// What models of text make of a prompt: see model.h.

#include "tapegrad/base/text/utf8.h"
#include "tapegrad/nn/generation/generate.h"
#include "tapegrad/run/models/model.h"

namespace tapegrad::run {

std::vector<data::Token> default_prompt(const data::Tokenizer& tokenizer) {
  const std::span<const data::Token> begin = tokenizer.begin();
  if (!begin.empty()) return {begin.begin(), begin.end()};
  if (const auto end_of_text = tokenizer.end_of_text()) return {*end_of_text};
  for (data::Token token = 0; token < tokenizer.vocab_size(); ++token) {
    if (tokenizer.token_bytes(token) == "\n") return {token};
  }
  return {0};
}

std::vector<data::Token> prompt_tokens(const data::Tokenizer& tokenizer, std::string_view prompt) {
  return prompt.empty() ? default_prompt(tokenizer)
                        : tokenizer.encode_documents({&prompt, 1}, true);
}

std::int64_t stream_text(nn::TokenStream& stream, const data::Tokenizer& tokenizer,
                         const OnText& on_text,
                         const std::function<void(const nn::NewToken&)>& on_token) {
  Utf8Stream characters;
  std::int64_t added = 0;
  for (const nn::NewToken& t : stream) {
    ++added;
    if (on_token) on_token(t);
    const std::string piece = characters.push(tokenizer.token_bytes(t.token));
    if (!on_text(piece)) break;
  }
  if (const std::string rest = characters.flush(); !rest.empty()) on_text(rest);
  return added;
}

std::int64_t stream_text(const nn::Decoder& gpt, const data::Tokenizer& tokenizer,
                         const std::vector<data::Token>& prompt, nn::GenerateOptions options,
                         Rng& rng, const OnText& on_text) {
  options.stop_tokens = tokenizer.ends();
  nn::TokenStream stream(gpt, prompt, options, rng);
  return stream_text(stream, tokenizer, on_text);
}

std::vector<data::Token> TextModel::tokens_of(std::string_view prompt) const {
  return prompt_tokens(tokenizer, prompt);
}

void TextModel::generate(std::string_view prompt, const nn::GenerateOptions& options,
                         std::uint64_t seed, const OnText& on_text) const {
  Rng rng(seed);
  stream_text(gpt, tokenizer, tokens_of(prompt), options, rng, on_text);
}

std::string TextModel::generate(std::string_view prompt, const nn::GenerateOptions& options,
                                std::uint64_t seed) const {
  std::string text;
  generate(prompt, options, seed, [&](std::string_view piece) {
    text += piece;
    return true;
  });
  return text;
}

std::vector<std::string> TextModel::generate(const std::vector<std::string>& prompts,
                                             const nn::GenerateOptions& options,
                                             std::uint64_t seed) const {
  nn::GenerateOptions ends = options;
  ends.stop_tokens = tokenizer.ends();
  std::vector<nn::Tokens> tokens;
  std::vector<Rng> rngs;
  for (const std::string& prompt : prompts) {
    tokens.push_back(tokens_of(prompt));
    rngs.emplace_back(seed++);
  }
  std::vector<std::string> texts;
  for (const nn::Tokens& added : nn::generate(gpt, tokens, ends, rngs)) {
    Utf8Stream stream;
    texts.push_back(stream.push(tokenizer.decode(added)));
    texts.back() += stream.flush();
  }
  return texts;
}

}  // namespace tapegrad::run
