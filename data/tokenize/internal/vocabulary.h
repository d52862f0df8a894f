#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <variant>

#include "tapegrad/data/tokenize/bpe/bpe.h"
#include "tapegrad/data/tokenize/char_vocab.h"
#include "tapegrad/data/tokenize/hf/hf_tokenizer.h"
#include "tapegrad/data/tokenize/tokenizer.h"

namespace tapegrad::data {

// The inside of a Tokenizer, hidden from those who include it.
struct Tokenizer::Vocabulary {
  std::variant<std::shared_ptr<const CharVocabulary>, std::shared_ptr<const Bpe>,
               std::shared_ptr<const HfTokenizer>>
      kind;

  std::int64_t size() const {
    return std::visit([](const auto& vocabulary) { return vocabulary->size(); }, kind);
  }
  // Null if it is of another kind.
  template <class Kind>
  const Kind* get() const {
    const auto* found = std::get_if<std::shared_ptr<const Kind>>(&kind);
    return found == nullptr ? nullptr : found->get();
  }
};

template <class Kind>
Tokenizer::Tokenizer(std::string_view kind, std::shared_ptr<Kind> vocabulary)
    : kind_(kind), vocabulary_(std::make_shared<const Vocabulary>(Vocabulary{vocabulary})) {}

}  // namespace tapegrad::data
