// Texts that an encoder–decoder makes of its sources: see model.h.

#include <algorithm>

#include "tapegrad/base/text/utf8.h"
#include "tapegrad/data/tokenize/decode_text.h"
#include "tapegrad/run/models/model.h"
#include "tapegrad/run/models/pair_tensors.h"

namespace tapegrad::run {

nn::TranslateOptions Translator::options() const {
  return {.start = special().start, .end = special().end};
}

std::vector<std::string> Translator::translate(const std::vector<std::vector<data::Token>>& sources,
                                               const nn::TranslateOptions& options) const {
  return translate_all(model, tokenizer, sources, options);
}

std::vector<std::string> translate_all(const nn::Transformer& model,
                                       const data::Tokenizer& tokenizer,
                                       const std::vector<std::vector<data::Token>>& sources,
                                       const nn::TranslateOptions& options) {
  const data::SpecialTokens special(tokenizer.vocab_size());
  std::vector<data::TokenPair> pairs;
  for (const auto& source : sources) pairs.push_back({source, {}});
  const PairTensors t = tensors_of(data::make_batch(pairs, special), special);
  std::vector<std::string> texts;
  for (const auto& translation : nn::translate(model, t.sources, t.masks.source, options)) {
    std::vector<data::Token> tokens;
    for (const data::Token token : translation.tokens) {
      // Padding and the start have no text; a model that is hardly trained may find them likely.
      if (token < tokenizer.vocab_size()) tokens.push_back(token);
    }
    Utf8Stream stream;
    std::string text = stream.push(data::decode_text(tokenizer, tokens));
    text += stream.flush();
    // One line each, whatever the model makes.
    std::replace(text.begin(), text.end(), '\n', ' ');
    texts.push_back(text);
  }
  return texts;
}

}  // namespace tapegrad::run
