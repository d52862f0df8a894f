// usage: schema_answers COUNT [TOKENIZER]
// Makes up COUNT schemas that have a text and, for each, one of random tokens under its mask.
// Prints a line
// {"schema": …, "text": …} of each, for a validator to judge, and on stderr what the masks cost.
// TOKENIZER is a folder of Hugging Face's, or GPT-2's.

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "tapegrad/data/tokenize/tokenizer.h"
#include "tapegrad/tests/data/grammar/made_up_schemas.h"
#include "tapegrad/tests/data/grammar/random_text.h"

using namespace tapegrad;

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    fmt::print(stderr, "usage: schema_answers COUNT [TOKENIZER]\n");
    return 2;
  }
  const auto tokenizer = argc == 3 ? data::Tokenizer::from_hf(argv[2]) : data::Tokenizer::gpt2();
  const auto tokens = std::make_shared<const data::TokenTrie>(tokenizer);
  testing::MadeUpSchemas schemas(28);
  Rng rng(4);
  int without_text = 0;
  std::chrono::duration<double, std::milli> compiling{};
  const int count = std::atoi(argv[1]);
  for (int i = 0; i < count;) {
    const Json schema = schemas.next();
    const auto begin = std::chrono::steady_clock::now();
    const data::GrammarLimits limits{.depth = 4, .alphabet = tokens->single_bytes()};
    std::shared_ptr<const data::Grammar> grammar;
    try {
      grammar = data::compile_schema(json_text(schema), limits);
    } catch (const Error& error) {
      ++without_text;
      fmt::print(stderr, "{}\n", error.what());
      continue;
    }
    ++i;
    compiling += std::chrono::steady_clock::now() - begin;
    const data::VocabularyMask mask(tokens, grammar);
    const auto text = testing::random_text(*tokens, mask, rng);
    if (!text) {
      fmt::print(stderr, "no end: {}\n", json_text(schema));
      return 1;
    }
    fmt::print("{}\n", json_text({{"schema", schema}, {"text", *text}}));
  }
  fmt::print(stderr, "{} schemas that no text fits; {:.2f} ms to compile one\n", without_text,
             compiling.count() / count);
  return 0;
}
