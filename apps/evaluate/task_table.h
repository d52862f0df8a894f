#pragma once

#include <string>
#include <vector>

#include "tapegrad/apps/evaluate/evaluate_tasks.h"

namespace tapegrad::evaluation {

// A row for each metric of each task. `there`: the results of another model for the same tasks, or
// none; then also the paired difference, its 95 % interval and the p of McNemar's test.
std::string table_of(const std::vector<TaskResult>& results,
                     const std::vector<TaskResult>& there = {});
Json json_of(const std::vector<TaskResult>& results, const std::vector<TaskResult>& there = {});

}  // namespace tapegrad::evaluation
