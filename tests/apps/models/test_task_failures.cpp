// evaluate --task: what is kept when an error or a signal ends a call early, and how tasks and
// files are told apart.

#include <nlohmann/json.hpp>

#include "tapegrad/apps/evaluate/evaluate_tasks.h"
#include "tapegrad/tests/apps/models/animal_tasks.h"
#include "tapegrad/tests/run/models/settings_support.h"

using namespace tapegrad;

namespace {

// Two tasks: a model that sees 10 tokens has room for the choices of the first one, `words`, and a
// model that sees 40 has none for the last choice of the second one, `broken`.
struct BrokenTask : TaskFiles {
  std::string words = folder.put("words.json", kAnimals);
  std::string word_items =
      folder.put("words.jsonl", replaced("{'animal': 'cat', 'ends': ['on', 'ate'], 'label': 0}\n"
                                         "{'animal': 'dog', 'ends': ['on', 'ate'], 'label': 1}\n",
                                         "'", "\""));
  std::string broken = folder.put("broken.json", kAnimals);
  std::string broken_items = folder.put(
      "broken.jsonl", std::string(kAnimalItems) + R"({"animal": "cat", "ends": ["on", ")" +
                          std::string(60, 'a') + R"("], "label": 0})" + "\n");
  Args first() const { return {"--task", words, "--items", word_items}; }
  Args both() const { return first() + Args{"--task", broken, "--items", broken_items}; }
};

nlohmann::json json_in(const Result& r) {
  INFO(r.err);
  return nlohmann::json::parse(r.out);
}

}  // namespace

TEST_CASE("an error in a later task prints what was measured before it", "[tasks]") {
  const BrokenTask files;
  const std::string page = files.folder / "page.html";
  const Result whole =
      run_program("evaluate", Args{animals().run} + files.first() + Args{"--json"});
  check_ended_well(whole);
  const Result r = run_program(
      "evaluate", Args{animals().run} + files.both() + Args{"--json", "--report", page});
  CHECK(r.code == 1);
  CHECK_THAT(r.err, ContainsSubstring("broken.jsonl, line 4: a choice has 61 tokens"));
  const auto tasks = json_in(r).at("tasks");
  REQUIRE(tasks.size() == 2);
  CHECK(tasks[0].at("acc") == json_in(whole).at("tasks")[0].at("acc"));
  CHECK(tasks[0].at("partial") == false);
  CHECK(tasks[1].at("items") == 2);
  CHECK(tasks[1].at("partial") == true);
  CHECK(tasks[1].at("tokens") > 0);
  CHECK_THAT(TempFolder::get(page), ContainsSubstring("words: 2 items, 0 examples each; broken: 2 "
                                                      "items, 0 examples each (partial)"));

  const Result table = run_program("evaluate", Args{animals().run} + files.both());
  CHECK(table.code == 1);
  CHECK_THAT(table.out, ContainsSubstring("words") && ContainsSubstring("2 of 3 (partial)"));

  const auto alone =
      files.folder.put("alone.jsonl", R"({"animal": "cat", "ends": ["on", ")" +
                                          std::string(60, 'a') + R"("], "label": 0})");
  const Result none = run_program("evaluate", {animals().run, "--task", files.broken, "--items",
                                               alone, "--report", files.folder / "none.html"});
  check_error_of("evaluate", none, 1, "a choice has 61 tokens");
  CHECK(!std::filesystem::exists(files.folder / "none.html"));
}

TEST_CASE("an error of the model of --against keeps the numbers of the first one", "[tasks]") {
  const BrokenTask files;
  const TinyRun small(3, {"--block-size", "8"});
  // The small model has room for the first two items.
  const std::string some =
      files.folder.put("some.jsonl", TempFolder::get(files.word_items) + std::string(kAnimalItems));
  const Args animal_task = {"--task", files.task, "--items", some};
  const Args tasks = Args{animals().run} + files.first() + animal_task;
  const Result alone = run_program("evaluate", tasks + Args{"--json"});
  const Result r = run_program("evaluate", tasks + Args{"--json", "--against", small.run});
  CHECK(r.code == 1);
  CHECK_THAT(r.err, ContainsSubstring("some.jsonl, line 3: a choice has 11 tokens, and the model "
                                      "sees 8 at once"));
  const auto here = json_in(r).at("tasks");
  REQUIRE(here.size() == 2);
  CHECK(here[0].at("against").at("items") == 2);
  CHECK(!here[1].contains("against"));
  CHECK(here[1].at("items") == 4);
  CHECK(here[1].at("acc") == json_in(alone).at("tasks")[1].at("acc"));

  const Result table =
      run_program("evaluate", Args{animals().run} + animal_task + Args{"--against", small.run});
  CHECK(table.code == 1);
  CHECK_THAT(table.out, ContainsSubstring("animals") && !ContainsSubstring("there"));
}

TEST_CASE("an error of a later model prints the models before it, and its tasks so far",
          "[evaluate]") {
  const BrokenTask files;
  const TinyRun small(3, {"--block-size", "8"});
  const Args models = {"--model", animals().run, "--model", small.run, "--model", animals().run};
  const std::string page = files.folder / "page.html";
  const Args tasks = files.first() + Args{"--task", files.task, "--items", files.items};
  const Result r = run_program("evaluate", models + tasks + Args{"--json", "--report", page});
  CHECK(r.code == 1);
  CHECK_THAT(r.err, ContainsSubstring("a choice has 11 tokens, and the model sees 8 at once"));
  const auto shown = json_in(r).at("models");
  REQUIRE(shown.size() == 2);
  CHECK(shown[0].at("tasks").size() == 2);
  CHECK(shown[1].at("tasks").size() == 1);
  CHECK_THAT(TempFolder::get(page), ContainsSubstring("Evaluation of 2 models") &&
                                        ContainsSubstring(small.run.string() + ": –"));
  const Result table = run_program("evaluate", models + tasks);
  CHECK(table.code == 1);
  CHECK_THAT(table.out, ContainsSubstring("words acc") && ContainsSubstring(small.run.string()));

  const Result one = run_program(
      "evaluate", models + Args{"--task", files.task, "--items", files.items, "--json"});
  CHECK(one.code == 1);
  CHECK(json_in(one).at("models").size() == 1);
}

