#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "tapegrad/data/grammar/vocabulary_mask.h"
#include "tapegrad/data/tokenize/tokenizer.h"
#include "tapegrad/nn/generation/token_mask.h"

namespace tapegrad::run {

struct CallRules;

// Masks that make the texts of a model JSON. What they have found out about a schema is kept for
// the next text of the same one. Any number of threads may use an object.
//
//   JsonMasks masks(model.tokenizer);
//   model.stream("A cat:", {.mask = masks.of_schema(schema)});
//
// A text ends by a token of Tokenizer::ends() or, of a tokenizer without one, where nothing can
// follow. It is whole JSON unless max_new_tokens cuts it.
class JsonMasks {
 public:
  // Reads the bytes of all tokens, which takes a tenth of a second for 150,000 of them.
  // `most_terms`: the size of a schema, see data::GrammarLimits.
  explicit JsonMasks(const data::Tokenizer& tokenizer,
                     std::size_t most_terms = data::GrammarLimits().most_terms);

  // Texts that fit a schema: see data::compile_schema, whose Errors this has.
  std::shared_ptr<const nn::TokenMask> of_schema(std::string_view schema_json);
  // Any JSON object.
  std::shared_ptr<const nn::TokenMask> of_object();
  // Answers with calls of functions. CallRules are declared in run/models/internal/call_mask.h,
  // which is the library's own and not installed. Errors of call_mask(), which see.
  std::shared_ptr<const nn::TokenMask> of_calls(const CallRules& rules);

  // How many schemas and sets of functions are kept, and about how many bytes of what is known of
  // them; the one that was not used for the longest time is dropped.
  static constexpr std::size_t kKept = 32, kKeptBytes = std::size_t{512} << 20;

 private:
  struct Made {
    std::shared_ptr<const nn::TokenMask> mask;
    std::shared_ptr<const data::VocabularyMask> tables;  // what it has found out
  };
  struct Kept {
    std::string key;
    Made made;
  };
  std::shared_ptr<const nn::TokenMask> of(const std::string& key,
                                          const std::function<Made()>& make);
  Made of_grammar(const std::shared_ptr<const data::Grammar>& grammar) const;
  data::GrammarLimits limits() const;
  void drop_old();

  const data::Tokenizer tokenizer_;
  std::shared_ptr<const data::TokenTrie> tokens_;
  std::size_t most_terms_;
  std::mutex mutex_;
  std::list<Kept> kept_;  // those used last in front
};

}  // namespace tapegrad::run
