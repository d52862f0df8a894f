#include "tapegrad/run/train/tuning.h"

#include <algorithm>
#include <cmath>

namespace tapegrad::run {
namespace {

std::vector<std::string> parted(const std::vector<std::string>& lists) {
  std::vector<std::string> parts;
  for (const std::string& list : lists) {
    for (std::size_t begin = 0; begin <= list.size();) {
      const std::size_t end = std::min(list.find(',', begin), list.size());
      parts.push_back(list.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  return parts;
}

// A matcher takes long for a pattern of many *, which no name of a parameter needs.
void check_patterns(std::string_view option, const std::vector<std::string>& lists) {
  constexpr std::size_t most_patterns = 1000, most_bytes = 200, most_stars = 8;
  const std::vector<std::string> patterns = parted(lists);
  check(patterns.size() <= most_patterns, "{}: there are {} patterns, which is more than {}",
        option, patterns.size(), most_patterns);
  for (const std::string& pattern : patterns) {
    check(!pattern.empty() &&
              std::ranges::all_of(pattern, [](char c) { return c > 0x20 && c < 0x7F; }),
          "{}: '{}' is not a pattern of letters, digits and signs", option, pattern);
    check(pattern.size() <= most_bytes &&
              std::ranges::count(pattern, '*') <= static_cast<std::ptrdiff_t>(most_stars),
          "{}: '{}' has more than {} bytes or {} stars", option, pattern, most_bytes, most_stars);
  }
}

}  // namespace

nn::LoraOptions TuningOptions::adapters() const {
  if (!lora_rank) return {};
  return {
      .rank = *lora_rank,
      .alpha = lora_alpha.value_or(static_cast<double>(*lora_rank)),
      .targets = parted(lora_target.empty() ? std::vector<std::string>{"*attn*"} : lora_target)};
}

std::vector<std::string> TuningOptions::frozen() const { return parted(freeze); }

void TuningOptions::validate() const {
  check_rules(*this);
  check_patterns("--freeze", freeze);
  check_patterns("--lora-target", lora_target);
  check(!lora_alpha || (std::isfinite(*lora_alpha) && *lora_alpha > 0),
        "--lora-alpha must be above 0, not {}", lora_alpha.value_or(0));
  check(!lora_rank || freeze.empty(),
        "--freeze and --lora-rank exclude each other: beside adapters, nothing is trained");
}

}  // namespace tapegrad::run
