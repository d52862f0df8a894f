#include "tapegrad/apps/evaluate/items/eval_task.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "tapegrad/base/file.h"

namespace tapegrad::embedded {
std::string_view task_arc_challenge();
std::string_view task_arc_easy();
std::string_view task_boolq();
std::string_view task_gsm8k();
std::string_view task_hellaswag();
std::string_view task_lambada();
std::string_view task_mmlu();
std::string_view task_openbookqa();
std::string_view task_piqa();
std::string_view task_winogrande();
}  // namespace tapegrad::embedded

namespace tapegrad::evaluation {
namespace {

constexpr int kMostTaskDepth = 4;
constexpr std::int64_t kMostTaskBytes = 1 << 20, kMostShots = 64, kMostNewTokens = 1 << 16;

struct NamedTask {
  std::string_view name, text;
};

std::vector<NamedTask> named_tasks() {
  using namespace embedded;
  return {{"arc_challenge", task_arc_challenge()},
          {"arc_easy", task_arc_easy()},
          {"boolq", task_boolq()},
          {"gsm8k", task_gsm8k()},
          {"hellaswag", task_hellaswag()},
          {"lambada_openai", task_lambada()},
          {"lambada_standard", task_lambada()},
          {"mmlu", task_mmlu()},
          {"openbookqa", task_openbookqa()},
          {"piqa", task_piqa()},
          {"winogrande", task_winogrande()}};
}

// Turns what a template or the parser says into an error that names the place.
template <class F>
auto at_place(const std::string& place, const F& f) {
  try {
    return f();
  } catch (const data::jinja::TemplateError& error) {
    throw data::jinja::TemplateError(fmt::format("{}: {}", place, error.message()), 0,
                                     error.names_nothing());
  } catch (const Error& error) {
    fail("{}: {}", place, error.what());
  }
}

// Reads the keys of a task's file.
class TaskReader {
 public:
  TaskReader(std::string place, const Json& json) : place_(std::move(place)), json_(json) {
    if (has("macros")) get(place_, json_, "macros", macros_);
  }

  bool has(const char* key) const { return json_.contains(key); }
  TaskTemplate one(const char* key) const {
    std::string source;
    get(place_, json_, key, source);
    return made(key, source);
  }
  // A text, or a list of some.
  std::vector<TaskTemplate> several(const char* key) const {
    if (!has(key) || !json_[key].is_array()) return several_of(key, {text(key)});
    std::vector<std::string> sources;
    get(place_, json_, key, sources);
    check(!sources.empty(), "{}: '{}' is an empty list", place_, key);
    return several_of(key, sources);
  }
  std::string text(const char* key) const {
    std::string value;
    get(place_, json_, key, value);
    return value;
  }
  TaskTemplate made(const char* key, const std::string& source) const {
    return TaskTemplate(fmt::format("{}: '{}'", place_, key), macros_, source);
  }

 private:
  std::vector<TaskTemplate> several_of(const char* key,
                                       const std::vector<std::string>& sources) const {
    std::vector<TaskTemplate> templates;
    for (const std::string& source : sources) templates.push_back(made(key, source));
    return templates;
  }

