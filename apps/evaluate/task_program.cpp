#include "tapegrad/apps/evaluate/task_program.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <filesystem>

#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/apps/evaluate/generated_texts.h"
#include "tapegrad/apps/evaluate/task_table.h"
#include "tapegrad/apps/sample/held_types.h"
#include "tapegrad/base/file.h"
#include "tapegrad/base/internal/fingerprint.h"
#include "tapegrad/base/interrupt.h"
#include "tapegrad/base/terminal.h"
#include "tapegrad/run/corpus/chat/chat_text.h"
#include "tapegrad/run/folder/config.h"
#include "tapegrad/run/models/chat_template_of.h"
#include "tapegrad/run/models/tensor_views.h"

namespace tapegrad::evaluation {
namespace {

Evaluation evaluation_of(const TaskCall& call, std::vector<TaskResult> results,
                         std::vector<TaskResult> there) {
  keep_common(results, there);
  Evaluation evaluation{{{"model", call.model},
                         {"checkpoint", call.checkpoint},
                         {"weights", call.weights},
                         {"cache", name_of_enum(call.cache)},
                         {"weight_bytes", call.weight_bytes}},
                        table_of(results, there)};
  if (!there.empty()) {
    evaluation.json["against"] = *call.against;
    evaluation.shown += fmt::format("there: {}\n", cli::printable(*call.against));
  }
  evaluation.json["tasks"] = json_of(results, there);
  return evaluation;
}

// With --apply-chat-template: the model's own, or ChatML.
std::optional<ChatFormat> chat_format_of(const TaskOptions& options, const std::string& path,
                                         const run::OpenedModel& model) {
  if (!options.apply_chat_template) return std::nullopt;
  auto chat_template = run::chat_template_or_chatml(model.settings, model.tokenizer);
  check(chat_template.has_value(),
        "--apply-chat-template: {} has no chat template, and its tokenizer no <|im_start|> and "
        "<|im_end|>",
        path);
  ChatFormat format{std::move(*chat_template), options.fewshot_as_multiturn};
  if (!options.special_in_messages) format.tokenizer = model.tokenizer;
  format.system_in_user = refuses_system(format.chat_template);
  return format;
}

// Results are told apart by the tasks' names. Of one task with several files of items, each name
// gets that of the file: "piqa:train".
void name_apart(const TaskOptions& options, std::vector<Task>& tasks) {
  const auto twice = [&](const Task& task) {
    return std::count_if(tasks.begin(), tasks.end(),
                         [&](const Task& other) { return other.name == task.name; }) > 1;
  };
  std::vector<std::string> names;
  for (const Task& task : tasks) {
    names.push_back(task.name);
    if (twice(task) && task.items) names.back() += ":" + task.items->stem().string();
  }
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    for (std::size_t before = 0; before < i; ++before) {
      check(names[before] != names[i],
            "--task {} and --task {}: both have the name {}, by which results are told apart: "
            "files of --items with two names tell them apart, too",
            options.names[before], options.names[i], names[i]);
    }
    tasks[i].name = names[i];
  }
}

void note_description(const std::vector<Task>& tasks, const std::string& path,
                      const std::optional<ChatFormat>& chat) {
  const bool any = std::any_of(tasks.begin(), tasks.end(),
                               [](const Task& task) { return !task.description.empty(); });
  if (!chat || !chat->system_in_user || !any) return;
  print_error(
      fmt::format("note: {}: the chat template refuses messages of the system, so that a task's "
                  "description begins the first message of the user\n",
                  cli::printable(path)));
}

Questions questions_of(const TaskOptions& options, const TaskCall& call, const std::string& path,
                       const std::optional<ChatFormat>& chat) {
  Questions questions;
  for (std::size_t i = 0; i < options.names.size(); ++i) {
    Task& task = questions.tasks.emplace_back(open_task(options.names[i]));
    if (!options.items.empty()) task.items = options.items[i];
    if (!options.fewshot_items.empty()) task.fewshot_items = options.fewshot_items[i];
    task.num_fewshot = options.num_fewshot.value_or(task.num_fewshot);
  }
  name_apart(options, questions.tasks);
  std::size_t spelled = 0;
  for (const Task& task : questions.tasks) {
    questions.items.push_back(read_items(task, call.limit.value_or(INT64_MAX), chat));
    for (const Item& item : questions.items.back()) {
      // The contexts of an item are the same but for their choices.
      std::size_t most = 0;
      for (const auto& letters : item.letters) most = std::max(most, letters.size());
      spelled += most;
    }
  }
  run::note_spelled(static_cast<std::int64_t>(spelled));
  note_description(questions.tasks, path, chat);
  return questions;
}

// Of all that a model's answers depend on. Options count where they are not the default, so that
// one which a later version adds leaves files of --per-item as they are.
std::string fingerprint_of(const run::OpenedModel& model) {
  const data::Tokenizer& tokenizer = model.tokenizer;
  Fingerprint print;
  print.add(run::fingerprint_of(model.parts ? *model.parts : *model.weights));
  const run::Section defaults = run::section_of("model", nn::DecoderConfig());
  for (const auto& [name, value] : run::section_of("model", model.config).values) {
    if (value != *defaults.find(name)) {
      print.add(fmt::format("{} {}\n", name, run::value_text(value)));
    }
  }
  print.add(fmt::format("{} {}\n", tokenizer.begin(), tokenizer.ends()));
  print.add(tokenizer.hf_json());
  return print.str();
}

// Error if --per-item would write into a file that the call reads.
void check_apart(const TaskOptions& options, const TaskCall& call, const Questions& questions) {
  std::vector<std::filesystem::path> read;
  for (const Task& task : questions.tasks) {
    if (task.file) read.push_back(*task.file);
    read.push_back(*task.items);
    if (task.fewshot_items) read.push_back(*task.fewshot_items);
  }
  if (call.against) read.emplace_back(*call.against);
  for (const auto& path : read) {
    check(resolved_path(path) != resolved_path(*options.per_item),
          "--per-item {}: the call reads this file", *options.per_item);
  }
}

ItemFile item_file_of(const TaskOptions& options, const TaskCall& call, const Questions& questions,
                      const run::OpenedModel& opened) {
  if (!options.per_item) return {};
  const std::filesystem::path path = *options.per_item;
  check_folder_of("--per-item", path);
  check_apart(options, call, questions);
  return {path,
          {.model = call.model,
           .checkpoint = call.checkpoint,
           .fingerprint = fingerprint_of(opened),
           .weights = call.weights,
           .cache = std::string(name_of_enum(call.cache))},
          options.overwrite};
}

// The tokens that end a text of the model, and of an answer in a chat those of its template.
std::vector<data::Token> ends_of(const data::Tokenizer& tokenizer,
                                 const std::optional<ChatFormat>& chat) {
  std::vector<data::Token> ends = tokenizer.ends();
  if (!chat) return ends;
  for (const data::Token end : run::answer_ends(chat->chat_template, tokenizer)) {
    if (std::find(ends.begin(), ends.end(), end) == ends.end()) ends.push_back(end);
  }
  return ends;
}

// A model, and what it is asked.
struct Examinee {
  run::OpenedModel model;
  std::string weights;
  CacheType cache = CacheType::f32;
  std::optional<ChatFormat> chat = {};
  Questions questions = {};

