#include "tapegrad/run/models/families/internal/family_keys.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tapegrad::run {
namespace {

using Direction = FamilyKey::Direction;

double usual_attention_scale(const nn::DecoderConfig& c) {
  return 1 / std::sqrt(static_cast<double>(c.channels_per_head()));
}

// A config whose optional members have the values that the model has, and whose options without an
// effect have their defaults.
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

// Without a width of the feed-forward that the model would have without it.
nn::DecoderConfig with_usual_inner(nn::DecoderConfig c) {
  nn::DecoderConfig without = c;
  without.n_inner = {};
  return without.inner() == c.inner() ? without : c;
}

// Without a base of blocks with a window that is the others' own, whose positions are not scaled.
nn::DecoderConfig without_same_base(nn::DecoderConfig c) {
  if (c.rope_window_base == c.rope_base && !c.scaling()) c.rope_window_base = 0;
  return c;
}

Section effective_section(const nn::DecoderConfig& config) {
  const nn::DecoderConfig all = effective_config(config);
  return section_of("model", all);
}

// As messages show values: relu, true, 1e-05.
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

template <class Function>
auto naming(std::string_view file, const Function& function) {
  try {
    return function();
  } catch (const Error& error) {
    fail("{}: {}", file, error.what());
  }
}

// Sets options to values that they can have; null leaves one as it is.
class Setter : public OptionTable {
 public:
  using ValueOf = std::function<const Value*(std::string_view option)>;
  explicit Setter(const ValueOf& value_of) : value_of_(value_of) {}

 private:
  void visit(std::string_view name, const Member& member, std::string_view, const Rule&) override {
    if (const Value* const value = value_of_(name)) member.set(*value);
  }
  const ValueOf& value_of_;
};
void set_options(nn::DecoderConfig& config, const Setter::ValueOf& value_of) {
  Setter setter(value_of);
  OptionSchema(config).describe(setter);
}

// Reads the members of a config from the first of their keys that a file has.
class KeyReader : public OptionTable {
 public:
  KeyReader(const std::vector<FamilyKey>& keys, std::string_view prefix, const FindValue& find)
      : keys_(keys), prefix_(prefix), find_(find) {}

 private:
  void visit(std::string_view name, const Member& member, std::string_view,
             const Rule& rule) override {
    for (const FamilyKey& key : keys_) {
      if (key.option != name ||
          (key.direction != Direction::both && key.direction != Direction::in))
        continue;
      const auto value = value_of(key);
      const std::string theirs = fmt::format("{}{}", prefix_, key.key);
      check(value || !key.needed, "there is no '{}'", theirs);
      if (!value) continue;
      const std::string called = theirs == name ? theirs : fmt::format("{} ({})", theirs, name);
      return take(called, ours(key, theirs, *value), rule, member);
    }
  }

  std::optional<Value> value_of(const FamilyKey& key) const {
    const auto value = find_(key.key);
    const bool may_be_absent = !std::holds_alternative<std::monostate>(key.absent);
    if (!value && may_be_absent) return key.absent;
    if (!value || !std::holds_alternative<std::monostate>(*value)) return value;
    check(!may_be_absent || key.absent_is_not_null,
          "'{}{}' must be a number, not null: transformers takes {} where the key is absent",
          prefix_, key.key, shown(key.absent));
    return std::holds_alternative<std::monostate>(key.null) ? std::nullopt : value;
  }

  static void take(const std::string& name, const Value& value, const Rule& rule,
                   const Member& member) {
    if (member.type() != Member::Type::whole32) {
      set_member(name, member, value);
      return check_rule(fmt::format("'{}'", name), member.value(), rule);
    }
    std::int64_t wide = 0;  // one that is no int is out of bounds
    set_member(name, wide, value);
    check_rule(fmt::format("'{}'", name), wide, rule);
    member.set(wide);
  }

  static Value ours(const FamilyKey& key, const std::string& theirs, const Value& value) {
    if (std::holds_alternative<std::monostate>(value)) return key.null;
    if (key.ours != nullptr) return naming(theirs, [&] { return key.ours(value); });
    if (key.words.empty()) return value;
    std::string word;
    set_member(theirs, word, value);
    std::vector<std::string_view> known;
    for (const auto& [their_word, our_word] : key.words) {
      if (their_word == word) return std::string(our_word);
      known.push_back(their_word);
    }
    fail("{} '{}' is not supported, only {}", theirs, word, words_in_a_row(known));
  }

  const std::vector<FamilyKey>& keys_;
  std::string_view prefix_;
  const FindValue& find_;
};

// The value if it is of the type of `only`.
Value read_as(const Value& only, const std::string& name, const Value& value) {
  return std::visit(
      [&](auto typed) -> Value {
        if constexpr (!std::is_same_v<decltype(typed), std::monostate>) {
          set_member(name, typed, value);
        }
        return typed;
      },
      only);
}

void check_only(const FamilyKey& key, std::string_view prefix, const Value& only,
                const FindValue& find) {
  const auto value = find(key.key);
  if (!value || std::holds_alternative<std::monostate>(*value)) return;
  const std::string name = fmt::format("{}{}", prefix, key.key);
  check(read_as(only, name, *value) == only, "{} {} is not supported, only {}", name, shown(*value),
        shown(only));
}

}  // namespace

