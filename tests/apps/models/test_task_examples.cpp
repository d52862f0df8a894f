// The examples before a question of evaluate --task: which ones, and in which order.

#include <nlohmann/json.hpp>

#include "tapegrad/apps/evaluate/items/eval_task.h"
#include "tapegrad/apps/evaluate/items/python_random.h"
#include "tapegrad/tests/apps/models/animal_tasks.h"
#include "tapegrad/tests/golden/golden.h"

using namespace tapegrad;

namespace {

constexpr const char* kMeadow = R"({
  "doc_to_text": "the {{ animal }}",
  "doc_to_choice": "ends",
  "doc_to_target": "{{ label }}"
})";

std::string json_lines(const nlohmann::json& docs) {
  std::string lines;
  for (const auto& doc : docs) lines += doc.dump() + "\n";
  return lines;
}

// The first context of each item.
std::vector<std::string> prompts_of(const evaluation::Task& task, std::int64_t limit = 1000) {
  std::vector<std::string> prompts;
  for (const auto& item : evaluation::read_items(task, limit)) prompts.push_back(item.context(0));
  return prompts;
}

}  // namespace

TEST_CASE("examples are drawn as Python's generator draws them", "[tasks]") {
  const nlohmann::json golden = testing::golden_json("fewshot.json");
  evaluation::PythonRandom random(1234);
  for (const auto& draw : golden.at("draws")) {
    const auto drawn = draw.at("drawn").get<std::vector<std::size_t>>();
    INFO(drawn.size() << " of " << draw.at("of"));
    CHECK(random.sample(draw.at("of"), drawn.size()) == drawn);
  }
  for (const auto& seed : golden.at("seeded")) {
    evaluation::PythonRandom other(seed.at("seed"));
    CHECK(other.sample(1'000'000'000, 8) == seed.at("drawn").get<std::vector<std::size_t>>());
  }
  CHECK_THROWS_WITH(random.sample(3, 4), ContainsSubstring("4 of 3"));
}

TEST_CASE("prompts with examples are those of lm-evaluation-harness's rules", "[tasks]") {
  const nlohmann::json all = testing::golden_json("fewshot.json").at("prompts");
  REQUIRE(all.size() == 4);
  for (const auto& golden : all) {
    INFO(golden.at("name"));
    const TempFolder folder;
    evaluation::Task task = evaluation::open_task(folder.put("meadow.json", kMeadow));
    task.items = folder.put("items.jsonl", json_lines(golden.at("items")));
    if (!golden.at("examples").is_null()) {
      task.fewshot_items = folder.put("train.jsonl", json_lines(golden.at("examples")));
      task.fewshot_spare = golden.at("spare");
    }
    task.num_fewshot = golden.at("shots");
    const auto prompts = golden.at("prompts").get<std::vector<std::string>>();
    CHECK(prompts_of(task) == prompts);
    CHECK(prompts_of(task, 4) == std::vector(prompts.begin(), prompts.begin() + 4));
  }
}

TEST_CASE("each value of fewshot_same has draws of its own, and first_n draws nothing", "[tasks]") {
  const nlohmann::json golden = testing::golden_json("fewshot.json").at("prompts")[1];
  const TempFolder folder;
  nlohmann::json items, examples;
  for (const char* kind : {"x", "y"}) {
    for (auto doc : golden.at("items")) items.push_back((doc["kind"] = kind, doc));
    for (auto doc : golden.at("examples")) examples.push_back((doc["kind"] = kind, doc));
  }
  evaluation::Task task = evaluation::open_task(folder.put("meadow.json", kMeadow));
  task.items = folder.put("items.jsonl", json_lines(items));
  task.fewshot_items = folder.put("train.jsonl", json_lines(examples));
  task.fewshot_same = "kind";
  task.num_fewshot = golden.at("shots");
  auto twice = golden.at("prompts").get<std::vector<std::string>>();
  const auto once = twice;
  twice.insert(twice.end(), once.begin(), once.end());
  CHECK(prompts_of(task) == twice);

  task.sampler = evaluation::FewshotSampler::first_n;
  CHECK(prompts_of(task)[10] == "the cat 30 sat\n\nthe cat 31 ate\n\nthe cat 32 sat\n\nthe " +
                                    golden.at("items")[1].at("animal").get<std::string>());
}

TEST_CASE("the program's tasks draw as those of the harness, and MMLU takes the first ones",
          "[tasks]") {
  for (const std::string_view name : evaluation::task_names()) {
    const evaluation::Task task = evaluation::open_task(std::string(name));
    INFO(name);
    CHECK((task.sampler == evaluation::FewshotSampler::first_n) == (name == "mmlu"));
    const bool one_split =
        name == "hellaswag" || name == "piqa" || name == "boolq" || name == "winogrande";
    CHECK(task.fewshot_spare == one_split);
  }
}

TEST_CASE("too few examples and broken ones are named", "[tasks]") {
  const TaskFiles files;
  const auto fails = [&](const std::string& task, const std::string& shots,
                         const std::string& message) {
    check_error_of(
        "evaluate",
        run_program("evaluate", {animals().run, "--items", files.items, "--task",
                                 files.folder.put("meadow.json", task), "--fewshot-items",
                                 files.folder / "train.jsonl", "--num-fewshot", shots}),
        1, message);
  };
  const std::string one = R"({"animal": "cat", "ends": ["sat", "ate"], "label": 0})"
                          "\n";
  files.folder.put("train.jsonl", one);
  fails(kMeadow, "2",
        "items.jsonl, line 1: " + files.folder.path().string() +
            "/meadow.json: there are 1 examples to draw 2 from, and 'num_fewshot' is 2");
  const std::string spare = replaced(kMeadow, "{\n", "{\n\"fewshot_spare\": true,\n");
  fails(spare, "1", "there are 1 examples to draw 2 from, and 'num_fewshot' is 1");
  const std::string own =
      std::string(kAnimalItems).substr(0, std::string(kAnimalItems).find('\n') + 1);
  files.folder.put("train.jsonl", own + own);
  fails(spare, "1",
        "items.jsonl, line 1: " + files.folder.path().string() +
            "/meadow.json: there are 0 examples for it, and 'num_fewshot' is 1");
  files.folder.put("train.jsonl", "[1]\n");
  fails(kMeadow, "1", "train.jsonl, line 1: an item must be a JSON object");
  fails(replaced(kMeadow, "{\n", "{\n\"fewshot_sampler\": \"random\",\n"), "1",
        "meadow.json: 'fewshot_sampler' must be one of default, first_n");
  fails(replaced(kMeadow, "{\n", "{\n\"fewshot_spare\": 1,\n"), "1", "'fewshot_spare' must be");
}
