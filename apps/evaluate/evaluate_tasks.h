#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/apps/evaluate/choice_scores.h"

namespace tapegrad::evaluation {

// acc: the choice with the highest log-likelihood is the right one. acc_norm divides it by the
// choice's characters, acc_bytes by its bytes in UTF-8.
inline constexpr std::array<std::string_view, 3> kMetrics = {"acc", "acc_norm", "acc_bytes"};
// The choice of each metric. The first one of equal ones.
std::array<std::size_t, kMetrics.size()> chosen_of(const ChoiceItem& item,
                                                   const std::vector<double>& logprobs);

struct TaskResult {
  std::string name;
  std::int64_t items = 0, all_items = 0, num_fewshot = 0;  // all: fewer were seen after a signal
  std::array<std::int64_t, kMetrics.size()> right = {};
  double seconds = 0;
  std::int64_t tokens = 0;

  double share(std::size_t metric) const;
  // sqrt(p (1 − p) / (n − 1)); none of a single item.
  std::optional<double> error(std::size_t metric) const;
};

// Scores the items of each task, and shows progress on a terminal. A signal ends it early. Each
// item appends a line of JSON to `per_item`.
std::vector<TaskResult> evaluate_tasks(const run::TextModel& model, CacheType cache,
                                       const std::vector<ChoiceTask>& tasks,
                                       const std::vector<std::vector<ChoiceItem>>& items,
                                       std::string& per_item);

std::string table_of(const std::vector<TaskResult>& results);
Json json_of(const std::vector<TaskResult>& results);

}  // namespace tapegrad::evaluation
