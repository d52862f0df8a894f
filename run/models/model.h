#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/base/text/utf8.h"
#include "tapegrad/data/pairs.h"
#include "tapegrad/data/tokenize/tokenizer.h"
#include "tapegrad/nn/decoder.h"
#include "tapegrad/nn/generation/beam.h"
#include "tapegrad/nn/generation/token_stream.h"
#include "tapegrad/run/folder/kept_models.h"
#include "tapegrad/run/models/adapters/adapter.h"
#include "tapegrad/run/models/model_settings.h"
#include "tapegrad/run/options/quantized_weights.h"
#include "tapegrad/run/options/tuning.h"

namespace tapegrad::run {

// The formats of config.json: for a GPT, and for an encoder–decoder Transformer.
inline constexpr std::string_view kGPTFormat = "tapegrad-gpt";
inline constexpr std::string_view kSeq2SeqFormat = "tapegrad-seq2seq";

// The prompt in place of an empty one: what the tokenizer begins a text with, or <|endoftext|>,
// behind which a document begins. Without such tokens it is a line break, as in nanoGPT's
// sample.py, or token 0 if the vocabulary has none.
std::vector<data::Token> default_prompt(const data::Tokenizer& tokenizer);
// A prompt as the beginning of a document: with what the tokenizer begins one with. Of an empty
// one, the default prompt.
std::vector<data::Token> prompt_tokens(const data::Tokenizer& tokenizer, std::string_view prompt);

// Texts of a model in the order of their prompts (see nn::TokenStream), each a range of pieces of
// whole UTF-8 characters:
//
//   TextStream stream(gpt, tokenizer, prompts, options, seed);
//   while (stream.next_text()) {
//     for (const std::string& piece : stream) show(piece);
//   }
class TextStream {
 public:
  using Piece = std::string;

  // Text i has the seed `seed + i`. The model and the tokenizer must outlive the stream.
  TextStream(const nn::Decoder& gpt, const data::Tokenizer& tokenizer,
             std::vector<std::vector<data::Token>> prompts, const nn::GenerateOptions& options,
             std::uint64_t seed)
      : tokenizer_(tokenizer), tokens_(gpt, nn::source_of(std::move(prompts), options, seed)) {}

  // As those of nn::TokenStream.
  bool next_text();
  std::optional<std::string> next();
  // All of the current text that next() has not returned.
  std::string text();

  nn::StreamIterator<TextStream> begin() { return nn::StreamIterator(this); }
  std::default_sentinel_t end() const { return {}; }

 private:
  const data::Tokenizer& tokenizer_;
  nn::TokenStream tokens_;
  Utf8Stream characters_;
};

// A GPT that was trained, with its tokenizer.
struct TextModel {
  nn::Params params;
  nn::Decoder gpt;
  data::Tokenizer tokenizer;
  ModelSettings settings = {};

