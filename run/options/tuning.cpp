#include "tapegrad/run/options/tuning.h"

#include <algorithm>
#include <cmath>

#include "tapegrad/base/text/internal/name_pattern.h"
#include "tapegrad/run/options/quantized_weights.h"

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

void check_patterns(std::string_view option, const std::vector<std::string>& lists) {
  constexpr std::size_t most = 1000;
  const std::vector<std::string> patterns = parted(lists);
  check(patterns.size() <= most, "{}: there are {} patterns, which is more than {}", option,
        patterns.size(), most);
  for (const std::string& pattern : patterns) check_pattern(option, pattern);
}

}  // namespace

nn::LoraOptions TuningOptions::adapters() const {
  if (!lora_rank) return {};
  nn::LoraOptions options{
      .rank = *lora_rank,
      .alpha = lora_alpha.value_or(static_cast<double>(*lora_rank)),
      .targets = parted(lora_target.empty() ? std::vector<std::string>{"*attn*"} : lora_target),
      .scaling = lora_scaling};
  for (std::string& target : options.targets) {
    if (target == "all") target = "*";
  }
  return options;
}

void TuningOptions::take(const nn::LoraOptions& adapters) {
  lora_rank = adapters.rank;
  lora_alpha = adapters.alpha;
  lora_target = adapters.targets;
  lora_scaling = adapters.scaling;
}

std::vector<std::string> TuningOptions::frozen() const { return parted(freeze); }

void TuningOptions::validate() const {
  check_rules(*this);
  check_patterns("--freeze", freeze);
  check_patterns("--lora-target", lora_target);
  check(!lora_alpha || (std::isfinite(*lora_alpha) && *lora_alpha > 0),
        "--lora-alpha must be above 0, not {}", lora_alpha.value_or(0));
  if (weights) {
    check(lora_rank.has_value(), "--weights needs --lora-rank: only adapters are trained beside {}",
          *weights);
    try {
      quantized_type(*weights);
    } catch (const Error& error) {
      fail("--weights: {}", error.what());
    }
  }
  check(!lora_rank || freeze.empty(),
        "--freeze and --lora-rank exclude each other: beside adapters, nothing is trained");
}

}  // namespace tapegrad::run
