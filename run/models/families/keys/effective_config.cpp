#include "tapegrad/run/models/families/keys/internal/effective_config.h"

#include <cmath>
#include <initializer_list>
#include <type_traits>
#include <variant>

namespace tapegrad::run {
namespace {

// Sets options to values that they can have; null leaves one as it is.
class Setter : public OptionTable {
 public:
  explicit Setter(const ValueOfOption& value_of) : value_of_(value_of) {}

 private:
  void visit(std::string_view name, const Member& member, std::string_view, const Rule&) override {
    if (const Value* const value = value_of_(name)) member.set(*value);
  }
  const ValueOfOption& value_of_;
};

}  // namespace

void set_options(nn::DecoderConfig& config, const ValueOfOption& value_of) {
  Setter setter(value_of);
  OptionSchema(config).describe(setter);
}

double usual_attention_scale(const nn::DecoderConfig& c) {
  return 1 / std::sqrt(static_cast<double>(c.channels_per_head()));
}

nn::DecoderConfig effective_config(nn::DecoderConfig c) {
  const nn::DecoderConfig usual;
  if (!c.rotary()) c.rope_base = usual.rope_base;
  if (!c.rotary() || !c.scaling()) {
    const Section plain = section_of("model", usual);
    for (const std::string_view option : rope_scaling_options()) {
      const bool of_queries = c.query_scale_beta != 0 && option == "rope_original_positions";
      if (!of_queries) set_option(c, option, *plain.find(option));
    }
  }
  if (c.attention_scale == 0) c.attention_scale = usual_attention_scale(c);
  const bool mlp_bias = c.with_mlp_bias();
  c = c.with_defaults();
  c.mlp_bias = mlp_bias;
  return c;
}

nn::DecoderConfig with_usual_inner(nn::DecoderConfig c) {
  nn::DecoderConfig without = c;
  without.n_inner = {};
  return without.inner() == c.inner() ? without : c;
}

Section effective_section(const nn::DecoderConfig& config) {
  const nn::DecoderConfig all = effective_config(config);
  return section_of("model", all);
}

std::vector<std::string_view> rope_scaling_options(std::optional<nn::RopeScalingKind> kind) {
  using Kind = nn::RopeScalingKind;
  std::vector<std::string_view> options = {"rope_scaling", "rope_factor"};
  const auto add = [&](Kind of, std::initializer_list<std::string_view> more) {
    if (!kind || kind == of) options.insert(options.end(), more);
  };
  add(Kind::llama3, {"rope_low_freq_factor", "rope_high_freq_factor", "rope_original_positions"});
  add(Kind::yarn, {"rope_original_positions", "rope_beta_fast", "rope_beta_slow",
                   "rope_attention_factor", "rope_truncate"});
  add(Kind::longrope, {"rope_original_positions", "rope_attention_factor", "rope_short_factors",
                       "rope_long_factors"});
  return options;
}

std::string shown(const Value& value) {
  return std::visit(
      [](const auto& v) -> std::string {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::monostate>) return "unset";
        if constexpr (std::is_same_v<T, std::string>) {
          if (v.empty()) return "none";
        }
        if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
          return fmt::format("{}", v);
        }
        return "a list";
      },
      value);
}

bool has_option(const nn::DecoderConfig& config, std::string_view option) {
  return *effective_section(config).find(option) == Value(true);
}

void set_option(nn::DecoderConfig& config, std::string_view option, const Value& value) {
  set_options(config, [&](std::string_view name) { return name == option ? &value : nullptr; });
}

}  // namespace tapegrad::run
