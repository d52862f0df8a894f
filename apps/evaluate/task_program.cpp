#include "tapegrad/apps/evaluate/task_program.h"

#include <fmt/ranges.h>

#include <filesystem>

#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/apps/evaluate/evaluate_tasks.h"
#include "tapegrad/apps/sample/held_types.h"
#include "tapegrad/base/file.h"
#include "tapegrad/base/interrupt.h"

namespace tapegrad::evaluation {
namespace {

void print_results(const TaskCall& call, const std::vector<TaskResult>& results) {
  if (!call.json) return fmt::print("{}", table_of(results));
  const Json json = {{"model", call.model},
                     {"checkpoint", call.checkpoint},
                     {"weights", call.weights},
                     {"cache", name_of_enum(call.cache)},
                     {"tasks", json_of(results)}};
  fmt::print("{}\n", json_text(json, 2));
}

}  // namespace

void TaskOptions::add_to(cli::CommandLine& cli) {
  cli.group("Tasks");
  cli("task", names,
      fmt::format("questions of several choices, in place of PATH: a file that says what an item's "
                  "prompt and choices are, or {}",
                  fmt::join(task_names(), ", ")),
      {.value = "FILE|NAME"});
  cli.one_value_each("--task");
  cli("items", items, "items of the task: JSON lines; one file for each --task [the task's own]",
      {.value = "FILE"});
  cli.one_value_each("--items");
  cli("num_fewshot", num_fewshot, "examples before each question [as the task says]",
      {.least = 0, .most = 64});
  cli("fewshot_items", fewshot_items,
      "items whose first ones are the examples; one file for each --task [the task's own, or "
      "--items]",
      {.value = "FILE"});
  cli.one_value_each("--fewshot-items");
  cli("per_item", per_item, "write a JSON line for each item: log-likelihoods, chosen, right",
      {.value = "FILE"});
}

void TaskOptions::check_options(const cli::CommandLine& cli,
                                const std::vector<std::string>& paths) const {
  if (names.empty()) {
    for (const char* option : {"--items", "--fewshot-items", "--num-fewshot", "--per-item"}) {
      if (cli.given(option)) cli::usage_error("{} needs --task", option);
    }
    return;
  }
  if (!paths.empty()) cli::usage_error("--task excludes PATH: its items are evaluated");
  for (const char* option : {"--data", "--chat", "--loss", "--strict-data", "--field", "--encoding",
                             "--separator", "--block-size", "--stride", "--isolate-documents",
                             "--batch-size", "--beside-f32", "--against"}) {
    if (cli.given(option)) cli::usage_error("{} is for text, and --task has none", option);
  }
  for (const auto& [name, files] :
       {std::pair("--items", &items), std::pair("--fewshot-items", &fewshot_items)}) {
    if (!files->empty() && files->size() != names.size()) {
      cli::usage_error("{} is given {} times, and --task {}: each task needs its own", name,
                       files->size(), names.size());
    }
  }
}

int run_tasks(const TaskOptions& options, const TaskCall& call, run::OpenedModel opened) {
  if (options.per_item) {
    const std::filesystem::path folder = std::filesystem::path(*options.per_item).parent_path();
    check(folder.empty() || path_exists(folder), "--per-item {}: there is no folder {}",
          *options.per_item, folder.string());
  }
  std::vector<ChoiceTask> tasks;
  std::vector<std::vector<ChoiceItem>> items;
  for (std::size_t i = 0; i < options.names.size(); ++i) {
    ChoiceTask& task = tasks.emplace_back(open_task(options.names[i]));
    if (!options.items.empty()) task.items = options.items[i];
    if (!options.fewshot_items.empty()) task.fewshot_items = options.fewshot_items[i];
    task.num_fewshot = options.num_fewshot.value_or(task.num_fewshot);
    items.push_back(read_items(task, call.limit.value_or(INT64_MAX)));
  }
  const run::TextModel model = run::load_packed(std::move(opened), call.weights);
  sampling::note_other_types(run::packed_type(call.weights), model.params);
  std::string lines;
  const auto write_lines = [&] {
    if (options.per_item) write_file_atomically(*options.per_item, lines);
  };
  std::vector<TaskResult> results;
  try {
    results = evaluate_tasks(model, call.cache, tasks, items, lines);
  } catch (const Error&) {  // of an item: what was scored before it stays
    write_lines();
    throw;
  }
  if (!results.empty()) print_results(call, results);
  write_lines();
  if (results.empty()) return kInterruptedExitCode;
  return interrupted() ? kInterruptedExitCode : 0;
}

}  // namespace tapegrad::evaluation
