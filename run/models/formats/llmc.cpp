#include "tapegrad/run/models/formats/llmc.h"

#include <array>

#include "tapegrad/autograd/tensor/internal/write_stored.h"
#include "tapegrad/autograd/tensor/stored_tensor.h"
#include "tapegrad/base/file.h"
#include "tapegrad/run/folder/internal/folder_calls.h"
#include "tapegrad/run/models/families/internal/family_keys.h"
#include "tapegrad/run/models/families/internal/gpt2_weights.h"
#include "tapegrad/run/models/families/keys/internal/expressible.h"
#include "tapegrad/run/models/formats/internal/foreign_parts.h"
#include "tapegrad/run/models/formats/llmc_tokenizer.h"

namespace tapegrad::run {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kLlmcModelFile = "gpt2_124M.bin";
constexpr std::int32_t kMagic = 20240326;
// The type of all weights says the version.
struct Version {
  std::int32_t number;
  std::string_view type;
};
constexpr Version kVersions[] = {{3, "f32"}, {5, "bf16"}};

// 0 if there is none.
std::int32_t version_of(const StoredType& type) {
  for (const Version& version : kVersions) {
    if (version.type == type.name) return version.number;
  }
  return 0;
}
constexpr std::int64_t kRowsMultiple = 128;  // llm.c pads the vocabulary to a multiple of this

using Header = std::array<std::int32_t, 256>;

std::int64_t padded_rows(std::int64_t vocab_size) {
  return (vocab_size + kRowsMultiple - 1) / kRowsMultiple * kRowsMultiple;
}

// The file's order: each of these for all layers, one after the other.
constexpr std::array<std::string_view, 12> kOfLayers = {
    "ln_1.weight",        "ln_1.bias",        "attn.c_attn.weight", "attn.c_attn.bias",
    "attn.c_proj.weight", "attn.c_proj.bias", "ln_2.weight",        "ln_2.bias",
    "mlp.c_fc.weight",    "mlp.c_fc.bias",    "mlp.c_proj.weight",  "mlp.c_proj.bias"};

std::vector<std::string> names_in_order(int layers) {
  std::vector<std::string> names = {"wte.weight", "wpe.weight"};
  for (const std::string_view name : kOfLayers) {
    for (int i = 0; i < layers; ++i) names.push_back(fmt::format("h.{}.{}", i, name));
  }
  names.push_back("ln_f.weight");
  names.push_back("ln_f.bias");
  return names;
}

Shape shape_of(std::string_view name, const nn::DecoderConfig& c) {
  const std::int64_t C = c.n_embd;
  if (name == "wte.weight") return {c.vocab_size, C};
  if (name == "wpe.weight") return {c.block_size, C};
  if (name.ends_with("c_attn.weight")) return {3 * C, C};
  if (name.ends_with("c_attn.bias")) return {3 * C};
  if (name.ends_with("attn.c_proj.weight")) return {C, C};
  if (name.ends_with("c_fc.weight")) return {4 * C, C};
  if (name.ends_with("c_fc.bias")) return {4 * C};
  if (name.ends_with("mlp.c_proj.weight")) return {C, 4 * C};
  return {C};
}

// A file whose header says what it has, checked against its size before anything is allocated.
class LlmcSource : public TensorSource {
 public:
  explicit LlmcSource(const fs::path& path) : name_(path.string()), file_(path) {
    Header header{};
    check(file_.size() >= sizeof header && file_.read(0, &header, sizeof header),
          "{}: {} bytes are too few for a model of llm.c", name_, file_.size());
    check(header[0] == kMagic, "{}: it does not begin as a model of llm.c does", name_);
    for (const Version& version : kVersions) {
      if (header[1] == version.number) type_ = &stored_type(version.type);
    }
    check(type_ != nullptr,
          "{}: version {} of llm.c's models is not supported, only 3 (f32) and 5 (bf16)", name_,
          header[1]);
    config_.block_size = header[2];
    config_.vocab_size = header[3];
    config_.n_layer = header[4];
    config_.n_head = header[5];
    config_.n_embd = header[6];
    validate_config(config_, name_);
    const std::int64_t rows = header[7];
    check(rows >= config_.vocab_size && rows <= 1 << 25, "{}: {} rows for a vocabulary of {}",
          name_, rows, config_.vocab_size);
    place(rows);
  }

  const std::string& name() const override { return name_; }
  const Entries& entries() const override { return entries_; }
  const Metadata& metadata() const override { return metadata_; }
  const nn::DecoderConfig& config() const { return config_; }

 private:
  void place(std::int64_t rows) {
    // No more names than the file has bytes: each layer has twelve tensors.
    check(static_cast<std::uint64_t>(config_.n_layer) * kOfLayers.size() < file_.size(),
          "{}: {} layers in {} bytes", name_, config_.n_layer, file_.size());
    std::uint64_t at = sizeof(Header);
    for (const std::string& name : names_in_order(config_.n_layer)) {
      const Shape shape = shape_of(name, config_);
      entries_.emplace(name, Entry::of(*type_, shape));
      begins_.emplace(name, at);
      const Shape stored = name == "wte.weight" ? Shape{rows, config_.n_embd} : shape;
      // Bounds of the config: no sum of 4096 · 12 such products is too large for 64 bits.
      at += stored_bytes(*type_, stored).value();
    }
    check(at == file_.size(), "{}: a model of this header has {} bytes, but the file has {}", name_,
          at, file_.size());
  }