TEST_CASE("after a signal, two models are compared by the items that both have", "[tasks]") {
  const auto result = [](std::vector<double> values) {
    return evaluation::TaskResult{
        .name = "t",
        .all_items = 4,
        .metrics = {{.name = "acc", .values = values}, {.name = "acc_norm", .values = values}}};
  };
  std::vector<evaluation::TaskResult> here = {result({1, 0, 1, 1}), result({0, 1, 1, 1})};
  std::vector<evaluation::TaskResult> there = {result({1, 1})};
  evaluation::keep_common(here, there);
  CHECK(here[0].items() == 2);
  CHECK(here[0].metrics[1].values == std::vector<double>{1, 0});
  CHECK(there[0].items() == 2);
  CHECK(here[1].items() == 4);  // a task that only one has is not cut
  std::vector<evaluation::TaskResult> more = {result({1, 1, 1, 1})};
  here = {result({1})};
  evaluation::keep_common(here, more);
  CHECK(more[0].metrics[1].values == std::vector<double>{1});
}

TEST_CASE("the fingerprint of --per-item covers the model's config", "[tasks]") {
  const TempFolder folder;
  const auto model = testing::put_hf_model(folder);
  const std::string items = folder.put("items.jsonl", kAnimalItems);
  const std::string file = folder / "kept.jsonl";
  const Args call = {model,        "--task", folder.put("animals.json", kAnimals), "--items", items,
                     "--per-item", file};
  check_ended_well(run_program("evaluate", call));
  const std::string lines = TempFolder::get(file);
  const std::string config = TempFolder::get(model / "config.json");
  nlohmann::json other = nlohmann::json::parse(config);
  other["rms_norm_eps"] = 0.25;
  folder.put("in/config.json", other.dump());
  check_error_of("evaluate", run_program("evaluate", call), 1, "'fingerprint' is ");
  CHECK(TempFolder::get(file) == lines);
  folder.put("in/config.json", config);
  check_ended_well(run_program("evaluate", call));
}

TEST_CASE("an option that a version adds leaves the fingerprint of --per-item as it is",
          "[tasks]") {
  const TempFolder folder;
  const auto model = testing::put_hf_model(folder);
  const std::string file = folder / "kept.jsonl";
  const Args call = {model,
                     "--task",
                     folder.put("animals.json", kAnimals),
                     "--items",
                     folder.put("items.jsonl", kAnimalItems),
                     "--per-item",
                     file};
  check_ended_well(run_program("evaluate", call));
  CHECK_THAT(TempFolder::get(file), ContainsSubstring(R"("fingerprint":"832470499854d448")"));
}

TEST_CASE("one task with several files of items has a name for each", "[tasks]") {
  const TaskFiles files;
  const std::string more = files.folder.put("more.jsonl", kAnimalItems);
  const std::string file = files.folder / "kept.jsonl";
  const Args call = {animals().run, "--task",  files.task, "--items", files.items,  "--task",
                     files.task,    "--items", more,       "--json",  "--per-item", file};
  const auto tasks = json_in(run_program("evaluate", call)).at("tasks");
  REQUIRE(tasks.size() == 2);
  CHECK(tasks[0].at("task") == "animals:items");
  CHECK(tasks[1].at("task") == "animals:more");
  const std::string lines = TempFolder::get(file);
  const auto again = json_in(run_program("evaluate", call)).at("tasks");
  CHECK(again[0].at("stored") == 2);
  CHECK(again[1].at("stored") == 2);
  CHECK(TempFolder::get(file) == lines);

  const std::string same = files.folder.put("other/items.jsonl", kAnimalItems);
  for (const std::string& second : {files.items, same}) {
    check_error_of("evaluate", files.evaluate({"--task", files.task, "--items", second}), 1,
                   "both have the name animals:items, by which results are told apart");
  }
}

TEST_CASE("a file of --per-item may have the name of a task that the program brings along",
          "[tasks]") {
  const TempFolder folder;
  const std::string items = folder.put(
      "items.jsonl", "{\"goal\": \"cat\", \"sol1\": \"sat\", \"sol2\": \"ate\", \"label\": 0}\n");
  const auto model = testing::put_hf_model(folder);
  const Args call = {model, "--task", "piqa", "--items", items, "--per-item", "piqa"};
  check_ended_well(run_program("evaluate", call, folder.path()));
  CHECK_THAT(TempFolder::get(folder / "piqa"), ContainsSubstring("\"task\":\"piqa\""));
  folder.put("mine", kAnimals);
  const std::string animal_items = folder.put("animals.jsonl", kAnimalItems);
  for (const char* name : {"mine", "./mine"}) {
    check_error_of("evaluate",
                   run_program("evaluate",
                               {model, "--task", name, "--items", animal_items, "--per-item",
                                "mine", "--overwrite"},
                               folder.path()),
                   1, "--per-item mine: the call reads this file");
    CHECK(TempFolder::get(folder / "mine") == kAnimals);
  }
}
