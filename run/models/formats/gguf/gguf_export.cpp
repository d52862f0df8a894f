#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "tapegrad/autograd/ops.h"
#include "tapegrad/run/folder/run_checkpoint.h"
#include "tapegrad/run/models/families/internal/family_keys.h"
#include "tapegrad/run/models/families/keys/internal/effective_config.h"
#include "tapegrad/run/models/families/keys/internal/expressible.h"
#include "tapegrad/run/models/formats/gguf/gguf_model.h"
#include "tapegrad/run/models/formats/gguf/internal/gguf_blocks.h"
#include "tapegrad/run/models/formats/gguf/internal/gguf_forms.h"
#include "tapegrad/run/models/formats/gguf/internal/gguf_names.h"
#include "tapegrad/run/models/formats/gguf/internal/gguf_settings.h"
#include "tapegrad/run/models/formats/gguf/internal/gguf_tokenizer.h"
#include "tapegrad/run/models/formats/internal/foreign_parts.h"
#include "tapegrad/run/models/other_types.h"

namespace tapegrad::run {
namespace {

using TensorsByName = std::map<std::string, TensorToMake>;

// Parts of YaRN that most architectures, or all, compute with llama.cpp's own values, and why.
constexpr std::pair<std::string_view, std::string_view> kFixedInYarn[] = {
    {"rope_beta_fast", "llama.cpp passes it over"},
    {"rope_beta_slow", "llama.cpp passes it over"},
    {"rope_truncate", "llama.cpp has no key for it, and computes as with --rope-truncate"}};

std::string name_of_format(const Family& family) {
  return fmt::format("GGUF's {}", family.gguf.architecture);
}

GgufValue gguf_value_of(const Value& value) {
  return std::visit(
      [](const auto& v) -> GgufValue {
        if constexpr (std::is_constructible_v<GgufValue, decltype(v)>) return v;
        fail("GGUF has no value of this type");
      },
      value);
}

void set_config_keys(const Family& family, const nn::DecoderConfig& c, const StoredType& type,
                     GgufKeys& keys) {
  const std::string architecture(family.gguf.architecture);
  keys["general.architecture"] = architecture;
  keys["general.type"] = std::string("model");
  keys["general.file_type"] = type.gguf_file.value();
  keys["general.quantization_version"] = std::int64_t{2};
  for (const auto& [key, value] : values_of_keys(family.gguf.keys, c)) {
    keys[architecture + "." + std::string(key)] = gguf_value_of(value);
  }
  set_blocks(family, c, keys);
  if (c.query_scale_beta != 0) {
    keys[architecture + kRopeScalingPositions] = c.rope_original_positions;
  }
  const bool is_yarn = c.rope_scaling == nn::RopeScalingKind::yarn;
  if (c.scaling() && (is_yarn || c.rope_scaling == nn::RopeScalingKind::linear)) {
    keys[architecture + kRopeScalingType] = std::string(name_of_enum(c.rope_scaling));
    keys[architecture + kRopeScalingFactor] = c.rope_factor;
    if (!is_yarn) return;
    if (family.gguf.takes_yarn_keys) {
      keys[architecture + std::string(kYarnBetaFast)] = c.rope_beta_fast;
      keys[architecture + std::string(kYarnBetaSlow)] = c.rope_beta_slow;
    }
    keys[architecture + kRopeScalingPositions] = c.rope_original_positions;
    if (c.rope_attention_factor == 0) return;
    keys[architecture + kRopeScalingAttention] =
        c.rope_attention_factor / yarn_attention_factor(c.rope_factor);
  } else if (c.rope_scaling == nn::RopeScalingKind::longrope) {
    keys[architecture + kRopeScalingType] = std::string(kLongRopeType);
    keys[architecture + kRopeScalingPositions] = c.rope_original_positions;
    keys[architecture + kRopeScalingAttention] = c.scaling()->attention_factor;
  } else if (c.scaling()) {  // see rope_divisors(): llama.cpp has no keys for these
    keys[kRopeFactor] = c.rope_factor;
    keys[kRopeLowFreqFactor] = c.rope_low_freq_factor;
    keys[kRopeHighFreqFactor] = c.rope_high_freq_factor;
    keys[kRopeOriginalPositions] = c.rope_original_positions;
  }
}

// The tokenizer's keys and all that passes through. Those of the file that the model came from stay
// as they are, unless the tokenizer is another one. Returns as add_gguf_tokenizer().
bool add_settings(GgufKeys& keys, const TextModel& model) {
  const auto& from = model.settings.gguf;
  if (from) keys = passed_keys(*from);
  if (from && is_gguf_tokenizer(from, model.tokenizer)) {
    return gguf_value(*from, kMeanEndRow, false);
  }
  std::erase_if(keys, [](const auto& key) { return !key.first.starts_with("general."); });
  const bool adds_end_row = add_gguf_tokenizer(keys, model.tokenizer);
  const SettingsMeaning meaning = meaning_of(model.settings, model.tokenizer);
  // A token that begins texts by its name alone.
  std::optional<std::int64_t> named = model.settings.begin;
  if (const auto role = meaning.roles.find("bos"); role != meaning.roles.end())
    named = role->second;
  if (named && *named < model.tokenizer.vocab_size() && model.tokenizer.begin().empty()) {
    keys["tokenizer.ggml.bos_token_id"] = *named;
  }
  // Of several ends, llama.cpp's converter takes the tokenizer's own.
  const auto end = meaning.roles.find("eos");
  const std::vector<data::Token> ends = model.tokenizer.ends();
  if (end != meaning.roles.end() && std::count(ends.begin(), ends.end(), end->second) > 0) {
    keys["tokenizer.ggml.eos_token_id"] = std::int64_t{end->second};
  }
  add_meaning(keys, meaning);
  return adds_end_row;
}

// How the file keeps a tensor of the model, as llama.cpp's own tools do: norms, biases, routers of
// experts, kernels of convolutions and learned positions as f32. Counts the others.
const StoredType& type_of(const GgufName& name, const Shape& shape, const StoredType& type,
                          TypeCounts& counts) {
  const bool is_small = shape.rank() < 2 || name.theirs == "position_embd.weight" ||
                        name.theirs.ends_with(".ffn_gate_inp.weight") ||
                        name.theirs.ends_with(".bias") || is_computed(name);
  if (is_small) return stored_type(DType::f32);
  const StoredType& fits = gguf_row_type(type, shape[-1]);
  ++counts[&fits];
  return fits;
}

// With one row more, the mean of all: see kMeanEndRow.
Tensor with_mean_row(const Tensor& table) {
  const std::int64_t rows = table.dim(0), columns = table.dim(1);
  Tensor longer = Tensor::empty({rows + 1, columns});
  const float* const from = table.data<float>();
  float* const to = longer.mutable_data<float>();
  std::copy(from, from + rows * columns, to);
  for (std::int64_t j = 0; j < columns; ++j) {
    double sum = 0;
    for (std::int64_t i = 0; i < rows; ++i) sum += static_cast<double>(from[i * columns + j]);
    to[rows * columns + j] = static_cast<float>(sum / static_cast<double>(rows));
  }
  return longer;
}

// A tensor of the file with the rows or columns of one or several of the model.
GgufTensor moved_tensor(const std::vector<GgufName>& names, const TensorsByName& ours,
                        const nn::DecoderConfig& c, const StoredType& type, TypeCounts& counts) {
  std::vector<const TensorToMake*> parts;
  std::int64_t rows = 0;
  for (const GgufName& name : names) {
    parts.push_back(&ours.at(name.ours));
    rows += parts.back()->shape[0];
  }
  const Shape shape = file_shape(names.front(), parts.front()->shape).with(0, rows);
  const auto make = [names, parts, c] {
    std::vector<Tensor> made;
    for (std::size_t i = 0; i < names.size(); ++i) {
      made.push_back(file_tensor(names[i], parts[i]->make()));
    }
    return file_order(names, made, c);
  };
  return {names.front().theirs, &type_of(names.front(), shape, type, counts), shape, make};
}

// All tensors, in the order of names. They live as long as `ours`.
std::vector<GgufTensor> tensors_to_write(const Family& family, const nn::DecoderConfig& c,
                                         const TensorsByName& ours, bool adds_end_row,
                                         const StoredType& type, TypeCounts& counts) {
  const std::vector<GgufName> names = gguf_names(family, c);
  std::vector<GgufTensor> tensors;
  for (const GgufName& name : names) {
    if (name.moves()) {
      std::vector<GgufName> all;
      std::ranges::copy_if(names, std::back_inserter(all),
                           [&](const GgufName& other) { return other.theirs == name.theirs; });
      if (all.front().ours == name.ours) {
        tensors.push_back(moved_tensor(all, ours, c, type, counts));
      }
      continue;
    }
    const TensorToMake& own = ours.at(name.ours);
    Shape shape = file_shape(name, own.shape);
    const bool is_table = name.theirs == kTokenTable || name.theirs == kHeadTable;
    const bool longer = adds_end_row && is_table;
    if (longer) shape[0] += 1;
    tensors.push_back(
        {name.theirs, &type_of(name, shape, type, counts), shape, [&own, name, longer] {
           const Tensor t = own.make();
           return longer ? with_mean_row(t) : file_tensor(name, t);
         }});
  }
  return tensors;
}

GgufTensor vector_of(const char* name, const std::vector<float>& numbers) {
  const std::int64_t count = std::ssize(numbers);
  return {name, &stored_type(DType::f32), {count}, [numbers, count] {
            return Tensor::from(numbers, {count});
          }};
}

}  // namespace

bool is_gguf_type(const StoredType& type) {
  return type.ggml.has_value() && type.gguf_file.has_value();
}

void check_gguf_config(const nn::DecoderConfig& whole) {
  const Family& family = gguf_family_of(whole);
  nn::DecoderConfig config = whole;
  std::vector<TensorToMake> none;
  if (family.gguf.fold != nullptr) family.gguf.fold(config, none);
  const std::string pattern = config.with_defaults().moe.pattern;
  const bool may_be_dense = key_of(family.gguf.keys, kLeadingDense) != nullptr;
  check(!family.gguf.has_experts || may_be_dense || pattern.empty(),
        "{} cannot express a model with moe_pattern {}: llama.cpp wants experts in all blocks",
        name_of_format(family), pattern);
  std::set<std::string_view> options = options_of(family, family.gguf.keys, config);
  if (family.gguf.takes_either_head) options.insert("tied");
  const bool is_llama3 = config.rope_scaling == nn::RopeScalingKind::llama3;
  const bool is_longrope = config.rope_scaling == nn::RopeScalingKind::longrope;
  if ((!is_llama3 || family.gguf.may_scale_rotation) && !is_longrope) {
    for (const auto option : rope_scaling_options(config.rope_scaling)) options.insert(option);
  }
  if (config.query_scale_beta != 0 && options.count("query_scale_beta") != 0) {
    options.insert("rope_original_positions");
  }
  for (const auto& [option, reason] : kFixedInYarn) {
    if (!family.gguf.takes_yarn_keys || option == "rope_truncate") options.erase(option);
  }
  // llama.cpp multiplies in blocks with a base of their own, too.
  if (family.model.rope_window_base != 0) options.erase("rope_attention_factor");
  nn::DecoderConfig model = model_with(family, config, options);
  if (family.gguf.follow != nullptr) family.gguf.follow(model);
  Reasons reasons = family.gguf.reasons;
  reasons.insert(reasons.end(), std::begin(kFixedInYarn), std::end(kFixedInYarn));
  require_expressible(name_of_format(family), config, model, options, reasons);
  const std::string obstacle = family.gguf.obstacle == nullptr ? "" : family.gguf.obstacle(config);
  check(obstacle.empty(), "{} cannot express a model with {}", name_of_format(family), obstacle);
  require_leading_dense(name_of_format(family), family.gguf.keys, config);
  with_window_base(name_of_format(family), family, config);
}

Exported export_gguf(const TextModel& model, const std::filesystem::path& out,
                     const StoredType& type) {
  check_gguf_config(model.gpt.config);
  const Family& family = gguf_family_of(model.gpt.config);
  nn::DecoderConfig c = with_window_base(name_of_format(family), family, model.gpt.config);
  require_f32(model.params);
  check_finite_tensors("the model", model.params.tensors());
  std::vector<TensorToMake> made = family.tensors(model.params, c);
  if (family.gguf.fold != nullptr) family.gguf.fold(c, made);
  GgufKeys keys;
  const bool adds_end_row = add_settings(keys, model);
  set_config_keys(family, c, type, keys);
  const auto rows = keys.find(fmt::format("{}.vocab_size", family.gguf.architecture));
  if (adds_end_row && rows != keys.end()) rows->second = c.vocab_size + 1;

  TensorsByName ours;
  for (TensorToMake& t : made) ours.emplace(t.name, std::move(t));
  TypeCounts counts;
  std::vector<GgufTensor> tensors = tensors_to_write(family, c, ours, adds_end_row, type, counts);
  if (c.scaling() && c.rope_scaling == nn::RopeScalingKind::llama3) {
    const std::vector<float> divisors = rope_divisors(c);
    tensors.push_back(vector_of(kRopeDivisors, divisors));
  }
  if (c.rope_scaling == nn::RopeScalingKind::longrope) {
    const RopeScaling s = *c.scaling();
    tensors.push_back(vector_of(kLongFactors, {s.long_factors.begin(), s.long_factors.end()}));
    tensors.push_back(vector_of(kShortFactors, {s.short_factors.begin(), s.short_factors.end()}));
  }
  write_gguf(out, keys, tensors);
  return {.files = {},
          .use = "llama-completion -m {0} -no-cnv -p \"…\", and the other programs of llama.cpp",
          .other_types = other_types(type, counts)};
}

}  // namespace tapegrad::run
