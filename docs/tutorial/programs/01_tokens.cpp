// Byte-pair encoding by hand: the most frequent pair of neighbours becomes a token, ten times over.

#include <fmt/ranges.h>

#include <map>

#include "tapegrad/base/error.h"
#include "tapegrad/data/tokenize/tokenizer.h"

using namespace tapegrad;

namespace {

using Word = std::vector<std::size_t>;  // ids of tokens
using Pair = std::pair<std::size_t, std::size_t>;
const std::string characters = "abcdefghijklmnopqrstuvwxyz ";  // the first 27 tokens

// " low lower" is the words " low" and " lower", one token a character.
std::vector<Word> words_of(const std::string& text) {
  std::vector<Word> words;
  for (const char c : text) {
    if (c == ' ') words.emplace_back();
    words.back().push_back(characters.find(c));
  }
  return words;
}

// Of pairs that are equally frequent, the one with the smaller ids: maps are in order.
std::pair<Pair, int> most_frequent_pair(const std::vector<Word>& words) {
  std::map<Pair, int> counts;
  for (const Word& word : words) {
    for (std::size_t i = 1; i < word.size(); ++i) ++counts[{word[i - 1], word[i]}];
  }
  Pair best;
  int most = 0;
  for (const auto& [pair, count] : counts) {
    if (count > most) {
      best = pair;
      most = count;
    }
  }
  return {best, most};
}

// The word with a token in place of each pair.
Word merged(const Word& word, const Pair& pair, std::size_t token) {
  Word all;
  for (const std::size_t id : word) {
    if (all.empty() || Pair(all.back(), id) != pair) {
      all.push_back(id);
    } else {
      all.back() = token;
    }
  }
  return all;
}

int lesson() {
  std::string text;
  for (const auto& [word, times] :
       {std::pair(" low", 5), {" lower", 2}, {" newest", 6}, {" widest", 3}}) {
    for (int i = 0; i < times; ++i) text += word;
  }
  const auto learnt =
      data::Tokenizer::train_bpe(text, 256 + 10 + 1);  // bytes, merges, <|endoftext|>

  std::vector<std::string> vocabulary;
  for (const char c : characters) vocabulary.push_back(std::string(1, c));
  std::vector<Word> words = words_of(text), unseen = words_of(" lowest");
  fmt::print("merge  how often   by hand    library\n");
  for (int i = 0; i < 10; ++i) {
    const auto [pair, count] = most_frequent_pair(words);
    const std::size_t token = vocabulary.size();
    vocabulary.push_back(vocabulary[pair.first] + vocabulary[pair.second]);
    for (std::size_t w = 0; w < words.size(); ++w) words[w] = merged(words[w], pair, token);
    unseen[0] = merged(unseen[0], pair, token);
    fmt::print("{:5} {:10}   '{}'{:{}} '{}'\n", i + 1, count, vocabulary[token], "",
               9 - vocabulary[token].size(), learnt.token_bytes(256 + i));
  }

  std::size_t tokens = 0;
  for (const Word& word : words) tokens += word.size();
  fmt::print("\n{} characters become {} tokens by hand, {} with the library\n", text.size(), tokens,
             learnt.encode(text).size());
  fmt::print("' lowest', which is not in the text, becomes");
  for (const std::size_t id : unseen[0]) fmt::print(" '{}'", vocabulary[id]);
  fmt::print(" by hand,");
  for (const data::Token id : learnt.encode(" lowest")) fmt::print(" '{}'", learnt.token_bytes(id));
  fmt::print(" with the library\n");

  const auto gpt2 = data::Tokenizer::gpt2();
  fmt::print("\nGPT-2's vocabulary: {} = 256 bytes + {} merges + <|endoftext|>\n",
             gpt2.vocab_size(), gpt2.vocab_size() - 257);
  for (const std::string sentence : {"Dog bites man", "dog bites man", "1234567", "狗咬人"}) {
    fmt::print("{:2} bytes, ids {}: {}\n", sentence.size(), fmt::join(gpt2.encode(sentence), " "),
               sentence);
  }
  return 0;
}

}  // namespace

int main() {
  try {
    return lesson();
  } catch (const Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
