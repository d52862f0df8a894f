#include "word_list.h"

#include <algorithm>

#include "tapegrad/base/error.h"

namespace tapegrad::tutorial {

namespace {

bool is_small(char c) { return c >= 'a' && c <= 'z'; }
bool is_capital(char c) { return c >= 'A' && c <= 'Z'; }

WordList shuffled(std::vector<std::string> words, Rng& rng) {
  WordList list;
  for (const std::int64_t i : rng.randperm(static_cast<std::int64_t>(words.size()))) {
    list.words.push_back(std::move(words[static_cast<std::size_t>(i)]));
  }
  return list;
}

// Calls `use` with each token that is a space, a letter and three small letters or more.
template <class Use>
void for_each_word(const data::Tokenizer& gpt2, const Use& use) {
  for (data::Token id = 0; id < gpt2.vocab_size(); ++id) {
    const std::string token = gpt2.token_bytes(id);
    const bool is_word = token.size() >= 5 && token[0] == ' ' &&
                         (is_small(token[1]) || is_capital(token[1])) &&
                         std::all_of(token.begin() + 2, token.end(), is_small);
    if (is_word) use(token);
  }
}

}  // namespace

WordList WordList::of_words(Rng& rng) {
  std::vector<std::string> words;
  for_each_word(data::Tokenizer::gpt2(), [&](const std::string& token) {
    if (is_small(token[1])) words.push_back(token.substr(1));
  });
  return shuffled(std::move(words), rng);
}

WordList WordList::of_names(Rng& rng) {
  const data::Tokenizer gpt2 = data::Tokenizer::gpt2();
  std::vector<std::string> names;
  for_each_word(gpt2, [&](std::string token) {
    if (is_small(token[1])) return;
    token[1] = static_cast<char>(token[1] - 'A' + 'a');
    if (gpt2.encode(token).size() > 1) names.push_back(token.substr(1));
  });
  return shuffled(std::move(names), rng);
}

std::vector<data::Token> WordList::tokens(std::size_t begin, std::size_t end) const {
  check(begin <= end && end <= words.size(), "[word list] there are no words {} to {} among {}",
        begin, end, words.size());
  std::string text;
  for (std::size_t i = begin; i < end; ++i) text += words[i] + "\n";
  return letters().encode(text);
}

data::Tokenizer WordList::letters() {
  return data::Tokenizer::of_characters("\nabcdefghijklmnopqrstuvwxyz");
}

}  // namespace tapegrad::tutorial
