// evaluate --task: files of --per-item that are gone on with, and two models on the same items.

#include <cmath>
#include <nlohmann/json.hpp>

#include "tapegrad/apps/evaluate/items/item_file.h"
#include "tapegrad/apps/evaluate/items/metrics.h"
#include "tapegrad/base/file.h"
#include "tapegrad/tests/apps/models/animal_tasks.h"

using namespace tapegrad;

namespace {

// A call that keeps its items in a file.
struct KeptItems : TaskFiles {
  std::filesystem::path file = folder / "kept.jsonl";

  Result call(const Args& more = {}) const { return evaluate(Args{"--per-item", file} + more); }
  nlohmann::json result(const Args& more = {}) const {
    const Result r = call(more + Args{"--json"});
    check_ended_well(r);
    return nlohmann::json::parse(r.out).at("tasks")[0];
  }
  std::string text() const { return TempFolder::get(file); }
  void put(const std::string& bytes) const { write_file_atomically(file, bytes); }
};

// The file without its last n lines.
std::string without_lines(std::string text, int n) {
  for (; n > 0; --n) text.resize(text.rfind('\n', text.size() - 2) + 1);
  return text;
}

}  // namespace

TEST_CASE("evaluate --per-item goes on with the file of a call that was stopped", "[tasks]") {
  const KeptItems kept;
  const nlohmann::json whole = kept.result();
  CHECK(whole.at("stored") == 0);
  const std::string text = kept.text(), one = without_lines(text, 1);
  for (const std::string& cut : {one, one + "{\"task\": \"ani", text.substr(0, text.size() - 1)}) {
    kept.put(cut);
    const nlohmann::json again = kept.result();
    CHECK(kept.text() == text);
    CHECK(again.at("stored") == 1);
    CHECK(again.at("acc_norm") == whole.at("acc_norm"));
    CHECK(again.at("tokens") < whole.at("tokens"));
  }
  CHECK(kept.result().at("stored") == 2);
  CHECK(kept.result({"--limit", "1"}).at("items") == 1);
  CHECK(kept.text() == text);  // more items than are asked for stay

  kept.put(without_lines(text, 2));
  CHECK(kept.result({"--limit", "1"}).at("stored") == 0);
  CHECK(kept.result().at("stored") == 1);
  CHECK(kept.text() == text);
  kept.put("");
  CHECK(kept.result().at("stored") == 0);
  CHECK(kept.result({"--overwrite"}).at("stored") == 0);

  // Stored numbers are the ones that count.
  const auto line = nlohmann::json::parse(text.substr(without_lines(text, 1).size()));
  auto other = line;
  other["logprobs"] =
      line.at("right") == line.at("acc") ? nlohmann::json{0, -1} : nlohmann::json{-1, 0};
  kept.put(one + other.dump() + "\n");
  CHECK(std::abs(kept.result().at("acc").get<double>() - whole.at("acc").get<double>()) == 0.5);
}

