#include "tapegrad/apps/sample/sampling_options.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "tapegrad/base/error.h"
#include "tapegrad/base/text/internal/number_text.h"

namespace tapegrad::sampling {
namespace {

std::int32_t token_of(std::string_view option, std::string_view text) {
  const auto token = number_of<std::int32_t>(text);
  check(token && *token >= 0, "{}: '{}' is not the number of a token", option, text);
  return *token;
}

}  // namespace

void SamplingOptions::read_lists(std::string_view stop_name, std::string_view bias_name) const {
  for (const std::string& text : stop_token_ids) {
    generate.stop_tokens.push_back(token_of(stop_name, text));
  }
  for (const std::string& text : logit_bias) {
    const std::size_t at = text.find('=');
    check(at != text.npos, "{}: '{}' must be a token and a number: 13=-100", bias_name, text);
    const auto number = number_of<double>(std::string_view(text).substr(at + 1));
    check(number && std::isfinite(*number), "{}: '{}' has no number behind =", bias_name, text);
    const std::int32_t token = token_of(bias_name, std::string_view(text).substr(0, at));
    const bool is_new = generate.logit_bias.emplace(token, *number).second;
    check(is_new, "{}: token {} is there twice", bias_name, token);
  }
}

void add_ends(nn::GenerateOptions& options, std::span<const std::int32_t> ends) {
  auto& all = options.stop_tokens;
  for (const std::int32_t end : ends) {
    if (std::find(all.begin(), all.end(), end) == all.end()) all.push_back(end);
  }
}

}  // namespace tapegrad::sampling
