// usage: schema_answers COUNT CALLS [TOKENIZER]
// Makes up COUNT schemas that have a text and, for each, one of random tokens under its mask; and
// CALLS calls of functions, in all families' forms. Prints a line {"schema": …, "text": …} of each,
// of a call with its parameters and arguments, for a validator to judge, and on stderr what the
// masks cost.
// TOKENIZER is a folder of Hugging Face's, or GPT-2's.

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "tapegrad/data/tokenize/tokenizer.h"
#include "tapegrad/run/models/internal/call_mask.h"
#include "tapegrad/run/models/json_mask.h"
#include "tapegrad/tests/data/grammar/drawn_calls.h"
#include "tapegrad/tests/data/grammar/made_up_schemas.h"
#include "tapegrad/tests/data/grammar/random_calls.h"
#include "tapegrad/tests/data/grammar/random_text.h"

using namespace tapegrad;

namespace {

// False if an answer has no end.
bool print_calls(const data::Tokenizer& tokenizer, int count) {
  run::JsonMasks masks(tokenizer);
  testing::MadeUpSchemas schemas(58);
  Rng rng(5);
  const auto formats = data::call_formats();
  for (int i = 0; i < count;) {
    const data::CallFormat& format = formats[static_cast<std::size_t>(i) % formats.size()];
    const data::CallFunction function{"f", testing::made_up_parameters(schemas)};
    std::shared_ptr<const nn::TokenMask> mask;
    try {
      mask = masks.of_calls({.format = format, .functions = {function}, .required = true});
    } catch (const Error& error) {
      fmt::print(stderr, "{}\n", error.what());
      continue;
    }
    testing::RandomAnswer answer(tokenizer, format, *mask, rng);
    if (!answer.draw_to_end()) {
      fmt::print(stderr, "no end: {}\n", answer.text());
      return false;
    }
    for (const auto& call : testing::CallTexts(format, answer.text()).calls()) {
      fmt::print("{{\"schema\":{},\"text\":{}}}\n", function.parameters,
                 json_text(json_text(call.arguments)));
      if (++i == count) break;
    }
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || argc > 4) {
    fmt::print(stderr, "usage: schema_answers COUNT CALLS [TOKENIZER]\n");
    return 2;
  }
  const auto tokenizer = argc == 4 ? data::Tokenizer::from_hf(argv[3]) : data::Tokenizer::gpt2();
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
  return print_calls(tokenizer, std::atoi(argv[2])) ? 0 : 1;
}
