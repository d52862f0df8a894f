#include "tapegrad/run/models/formats/nanogpt.h"

#include <algorithm>
#include <cstring>

#include "tapegrad/autograd/formats/torch_file.h"
#include "tapegrad/autograd/tensor/stored_tensor.h"
#include "tapegrad/base/file.h"
#include "tapegrad/run/models/formats/internal/foreign_parts.h"

namespace tapegrad::run {
namespace {

namespace fs = std::filesystem;

using Kind = PickleValue::Kind;

constexpr std::string_view kHead = "lm_head.weight", kEmbedding = "wte.weight";
constexpr std::int64_t kGPT2Tokens = 50257, kPaddedGPT2Tokens = 50304;

fs::path checkpoint_in(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored) ? path / kNanogptCheckpoint : path;
}

// A checkpoint's tensors by our names.
class NanoGPTSource : public TensorSource {
 public:
  NanoGPTSource(std::shared_ptr<const TensorSource> file, const PickleValue& model)
      : file_(std::move(file)) {
    for (const auto& [stored, entry] : file_->entries()) {
      std::string name = stored;
      for (const std::string_view prefix : {"_orig_mod.", "transformer."}) {
        if (name.starts_with(prefix)) name.erase(0, prefix.size());
      }
      if (name.starts_with("h.") && name.ends_with(".attn.bias")) continue;  // old files' masks
      check(is_float(entry.dtype), "{}: '{}' is {}, not of floats", file_->name(), stored,
            name_of(entry.dtype));
      check(stored_.emplace(name, stored).second, "{}: '{}' is there twice", file_->name(), name);
      entries_.emplace(name, entry);
    }
    tied_ = contains(std::string(kHead)) && head_is_embedding(model);
    if (tied_) entries_.erase(std::string(kHead));
  }

  const std::string& name() const override { return file_->name(); }
  const Entries& entries() const override { return entries_; }
  const Metadata& metadata() const override { return file_->metadata(); }
  bool tied() const { return tied_; }

 private:
  // They share a storage, unless somebody has changed the checkpoint.
  bool head_is_embedding(const PickleValue& model) const {
    if (!contains(std::string(kEmbedding))) return false;
    const std::string head(kHead), embedding(kEmbedding);
    if (is_same_tensor(*model.find(stored_.at(head)), *model.find(stored_.at(embedding)))) {
      return true;
    }
    return this->stored(head).same_bytes(this->stored(embedding));
  }

  StoredTensor open(const std::string& tensor, const Entry&) const override {
    return file_->stored(stored_.at(tensor));
  }

  std::shared_ptr<const TensorSource> file_;
  std::map<std::string, std::string> stored_;  // their names by ours
  Entries entries_;
  bool tied_ = false;
};

nn::DecoderConfig config_of(const std::string& file, const PickleValue& args) {
  constexpr std::string_view known[] = {"n_layer", "n_head",     "n_embd", "block_size",
                                        "bias",    "vocab_size", "dropout"};
  for (std::size_t i = 0; i + 1 < args.items.size(); i += 2) {
    const std::string_view name = args.items[i]->as_text(file + ": a name in model_args");
    check(std::find(std::begin(known), std::end(known), name) != std::end(known),
          "{}: model_args: '{}' is not nanoGPT's, and is not supported", file, name);
  }
  const auto integer = [&](std::string_view name) {
    const PickleValue* const value = args.find(name);
    check(value != nullptr, "{}: model_args has no '{}'", file, name);
    return value->as_integer(fmt::format("{}: {}", file, name));
  };
  nn::DecoderConfig c;
  c.n_layer = small_count(integer("n_layer"));
  c.n_head = small_count(integer("n_head"));
  c.n_embd = integer("n_embd");
  c.block_size = integer("block_size");
  c.vocab_size = integer("vocab_size");
  // Before nanoGPT had this option, it computed GELU by tanh.
  const PickleValue* const bias = args.find("bias");
  if (bias != nullptr) c.bias = bias->as_boolean(file + ": bias");
  c.activation = bias != nullptr ? nn::Activation::gelu_erf : nn::Activation::gelu;
  validate_config(c, file);
  return c;
}

// Where the vocabulary of a checkpoint's data set may be.
std::vector<fs::path> places_of_meta(const fs::path& checkpoint, const PickleValue& root) {
  const fs::path folder = checkpoint.has_parent_path() ? checkpoint.parent_path() : ".";
  std::vector<fs::path> places = {folder / kNanogptMeta};
  const PickleValue* const config = root.find("config");
  const PickleValue* const dataset = config == nullptr ? nullptr : config->find("dataset");
  if (dataset == nullptr || dataset->kind != Kind::text) return places;
  const fs::path name(dataset->text);
  // The name is the file's, which may be anybody's.
  if (name.empty() || name != name.filename() || name == "." || name == "..") return places;
  places.push_back(folder / ".." / "data" / name / kNanogptMeta);
  places.push_back(folder / "data" / name / kNanogptMeta);
  return places;
}

data::Tokenizer tokenizer_of(const fs::path& checkpoint, const PickleValue& root,
                             std::int64_t vocab_size) {
  std::string looked;
  for (const fs::path& place : places_of_meta(checkpoint, root)) {
    std::error_code ignored;
    if (!fs::exists(place, ignored)) {
      looked += (looked.empty() ? "" : ", ") + place.string();
      continue;
    }
    const data::Tokenizer tokenizer = read_nanogpt_meta(place);
    return tokenizer_of_rows(tokenizer, vocab_size, place.string());
  }
  check(vocab_size == kGPT2Tokens || vocab_size == kPaddedGPT2Tokens,
        "{}: there is no vocabulary for its {} tokens: not GPT-2's, which has {}, and no meta.pkl "
        "as {}",
        checkpoint.string(), vocab_size, kGPT2Tokens, looked);
  return data::Tokenizer::gpt2().padded(vocab_size);
}

}  // namespace

