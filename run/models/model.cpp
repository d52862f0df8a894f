#include "tapegrad/run/models/model.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "tapegrad/base/text/utf8.h"
#include "tapegrad/data/pairs.h"
#include "tapegrad/nn/generation/generate.h"
#include "tapegrad/nn/lora.h"
#include "tapegrad/run/folder/config.h"
#include "tapegrad/run/folder/folder_calls.h"
#include "tapegrad/run/folder/run_folder.h"
#include "tapegrad/run/models/formats/export.h"
#include "tapegrad/run/models/formats/foreign_model.h"
#include "tapegrad/run/train/pair_tensors.h"

namespace tapegrad::run {
namespace {

template <class Part>
void read_valid(const std::filesystem::path& path, const Config& file, std::string_view section,
                Part& part) {
  read_section(path, file, section, part);
  try {
    part.validate();
  } catch (const Error& error) {
    fail("{}: {}", path.string(), error.what());
  }
}

// A model's config.json and tokenizer.json, which must agree. The model has `special` tokens more
// than the tokenizer.
template <class ModelConfig>
struct Description {
  Config file;
  ModelConfig config;
  data::Tokenizer tokenizer;

  // `known` says, in an error, what could have been opened.
  Description(const std::filesystem::path& folder, std::string_view format, std::string_view known,
              std::int64_t special)
      : file(read_file_of(folder, format, known)),
        config(config_of_file(folder / kConfigFile, file)),
        tokenizer(data::Tokenizer::load(folder / kTokenizerFile)) {
    // One of Hugging Face's may have fewer tokens than its model has rows.
    if (tokenizer.kind() == "hf" && tokenizer.vocab_size() + special <= config.vocab_size) {
      tokenizer = tokenizer.padded(config.vocab_size - special);
    }
    check(tokenizer.vocab_size() + special == config.vocab_size,
          "{}: the tokenizer has {} tokens, but the model in {} has a vocab_size of {}, not {}: "
          "the files do not belong together",
          (folder / kTokenizerFile).string(), tokenizer.vocab_size(),
          (folder / kConfigFile).string(), config.vocab_size, tokenizer.vocab_size() + special);
  }

  static Config read_file_of(const std::filesystem::path& folder, std::string_view format,
                             std::string_view known) {
    check(has_entry(folder), "{} does not exist: a model is {}", folder.string(), known);
    std::error_code ignored;
    check(std::filesystem::is_directory(folder, ignored),
          "{} is no model that is known, which is {}", folder.string(), known);
    check(has_entry(folder / kConfigFile), "{}: there is no model here: a model is {}",
          folder.string(), known);
    return read_config(folder / kConfigFile, format);
  }

