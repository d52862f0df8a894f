// Texts that models make of a prompt: see model.h.

#include "tapegrad/run/models/model.h"

namespace tapegrad::run {
namespace {

nn::GenerateOptions with_ends(nn::GenerateOptions options, const data::Tokenizer& tokenizer) {
  options.stop_tokens = tokenizer.ends();
  return options;
}

}  // namespace

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

bool TextStream::next_text() {
  characters_ = {};
  return tokens_.next_text();
}

std::optional<std::string> TextStream::next() {
  while (const auto token = tokens_.next()) {
    std::string piece = characters_.push(tokenizer_.token_bytes(token->token));
    if (!piece.empty()) return piece;
  }
  std::string rest = characters_.flush();
  return rest.empty() ? std::nullopt : std::optional(std::move(rest));
}

std::string TextStream::text() {
  std::string text;
  for (const std::string& piece : *this) text += piece;
  return text;
}

std::vector<data::Token> TextModel::tokens_of(std::string_view prompt) const {
  return prompt_tokens(tokenizer, prompt);
}

TextStream TextModel::stream(std::string_view prompt, const nn::GenerateOptions& options,
                             std::uint64_t seed) const {
  return {gpt, tokenizer, {tokens_of(prompt)}, with_ends(options, tokenizer), seed};
}

std::vector<std::string> TextModel::generate(const std::vector<std::string>& prompts,
                                             const nn::GenerateOptions& options,
                                             std::uint64_t seed) const {
  std::vector<nn::Tokens> tokens;
  for (const std::string& prompt : prompts) tokens.push_back(tokens_of(prompt));
  TextStream stream(gpt, tokenizer, std::move(tokens), with_ends(options, tokenizer), seed);
  std::vector<std::string> texts;
  while (stream.next_text()) texts.push_back(stream.text());
  return texts;
}

}  // namespace tapegrad::run