  std::string place_;
  const Json& json_;
  std::string macros_;
};

const std::vector<std::string_view> kKeys = {
    "source",          "macros",           "output_type",
    "description",     "doc_to_text",      "doc_to_choice",
    "doc_to_target",   "target_delimiter", "fewshot_delimiter",
    "num_fewshot",     "fewshot_same",     "fewshot_items",
    "fewshot_sampler", "fewshot_spare",    "items",
    "until",           "max_gen_toks",     "doc_to_answer",
    "filters"};
// Those that only tasks of one type may have.
const std::vector<std::string_view> kChoiceKeys = {"doc_to_choice"};
const std::vector<std::string_view> kTextKeys = {"until", "max_gen_toks", "doc_to_answer",
                                                 "filters"};

void check_keys(const std::string& place, const Json& json, OutputType output) {
  const auto among = [](const std::vector<std::string_view>& keys, const std::string& key) {
    return std::find(keys.begin(), keys.end(), key) != keys.end();
  };
  for (const auto& [key, value] : json.items()) {
    check(among(kKeys, key), "{}: '{}' is not a key of a task; these are: {}", place, key,
          fmt::join(kKeys, ", "));
    check((output == OutputType::multiple_choice || !among(kChoiceKeys, key)) &&
              (output == OutputType::generate_until || !among(kTextKeys, key)),
          "{}: '{}' is not for the 'output_type' {}", place, key, name_of_enum(output));
  }
}

OutputType output_type_of(const std::string& place, const TaskReader& read) {
  if (!read.has("output_type")) return OutputType::multiple_choice;
  const auto type = enum_of<OutputType>(read.text("output_type"));
  check(type.has_value(), "{}: 'output_type' must be one of {}", place,
        fmt::join(kOutputTypes, ", "));
  return *type;
}

void read_choices(Task& task, const TaskReader& read, const Json& json) {
  task.lists_choices = read.has("doc_to_choice") && json["doc_to_choice"].is_string();
  if (task.lists_choices) {
    task.choices.push_back(read.made(
        "doc_to_choice", fmt::format("{{{{ ({})|tojson }}}}", read.text("doc_to_choice"))));
    return;
  }
  task.choices = read.several("doc_to_choice");
  check(task.choices.size() >= 2, "{}: 'doc_to_choice' must have two choices or more", task.place);
  check(task.texts.size() == 1 || task.texts.size() == task.choices.size(),
        "{}: 'doc_to_text' has {} texts, and 'doc_to_choice' {} choices", task.place,
        task.texts.size(), task.choices.size());
}

// Names of other members of a line of --per-item or of a task in --json.
void check_filter_name(const std::string& place, const std::string& name) {
  constexpr std::string_view kTaken[] = {
      "task",    "line",        "id",       "text",  "logprobs", "right",
      "item",    "prompt",      "question", "chat",  "tokens",   "stored",
      "seconds", "num_fewshot", "against",  "items", "partial",  "perplexity"};
  check(!name.empty() &&
            std::find(std::begin(kTaken), std::end(kTaken), name) == std::end(kTaken) &&
            !name.ends_with("_stderr") && !name.ends_with("_paired"),
        "{}: 'filters': '{}' cannot be a filter's name: the output has a member of that name",
        place, name);
}

void read_generation(Task& task, const TaskReader& read, const Json& json) {
  get(task.place, json, "until", task.until);
  check(std::find(task.until.begin(), task.until.end(), "") == task.until.end(),
        "{}: 'until' has an empty text", task.place);
  if (read.has("max_gen_toks")) get(task.place, json, "max_gen_toks", task.max_gen_toks);
  check(task.max_gen_toks >= 1 && task.max_gen_toks <= kMostNewTokens,
        "{}: 'max_gen_toks' must be from 1 to {}", task.place, kMostNewTokens);
  if (read.has("doc_to_answer")) task.answer.push_back(read.one("doc_to_answer"));
  if (!read.has("filters")) {
    task.filters.emplace_back("exact_match", read.made("filters", "{{ output | trim }}"));
    task.trims_answer = true;
    return;
  }
  const Json& filters = json["filters"];
  check(filters.is_object() && !filters.empty(),
        "{}: 'filters' must be an object of a template or more", task.place);
  for (const auto& [name, source] : filters.items()) {
    check_filter_name(task.place, name);
    check(source.is_string(), "{}: 'filters': '{}' must be a text", task.place, name);
    task.filters.emplace_back(name, read.made("filters", source.get<std::string>()));
  }
}

Task task_of(std::string name, const std::string& place, const Json& json,
             const std::filesystem::path& folder) {
  const TaskReader read(place, json);
  Task task{.name = std::move(name), .place = place};
  task.output = output_type_of(place, read);
  check_keys(place, json, task.output);
  task.texts = read.several("doc_to_text");
  if (task.output == OutputType::multiple_choice) {
    read_choices(task, read, json);
  } else {
    check(task.texts.size() == 1, "{}: 'doc_to_text' must be a text", place);
  }
  if (task.output == OutputType::generate_until) read_generation(task, read, json);
  task.target.push_back(read.one("doc_to_target"));
  if (read.has("source")) read.text("source");
  if (read.has("description")) task.description.push_back(read.one("description"));
  const auto path = [&](const char* key) -> std::optional<std::filesystem::path> {
    if (!read.has(key)) return std::nullopt;
    return folder / read.text(key);
  };
  if (read.has("target_delimiter")) task.target_delimiter = read.text("target_delimiter");
  if (read.has("fewshot_delimiter")) task.fewshot_delimiter = read.text("fewshot_delimiter");
  if (read.has("fewshot_same")) task.fewshot_same = read.text("fewshot_same");
  if (read.has("fewshot_sampler")) {
    const auto sampler = enum_of<FewshotSampler>(read.text("fewshot_sampler"));
    check(sampler.has_value(), "{}: 'fewshot_sampler' must be one of {}", place,
          fmt::join(kFewshotSamplers, ", "));
    task.sampler = *sampler;
  }
  if (read.has("fewshot_spare")) get(place, json, "fewshot_spare", task.fewshot_spare);
  if (read.has("num_fewshot")) get(place, json, "num_fewshot", task.num_fewshot);
  check(task.num_fewshot >= 0 && task.num_fewshot <= kMostShots,
        "{}: 'num_fewshot' must be from 0 to {}", place, kMostShots);
  task.items = path("items");
  task.fewshot_items = path("fewshot_items");
  return task;
}

}  // namespace

// What Jinja takes from a template's end is kept: the empty text stands behind it.
TaskTemplate::TaskTemplate(std::string place, const std::string& macros, const std::string& source)
    : place_(std::move(place)),
      template_(
          at_place(place_, [&] { return data::jinja::Template(macros + source + "{{ '' }}"); })) {}

std::string TaskTemplate::render(const std::string& where, const Json& doc) const {
  return at_place(fmt::format("{}: {}", where, place_), [&] {
    std::vector<std::pair<std::string, data::jinja::Value>> variables;
    for (const auto& [key, value] : doc.items()) {
      variables.emplace_back(key, data::jinja::value_of(value));
    }
    return template_.render(variables, {.strict = true}).text;
  });
}

std::vector<std::string_view> task_names() {
  std::vector<std::string_view> names;
  for (const NamedTask& task : named_tasks()) names.push_back(task.name);
  return names;
}

Task open_task(const std::string& name_or_file) {
  for (const NamedTask& task : named_tasks()) {
    if (task.name != name_or_file) continue;
    return task_of(name_or_file, "task " + name_or_file,
                   parse_json<Json>(task.text, kMostTaskDepth), {});
  }
  const std::filesystem::path path = name_or_file;
  check(path_exists(path), "--task {}: there is no such file, and no such task: these are {}",
        name_or_file, fmt::join(task_names(), ", "));
  const std::string place = path.string();
  const std::string text = read_file(path, kMostTaskBytes);
  const Json json = at_place(place, [&] { return parse_json<Json>(text, kMostTaskDepth); });
  check(json.is_object(), "{}: a task must be a JSON object", place);
  Task task = task_of(path.stem().string(), place, json, path.parent_path());
  task.file = path;
  return task;
}

}  // namespace tapegrad::evaluation