  // The text behind a prompt, piece by piece as it is made:
  //
  //   for (const std::string& piece : model.stream("Once upon")) show(piece);
  //   const std::string text = model.stream("Once upon").text();
  //
  // An empty prompt stands for the default one. The text ends at each of the tokenizer's ends().
  // Equal seeds give equal texts. The model must outlive the stream. Errors: a character that the
  // tokenizer does not have; invalid options.
  TextStream stream(std::string_view prompt, const nn::GenerateOptions& options = {},
                    std::uint64_t seed = 1337) const;
  // The texts behind several prompts, in their order, made side by side. Text i is the one that
  // stream() makes of prompt i with the seed `seed + i`.
  std::vector<std::string> generate(const std::vector<std::string>& prompts,
                                    const nn::GenerateOptions& options = {},
                                    std::uint64_t seed = 1337) const;
  std::vector<data::Token> tokens_of(std::string_view prompt) const;
};

// All that the files of a model say of it, and its weights, which are read when they are asked for.
struct OpenedModel {
  nn::DecoderConfig config;
  TuningOptions tuning;
  data::Tokenizer tokenizer;
  std::shared_ptr<const TensorSource> weights;  // those of adapters are merged into the others
  // Tokens of the sequences that a run was trained on, of which the model may see more.
  std::optional<std::int64_t> training_length = {};
  bool isolates_documents = false;  // in these
  ModelSettings settings = {};
  // Of a run that keeps adapters alone: their tensors and those of the model that they belong to,
  // beside each other. They are checked where weights are read: see check_base(). Null of others.
  std::shared_ptr<const TensorSource> parts = {};
  // The model's own tensors, of such a run.
  std::shared_ptr<const TensorSource> base = {};
  // A source that has the adapters of a run with LoRA, and may have other tensors; null of others.
  std::shared_ptr<const TensorSource> adapters = {};
  // Adapters of which each text chooses one, by its number here: see offer_adapter().
  std::vector<Adapter> offered = {};
};
// Opens a run folder, or a model of another program's (see formats/foreign_model.h). Errors as
// those of load().
OpenedModel open_model(const std::filesystem::path& path,
                       const std::string& checkpoint = std::string(kLast));

// True if what is at `path` looks like a model, be it broken or not: a run folder, or a model of
// another program. A text does not, nor does one that is packed.
bool is_model(const std::filesystem::path& path);

// The same model with adapters of a file (see adapters/adapter.h) or of a run with LoRA, which stay
// apart as those of a run that keeps adapters alone. Errors: it has some already; the run's are
// known to belong to another model.
OpenedModel with_adapter(OpenedModel opened, const std::filesystem::path& adapter);
// Opens the same adapters for texts that ask for them (nn::GenerateOptions::adapter), once
// load_quantized() has loaded the model.
void offer_adapter(OpenedModel& opened, const std::filesystem::path& adapter);

// Error, naming the run and the model, unless the model that a run's adapters belong to is the one
// that they were trained with. Reads all of its weights. Does nothing for other models.
void check_base(const OpenedModel& opened);
// A source with the adapters of a run, and the model that they belong to, as OpenedModel::parts.
std::shared_ptr<const TensorSource> with_base(const OpenedModel& run,
                                              std::shared_ptr<const TensorSource> adapters);

// Rules out rows of a model that stand for no token of its tokenizer: nn::Decoder::rule_out().
void rule_out_padding(nn::Decoder& gpt, const data::Tokenizer& tokenizer);

// The opened model, converted to `dtype`: see below.
TextModel load(OpenedModel opened, DType dtype = DType::f32);
// The same with weights packed, for texts and losses alone: see quantized_weights.h.
// Adapters that are kept apart stay beside such weights; load() merges them, and refuses a model
// with adapters on offer. Error, naming file and tensor, for those that do not fit the model.
TextModel load_quantized(OpenedModel opened, std::string_view weights = kStored);
// The model that open_model() opens, converted to `dtype` (f32 or f64). `checkpoint` is "last",
// "best" or the number of a step, of those that the run keeps. Files that are missing, broken or do
// not belong together are an Error that names them.
TextModel load(const std::filesystem::path& path, DType dtype = DType::f32,
               const std::string& checkpoint = std::string(kLast));

// Makes the folder, and writes the model and its tokenizer to it, so that load() finds them. Error
// if the folder has files that this would replace, or lies in a run's folder. What was written is
// removed when it fails.
void save_model(const std::filesystem::path& folder, const TextModel& model);

// An encoder–decoder that was trained.
struct Translator {
  nn::Params params;
  nn::Transformer model;
  data::Tokenizer tokenizer;  // the model has data::SpecialTokens behind its tokens

  data::SpecialTokens special() const { return data::SpecialTokens(tokenizer.vocab_size()); }
  // How translations begin and end; the caller may add a beam.
  nn::TranslateOptions options() const;
  // The translations of sources, as one batch, each on one line.
  std::vector<std::string> translate(const std::vector<std::vector<data::Token>>& sources,
                                     const nn::TranslateOptions& options) const;
};
// True if a folder's config.json says that it is of an encoder–decoder.
bool is_translator(const std::filesystem::path& folder);
Translator load_translator(const std::filesystem::path& folder,
                           const std::string& checkpoint = std::string(kLast));

// As Translator's, for a model in training.
std::vector<std::string> translate_all(const nn::Transformer& model,
                                       const data::Tokenizer& tokenizer,
                                       const std::vector<std::vector<data::Token>>& sources,
                                       const nn::TranslateOptions& options);

}  // namespace tapegrad::run
