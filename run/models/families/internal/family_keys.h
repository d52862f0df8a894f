#pragma once

#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tapegrad/run/models/families/internal/family.h"

namespace tapegrad::run {

// A family's keys at work: the values of a file become a config, a config becomes values, and what
// a format cannot express is refused. Formats turn bytes into values and back.

// The value that a file has under a key of a family, a monostate for null. Nothing: it has none.
using FindValue = std::function<std::optional<Value>(std::string_view key)>;

// The config that a file's values describe; options of kRotation are not among them. `file` and
// `prefix` are for messages, "model.gguf" and "llama.". Errors, naming key and value: a key that is
// needed is missing; a value is of another type, out of bounds, or not the only one that is known.
nn::DecoderConfig config_of_keys(const Family& family, const std::vector<FamilyKey>& keys,
                                 std::string_view file, std::string_view prefix,
                                 const FindValue& find);

// For the end of reading a config. Error, naming the file, if no model can have it; then values
// that a config has by itself are left to it.
void settle_config(const Family& family, std::string_view file, nn::DecoderConfig& config);
// Error, naming the file, for a key whose value is not what other keys say.
void check_same_keys(const std::vector<FamilyKey>& keys, const nn::DecoderConfig& config,
                     std::string_view file, std::string_view prefix, const FindValue& find);

// The keys in a file of that config, in their order. Where an option has a default, it is
// the value that the model has. kRotation and its like are null.
std::vector<std::pair<std::string_view, Value>> values_of_keys(const std::vector<FamilyKey>& keys,
                                                               const nn::DecoderConfig& config);

// For a window that null turns off. Error unless it is above 0.
Value window_above_zero(const Value& window);
// Of a value of a file, which may be a whole number. Error for one that is no number.
double number_of(const Value& value);
// The same for a whole number. Error for 2.5, and for one that is out of bounds.
std::int64_t whole_number_of(const Value& value);
// A pattern of blocks whose every `size`-th has the letter `last`; 1 to 4,096.
std::string pattern_with_last(char others, char last, std::int64_t size);

// llama.cpp scales scores of Gemma's models by the width of the residual stream if there are as
// many blocks as the largest of them has.
template <int kLargest>
void scale_by_width(nn::DecoderConfig& c) {
  const auto width = static_cast<double>(c.n_embd / c.n_head);
  c.attention_scale = c.n_layer == kLargest ? 1 / std::sqrt(width) : 0;
}

// The first key of an option; null if there is none.
const FamilyKey* key_of(const std::vector<FamilyKey>& keys, std::string_view option);

// "a", "a and b", "a, b and c".
std::string words_in_a_row(const std::vector<std::string_view>& words);

}  // namespace tapegrad::run
