#include "tapegrad/run/train/internal/start_checks.h"

#include <map>

#include "tapegrad/base/internal/fingerprint.h"
#include "tapegrad/optim/clip.h"

namespace tapegrad::run {
namespace {

std::string fingerprint_of(const NamedTensors& tensors) {
  Fingerprint all;
  for (const auto& [name, tensor] : tensors) {
    const std::vector<double> sums = optim::square_sums(tensor);
    all.add({reinterpret_cast<const char*>(sums.data()), sums.size() * sizeof(double)});
  }
  return all.str();
}

}  // namespace

void check_model(const Task& task, const RunFolder& folder) {
  const std::filesystem::path path = folder.path() / kConfigFile;
  const Config stored = folder.config(task.config.format);
  const Section* model = task.config.find("model");
  if (model == nullptr) return;
  if (const auto change = first_change(stored.at(model->name, path), *model)) {
    fail("{}: the run to resume has a model with {} {}, not {}", path.string(), change->name,
         change->before, change->now);
  }
}

void check_same_start(const Task& task, const Config& config, const Progress& progress,
                      const optim::GradientSync& sync, Processes& processes) {
  std::map<std::string, std::string> texts;
  for (const Section& section : config.sections) {
    std::string text;
    for (const auto& [name, value] : section.values) text += name + " " + value_text(value) + "\n";
    texts["section '" + section.name + "' of the options"] = fingerprint(text);
  }
  texts["weights"] = fingerprint_of(sync.agreed(task.params.tensors()));
  // With averages, a checkpoint has two values of each. Local steps give each process its own.
  if (sync.steps_since_agreed() == 0) {
    texts["weights that are trained"] = fingerprint_of(task.params.tensors());
  }
  texts["checkpoint"] = fmt::format("of step {}", progress.iteration);
  texts["state of the batches"] = fingerprint(task.batches.state());
  texts["library for products"] = progress.multiplier;
  check_same(processes, texts);
}

}  // namespace tapegrad::run
