#include "tapegrad/run/folder/kept_models.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <system_error>
#include <vector>

#include "tapegrad/base/text/internal/number_text.h"
#include "tapegrad/run/folder/internal/folder_calls.h"
#include "tapegrad/run/folder/run_checkpoint.h"

namespace tapegrad::run {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBegin = "model-", kEnd = ".safetensors";

std::string file_name(std::string_view checkpoint) {
  return fmt::format("{}{}{}", kBegin, checkpoint, kEnd);
}

// The step in a file's name, written as save() does: "5", and neither "05" nor "5e0".
std::optional<std::int64_t> step_of(std::string_view text) {
  const auto number = number_of<std::int64_t>(text);
  return number && *number >= 0 && text == std::to_string(*number) ? number : std::nullopt;
}

// "best" of "model-best.safetensors"; nothing for other files.
std::optional<std::string> checkpoint_of(std::string_view name) {
  if (!name.starts_with(kBegin) || !name.ends_with(kEnd)) return std::nullopt;
  if (name.size() < kBegin.size() + kEnd.size()) return std::nullopt;
  name.remove_prefix(kBegin.size());
  name.remove_suffix(kEnd.size());
  if (name != kBest && !step_of(name)) return std::nullopt;
  return std::string(name);
}

std::vector<std::string> kept_models(const fs::path& folder) {
  std::vector<std::string> found;
  std::error_code ended;
  for (fs::directory_iterator at(folder, ended); !ended && at != fs::directory_iterator();
       at.increment(ended)) {
    const auto checkpoint = checkpoint_of(at->path().filename().string());
    if (checkpoint) found.push_back(*checkpoint);
  }
  std::sort(found.begin(), found.end(), [](const std::string& a, const std::string& b) {
    return step_of(a).value_or(-1) < step_of(b).value_or(-1);
  });
  return found;
}

}  // namespace

void keep_model(const fs::path& folder, const std::string& checkpoint, const NamedTensors& weights,
                std::int64_t iteration) {
  check_finite_weights(weights, iteration);
  save_safetensors((folder / file_name(checkpoint)).string(), weights,
                   {{"iteration", std::to_string(iteration)}});
}

bool keeps_model(const fs::path& folder, const std::string& checkpoint) {
  return has_entry(folder / file_name(checkpoint));
}

void drop_kept_models(const fs::path& folder, std::int64_t count, std::int64_t iteration) {
  std::vector<std::int64_t> steps;
  for (const std::string& checkpoint : kept_models(folder)) {
    const auto step = step_of(checkpoint);
    if (step && *step <= iteration) steps.push_back(*step);
  }
  const auto all = static_cast<std::int64_t>(steps.size());
  for (std::int64_t i = 0; i < all - count; ++i) {
    remove_or_fail(folder / file_name(std::to_string(steps[static_cast<std::size_t>(i)])));
  }
}

void drop_later_models(const fs::path& folder, std::int64_t iteration) {
  for (const std::string& checkpoint : kept_models(folder)) {
    if (step_of(checkpoint).value_or(0) > iteration) remove_or_fail(folder / file_name(checkpoint));
  }
}

bool is_kept_model(std::string_view name) { return checkpoint_of(name).has_value(); }

std::vector<std::string> kept_model_files(const fs::path& folder) {
  std::vector<std::string> names = kept_models(folder);
  std::transform(names.begin(), names.end(), names.begin(), file_name);
  return names;
}

std::string best_or_last(const fs::path& folder) {
  return std::string(keeps_model(folder, std::string(kBest)) ? kBest : kLast);
}

fs::path model_file(const fs::path& folder, const std::string& checkpoint) {
  if (checkpoint == kLast) {
    const bool is_index = !has_entry(folder / kModelFile) && has_entry(folder / kModelIndexFile);
    return folder / (is_index ? kModelIndexFile : kModelFile);
  }
  const auto step = step_of(checkpoint);
  check(checkpoint == kBest || step, "a checkpoint is best, last or the number of a step, not '{}'",
        checkpoint);
  const fs::path path = folder / file_name(step ? std::to_string(*step) : checkpoint);
  if (has_entry(path)) return path;
  std::vector<std::string> there = kept_models(folder);
  there.emplace_back(kLast);
  fail("{} keeps no checkpoint {}; it has {}", folder.string(),
       step ? fmt::format("of step {}", *step) : "'" + checkpoint + "'", fmt::join(there, ", "));
}

}  // namespace tapegrad::run
