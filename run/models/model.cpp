#include "tapegrad/run/models/model.h"

#include <algorithm>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "tapegrad/nn/lora/lora.h"
#include "tapegrad/run/folder/config.h"
#include "tapegrad/run/folder/internal/folder_calls.h"
#include "tapegrad/run/folder/run_checkpoint.h"
#include "tapegrad/run/folder/run_folder.h"
#include "tapegrad/run/models/formats/export.h"
#include "tapegrad/run/models/formats/foreign_model.h"
#include "tapegrad/run/models/formats/hf/internal/hf_weights.h"
#include "tapegrad/run/models/tensor_views.h"

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
    const bool has_config = has_entry(folder / kConfigFile);
    if (!has_config) refuse_peft_folder(folder);
    check(has_config, "{}: there is no model here: a model is {}", folder.string(), known);
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

bool isolates_documents(const Config& file) {
  const Section* const data = file.find("data");
  const Value* const value = data == nullptr ? nullptr : data->find("isolate_documents");
  const auto* const isolates = value == nullptr ? nullptr : std::get_if<bool>(value);
  return isolates != nullptr && *isolates;
}

std::shared_ptr<const TensorSource> open_file(const std::filesystem::path& folder,
                                              const std::string& checkpoint) {
  return open_safetensors(model_file(folder, checkpoint).string(), Links::refused);
}

}  // namespace

namespace {

OpenedModel open_at(const std::filesystem::path& path, const std::string& checkpoint, int depth);

// The model that the run at `path` refers to.
OpenedModel open_base(const std::filesystem::path& path, const TuningOptions& tuning, int depth) {
  constexpr int kMostDepth = 8;  // of runs that started from each other, were a file to say so
  const auto refuse = [&](std::string_view why) {
    fail(
        "{}: this run keeps adapters alone; the model that they belong to, {}, cannot be opened: "
        "{}",
        path.string(), tuning.started_from, why);
  };
  if (depth >= kMostDepth) refuse("too many runs refer to one another");
  try {
    return open_at(tuning.started_from, tuning.checkpoint.value_or(std::string(kLast)), depth + 1);
  } catch (const Error& error) {
    refuse(error.what());
    throw;
  }
}

OpenedModel open_at(const std::filesystem::path& path, const std::string& checkpoint, int depth) {
  if (auto foreign = has_entry(path) && !has_own_config(path) ? open_foreign(path) : std::nullopt) {
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
  OpenedModel opened{.config = d.config,
                     .tuning = std::move(tuning),
                     .tokenizer = std::move(d.tokenizer),
                     .weights = open_file(path, checkpoint),
                     .training_length = training_length_of(d.file, d.config.block_size),
                     .isolates_documents = isolates_documents(d.file),
                     .settings = load_settings(path)};
  if (opened.tuning.lora_rank) opened.adapters = opened.weights;
  if (opened.tuning.weights) {
    opened.base = open_base(path, opened.tuning, depth).weights;
    opened.parts = opened.weights = with_base(opened, opened.weights);
  }
  if (opened.tuning.lora_rank) {
    opened.weights = nn::merge_adapters(std::move(opened.weights), opened.tuning.adapters());
  }
  return opened;
}

}  // namespace

OpenedModel open_model(const std::filesystem::path& path, const std::string& checkpoint) {
  OpenedModel opened = open_at(path, checkpoint, 0);
#ifdef __GLIBC__
  // What reading tables has taken lies in small pieces between what is kept: the C library would
  // hold on to it beside the weights.
  ::malloc_trim(0);
#endif
  return opened;
}

bool is_model(const std::filesystem::path& path) {
  if (path.extension() == ".zip") return false;  // as a checkpoint of PyTorch's begins, too
  return is_foreign(path) || (has_entry(path / kConfigFile) && has_entry(path / kTokenizerFile));
}

TextModel load(const std::filesystem::path& path, DType dtype, const std::string& checkpoint) {
  return load(open_model(path, checkpoint), dtype);
}

void rule_out_padding(nn::Decoder& gpt, const data::Tokenizer& tokenizer) {
  std::vector<data::Token> rows;
  for (data::Token row = 0; row < gpt.config.vocab_size; ++row) {
    // An added token may have no text: SentencePiece's <unk> of a model that writes it as nothing.
    const bool is_token = row < tokenizer.vocab_size() &&
                          (!tokenizer.token_bytes(row).empty() || tokenizer.is_added(row));
    if (!is_token) rows.push_back(row);
  }
  gpt.rule_out(rows);
}

namespace {

TextModel load_into(nn::Params params, OpenedModel opened) {
  nn::Decoder gpt(params, opened.config);
  rule_out_padding(gpt, opened.tokenizer);
  check_finite_tensors(opened.weights->name(), params.tensors());
  for (std::size_t i = 0; const nn::Params& adapters : params.offered()) {
    check_finite_tensors(opened.offered[i++].tensors->name(), adapters.tensors());
  }
  return {std::move(params), std::move(gpt), std::move(opened.tokenizer),
          std::move(opened.settings)};
}

}  // namespace

TextModel load(OpenedModel opened, DType dtype) {
  check(opened.offered.empty(), "{}: adapters are on offer beside quantised weights alone",
        opened.weights->name());
  check_base(opened);
  nn::Params params(opened.weights, dtype);
  return load_into(std::move(params), std::move(opened));
}

TextModel load_quantized(OpenedModel opened, std::string_view weights) {
  check_base(opened);
  nn::Params params(opened.parts ? opened.parts : opened.weights);
  quantize(params, weights);
  if (opened.parts) params.adapt(opened.tuning.adapters());
  for (const Adapter& adapter : opened.offered) {
    const nn::Params offered(adapter.tensors);
    offered.adapt(adapter.options);
    params.offer(offered);
  }
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

bool is_translator(const std::filesystem::path& folder) {
  return has_own_config(folder) && read_config(folder / kConfigFile, {}).format == kSeq2SeqFormat;
}

Translator load_translator(const std::filesystem::path& folder, const std::string& checkpoint) {
  Description<nn::TransformerConfig> d(folder, kSeq2SeqFormat, "a run folder of train-seq2seq",
                                       data::SpecialTokens::kCount);
  nn::Params params(open_file(folder, checkpoint));
  nn::Transformer model(params, d.config);
  check_finite_tensors(model_file(folder, checkpoint), params.tensors());
  return {std::move(params), std::move(model), std::move(d.tokenizer)};
}

}  // namespace tapegrad::run
