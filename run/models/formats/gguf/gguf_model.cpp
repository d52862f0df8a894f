#include "tapegrad/run/models/formats/gguf/gguf_model.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "tapegrad/autograd/formats/gguf.h"
#include "tapegrad/autograd/ops.h"
#include "tapegrad/run/models/families/internal/family_keys.h"
#include "tapegrad/run/models/families/keys/internal/effective_config.h"
#include "tapegrad/run/models/formats/gguf/internal/gguf_blocks.h"
#include "tapegrad/run/models/formats/gguf/internal/gguf_names.h"
#include "tapegrad/run/models/formats/gguf/internal/gguf_tokenizer.h"
#include "tapegrad/run/models/formats/gguf/internal/gguf_weights.h"
#include "tapegrad/run/models/formats/internal/foreign_parts.h"

namespace tapegrad::run {
namespace {

namespace fs = std::filesystem;

// The value of a key; of lists of numbers, whole ones as texts, 1 for true, and no others. A list
// has a number for each block, of which there are not more than n_layer may be.
std::optional<Value> find_value(const GgufFile& file, const std::string& key) {
  const auto found = file.keys().find(key);
  if (found == file.keys().end()) return std::nullopt;
  constexpr std::size_t kMostBlocks = 4096;
  return std::visit(
      [&](const auto& value) -> Value {
        if constexpr (std::is_constructible_v<Value, decltype(value)>) return value;
        std::vector<std::string> texts;
        if constexpr (std::is_same_v<decltype(value), const std::vector<std::int64_t>&>) {
          check(value.size() <= kMostBlocks, "{} has {} numbers, more than a model has blocks", key,
                value.size());
          for (const std::int64_t number : value) texts.push_back(std::to_string(number));
        }
        return texts;
      },
      found->second);
}

// One that the family does not know might change the result.
void check_all_known(const GgufFile& file, const std::vector<FamilyKey>& known,
                     const std::string& prefix) {
  for (const auto& [name, value] : file.keys()) {
    const bool is_known = std::any_of(
        known.begin(), known.end(),
        [&, &name = name](const FamilyKey& k) { return name == prefix + std::string(k.key); });
    check(!name.starts_with(prefix) || is_known,
          "{}: the key '{}' is not supported: it may change the result", file.name(), name);
  }
}

std::int64_t rows_of_embedding(const GgufFile& file) {
  const Shape& shape = file.at(kTokenTable).shape;
  check(shape.rank() == 2, "{}: '{}' must be a matrix, not {}", file.name(), kTokenTable, shape);
  const std::int64_t rows = shape[0] - (gguf_value(file, kMeanEndRow, false) ? 1 : 0);
  check(rows > 0, "{}: '{}' has no row for a token", file.name(), kTokenTable);
  return rows;
}

// The largest divisor is the factor, which the slowest pairs have. The file has what these numbers
// make, or something else is meant.
void read_rope_scaling(const GgufFile& file, nn::DecoderConfig& c) {
  if (!file.contains(kRopeDivisors)) return;
  const Tensor stored = file.read(kRopeDivisors, DType::f32);
  const auto values = stored.values<float>();
  const double largest = values.empty() ? 0 : *std::max_element(values.begin(), values.end());
  c.rope_scaling = nn::RopeScalingKind::llama3;
  c.rope_factor = gguf_value(file, kRopeFactor, largest);
  c.rope_low_freq_factor = gguf_value(file, kRopeLowFreqFactor, 1.0);
  c.rope_high_freq_factor = gguf_value(file, kRopeHighFreqFactor, 4.0);
  c.rope_original_positions = gguf_value<std::int64_t>(file, kRopeOriginalPositions, 8192);
  const auto makes_values = [&] {
    const std::vector<float> expected = rope_divisors(c);
    return std::equal(values.begin(), values.end(), expected.begin(), expected.end(),
                      [](float a, float b) { return std::abs(a - b) <= 1e-5F * b; });
  };
  validate_config(c, file.name());
  const bool ours = file.keys().contains(kRopeFactor);  // a file that says by itself what was meant
  if (!ours && !makes_values() && std::ssize(values) == c.channels_per_head() / 2) {
    set_rope_factors({values.begin(), values.end()}, c);
    validate_config(c, file.name());
  }
  check(makes_values(),
        "{}: '{}' is not Llama 3's scaling of rotary positions, which alone is known", file.name(),
        kRopeDivisors);
}

// LongRoPE's factors, if the file has them.
std::string factors_in(const GgufFile& file, const char* tensor, std::int64_t pairs) {
  check(file.contains(tensor), "{}: there is no '{}', which longrope needs", file.name(), tensor);
  const Shape& shape = file.at(tensor).shape;
  check(shape == Shape{pairs}, "{}: '{}' is {}, not ({}), a number for each pair of channels",
        file.name(), tensor, shape, pairs);
  return fmt::format("{}", fmt::join(file.read(tensor, DType::f32).values<float>(), ","));
}

// True if the file has LongRoPE. That of Phi-3 is told by its tensors alone.
bool read_longrope(const GgufFile& file, const std::string& architecture, nn::DecoderConfig& c) {
  const auto type = gguf_value<std::string>(file, architecture + kRopeScalingType, kLongRopeType);
  const bool has_factors = file.contains(kShortFactors) || file.contains(kLongFactors);
  if (!has_factors && !file.keys().contains(architecture + kRopeScalingType)) return false;
  if (!has_factors && type != kLongRopeType) return false;
  check(type == kLongRopeType || type == "none",
        "{}: '{}' and {}{} '{}' scale rotary positions both", file.name(), kShortFactors,
        architecture, kRopeScalingType, type);
  const auto factor = gguf_value(file, architecture + kRopeScalingFactor, 0.0);
  check(factor == 0 || factor == 1, "{}: {}{} {} is not supported beside longrope, only 1",
        file.name(), architecture, kRopeScalingFactor, factor);
  c.rope_scaling = nn::RopeScalingKind::longrope;
  c.rope_short_factors = factors_in(file, kShortFactors, c.turned_channels() / 2);
  c.rope_long_factors = factors_in(file, kLongFactors, c.turned_channels() / 2);
  c.rope_original_positions =
      gguf_value<std::int64_t>(file, architecture + kRopeScalingPositions, c.block_size);
  validate_config(c, file.name());
  c.rope_factor = std::max(
      1.0, static_cast<double>(c.block_size) / static_cast<double>(c.rope_original_positions));
  const double usual = longrope_attention_factor(c.rope_factor, c.rope_original_positions);
  const double attention = gguf_value(file, architecture + kRopeScalingAttention, 1.0);
  c.rope_attention_factor = std::abs(attention - usual) <= 1e-6 * usual ? 0 : attention;
  validate_config(c, file.name());
  return true;
}

// The factor of queries and keys that llama.cpp makes of YaRN's, without attn_factor.
double usual_yarn_factor(const GgufFile& file, const std::string& architecture,
                         const GgufFamily& family, const nn::DecoderConfig& c) {
  const double usual = yarn_attention_factor(c.rope_factor);
  const auto of_all = family.takes_yarn_keys
                          ? gguf_value(file, architecture + std::string(kYarnLogMultiplier), 0.0)
                          : 0.0;
  return of_all == 0 ? usual : usual / yarn_attention_factor(c.rope_factor, of_all);
}

// What YaRN has beside the factor.
void read_yarn(const GgufFile& file, const std::string& architecture, const GgufFamily& family,
               double attn_factor, nn::DecoderConfig& c) {
  for (const auto& [name, computed] : kPassedYarnKeys) {
    if (family.takes_yarn_keys && name != kYarnExtFactor) continue;
    const auto value = gguf_value(file, architecture + std::string(name), computed);
    check(value == computed, "{}: {}{} {} is not supported, only {}: llama.cpp computes with that",
          file.name(), architecture, name, value, computed);
  }
  if (family.takes_yarn_keys) {
    c.rope_beta_fast =
        gguf_value(file, architecture + std::string(kYarnBetaFast), c.rope_beta_fast);
    c.rope_beta_slow =
        gguf_value(file, architecture + std::string(kYarnBetaSlow), c.rope_beta_slow);
  }
  const std::string truncate = architecture + ".rope.scaling.yarn_truncate";
  check(gguf_value(file, truncate, true),
        "{}: {} false is not supported, only true: llama.cpp computes with that", file.name(),
        truncate);
  c.rope_original_positions =
      gguf_value<std::int64_t>(file, architecture + kRopeScalingPositions, c.block_size);
  check(attn_factor == 1 || c.rope_window_base == 0 || !family.scales_windows,
        "{}: {}{} {} is not supported, only 1, where blocks with a window have a base of their "
        "own: llama.cpp multiplies in these, too",
        file.name(), architecture, kRopeScalingAttention, attn_factor);
  const double usual = yarn_attention_factor(c.rope_factor);
  const double computed = usual_yarn_factor(file, architecture, family, c) * attn_factor;
  c.rope_attention_factor =
      computed == usual ? 0 : static_cast<double>(static_cast<float>(computed));
  const std::string other = architecture + ".rope.scaling.yarn_attn_factor";
  const auto said = gguf_value(file, other, 1.0);
  check(said == 1 || std::abs(said - computed) <= 1e-6 * computed,
        "{}: {} {} is not supported, only {}: llama.cpp computes with that", file.name(), other,
        said, computed);
}

void read_scaling_keys(const GgufFile& file, const GgufFamily& family, nn::DecoderConfig& c) {
  const std::string architecture(family.architecture);
  if (c.query_scale_beta != 0) {  // queries grow from there, whatever else is scaled
    c.rope_original_positions =
        gguf_value<std::int64_t>(file, architecture + kRopeScalingPositions, c.block_size);
  }
  if (key_of(family.keys, kLongRope) != nullptr && read_longrope(file, architecture, c)) return;
  const std::string key = architecture + kRopeScalingType;
  const std::string attention = architecture + kRopeScalingAttention;
  const auto type = gguf_value<std::string>(file, key, "linear");
  const bool is_yarn = type == "yarn";
  check(type == "none" || type == "linear" || is_yarn,
        "{}: {} '{}' is not supported, only none, linear and yarn", file.name(), key, type);
  const auto factor = gguf_value(file, architecture + kRopeScalingFactor, 1.0);
  const auto attn_factor = gguf_value(file, attention, 1.0);
  check(is_yarn || attn_factor == 1, "{}: {} {} is not supported, only 1, but with yarn",
        file.name(), attention, attn_factor);
  const bool plain = factor == 0 || factor == 1;
  if (type == "none" || (plain && attn_factor == 1)) return;
  check(!file.contains(kRopeDivisors), "{}: '{}' and {} scale rotary positions both", file.name(),
        kRopeDivisors, architecture + kRopeScalingFactor);
  c.rope_scaling = is_yarn ? nn::RopeScalingKind::yarn : nn::RopeScalingKind::linear;
  c.rope_factor = plain ? 1 : factor;
  if (is_yarn) read_yarn(file, architecture, family, attn_factor, c);
  validate_config(c, file.name());
}

// Some options are not said by a key, but by the tensors that there are.
void read_tensors(const GgufFile& file, const Family& family, nn::DecoderConfig& c) {
  c.vocab_size = rows_of_embedding(file);
  c.tied = !file.contains(kHeadTable);
  for (const GgufTensorName& row : family.gguf.tensors) {
    if (!row.tells) continue;
    int block = 0;  // the first one that has such tensors
    while (block < c.n_layer && !has_tensor(c, block, row.ours)) ++block;
    if (block == c.n_layer) continue;
    std::string name = row.theirs;
    name.replace(name.find('#'), 1, std::to_string(block));
    const bool has = file.contains(name);
    if (has != has_option(c, row.with)) set_option(c, row.with, has);
  }
}

nn::DecoderConfig config_of(const GgufFile& file, const Family& family) {
  const std::string prefix = std::string(family.gguf.architecture) + ".";
  const std::vector<FamilyKey>& keys = family.gguf.keys;
  const FindValue find = [&](std::string_view key) {
    return find_value(file, prefix + std::string(key));
  };
  nn::DecoderConfig c = config_of_keys(family, keys, file.name(), prefix, find);
  read_blocks(file, family, c);
  if (family.gguf.follow != nullptr) family.gguf.follow(c);
  read_tensors(file, family, c);
  settle_config(family, file.name(), c);
  const std::string obstacle = family.gguf.obstacle == nullptr ? "" : family.gguf.obstacle(c);
  check(obstacle.empty(), "{}: there is no support for a model with {}", file.name(), obstacle);
  check_same_keys(keys, c, file.name(), prefix, find);
  check_all_known(file, keys, prefix);
  if (family.gguf.may_scale_rotation) read_rope_scaling(file, c);
  if (c.rotary()) read_scaling_keys(file, family.gguf, c);
  return c;
}

}  // namespace

bool is_gguf_file(const fs::path& path) { return begins_as_gguf(path); }

ForeignModel open_gguf(const fs::path& path) {
  const auto file = open_gguf_parts(path);
  const auto type = gguf_value<std::string>(*file, "general.type", "model");
  check(type == "model", "{}: general.type '{}' is not supported, only model", file->name(), type);
  const auto architecture = gguf_value<std::string>(*file, "general.architecture", "none");
  const bool experts = gguf_value<std::int64_t>(*file, architecture + ".expert_count", 0) > 0;
  const auto named = [&](const Family& f) { return f.gguf.architecture == architecture; };
  auto family = std::find_if(families().begin(), families().end(), [&](const Family& f) {
    return named(f) && f.gguf.has_experts == experts;
  });
  if (family == families().end())
    family = std::find_if(families().begin(), families().end(), named);
  check(family != families().end() && !architecture.empty(),
        "{}: general.architecture '{}' is not supported, only {}", file->name(), architecture,
        names_of_families([](const Family& f) { return f.gguf.architecture; }));
  const nn::DecoderConfig config = config_of(*file, *family);
  auto weights = gguf_weights(file, *family, config);
  return {config, gguf_tokenizer(file, config.vocab_size), std::move(weights), {.gguf = file}};
}

}  // namespace tapegrad::run
