#include "tapegrad/apps/evaluate/task_program.h"

#include <fmt/ranges.h>

#include <filesystem>

#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/apps/evaluate/task_table.h"
#include "tapegrad/apps/sample/held_types.h"
#include "tapegrad/base/file.h"
#include "tapegrad/base/interrupt.h"
#include "tapegrad/run/models/tensor_views.h"

namespace tapegrad::evaluation {
namespace {

void print_results(const TaskCall& call, const std::vector<TaskResult>& results,
                   const std::vector<TaskResult>& there) {
  if (!call.json) {
    fmt::print("{}", table_of(results, there));
    if (!there.empty()) fmt::print("there: {}\n", cli::printable(*call.against));
    return;
  }
  Json json = {{"model", call.model},
               {"checkpoint", call.checkpoint},
               {"weights", call.weights},
               {"cache", name_of_enum(call.cache)}};
  if (!there.empty()) json["against"] = *call.against;
  json["tasks"] = json_of(results, there);
  fmt::print("{}\n", json_text(json, 2));
}

Questions questions_of(const TaskOptions& options, std::int64_t limit) {
  Questions questions;
  for (std::size_t i = 0; i < options.names.size(); ++i) {
    ChoiceTask& task = questions.tasks.emplace_back(open_task(options.names[i]));
    if (!options.items.empty()) task.items = options.items[i];
    if (!options.fewshot_items.empty()) task.fewshot_items = options.fewshot_items[i];
    task.num_fewshot = options.num_fewshot.value_or(task.num_fewshot);
    questions.items.push_back(read_items(task, limit));
  }
  return questions;
}

ItemFile item_file_of(const TaskOptions& options, const TaskCall& call,
                      const run::OpenedModel& opened) {
  if (!options.per_item) return {};
  const std::filesystem::path path = *options.per_item, folder = path.parent_path();
  check(folder.empty() || path_exists(folder), "--per-item {}: there is no folder {}",
        *options.per_item, folder.string());
  const TensorSource& weights = opened.parts ? *opened.parts : *opened.weights;
  return {path,
          {.model = call.model,
           .checkpoint = call.checkpoint,
           .fingerprint = run::fingerprint_of(weights),
           .weights = call.weights,
           .cache = std::string(name_of_enum(call.cache))},
          options.overwrite};
}

// The model or file that --against names. A file is read, and a model opened, before the first
// model computes.
class Opponent {
 public:
  Opponent(const std::string& path, const Questions& questions) : questions_(questions) {
    if (path_exists(path) && std::filesystem::path(path).extension() == ".jsonl") {
      stored_ = stored_results(questions, StoredItems(path));
    } else {
      model_ = run::open_model(path);
    }
  }
  std::vector<TaskResult> results() {
    if (!model_) return std::move(stored_);
    ItemFile none;
    return evaluate_tasks(run::load_packed(std::move(*model_)), CacheType::f32, questions_, none);
  }

 private:
  const Questions& questions_;
  std::optional<run::OpenedModel> model_;
  std::vector<TaskResult> stored_;
};

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
  cli("per_item", per_item,
      "write a JSON line for each item: log-likelihoods, chosen, right. The same call goes on with "
      "the file of one that was stopped",
      {.value = "FILE"});
  cli("overwrite", overwrite, "begin the file of --per-item anew");
}

void TaskOptions::check_options(const cli::CommandLine& cli,
                                const std::vector<std::string>& paths) const {
  if (names.empty()) {
    for (const char* option :
         {"--items", "--fewshot-items", "--num-fewshot", "--per-item", "--overwrite"}) {
      if (cli.given(option)) cli::usage_error("{} needs --task", option);
    }
    return;
  }
  if (!paths.empty()) cli::usage_error("--task excludes PATH: its items are evaluated");
  for (const char* option :
       {"--data", "--chat", "--loss", "--strict-data", "--field", "--encoding", "--separator",
        "--block-size", "--stride", "--isolate-documents", "--batch-size", "--beside-f32"}) {
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
  const Questions questions = questions_of(options, call.limit.value_or(INT64_MAX));
  std::optional<Opponent> opponent;
  if (call.against) opponent.emplace(*call.against, questions);
  std::vector<TaskResult> results;
  {  // one model after the other is in memory
    ItemFile file = item_file_of(options, call, opened);
    const run::TextModel model = run::load_packed(std::move(opened), call.weights);
    sampling::note_other_types(run::packed_type(call.weights), model.params);
    results = evaluate_tasks(model, call.cache, questions, file);
  }
  std::vector<TaskResult> there;
  if (opponent && !interrupted()) there = opponent->results();
  if (!results.empty()) print_results(call, results, there);
  return interrupted() ? kInterruptedExitCode : 0;
}

}  // namespace tapegrad::evaluation
