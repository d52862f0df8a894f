#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "tapegrad/apps/evaluate/model_report.h"
#include "tapegrad/apps/evaluate/task_options.h"
#include "tapegrad/autograd/cached_attention.h"
#include "tapegrad/run/models/model.h"

namespace tapegrad::evaluation {

// What the other options of `evaluate` say.
struct TaskCall {
  std::string model, checkpoint, weights;
  CacheType cache = CacheType::f32;
  std::optional<std::int64_t> limit;  // items of each task
  std::uint64_t weight_bytes = 0;
  std::optional<std::string> against;  // another model, or a file of --per-item
};

// Error if the folder of a file that an option names does not exist.
void check_folder_of(const char* option, const std::filesystem::path& file);

// Scores the tasks; nothing if a signal comes before the first item.
std::optional<Evaluation> run_tasks(const TaskOptions& options, const TaskCall& call,
                                    run::OpenedModel opened);

}  // namespace tapegrad::evaluation