TEST_CASE("a file of --per-item that something else made is refused, and stays", "[tasks]") {
  const KeptItems kept;
  check_ended_well(kept.call());
  const std::string text = kept.text();
  const auto refused = [&](const Args& more, const std::string& message) {
    const std::string before = kept.text();
    check_error_of("evaluate", kept.call(more), 1, message);
    CHECK(kept.text() == before);
  };
  refused({"--cache", "q8_0"}, "'cache' is f32 there");
  refused({"--weights", "q8_0"}, "'weights' is stored there");
  const TinyRun other(3, {"--block-size", "40"});
  check_error_of("evaluate",
                 run_program("evaluate", {other.run, "--task", kept.task, "--items", kept.items,
                                          "--per-item", kept.file}),
                 1, "'fingerprint' is ");
  kept.folder.put("animals.json", replaced(kAnimals, "the {{", "a {{"));
  refused({}, "kept.jsonl, line 2: the model saw another prompt of ");
  kept.folder.put("animals.json", kAnimals);
  kept.put(replaced(text, "\"logprobs\":[", "\"logprobs\":[0,"));
  refused({}, "kept.jsonl, line 2: 'logprobs' has 4 numbers, and the item 3 choices");
  kept.put(replaced(text, "\"logprobs\":[", "\"logprobs\":[null,"));
  refused({}, "kept.jsonl, line 2: 'logprobs' must be");
  for (const std::string bytes : {"a text", "a text\n", "[1]\n", "{}\n"}) {
    kept.put(bytes);
    refused({}, "kept.jsonl");
  }
  kept.put(text + "{}\n");
  refused({}, "kept.jsonl, line 4: this is no line of --per-item: 'task' is missing");
  check_ended_well(kept.call({"--overwrite"}));
  CHECK(kept.text() == text);
  kept.put("a diary\n");
  refused({"--overwrite"}, "this is no file of --per-item, and stays");
  const std::string items = TempFolder::get(kept.items);
  check_error_of("evaluate",
                 run_program("evaluate", {animals().run, "--task", kept.task, "--items", kept.items,
                                          "--per-item", kept.items, "--overwrite"}),
                 1, "the call reads this file");
  CHECK(TempFolder::get(kept.items) == items);
}

TEST_CASE("two models are compared by their differences on the same items", "[tasks]") {
  const evaluation::Metric here{.name = "acc", .values = {1, 0, 1, 1}},
      there{.name = "acc", .values = {0, 0, 1, 0, 1}};
  const evaluation::PairedDifference d = paired(here, there);
  CHECK(d.mean == 0.5);
  CHECK(std::abs(d.error.value() - std::sqrt(1.0 / 12)) < 1e-15);
  CHECK(std::abs(d.half_interval().value() - 1.959964 * std::sqrt(1.0 / 12)) < 1e-6);
  CHECK((d.better == 2 && d.worse == 0));
  CHECK(std::abs(d.p() - 0.5) < 1e-15);
  CHECK(std::abs(here.error().value() - std::sqrt(0.75 * 0.25 / 3)) < 1e-15);
  CHECK(!evaluation::Metric{.name = "acc", .values = {1}}.error());
  const auto p = [](std::int64_t better, std::int64_t worse) {
    return evaluation::PairedDifference{.better = better, .worse = worse}.p();
  };
  CHECK(std::abs(p(12, 5) - 2 * 9402 / 131072.0) < 1e-14);  // Σ C(17, 0 … 5) = 9402
  CHECK(p(5, 12) == p(12, 5));
  CHECK(p(0, 0) == 1);
  CHECK(p(3000, 3000) == 1);
  CHECK(std::abs(p(3200, 2800) / 2.5e-7 - 1) < 0.1);  // normal: z = 399 / sqrt(6000) = 5.151
}

TEST_CASE("evaluate --task --against compares with a model, or with its file", "[tasks]") {
  const KeptItems kept;
  const TinyRun other(3, {"--block-size", "40"});
  const Args of_other = {"--against", other.run};
  const nlohmann::json by_model = kept.result(of_other).at("against");
  check_ended_well(run_program("evaluate", {other.run, "--task", kept.task, "--items", kept.items,
                                            "--per-item", kept.folder / "other.jsonl"}));
  const Args of_file = {"--against", kept.folder / "other.jsonl"};
  CHECK(kept.result(of_file).at("against") == by_model);
  check_error_of("evaluate", kept.call({"--against", kept.file}), 1, "the call reads this file");
  kept.folder.put("copy.jsonl", kept.text());
  const Args itself = {"--against", kept.folder / "copy.jsonl"};
  CHECK(kept.result(itself).at("against").at("acc_paired").at("difference") == 0);
  CHECK(by_model.at("acc_paired").at("p").is_number());

  const Result table = kept.evaluate(of_other);
  check_ended_well(table);
  CHECK_THAT(table.out, ContainsSubstring("95 % interval") && ContainsSubstring("better:worse") &&
                            ContainsSubstring("there: " + other.run.string()));
  kept.put(without_lines(kept.text(), 1));
  check_error_of("evaluate", kept.evaluate({"--against", kept.file}), 1,
                 "kept.jsonl: it does not have task animals, line 3");
  check_error_of("evaluate", kept.evaluate({"--against", kept.folder / "none"}), 1, "none");
}

