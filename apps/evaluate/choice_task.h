#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tapegrad/base/json_file.h"
#include "tapegrad/data/jinja/template.h"

namespace tapegrad::evaluation {

// A question of several choices, as a model sees it. docs/evaluation.md has the format of tasks.
struct ChoiceItem {
  std::string where;                       // "val.jsonl, line 3"
  std::int64_t line = 0;                   // of the file
  std::string fingerprint = {};            // of that line
  std::optional<Json> id = {};             // the item's own, if it has one
  std::vector<std::string> contexts = {};  // of each choice; often the same
  std::vector<std::string> choices = {};
  std::size_t right = 0;  // of the choices
};

// A template of a task: `key` is the one of the task's file, `place` names file and key.
class TaskTemplate {
 public:
  TaskTemplate(std::string place, const std::string& macros, const std::string& source);
  std::string render(const std::string& where, const Json& doc) const;

 private:
  std::string place_;
  data::jinja::Template template_;
};

// Turns lines of a JSON-lines file into questions, as a small JSON file says.
struct ChoiceTask {
  std::string name;
  std::string place;                       // of its file, for messages
  std::vector<TaskTemplate> texts = {};    // one for all choices, or one for each
  std::vector<TaskTemplate> choices = {};  // one for each, or a single one that gives a JSON list
  bool lists_choices = false;              // the latter
  std::vector<TaskTemplate> target = {}, description = {};  // one each; of the latter, perhaps none
  std::string target_delimiter = " ", fewshot_delimiter = "\n\n";
  std::int64_t num_fewshot = 0;
  std::optional<std::string> fewshot_same = {};  // examples have the item's value of this key
  std::optional<std::filesystem::path> items = {}, fewshot_items = {};
};

// The names of the tasks that the program brings along.
std::vector<std::string_view> task_names();
// One of these, or the task of a file. Errors name the file and the key.
ChoiceTask open_task(const std::string& name_or_file);

// The first `limit` questions of the task's items, with their examples before them. Errors name
// file, line and the task's key.
std::vector<ChoiceItem> read_items(const ChoiceTask& task, std::int64_t limit);

}  // namespace tapegrad::evaluation
