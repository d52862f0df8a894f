#include "tapegrad/run/models/formats/gguf_model.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "tapegrad/autograd/ops.h"
#include "tapegrad/nn/formats/gguf.h"
#include "tapegrad/run/models/formats/foreign_parts.h"
#include "tapegrad/run/models/formats/gguf_names.h"
#include "tapegrad/run/models/formats/gguf_tokenizer.h"

namespace tapegrad::run {
namespace {

namespace fs = std::filesystem;

// The keys of the model's architecture, which are all asked for: one that is not might change the
// result.
class ModelKeys {
 public:
  ModelKeys(const nn::GgufFile& file, std::string architecture)
      : file_(file), prefix_(std::move(architecture) + ".") {}

  template <class T>
  T get(const std::string& name, T absent) {
    asked_.insert(prefix_ + name);
    return gguf_value<T>(file_, prefix_ + name, std::move(absent));
  }

  std::int64_t needed(const std::string& name) {
    const auto value = get<std::int64_t>(name, 0);
    check(value > 0, "{}: the key '{}{}' is missing, or not above 0", file_.name(), prefix_, name);
    return value;
  }

  template <class T>
  void must_be(const std::string& name, const T& only) {
    const T value = get(name, only);
    check(value == only, "{}: {}{} {} is not supported, only {}", file_.name(), prefix_, name,
          value, only);
  }

  void check_all_asked() const {
    for (const auto& [key, value] : file_.keys()) {
      check(!key.starts_with(prefix_) || asked_.count(key) != 0,
            "{}: the key '{}' is not supported: it may change the result", file_.name(), key);
    }
  }

 private:
  const nn::GgufFile& file_;
  std::string prefix_;
  std::set<std::string> asked_;
};

std::int64_t rows_of_embedding(const nn::GgufFile& file) {
  const Shape& shape = file.at(kTokenTable).shape;
  check(shape.rank() == 2, "{}: '{}' must be a matrix, not {}", file.name(), kTokenTable, shape);
  const std::int64_t rows = shape[0] - (gguf_value(file, kMeanEndRow, false) ? 1 : 0);
  check(rows > 0, "{}: '{}' has no row for a token", file.name(), kTokenTable);
  return rows;
}

// The largest divisor is the factor, which the slowest pairs have. The file has what these numbers
// make, or something else is meant.
void read_rope_scaling(const nn::GgufFile& file, nn::GPTConfig& c) {
  if (!file.contains(kRopeDivisors)) return;
  const Tensor stored = file.read(kRopeDivisors, DType::f32);
  const auto values = stored.values<float>();
  const double largest = values.empty() ? 0 : *std::max_element(values.begin(), values.end());
  c.rope_factor = gguf_value(file, kRopeFactor, largest);
  c.rope_low_freq_factor = gguf_value(file, kRopeLowFreqFactor, 1.0);
  c.rope_high_freq_factor = gguf_value(file, kRopeHighFreqFactor, 4.0);
  c.rope_original_positions = gguf_value<std::int64_t>(file, kRopeOriginalPositions, 8192);
  c.validate();
  const std::vector<float> expected = rope_divisors(c);
  check(std::equal(values.begin(), values.end(), expected.begin(), expected.end(),
                   [](float a, float b) { return std::abs(a - b) <= 1e-5F * b; }),
        "'{}' is not Llama 3's scaling of rotary positions, which alone is known", kRopeDivisors);
}

void read_llama(const nn::GgufFile& file, ModelKeys& keys, const std::string& architecture,
                nn::GPTConfig& c) {
  c.arch = nn::Architecture::llama;
  c.norm_eps = keys.get<double>("attention.layer_norm_rms_epsilon", -1);
  c.rope_base = keys.get<double>("rope.freq_base", 10000);
  const auto kv_heads = keys.get<std::int64_t>("attention.head_count_kv", c.n_head);
  if (kv_heads != c.n_head) c.n_kv_head = small_count(kv_heads);
  const auto size = keys.get<std::int64_t>("attention.key_length", c.n_embd / c.n_head);
  if (size != c.n_embd / c.n_head) c.head_size = size;
  keys.must_be<std::int64_t>("attention.value_length", size);
  keys.must_be<std::int64_t>("rope.dimension_count", size);
  keys.must_be<std::string>("rope.scaling.type", "none");
  keys.must_be<std::int64_t>("expert_count", 0);
  keys.must_be<std::int64_t>("expert_used_count", 0);
  c.qk_norm = architecture == "qwen3";
  // llama.cpp takes biases of Q, K and V with any of the three.
  if (file.contains("blk.0.attn_q.bias")) c.qkv_bias = true;
}

nn::GPTConfig config_of(const nn::GgufFile& file, const std::string& architecture) {
  ModelKeys keys(file, architecture);
  nn::GPTConfig c;
  c.vocab_size = rows_of_embedding(file);
  keys.get<std::int64_t>("vocab_size", 0);
  c.block_size = keys.needed("context_length");
  c.n_layer = small_count(keys.needed("block_count"));
  c.n_head = small_count(keys.needed("attention.head_count"));
  c.n_embd = keys.needed("embedding_length");
  c.n_inner = keys.needed("feed_forward_length");
  c.tied = !file.contains(kHeadTable);
  keys.must_be("attention.causal", true);
  if (architecture == "gpt2") {
    c.norm_eps = keys.get<double>("attention.layer_norm_epsilon", -1);
    if (*c.n_inner % 4 == 0 && *c.n_inner / 4 == c.n_embd) c.n_inner.reset();
  } else {
    read_llama(file, keys, architecture, c);
  }
  keys.check_all_asked();
  try {
    c.validate();
    if (architecture == kScaledArchitecture) read_rope_scaling(file, c);
  } catch (const Error& error) {
    const std::string_view what = error.what();
    if (what.starts_with(file.name())) throw;
    fail("{}: {}", file.name(), what);
  }
  return c;
}

// The tensors by our names.
class GgufWeights : public TensorSource {
 public:
  GgufWeights(std::shared_ptr<const nn::GgufFile> file, const nn::GPTConfig& config,
              const std::string& architecture)
      : file_(std::move(file)) {
    const bool has_end_row = gguf_value(*file_, kMeanEndRow, false);
    std::set<std::string> known;
    if (architecture == kScaledArchitecture) known.insert(kRopeDivisors);
    for (GgufName& name : gguf_names(config, architecture)) {
      Entry entry = file_->at(name.theirs);
      if (has_end_row && is_table(name.theirs) && entry.shape.rank() == 2) --entry.shape[0];
      check(name.exchanged_heads == 0 || entry.shape.rank() > 0, "{}: '{}' has no rows",
            file_->name(), name.theirs);
      known.insert(name.theirs);
      entries_.emplace(name.ours, std::move(entry));
      places_.emplace(name.ours, std::move(name));
    }
    for (const auto& [name, entry] : file_->entries()) {
      check(known.count(name) != 0, "{}: the tensor '{}' is not one of a model of this kind",
            file_->name(), name);
    }
  }
  const std::string& name() const override { return file_->name(); }
  const Entries& entries() const override { return entries_; }
  const Metadata& metadata() const override { return file_->metadata(); }

