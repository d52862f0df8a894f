#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tapegrad/apps/cli/command.h"
#include "tapegrad/apps/cli/compute.h"
#include "tapegrad/apps/evaluate/references.h"
#include "tapegrad/apps/evaluate/task_options.h"
#include "tapegrad/run/corpus/text_data.h"
#include "tapegrad/run/models/model.h"

namespace tapegrad::evaluation {

// The options of `tapegrad evaluate`.
struct EvaluateOptions {
  std::vector<std::string> models;
  std::string model;  // the one of these that is evaluated
  std::string checkpoint{run::kLast}, weights{run::kStored}, limit = "all";
  std::vector<std::string> paths;
  std::string data, field = "text", encoding = "utf-8", separator;
  std::vector<std::string> chat;
  data::ChatLoss loss = data::ChatLoss::answers;
  bool strict_data = false;
  TaskOptions tasks;
  std::optional<std::string> adapter, against, report;
  std::optional<std::int64_t> block_size, stride;
  std::optional<bool> isolate_documents;
  std::int64_t batch_size = 8;
  bool json = false, beside_f32 = false;
  bool notes = true;  // what is left out of the text is said: false if it has been
  CacheType cache = CacheType::f32;
  cli::ComputeOptions compute;

  ReferenceOptions references() const { return {model, weights, cache, beside_f32, against}; }
};

// None if help was printed. UsageError for options that do not go together.
std::optional<EvaluateOptions> parse_options(const cli::Call& call);

}  // namespace tapegrad::evaluation
