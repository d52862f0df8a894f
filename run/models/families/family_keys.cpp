#include "tapegrad/run/models/families/internal/family_keys.h"

#include <algorithm>

#include "tapegrad/run/models/families/keys/internal/effective_config.h"

namespace tapegrad::run {
namespace {

using Direction = FamilyKey::Direction;

template <class Function>
auto naming(std::string_view file, const Function& function) {
  try {
    return function();
  } catch (const Error& error) {
    fail("{}: {}", file, error.what());
  }
}

// Reads the members of a config from the first of their keys that a file has.
class KeyReader : public OptionTable {
 public:
  // `config` has the members that are read.
  KeyReader(const std::vector<FamilyKey>& keys, std::string_view prefix, const FindValue& find,
            const nn::DecoderConfig& config)
      : keys_(keys), prefix_(prefix), find_(find), config_(config) {}

 private:
  void visit(std::string_view name, const Member& member, std::string_view,
             const Rule& rule) override {
    // Where a file has 0 experts, as of Granite 4's dense models, a token has 0 of them, too.
    const bool is_of_experts = name.starts_with("moe_") && name != "moe_experts";
    if (is_of_experts && !config_.moe.exist()) return;
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
  const nn::DecoderConfig& config_;
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
    KeyReader reader(keys, prefix, find, config);
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
  c.mixer_pattern = all.mixer_pattern, c.ff_pattern = all.ff_pattern;
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

Value window_above_zero(const Value& window) {
  check(number_of(window) > 0, "{} must be 1 or more, or null", number_of(window));
  return window;
}

double number_of(const Value& value) {
  double number = 0;
  set_member("number", number, value);
  return number;
}

std::int64_t whole_number_of(const Value& value) {
  std::int64_t number = 0;
  set_member("number", number, value);
  return number;
}

std::string pattern_with_last(char others, char last, std::int64_t size) {
  check(size >= 1 && size <= 4096, "a pattern of blocks has 1 to 4096 of them, not {}", size);
  return std::string(static_cast<std::size_t>(size - 1), others) + last;
}

const FamilyKey* key_of(const std::vector<FamilyKey>& keys, std::string_view option) {
  const auto found = std::find_if(keys.begin(), keys.end(),
                                  [&](const FamilyKey& key) { return key.option == option; });
  return found == keys.end() ? nullptr : &*found;
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