nn::DecoderConfig config_of_keys(const Family& family, const std::vector<FamilyKey>& keys,
                                 std::string_view file, std::string_view prefix,
                                 const FindValue& find) {
  nn::DecoderConfig config = family.model;
  naming(file, [&] {
    for (const FamilyKey& key : keys) {
      const bool is_read = key.direction == Direction::both || key.direction == Direction::in;
      if (is_read && key.option.empty()) check_only(key, prefix, key.only, find);
    }
    KeyReader reader(keys, prefix, find);
    OptionSchema(config).describe(reader);
  });
  if (family.follow != nullptr) family.follow(config);
  return config;
}

void settle_config(const Family& family, std::string_view file, nn::DecoderConfig& c) {
  if (c.window == 0) c.rope_window_base = 0;  // of blocks that there are not
  if (!c.moe.exist()) c.moe = {};
  c.forget_unused_mixers();
  naming(file, [&] { c.validate(); });
  if (c.n_kv_head == c.n_head) c.n_kv_head.reset();
  const nn::DecoderConfig all = c.with_defaults();
  c.mlp_bias = all.mlp_bias;
  if (c.bias == nn::DecoderConfig{.arch = c.arch}.with_bias()) c.bias.reset();
  c.window = all.window, c.window_pattern = all.window_pattern;
  c.rope_window_base = all.rope_window_base, c.rope_pattern = all.rope_pattern;
  c.mixer_pattern = all.mixer_pattern;
  c.moe.pattern = all.moe.pattern;
  if (!all.moe.exist()) c.moe = {};
  if (c.n_embd % c.n_head == 0 && c.head_size == c.n_embd / c.n_head) c.head_size.reset();
  if (c.rope_channels == c.channels_per_head()) c.rope_channels.reset();
  if (c.attention_scale == usual_attention_scale(c)) c.attention_scale = 0;
  if (family.inner_by_default) c = with_usual_inner(c);
}

void check_same_keys(const std::vector<FamilyKey>& keys, const nn::DecoderConfig& config,
                     std::string_view file, std::string_view prefix, const FindValue& find) {
  const Section section = effective_section(config);
  naming(file, [&] {
    for (const FamilyKey& key : keys) {
      if (key.direction == Direction::same)
        check_only(key, prefix, *section.find(key.option), find);
    }
  });
}

std::vector<std::pair<std::string_view, Value>> values_of_keys(const std::vector<FamilyKey>& keys,
                                                               const nn::DecoderConfig& config) {
  const nn::DecoderConfig told = with_usual_inner(config);
  nn::DecoderConfig whole = effective_config(config);
  if (whole.rotary()) whole.rope_channels = whole.turned_channels();
  const Section given = section_of("model", told), all = section_of("model", whole);
  std::vector<std::pair<std::string_view, Value>> values;
  for (const FamilyKey& key : keys) {
    if (key.direction == Direction::in || key.direction == Direction::ignored) continue;
    Value value = key.only;
    if (is_own_form(key.option)) {
      value = {};
    } else if (!key.option.empty()) {
      value = *(key.or_null ? given : all).find(key.option);
    }
    if (!std::holds_alternative<std::monostate>(key.null) && value == key.null) {
      value = {};
    } else if (key.theirs != nullptr) {
      value = key.theirs(value);
    }
    const auto word = std::find_if(key.words.begin(), key.words.end(), [&](const auto& words) {
      return Value(std::string(words.second)) == value;
    });
    if (word != key.words.end()) value = std::string(word->first);
    values.emplace_back(key.key, std::move(value));
  }
  return values;
}

nn::DecoderConfig model_with(const Family& family, const nn::DecoderConfig& config,
                             const std::set<std::string_view>& free) {
  nn::DecoderConfig model = family.model;
  const Section section = section_of("model", config);
  set_options(model, [&](std::string_view option) {
    return free.count(option) != 0 ? section.find(option) : nullptr;
  });
  if (family.follow != nullptr) family.follow(model);
  return model;
}

