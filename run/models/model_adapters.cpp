// Adapters beside the model that they belong to: see model.h.

#include <utility>

#include "tapegrad/base/error.h"
#include "tapegrad/nn/lora/lora.h"
#include "tapegrad/run/folder/run_checkpoint.h"
#include "tapegrad/run/folder/run_folder.h"
#include "tapegrad/run/models/model.h"
#include "tapegrad/run/models/tensor_views.h"

namespace tapegrad::run {
namespace {

// The adapters of a file or of a run, for an open model that has none.
Adapter adapter_for(const OpenedModel& opened, const std::filesystem::path& path) {
  check(!opened.tuning.lora_rank,
        "{}: the model has adapters of its own: merge these first (tapegrad merge)",
        opened.weights->name());
  std::error_code ignored;
  const auto has = [&](std::string_view file) {
    return std::filesystem::is_regular_file(path / file, ignored);
  };
  // A run may have PEFT's files, too, which do not know the model that they were made beside.
  const bool is_run = has(kConfigFile) && (has(kTrainerFile) || !has(kPeftConfigFile));
  if (!is_run) return open_adapter(path, opened.config);
  const OpenedModel run = open_model(path);
  check(run.adapters != nullptr, "{} has no adapters: it is no run with --lora-rank",
        path.string());
  if (!run.tuning.base.empty()) {
    const std::string print = fingerprint_of(*opened.weights);
    check(print == run.tuning.base,
          "{}: these adapters belong to {} (fingerprint {}), not to {} (fingerprint {})",
          path.string(), run.tuning.started_from, run.tuning.base, opened.weights->name(), print);
  }
  return {run.tuning.adapters(), adapters_among(run.adapters)};
}

}  // namespace

OpenedModel with_adapter(OpenedModel opened, const std::filesystem::path& path) {
  Adapter adapter = adapter_for(opened, path);
  opened.tuning.take(adapter.options);
  opened.adapters = adapter.tensors;
  opened.parts = joined(opened.weights, adapter.tensors);
  opened.weights = nn::merge_adapters(opened.parts, adapter.options);
  return opened;
}

void offer_adapter(OpenedModel& opened, const std::filesystem::path& path) {
  opened.offered.push_back(adapter_for(opened, path));
}

void check_base(const OpenedModel& opened) {
  if (opened.base == nullptr) return;
  const std::string now = fingerprint_of(*opened.base);
  check(now == opened.tuning.base,
        "{}: these adapters belong to {}, whose weights have changed since the run began "
        "(fingerprint {}, now {}): put that model back as it was. The adapters stay as they are",
        opened.weights->name(), opened.tuning.started_from, opened.tuning.base, now);
}

std::shared_ptr<const TensorSource> with_base(const OpenedModel& run,
                                              std::shared_ptr<const TensorSource> adapters) {
  return joined(first_positions(run.base, run.config), std::move(adapters));
}

}  // namespace tapegrad::run
