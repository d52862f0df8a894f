#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/data/tokenize/tokenizer.h"
#include "tapegrad/nn/beam.h"
#include "tapegrad/nn/generate.h"
#include "tapegrad/nn/gpt.h"

namespace tapegrad::run {

// Whose config.json it is: of a GPT, and of an encoder–decoder Transformer.
inline constexpr std::string_view kGPTFormat = "tapegrad-gpt";
inline constexpr std::string_view kSeq2SeqFormat = "tapegrad-seq2seq";

// What a text begins with when nothing else is asked for: a line break, as in nanoGPT's sample.py,
// or the first token of a vocabulary that has none.
std::vector<data::Token> default_prompt(const data::Tokenizer& tokenizer);

// Called with a text piece by piece, whole UTF-8 characters only; returning false ends the text.
using OnText = std::function<bool(std::string_view piece)>;

// Continues the tokens of a prompt and passes on the text that is new. Ends early at
// <|endoftext|>, if the tokenizer has it.
void stream_text(const nn::GPT& gpt, const data::Tokenizer& tokenizer,
                 const std::vector<data::Token>& prompt, nn::GenerateOptions options, Rng& rng,
                 const OnText& on_text);

// A GPT that was trained, with its tokenizer.
struct TextModel {
  nn::Params params;
  nn::GPT gpt;
  data::Tokenizer tokenizer;

  // What the model makes of a prompt: the new text alone. An empty prompt is the default one.
  // Equal seeds give equal texts. Errors: a character that the tokenizer does not have; options
  // without a meaning.
  std::string generate(std::string_view prompt, const nn::GenerateOptions& options = {},
                       std::uint64_t seed = 1337) const;
  // The same as a stream.
  void generate(std::string_view prompt, const nn::GenerateOptions& options, std::uint64_t seed,
                const OnText& on_text) const;
  // Several prompts side by side. Each text is the one that its prompt gets alone with its own
  // seed: seed, seed + 1, ….
  std::vector<std::string> generate(const std::vector<std::string>& prompts,
                                    const nn::GenerateOptions& options = {},
                                    std::uint64_t seed = 1337) const;
  std::vector<data::Token> tokens_of(std::string_view prompt) const;
};

// The model of a run folder, converted to `dtype` (f32 or f64). Files that are missing, broken or
// do not belong together are an Error that names them.
TextModel load(const std::filesystem::path& folder, DType dtype = DType::f32);

// An encoder–decoder that was trained.
struct Translator {
  nn::Params params;
  nn::Transformer model;
  data::Tokenizer tokenizer;  // the model has data::SpecialTokens behind its tokens

  // How translations begin and end; the caller may add a beam.
  nn::TranslateOptions options() const;
  // The translations of sources, as one batch, each on one line.
  std::vector<std::string> translate(const std::vector<std::vector<data::Token>>& sources,
                                     const nn::TranslateOptions& options) const;
};
Translator load_translator(const std::filesystem::path& folder);

// As Translator's, for a model in training.
std::vector<std::string> translate_all(const nn::Transformer& model,
                                       const data::Tokenizer& tokenizer,
                                       const std::vector<std::vector<data::Token>>& sources,
                                       const nn::TranslateOptions& options);

}  // namespace tapegrad::run