  // What it has when an error ends it stays in `results`.
  void evaluate(ItemFile& file, std::vector<TaskResult>& results) {
    const run::TextModel loaded = run::load_quantized(std::move(model), weights);
    sampling::note_other_types(run::quantized_type(weights), loaded.params);
    evaluate_tasks({loaded, cache, ends_of(loaded.tokenizer, chat)}, questions, file, results);
  }
};

Examinee examinee_of(const TaskOptions& options, const TaskCall& call, const std::string& path,
                     Examinee examinee) {
  examinee.chat = chat_format_of(options, path, examinee.model);
  examinee.questions = questions_of(options, call, path, examinee.chat);
  for (const Task& task : examinee.questions.tasks) {
    check_room(task, examinee.model.config.block_size);
  }
  return examinee;
}

}  // namespace

void check_folder_of(const char* option, const std::filesystem::path& file) {
  const std::filesystem::path folder = file.parent_path();
  check(folder.empty() || is_folder(folder), "{} {}: there is no folder {}", option, file.string(),
        folder.string());
}

std::optional<Evaluation> run_tasks(const TaskOptions& options, const TaskCall& call,
                                    run::OpenedModel opened) {
  Examinee here =
      examinee_of(options, call, call.model, {std::move(opened), call.weights, call.cache});
  // What --against names is opened before the first model computes, and errors come early.
  std::optional<Examinee> other;
  std::vector<TaskResult> there;
  if (call.against && std::filesystem::path(*call.against).extension() == ".jsonl" &&
      !is_folder(*call.against)) {
    check(path_exists(*call.against), "--against {}: there is no such file of --per-item",
          *call.against);
    there = stored_results(here.questions, StoredItems(*call.against));
  } else if (call.against) {
    other = examinee_of(options, call, *call.against,
                        {run::open_model(*call.against), std::string(run::kStored)});
  }
  ItemFile file = item_file_of(options, call, here.questions, here.model), none;
  std::vector<TaskResult> results;
  std::exception_ptr failure;
  try {
    here.evaluate(file, results);
    if (other && !interrupted()) other->evaluate(none, there);
  } catch (const std::exception&) {
    if (results.empty()) throw;
    failure = std::current_exception();
    // This model is done, and keeps the items that the other one did not come to.
    if (other && !there.empty() && there.back().items() < there.back().all_items) there.pop_back();
  }
  if (results.empty()) return std::nullopt;
  Evaluation evaluation = evaluation_of(call, std::move(results), std::move(there));
  evaluation.failure = failure;
  return evaluation;
}

}  // namespace tapegrad::evaluation
