#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/nn/params.h"
#include "tapegrad/run/options/keep_rule.h"

namespace tapegrad::run {

// Weights that a run keeps beside its last checkpoint: model-best.safetensors, of the
// lowest validation loss, and model-500.safetensors, of step 500. Each is one file, written
// atomically, whose metadata has its iteration.

// Error if a value is not finite: no file is replaced by a broken model.
void keep_model(const std::filesystem::path& folder, const std::string& checkpoint,
                const NamedTensors& weights, std::int64_t iteration);
bool keeps_model(const std::filesystem::path& folder, const std::string& checkpoint);
// Removes the weights of checkpoints but for the latest `count` that are not of a later iteration.
void drop_kept_models(const std::filesystem::path& folder, std::int64_t count,
                      std::int64_t iteration);
// Removes those of later iterations: a run that goes back to this one makes them anew.
void drop_later_models(const std::filesystem::path& folder, std::int64_t iteration);
bool is_kept_model(std::string_view file_name);
// The names of all such files of a folder, the best first, then by step.
std::vector<std::string> kept_model_files(const std::filesystem::path& folder);

// The file with the weights of a checkpoint: "last", "best" or a step, "500". Error, naming what
// the folder has, if there is none.
std::filesystem::path model_file(const std::filesystem::path& folder,
                                 const std::string& checkpoint = std::string(kLast));

// "best" if the folder keeps the best weights, else "last".
std::string best_or_last(const std::filesystem::path& folder);

}  // namespace tapegrad::run
