#include "tapegrad/autograd/formats/pickle_writer.h"
#include "tapegrad/autograd/formats/stored_zip.h"
#include "tapegrad/autograd/tensor/stored_tensor.h"
#include "tapegrad/base/file.h"
#include "tapegrad/base/text/utf8.h"
#include "tapegrad/run/folder/internal/folder_calls.h"
#include "tapegrad/run/models/families/internal/family_keys.h"
#include "tapegrad/run/models/families/internal/gpt2_weights.h"
#include "tapegrad/run/models/families/keys/internal/expressible.h"
#include "tapegrad/run/models/formats/internal/foreign_parts.h"
#include "tapegrad/run/models/formats/nanogpt.h"

namespace tapegrad::run {
namespace {

namespace fs = std::filesystem;

// The options that model_args have.
std::vector<FamilyKey> model_args() {
  return {{"n_layer", "n_layer"},       {"n_head", "n_head"},         {"n_embd", "n_embd"},
          {"block_size", "block_size"}, {"vocab_size", "vocab_size"}, {"bias", "bias"}};
}

void check_expressible(const TextModel& model, const nn::DecoderConfig& c, const StoredType& type) {
  constexpr std::string_view kName = "nanoGPT's format";
  const Family gpt2 = gpt2_family();
  nn::DecoderConfig only = gpt2.model;
  only.activation = nn::Activation::gelu_erf;
  std::set<std::string_view> options = options_of(gpt2, model_args(), c);
  if (!c.with_bias()) options.erase("qkv_bias");  // there is one option for all biases
  require_expressible(kName, c, only, options);
  const std::string_view kind = model.tokenizer.kind();
  check(kind == "char" || kind == "gpt2",
        "{} cannot express a tokenizer of the kind {}, only char and gpt2", kName, kind);
  require_stored_as(type, model.params);
}

// The tensors of a model by nanoGPT's names. The embedding is the first.
NamedTensors tensors_of(const TextModel& model, const nn::DecoderConfig& c) {
  const GPT2Weights weights(model.params, c);
  NamedTensors named;
  for (const GPT2Weights::Entry& entry : weights.entries()) {
    if (!c.with_bias() && entry.name.ends_with(".bias")) continue;
    named.emplace_back("transformer." + entry.name, weights(entry.name));
  }
  return named;
}

using Writer = PickleWriter;

// A group of an optimizer that has made no step, over parameters [begin, end).
void write_group(Writer& w, double weight_decay, std::int64_t begin, std::int64_t end) {
  w.begin_dict();
  const auto number = [&](std::string_view name, double value) {
    w.text(name);
    w.number(value);
  };
  number("weight_decay", weight_decay);
  number("lr", 6e-4);  // these are nanoGPT's, whose train.py sets the learning rate in each step
  number("eps", 1e-8);
  w.text("betas");
  w.begin_tuple();
  w.number(0.9);
  w.number(0.95);
  w.end_tuple();
  for (const std::string_view name : {"amsgrad", "maximize", "capturable", "differentiable"}) {
    w.text(name);
    w.boolean(false);
  }
  for (const std::string_view name : {"foreach", "fused"}) {
    w.text(name);
    w.none();
  }
  w.text("params");
  w.begin_list();
  for (std::int64_t i = begin; i < end; ++i) w.integer(i);
  w.end_list();
  w.end_dict();
}

// In model_args and config, name and value in turn.
void write_model_args(Writer& w, const nn::DecoderConfig& c) {
  const auto integer = [&](std::string_view name, std::int64_t value) {
    w.text(name);
    w.integer(value);
  };
  integer("n_layer", c.n_layer);
  integer("n_head", c.n_head);
  integer("n_embd", c.n_embd);
  integer("block_size", c.block_size);
  integer("vocab_size", c.vocab_size);
  w.text("bias");
  w.boolean(c.with_bias());
  w.text("dropout");
  w.number(c.dropout);
}

std::string checkpoint_pickle(const NamedTensors& tensors, const nn::DecoderConfig& c,
                              const std::string& dataset) {
  Writer w;
  w.begin_dict();
  w.text("model");
  w.begin_ordered_dict();
  std::int64_t matrices = 0;  // which nanoGPT decays
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Shape& shape = tensors[i].second.shape();
    matrices += shape.rank() >= 2;
    w.text(tensors[i].first);
    w.tensor(std::to_string(i), {shape.begin(), shape.end()});
  }
  w.text("lm_head.weight");  // the embedding's storage, which stands first
  const Shape& shape = tensors.front().second.shape();
  w.tensor("0", {shape.begin(), shape.end()});
  w.end_dict();
  w.text("optimizer");
  w.begin_dict();
  w.text("state");
  w.begin_dict();
  w.end_dict();
  w.text("param_groups");
  w.begin_list();
  write_group(w, 0.1, 0, matrices);
  write_group(w, 0.0, matrices, std::ssize(tensors));
  w.end_list();
  w.end_dict();
  w.text("model_args");
  w.begin_dict();
  write_model_args(w, c);
  w.end_dict();
  w.text("iter_num");
  w.integer(0);
  w.text("best_val_loss");
  w.number(1e9);  // of a run that has not been evaluated, as in train.py
  w.text("config");
  w.begin_dict();
  if (!dataset.empty() && !find_invalid_utf8(dataset)) {  // Python opens no other text
    w.text("dataset");
    w.text(dataset);
  }
  w.end_dict();
  w.end_dict();
  return w.take();
}

std::string meta_pickle(const data::Tokenizer& tokenizer) {
  std::vector<std::string> characters;
  for (data::Token token = 0; token < tokenizer.vocab_size(); ++token) {
    std::string character = tokenizer.token_bytes(token);
    if (!character.empty()) characters.push_back(std::move(character));
  }
  Writer w;
  w.begin_dict();
  w.text("vocab_size");
  w.integer(std::ssize(characters));
  w.text("itos");
  w.begin_dict();
  for (std::size_t i = 0; i < characters.size(); ++i) {
    w.integer(static_cast<std::int64_t>(i));
    w.text(characters[i]);
  }
  w.end_dict();
  w.text("stoi");
  w.begin_dict();
  for (std::size_t i = 0; i < characters.size(); ++i) {
    w.text(characters[i]);
    w.integer(static_cast<std::int64_t>(i));
  }
  w.end_dict();
  w.end_dict();
  return w.take();
}

// The last name of a folder, by which sample.py looks for meta.pkl in data/NAME/.
std::string name_of(const fs::path& folder) {
  return absolute_path(folder / kNanogptMeta).lexically_normal().parent_path().filename().string();
}

}  // namespace