TEST_CASE("--against refuses a file whose questions or right answers are others", "[tasks]") {
  const KeptItems kept;
  const std::string file = kept.folder / "there.jsonl";
  const auto refused = [&](const Args& more, const std::string& message) {
    check_error_of("evaluate", kept.evaluate(Args{"--against", file} + more), 1, message);
  };
  check_ended_well(kept.evaluate({"--per-item", file}));
  check_ended_well(kept.evaluate({"--against", file}));
  const std::string lines = TempFolder::get(file);
  kept.folder.put("there.jsonl", replaced(lines, "\"right\":1", "\"right\":0"));
  refused({}, "there.jsonl, line 3: the right answer of task animals is 0 there, and 1 in " +
                  kept.items + ", line 3");
  kept.folder.put("there.jsonl", replaced(lines, "\"right\":1", "\"left\":1"));
  refused({}, "there.jsonl, line 3: the right answer of task animals is null there");
  kept.folder.put("there.jsonl", lines);
  kept.folder.put("animals.json", replaced(kAnimals, "the {{", "a {{"));
  refused({},
          "there.jsonl, line 2: the other model was asked something else of task animals than "
          "this one by " +
              kept.items + ", line 1");
  kept.folder.put("animals.json", kAnimals);
  refused({"--num-fewshot", "1"}, "there.jsonl, line 2: the other model was asked something else");
  kept.folder.put("items.jsonl", replaced(kAnimalItems, "\"cat\"", "\"rat\""));
  refused({}, "there.jsonl, line 2: task animals has another item there than " + kept.items +
                  ", line 1");
  kept.folder.put("items.jsonl", std::string("\n") + kAnimalItems);
  refused({}, "there.jsonl: it does not have task animals, line 2");
}

TEST_CASE("chats of models with other templates are compared by what these were given", "[tasks]") {
  const TempFolder folder;
  evaluation::Task task = evaluation::open_task(folder.put("animals.json", kAnimals));
  task.items = folder.put("items.jsonl", kAnimalItems);
  const auto read = [&](const std::string& chat_template, bool multiturn = false) {
    return evaluation::read_items(
        task, 9, evaluation::ChatFormat{data::ChatTemplate(chat_template), multiturn});
  };
  const auto items = read("{{ messages[0].content }}:");
  const std::filesystem::path path = folder / "there.jsonl";
  evaluation::ItemFile file(path, {}, false);
  for (const auto& item : items) {
    file.add(task, item, {.logprobs = std::vector<double>(item.choices.size(), -1.0)});
  }
  const evaluation::StoredItems stored(path);
  const auto others = read("<u>{{ messages[0].content }}</u>");
  CHECK(others[0].contexts != items[0].contexts);
  CHECK(stored.asked(task, others[0]).logprobs.size() == 3);
  for (const auto& other :
       {read("{{ messages[0].content }}:", true), evaluation::read_items(task, 9)}) {
    CHECK_THROWS_WITH(stored.asked(task, other[0]), ContainsSubstring("was asked something else"));
  }
}

TEST_CASE("choices that have one context hold it once", "[tasks]") {
  const KeptItems kept;
  evaluation::Task task = evaluation::open_task(kept.task);
  task.items = kept.items;
  task.num_fewshot = 1;
  const auto items = evaluation::read_items(task, 9);
  REQUIRE(items.at(0).choices.size() == 3);
  CHECK(items[0].contexts.size() == 1);
  CHECK(items[0].context(2) == "the dog  ate.\n\nthe cat");
}