  StoredTensor open(const std::string& tensor, const Entry& entry) const override {
    return {*entry.type, entry.shape, file_, begins_.at(tensor),
            fmt::format("{}: tensor '{}'", name_, tensor)};
  }

  std::string name_;
  InputFile file_;
  const StoredType* type_ = nullptr;
  nn::DecoderConfig config_;
  Entries entries_;
  std::map<std::string, std::uint64_t> begins_;
  Metadata metadata_;
};

fs::path model_of(const fs::path& path) {
  std::error_code ignored;  // who opens it says what is wrong
  return fs::is_directory(path, ignored) ? path / kLlmcModelFile : path;
}

// The tokenizer's file beside a model; "" if there is none.
fs::path tokenizer_beside(const fs::path& model) {
  const fs::path folder = model.has_parent_path() ? model.parent_path() : ".";
  const fs::path usual = folder / kLlmcTokenizerFile;
  std::error_code error;
  if (fs::exists(usual, error)) return usual;
  std::vector<fs::path> found;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().filename().string().ends_with("tokenizer.bin")) found.push_back(it->path());
  }
  check(found.size() < 2, "{}: which of the tokenizers beside it is its own? Name it {}",
        model.string(), kLlmcTokenizerFile);
  return found.empty() ? fs::path() : found[0];
}

data::Tokenizer tokenizer_of(const fs::path& model, std::int64_t vocab_size) {
  const fs::path file = tokenizer_beside(model);
  if (!file.empty()) {
    return tokenizer_of_rows(read_llmc_tokenizer(file), vocab_size, file.string());
  }
  const data::Tokenizer gpt2 = data::Tokenizer::gpt2();
  check(vocab_size == gpt2.vocab_size(),
        "{}: the vocabulary of {} tokens is not GPT-2's, and there is no {} beside the model",
        model.string(), vocab_size, kLlmcTokenizerFile);
  return gpt2;
}

// The options in the header.
std::vector<FamilyKey> header_keys() {
  return {{"maxT", "block_size"},
          {"V", "vocab_size"},
          {"L", "n_layer"},
          {"NH", "n_head"},
          {"C", "n_embd"}};
}

void write_model(const fs::path& path, const GPT2Weights& weights, const nn::DecoderConfig& c,
                 const StoredType& type) {
  const auto number = [](std::int64_t x) { return static_cast<std::int32_t>(x); };
  const std::int64_t rows = padded_rows(c.vocab_size);
  const Header header = {kMagic,    version_of(type), number(c.block_size), number(c.vocab_size),
                         c.n_layer, c.n_head,         number(c.n_embd),     number(rows)};
  write_file_atomically(path, [&](FileWriter& file) {
    file.write({reinterpret_cast<const char*>(header.data()), sizeof header});
    for (const std::string& name : names_in_order(c.n_layer)) {
      write_stored(file, name, weights(name), type);
      if (name != "wte.weight" || rows == c.vocab_size) continue;
      write_stored(file, name, Tensor::zeros({rows - c.vocab_size, c.n_embd}), type);
    }
  });
}

}  // namespace

bool is_llmc_file(const fs::path& path) {
  try {
    const InputFile file(model_of(path));
    std::int32_t magic = 0;
    return file.size() >= sizeof(Header) && file.read(0, &magic, sizeof magic) && magic == kMagic;
  } catch (const Error&) {
    return false;
  }
}

ForeignModel open_llmc(const fs::path& path) {
  const fs::path model = model_of(path);
  auto weights = std::make_shared<LlmcSource>(model);
  const nn::DecoderConfig config = weights->config();
  return {config, tokenizer_of(model, config.vocab_size), std::move(weights)};
}

std::vector<std::string_view> llmc_files() { return {kLlmcTokenizerFile, kLlmcModelFile}; }

bool is_llmc_type(const StoredType& type) { return version_of(type) != 0; }

Exported export_llmc(const TextModel& model, const fs::path& folder, const StoredType& type) {
  const nn::DecoderConfig& config = model.gpt.config;
  constexpr std::string_view kName = "llm.c's format";
  const Family gpt2 = gpt2_family();
  require_expressible(kName, config, gpt2.model, options_of(gpt2, header_keys(), config));
  require_stored_as(type, model.params);
  const std::string tokenizer =
      llmc_tokenizer(model.tokenizer, default_prompt(model.tokenizer).front());

  make_folder(folder);
  write_file_atomically(folder / kLlmcTokenizerFile, tokenizer);
  write_model(folder / kLlmcModelFile, GPT2Weights(model.params, config), config, type);
  return {llmc_files(),
          fmt::format("copy or link both files to the folder of llm.c, {}",
                      type.is(DType::f32) ? "where train_gpt2 looks for them"
                                          : "for train_gpt2cu: train_gpt2 reads f32 alone")};
}

}  // namespace tapegrad::run
