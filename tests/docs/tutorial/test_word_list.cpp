#include <algorithm>
#include <set>

#include "tapegrad/base/error.h"
#include "tapegrad/docs/tutorial/programs/word_list.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using tutorial::WordList;

TEST_CASE("a word list has GPT-2's words, or its names that are no words", "[data]") {
  Rng rng(123);
  const WordList words = WordList::of_words(rng), names = WordList::of_names(rng);
  CHECK(words.words.size() == 18355);
  CHECK(names.words.size() == 3656);
  const std::set<std::string> known(words.words.begin(), words.words.end());
  CHECK(known.size() == words.words.size());
  CHECK(known.count("mansion") == 1);
  CHECK(known.count("the") == 0);  // three letters
  for (const std::string& name : names.words) {
    INFO(name);
    CHECK(name.size() >= 4);
    CHECK(std::all_of(name.begin(), name.end(), [](char c) { return c >= 'a' && c <= 'z'; }));
    CHECK(known.count(name) == 0);
  }
  const auto among_names = [&](const char* name) {
    return std::count(names.words.begin(), names.words.end(), name);
  };
  CHECK(among_names("copenhagen") == 1);
  CHECK(among_names("will") == 0);  // a name, and a word
}

TEST_CASE("the seed decides a word list's order", "[data]") {
  Rng one(1), same(1), other(2);
  const auto words = WordList::of_words(one).words;
  CHECK(words == WordList::of_words(same).words);
  CHECK(words != WordList::of_words(other).words);
}

TEST_CASE("words become letters, each with a line break behind it", "[data]") {
  const WordList list{{"zebra", "area", "baza"}};
  const std::vector<data::Token> ids = list.tokens(1, 3);
  CHECK(ids == std::vector<data::Token>{1, 18, 5, 1, 0, 2, 1, 26, 1, 0});
  CHECK(WordList::letters().decode(ids) == "area\nbaza\n");
  CHECK(WordList::letters().vocab_size() == 27);
  CHECK(list.tokens(2, 2).empty());
  CHECK_THROWS_WITH(list.tokens(1, 4), "[word list] there are no words 1 to 4 among 3");
  CHECK_THROWS_AS(list.tokens(2, 1), Error);
}
