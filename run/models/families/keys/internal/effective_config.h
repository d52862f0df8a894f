#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/run/models/families/internal/family.h"

namespace tapegrad::run {

// A config as its model has it, option by option.

double usual_attention_scale(const nn::DecoderConfig& config);
// A config whose optional members have the values that the model has, and whose options without an
// effect have their defaults.
nn::DecoderConfig effective_config(nn::DecoderConfig config);
Section effective_section(const nn::DecoderConfig& config);
// Without a width of the feed-forward that the model would have without it.
nn::DecoderConfig with_usual_inner(nn::DecoderConfig config);

// True if an option that is true or false is true, as the model has it.
bool has_option(const nn::DecoderConfig& config, std::string_view option);
void set_option(nn::DecoderConfig& config, std::string_view option, const Value& value);
// Null leaves an option as it is.
using ValueOfOption = std::function<const Value*(std::string_view option)>;
void set_options(nn::DecoderConfig& config, const ValueOfOption& value_of);

// The options of a kind of scaled rotary positions, or of all kinds.
std::vector<std::string_view> rope_scaling_options(
    std::optional<nn::RopeScalingKind> kind = std::nullopt);

// As messages show values: relu, true, 1e-05.
std::string shown(const Value& value);

}  // namespace tapegrad::run