std::set<std::string_view> options_of(const Family& family, const std::vector<FamilyKey>& keys,
                                      const nn::DecoderConfig& config) {
  using Kind = nn::RopeScalingKind;
  const bool is_longrope = config.rope_scaling == Kind::longrope;
  std::set<std::string_view> options = {"vocab_size",       "dropout",          "ff_dropout",
                                        "attn_out_dropout", "moe_balance_loss", "moe_z_loss",
                                        "moe_bias_rate"};
  options.insert(family.same_tensors.begin(), family.same_tensors.end());
  for (const FamilyKey& key : keys) {
    if (key.direction == Direction::in) continue;  // it cannot be written
    options.insert(key.option);
    if (key.option == kWindows) options.insert({"window", "window_pattern"});
    if (key.option == kRotaryBlocks) options.insert("rope_pattern");
    if (key.option == kDenseBlocks || key.option == kLeadingDense) options.insert("moe_pattern");
    if (key.option == kMixers) options.insert("mixer_pattern");
    if (key.option == kMambaWidth) options.insert("mamba_head_size");
    if (key.option == kSharedInner) {
      options.insert({"n_inner", "moe_inner"});
      if (config.moe.shared_inner > 0) options.insert("moe_shared_inner");
    }
    if (key.option == kLongRope && is_longrope) {
      for (const auto option : rope_scaling_options(Kind::longrope)) options.insert(option);
    }
    if (key.option != kRotation) continue;
    if (family.hf.scales_queries) {
      options.insert({"query_scale_beta", "rope_original_positions"});
    }
    if (family.model.rope_window_base != 0) options.insert("rope_window_base");
    if (family.hf.turned_share) options.insert("rope_channels");
    options.insert("rope_base");
    const auto scalings = family.hf.scalings;
    const bool scales = scalings == HfFamily::Scalings::all ||
                        (scalings == HfFamily::Scalings::longrope && is_longrope);
    if (!scales) continue;
    for (const std::string_view option : rope_scaling_options()) options.insert(option);
    // transformers looks for it beside the parts for each kind of blocks.
    if (family.model.rope_window_base != 0) options.erase("rope_truncate");
  }
  // No class but that of a family whose dense feed-forward has a key of its own takes 0 of them.
  const bool needs_experts = family.model.moe.exist() && key_of(keys, kSharedInner) == nullptr;
  if (needs_experts && !config.moe.exist()) options.erase("moe_experts");
  const char letters[] = {'A', family.mixer};
  if (config.mixer_pattern.find_first_not_of(letters, 0, 2) != std::string::npos) {
    options.erase("mixer_pattern");
  }
  return options;
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

std::vector<OptionDifference> differences_of(const nn::DecoderConfig& config,
                                             nn::DecoderConfig only,
                                             const std::set<std::string_view>& free) {
  const Section section = section_of("model", config);
  set_options(only, [&](std::string_view option) {
    return free.count(option) != 0 ? section.find(option) : nullptr;
  });
  const Section ours = effective_section(without_same_base(config)),
                theirs = effective_section(without_same_base(only));
  std::vector<OptionDifference> differences;
  for (std::size_t i = 0; i < ours.values.size(); ++i) {
    const auto& [option, value] = ours.values[i];
    const Value& other = theirs.values[i].second;
    if (value != other) differences.push_back({option, shown(value), shown(other)});
  }
  return differences;
}

void require_expressible(std::string_view format, const nn::DecoderConfig& config,
                         const nn::DecoderConfig& only, const std::set<std::string_view>& free,
                         const Reasons& reasons) {
  const auto differences = differences_of(config, only, free);
  if (differences.empty()) return;
  const OptionDifference& first = differences.front();
  const auto reason = std::find_if(reasons.begin(), reasons.end(),
                                   [&](const auto& r) { return r.first == first.option; });
  fail("{} cannot express a model with {} {}, only with {}{}{}", format, first.option, first.value,
       first.only, reason == reasons.end() ? "" : ": ",
       reason == reasons.end() ? "" : reason->second);
}

void require_leading_dense(std::string_view format, const std::vector<FamilyKey>& keys,
                           const nn::DecoderConfig& config) {
  check(key_of(keys, kLeadingDense) == nullptr || leading_dense_blocks(config),
        "{} cannot express a model with moe_pattern {}, only with dense blocks before all others",
        format, config.moe.pattern);
}

Value window_above_zero(const Value& window) {
  check(number_of(window) > 0, "{} must be 1 or more, or null", number_of(window));
  return window;
}

double number_of(const Value& value) {
  double number = 0;
  set_member("number", number, value);
  return number;
}

std::string pattern_with_last(char others, char last, std::int64_t size) {
  check(size >= 1 && size <= 4096, "a pattern of blocks has 1 to 4096 of them, not {}", size);
  return std::string(static_cast<std::size_t>(size - 1), others) + last;
}

nn::DecoderConfig with_window_base(std::string_view format, const Family& family,
                                   nn::DecoderConfig c) {
  if (family.model.rope_window_base == 0 || c.window == 0 || c.rope_window_base != 0) return c;
  check(!c.scaling(),
        "{} cannot express a model whose blocks with a window have scaled positions: it needs "
        "rope_window_base",
        format);
  c.rope_window_base = c.rope_base;
  return c;
}

const FamilyKey* key_of(const std::vector<FamilyKey>& keys, std::string_view option) {
  const auto found = std::find_if(keys.begin(), keys.end(),
                                  [&](const FamilyKey& key) { return key.option == option; });
  return found == keys.end() ? nullptr : &*found;
}

bool has_option(const nn::DecoderConfig& config, std::string_view option) {
  return *effective_section(config).find(option) == Value(true);
}

void set_option(nn::DecoderConfig& config, std::string_view option, const Value& value) {
  set_options(config, [&](std::string_view name) { return name == option ? &value : nullptr; });
}

std::string words_in_a_row(const std::vector<std::string_view>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " and " : ", ";
    text += words[i];
  }
  return text;
}

}  // namespace tapegrad::run
