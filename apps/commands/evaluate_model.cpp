#include <exception>

#include "tapegrad/apps/cli/command.h"
#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/apps/evaluate/evaluate_options.h"
#include "tapegrad/apps/evaluate/task_program.h"
#include "tapegrad/apps/evaluate/text_program.h"
#include "tapegrad/base/file.h"
#include "tapegrad/base/interrupt.h"
#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/base/text/internal/page_path.h"

namespace tapegrad {
namespace {

using Options = evaluation::EvaluateOptions;

// Of the tensors in the files, as they are stored.
std::uint64_t bytes_of(const TensorSource& weights) {
  std::uint64_t bytes = 0;
  for (const auto& [name, entry] : weights.entries()) {
    if (entry.type != nullptr) bytes += stored_bytes(*entry.type, entry.shape).value_or(0);
  }
  return bytes;
}

// Nothing if a signal comes before there is a result.
std::optional<evaluation::Evaluation> evaluate(const Options& o) {
  run::OpenedModel opened = run::open_model(o.model, o.checkpoint);
  if (o.adapter) opened = run::with_adapter(std::move(opened), *o.adapter);
  const std::uint64_t weight_bytes = bytes_of(opened.parts ? *opened.parts : *opened.weights);
  if (!o.tasks.names.empty()) {
    const evaluation::TaskCall call{.model = o.model,
                                    .checkpoint = o.checkpoint,
                                    .weights = o.weights,
                                    .cache = o.cache,
                                    .limit = run::evaluation_limit(o.limit, 1)->batches,
                                    .weight_bytes = weight_bytes,
                                    .against = o.against};
    return evaluation::run_tasks(o.tasks, call, std::move(opened));
  }
  return evaluation::run_text(o, std::move(opened), weight_bytes);
}

int evaluate_all(Options o) {
  std::vector<Json> models;
  std::string shown;
  std::exception_ptr failure;  // what was measured before it is printed
  if (o.report) check_page_path("--report", *o.report);
  if (o.models.size() > 1) {
    for (const std::string& model : o.models) run::open_model(model, o.checkpoint);
  }
  for (const std::string& model : o.models) {
    if (interrupted()) break;
    o.model = model;
    try {
      auto evaluation = evaluate(o);
      o.notes = false;  // the next model is given the same text
      if (!evaluation) break;
      models.push_back(std::move(evaluation->json));
      shown = evaluation->shown;
      failure = evaluation->failure;
      if (failure) break;
    } catch (const std::exception&) {
      if (models.empty()) throw;
      failure = std::current_exception();
      break;
    }
  }
  if (models.empty()) return kInterruptedExitCode;
  const bool alone = o.models.size() == 1;
  if (o.json) {
    fmt::print("{}\n", json_text(alone ? models.front() : Json{{"models", models}}, 2));
  } else {
    fmt::print("{}", alone ? shown : evaluation::models_table(models));
  }
  if (o.report) write_file_atomically(*o.report, evaluation::models_page(models));
  if (failure) std::rethrow_exception(failure);
  return interrupted() ? kInterruptedExitCode : 0;
}

int run(const cli::Call& call) {
  return cli::run_main(call.name, [&] {
    const auto options = evaluation::parse_options(call);
    return options ? evaluate_all(*options) : 0;
  });
}

const cli::Command kCommand("evaluate", cli::CommandGroup::use,
                            "measure how well a GPT predicts a text", run);

}  // namespace
}  // namespace tapegrad