  static ModelConfig config_of_file(const std::filesystem::path& path, const Config& file) {
    ModelConfig config;
    read_valid(path, file, "model", config);
    return config;
  }
};

// The length that a run's options have; none of a folder that is no run's.
std::optional<std::int64_t> training_length_of(const Config& file, std::int64_t most) {
  const Section* const data = file.find("data");
  const Value* const value = data == nullptr ? nullptr : data->find("block_size");
  const auto* const length = value == nullptr ? nullptr : std::get_if<std::uint64_t>(value);
  if (length == nullptr || *length == 0) return std::nullopt;
  return static_cast<std::int64_t>(std::min(*length, static_cast<std::uint64_t>(most)));
}

std::shared_ptr<const TensorSource> open_file(const std::filesystem::path& folder,
                                              const std::string& checkpoint) {
  return open_safetensors(model_file(folder, checkpoint).string(), Links::refused);
}

}  // namespace

std::vector<data::Token> default_prompt(const data::Tokenizer& tokenizer) {
  const std::span<const data::Token> begin = tokenizer.begin();
  if (!begin.empty()) return {begin.begin(), begin.end()};
  if (const auto end_of_text = tokenizer.end_of_text()) return {*end_of_text};
  for (data::Token token = 0; token < tokenizer.vocab_size(); ++token) {
    if (tokenizer.token_bytes(token) == "\n") return {token};
  }
  return {0};
}

std::vector<data::Token> prompt_tokens(const data::Tokenizer& tokenizer, std::string_view prompt) {
  return prompt.empty() ? default_prompt(tokenizer)
                        : tokenizer.encode_documents({&prompt, 1}, true);
}

std::int64_t stream_text(nn::TokenStream& stream, const data::Tokenizer& tokenizer,
                         const OnText& on_text,
                         const std::function<void(const nn::NewToken&)>& on_token) {
  Utf8Stream characters;
  std::int64_t added = 0;
  for (const nn::NewToken& t : stream) {
    ++added;
    if (on_token) on_token(t);
    const std::string piece = characters.push(tokenizer.token_bytes(t.token));
    if (!on_text(piece)) break;
  }
  if (const std::string rest = characters.flush(); !rest.empty()) on_text(rest);
  return added;
}

std::int64_t stream_text(const nn::Decoder& gpt, const data::Tokenizer& tokenizer,
                         const std::vector<data::Token>& prompt, nn::GenerateOptions options,
                         Rng& rng, const OnText& on_text) {
  options.stop_tokens = tokenizer.ends();
  nn::TokenStream stream(gpt, prompt, options, rng);
  return stream_text(stream, tokenizer, on_text);
}

std::vector<data::Token> TextModel::tokens_of(std::string_view prompt) const {
  return prompt_tokens(tokenizer, prompt);
}

void TextModel::generate(std::string_view prompt, const nn::GenerateOptions& options,
                         std::uint64_t seed, const OnText& on_text) const {
  Rng rng(seed);
  stream_text(gpt, tokenizer, tokens_of(prompt), options, rng, on_text);
}

std::string TextModel::generate(std::string_view prompt, const nn::GenerateOptions& options,
                                std::uint64_t seed) const {
  std::string text;
  generate(prompt, options, seed, [&](std::string_view piece) {
    text += piece;
    return true;
  });
  return text;
}

std::vector<std::string> TextModel::generate(const std::vector<std::string>& prompts,
                                             const nn::GenerateOptions& options,
                                             std::uint64_t seed) const {
  nn::GenerateOptions ends = options;
  ends.stop_tokens = tokenizer.ends();
  std::vector<nn::Tokens> tokens;
  std::vector<Rng> rngs;
  for (const std::string& prompt : prompts) {
    tokens.push_back(tokens_of(prompt));
    rngs.emplace_back(seed++);
  }
  std::vector<std::string> texts;
  for (const nn::Tokens& added : nn::generate(gpt, tokens, ends, rngs)) {
    Utf8Stream stream;
    texts.push_back(stream.push(tokenizer.decode(added)));
    texts.back() += stream.flush();
  }
  return texts;
}

OpenedModel open_model(const std::filesystem::path& path, const std::string& checkpoint) {
  if (auto foreign = open_foreign(path)) {
    check(checkpoint == kLast, "{} has one checkpoint, not '{}'", path.string(), checkpoint);
    return {.config = foreign->config,
            .tuning = {},
            .tokenizer = std::move(foreign->tokenizer),
            .weights = std::move(foreign->weights),
            .settings = std::move(foreign->settings)};
  }
  Description<nn::DecoderConfig> d(
      path, kGPTFormat,
      "a run folder of train-gpt, or a model of Hugging Face's, GGUF, llm.c or nanoGPT", 0);
  TuningOptions tuning;
  if (d.file.find(kTuningSection) != nullptr) {  // older runs have none
    read_valid(path / kConfigFile, d.file, kTuningSection, tuning);
  }
  auto weights = open_file(path, checkpoint);
  if (tuning.lora_rank) weights = nn::merge_adapters(std::move(weights), tuning.adapters());
  return {d.config,
          std::move(tuning),
          std::move(d.tokenizer),
          std::move(weights),
          training_length_of(d.file, d.config.block_size),
          load_settings(path)};
}

TextModel load(const std::filesystem::path& path, DType dtype, const std::string& checkpoint) {
  return load(open_model(path, checkpoint), dtype);
}

namespace {

TextModel load_into(nn::Params params, OpenedModel opened) {
  nn::Decoder gpt(params, opened.config);
  check_finite_tensors(opened.weights->name(), params.tensors());
  return {std::move(params), std::move(gpt), std::move(opened.tokenizer),
          std::move(opened.settings)};
}

}  // namespace

TextModel load(OpenedModel opened, DType dtype) {
  nn::Params params(opened.weights, dtype);
  return load_into(std::move(params), std::move(opened));
}

std::vector<std::string> packed_weights() {
  std::vector<std::string> names = {std::string(kStored)};
  constexpr std::int64_t kAnyRow = 256;  // of whole blocks
  for (const StoredType& type : stored_types()) {
    const bool packs = PackedMatrix::can_pack(type, kAnyRow) && type.from_f32 != nullptr;
    if (packs) names.emplace_back(type.name);
  }
  return names;
}

const StoredType* packed_type(std::string_view weights) {
  const auto names = packed_weights();
  check(std::find(names.begin(), names.end(), weights) != names.end(),
        "weights cannot be kept as '{}', only as {}", weights, fmt::join(names, ", "));
  return weights == kStored ? nullptr : &stored_type(weights);
}

TextModel load_packed(OpenedModel opened, std::string_view weights) {
  nn::Params params(opened.weights);
  params.pack(packed_type(weights));
  return load_into(std::move(params), std::move(opened));
}

void save_model(const std::filesystem::path& folder, const TextModel& model) {
  check_outside_runs(folder);
  make_folder(folder);
  check_writable(folder);
  std::vector<std::string_view> files = settings_files();
  files.insert(files.end(), {kConfigFile, kTokenizerFile, kModelFile});
  for (const std::string_view file : files) {
    check(!has_entry(folder / file), "{} has a file {} already: choose another folder",
          folder.string(), file);
  }
  try {
    save_settings(folder, model.settings, model.tokenizer);
    model.tokenizer.save(folder / kTokenizerFile);
    save_safetensors((folder / kModelFile).string(), model.params.tensors());
    // Last: without it, nothing is taken for a model.
    write_config(folder / kConfigFile,
                 {std::string(kGPTFormat), {section_of("model", model.gpt.config)}});
  } catch (...) {  // so that the same call can be made again
    std::error_code ignored;
    for (const std::string_view file : files) std::filesystem::remove(folder / file, ignored);
    throw;
  }
}

Translator load_translator(const std::filesystem::path& folder, const std::string& checkpoint) {
  Description<nn::TransformerConfig> d(folder, kSeq2SeqFormat, "a run folder of train-seq2seq",
                                       data::SpecialTokens::kCount);
  nn::Params params(open_file(folder, checkpoint));
  nn::Transformer model(params, d.config);
  check_finite_tensors(model_file(folder, checkpoint), params.tensors());
  return {std::move(params), std::move(model), std::move(d.tokenizer)};
}

nn::TranslateOptions Translator::options() const {
  const data::SpecialTokens special(tokenizer.vocab_size());
  return {.start = special.start, .end = special.end};
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
    Utf8Stream stream;
    std::string text;
    for (const data::Token token : translation.tokens) {
      // Padding and the start have no text; a model that is hardly trained may find them likely.
      if (token < tokenizer.vocab_size()) text += stream.push(tokenizer.token_bytes(token));
    }
    text += stream.flush();
    // One line each, whatever the model makes.
    std::replace(text.begin(), text.end(), '\n', ' ');
    texts.push_back(text);
  }
  return texts;
}

}  // namespace tapegrad::run