bool is_nanogpt_type(const StoredType& type) { return type.is(DType::f32); }

std::vector<std::string_view> nanogpt_files() { return {kNanogptMeta, kNanogptCheckpoint}; }

Exported export_nanogpt(const TextModel& model, const fs::path& folder, const StoredType& type) {
  const nn::DecoderConfig& config = model.gpt.config;
  check_expressible(model, config, type);
  const NamedTensors tensors = tensors_of(model, config);
  const bool has_meta = model.tokenizer.kind() == "char";
  const std::string pickle = checkpoint_pickle(tensors, config, has_meta ? name_of(folder) : "");
  std::vector<ZipFile> files = {{"ckpt/data.pkl", pickle}, {"ckpt/byteorder", "little"}};
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    files.push_back({fmt::format("ckpt/data/{}", i), bytes_of(tensors[i].second)});
  }
  files.push_back({"ckpt/version", "3\n"});
  make_folder(folder);
  if (has_meta) write_file_atomically(folder / kNanogptMeta, meta_pickle(model.tokenizer));
  write_stored_zip(folder / kNanogptCheckpoint, files);
  // It runs in nanoGPT's own folder.
  const std::string sample = "sample.py --out_dir={1} --device=cpu of nanoGPT";
  if (!has_meta) return {{kNanogptCheckpoint}, sample};
  return {nanogpt_files(), sample + ", once {1}/meta.pkl is copied to data/{2}/ of nanoGPT"};
}

}  // namespace tapegrad::run