bool is_nanogpt_checkpoint(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored) && fs::exists(path / "config.json", ignored)) return false;
  const fs::path file = checkpoint_in(path);
  if (!fs::is_regular_file(file, ignored)) return false;
  try {
    char magic[4] = {};
    return InputFile(file).read(0, magic, 4) && std::memcmp(magic, "PK\3\4", 4) == 0;
  } catch (const Error&) {
    return false;  // who reads it says what is wrong
  }
}

ForeignModel open_nanogpt(const fs::path& path) {
  const fs::path checkpoint = checkpoint_in(path);
  const auto file = std::make_shared<const TorchFile>(checkpoint);
  const PickleValue &root = file->root(), *const args = root.find("model_args"),
                    *const model = root.find("model");
  check(
      args != nullptr && model != nullptr && args->kind == Kind::dict && model->kind == Kind::dict,
      "{}: it is not a checkpoint of nanoGPT: it has no dicts 'model' and 'model_args'",
      file->name());
  nn::DecoderConfig config = config_of(file->name(), *args);
  auto weights = std::make_shared<NanoGPTSource>(tensors_of(file, *model), *model);
  config.tied = weights->tied();
  return {config, tokenizer_of(checkpoint, root, config.vocab_size), std::move(weights)};
}

data::Tokenizer read_nanogpt_meta(const fs::path& path) {
  const std::string name = path.string();
  const Pickle pickle(read_file(path, Pickle::kMostBytes), name);
  const PickleValue* const itos = pickle.root().find("itos");
  check(itos != nullptr && itos->kind == Kind::dict && !itos->items.empty(),
        "{}: it is not nanoGPT's: it has no dict 'itos'", name);
  const std::size_t size = itos->items.size() / 2;
  std::vector<std::string_view> characters(size);
  for (std::size_t i = 0; i < size; ++i) {
    const std::int64_t id = itos->items[2 * i]->as_integer(name + ": an id in itos");
    check(
        id >= 0 && id < std::ssize(characters) && characters[static_cast<std::size_t>(id)].empty(),
        "{}: the ids of itos are not 0 to {}", name, size - 1);
    characters[static_cast<std::size_t>(id)] =
        itos->items[2 * i + 1]->as_text(name + ": a character in itos");
  }
  std::string all;
  for (const std::string_view character : characters) all += character;
  try {
    const data::Tokenizer tokenizer = data::Tokenizer::of_characters(all);
    bool same = tokenizer.vocab_size() == std::ssize(characters);
    for (std::size_t i = 0; i < size && same; ++i) {
      same = tokenizer.token_bytes(static_cast<data::Token>(i)) == characters[i];
    }
    check(same, "only vocabularies of characters in ascending order are supported");
    return tokenizer;
  } catch (const Error& error) {
    fail("{}: {}", name, error.what());
  }
}

}  // namespace tapegrad::run