 private:
  static bool is_table(const std::string& theirs) {
    return theirs == kTokenTable || theirs == kHeadTable;
  }

  Tensor load(const std::string& tensor, const Entry& entry, DType as) const override {
    const GgufName& place = places_.at(tensor);
    const Tensor stored = file_->read(place.theirs, as);
    if (stored.shape() != entry.shape) return stored.rows(0, entry.shape[0]);
    const std::int64_t heads = place.exchanged_heads;
    if (heads == 0) return stored;
    check(entry.shape[0] % (2 * heads) == 0, "{}: '{}' of shape {} cannot be cut into {} heads",
          name(), place.theirs, entry.shape, heads);
    const TapePause pause;
    const std::int64_t pairs = entry.shape[0] / heads / 2;
    return reshape(permute(stored.view({heads, pairs, 2, -1}), {0, 2, 1, 3}), entry.shape);
  }

  std::shared_ptr<const nn::GgufFile> file_;
  Entries entries_;
  std::map<std::string, GgufName> places_;
};

}  // namespace

bool is_gguf_file(const fs::path& path) { return nn::begins_as_gguf(path); }

ForeignModel open_gguf(const fs::path& path) {
  const auto file = std::make_shared<const nn::GgufFile>(path);
  const auto type = gguf_value<std::string>(*file, "general.type", "model");
  check(type == "model", "{}: general.type '{}' is not supported, only model", file->name(), type);
  check(gguf_value<std::int64_t>(*file, "split.count", 1) <= 1,
        "{}: it is one of several files, which cannot be read: join them with llama-gguf-split "
        "--merge",
        file->name());
  const auto architecture = gguf_value<std::string>(*file, "general.architecture", "none");
  constexpr std::string_view kKnown[] = {"gpt2", "llama", "qwen2", "qwen3"};
  check(std::find(std::begin(kKnown), std::end(kKnown), architecture) != std::end(kKnown),
        "{}: general.architecture '{}' is not supported, only gpt2, llama, qwen2 and qwen3",
        file->name(), architecture);
  const nn::GPTConfig config = config_of(*file, architecture);
  auto weights = std::make_shared<GgufWeights>(file, config, architecture);
  return {config, gguf_tokenizer(*file, config.vocab_size), std::move(weights)};
}

}  // namespace tapegrad::run
