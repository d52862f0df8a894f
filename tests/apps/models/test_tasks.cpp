// Questions of several choices: prompts, scores, and evaluate --task.

#include <cmath>
#include <nlohmann/json.hpp>

#include "tapegrad/apps/evaluate/task_table.h"
#include "tapegrad/base/interrupt.h"
#include "tapegrad/run/models/model.h"
#include "tapegrad/tests/apps/models/animal_tasks.h"
#include "tapegrad/tests/apps/parsed.h"

using namespace tapegrad;

namespace {

// The only question of an item in its data set's own form.
evaluation::Item item_of(const std::string& name, const std::string& line) {
  const TempFolder folder;
  evaluation::Task task = evaluation::open_task(name);
  task.items = folder.put("items.jsonl", replaced(line, "\n", " "));
  return evaluation::read_items(task, 1).front();
}

void check_item(const std::string& name, const std::string& line,
                const std::vector<std::string>& contexts, const std::vector<std::string>& choices,
                std::size_t right) {
  INFO(name);
  const evaluation::Item item = item_of(name, line);
  CHECK(item.choices == choices);
  CHECK(item.right == right);
  for (std::size_t i = 0; i < choices.size(); ++i) {
    CHECK(item.context(i) == contexts[i % contexts.size()]);
  }
}

}  // namespace

TEST_CASE("tasks by name make the prompts of lm-evaluation-harness", "[tasks]") {
  check_item("hellaswag",
             R"({"ind": 4, "activity_label": "Roofs", "ctx_a": "A man is [a [b] up [title] Then",
               "ctx_b": "HE", "endings": ["is  on [step] it.", " sits [", "[x]", "runs"],
               "label": "3"})",
             {"Roofs: A man is up. Then He"}, {"is on it.", "sits [", "", "runs"}, 3);
  check_item("piqa", R"({"goal": "Cut a cake", "sol1": "knife", "sol2": "spoon", "label": 1})",
             {"Question: Cut a cake\nAnswer:"}, {"knife", "spoon"}, 1);
  for (const char* arc : {"arc_easy", "arc_challenge"}) {
    check_item(arc,
               R"({"id": "M", "question": "Why?", "choices": {"text": ["sun", "moon"],
                 "label": ["1", "2"]}, "answerKey": "2"})",
               {"Question: Why?\nAnswer:"}, {"sun", "moon"}, 1);
  }
  check_item("winogrande",
             R"({"sentence": "Ann saw Bea as _ was tall.", "option1": "Ann", "option2": "Bea",
               "answer": "2"})",
             {"Ann saw Bea as Ann", "Ann saw Bea as Bea"}, {"was tall.", "was tall."}, 1);
  for (const char* label : {"\"label\": 1", "\"answer\": true"}) {
    check_item("boolq", fmt::format(R"({{"question": "is it", "passage": "It is.", {}}})", label),
               {"It is.\nQuestion: is it?\nAnswer:"}, {"no", "yes"}, 1);
  }
  check_item("openbookqa",
             R"({"question_stem": "The sun is", "choices": {"text": ["a star", "a rock"],
               "label": ["A", "B"]}, "answerKey": "A"})",
             {"The sun is"}, {"a star", "a rock"}, 0);
  check_item(
      "mmlu",
      R"({"question": " 1+1? ", "subject": "abstract_algebra", "choices": ["1", "2", "3", "4"],
               "answer": 1})",
      {"The following are multiple choice questions (with answers) about abstract "
       "algebra.\n\n1+1?\nA. 1\nB. 2\nC. 3\nD. 4\nAnswer:"},
      {"A", "B", "C", "D"}, 1);
}

TEST_CASE("examples stand before a question, and none is the question itself", "[tasks]") {
  const TempFolder folder;
  evaluation::Task task = evaluation::open_task("mmlu");
  const auto line = [](const std::string& question, const std::string& subject) {
    return fmt::format(R"({{"question": "{}", "subject": "{}", "choices": ["a","b","c","d"], )"
                       R"("answer": 2}})",
                       question, subject) +
           "\n";
  };
  task.items = folder.put("items.jsonl", line("p", "x") + line("q", "y") + line("r", "x"));
  task.num_fewshot = 1;
  const auto text = [](const std::string& question) {
    return question + "\nA. a\nB. b\nC. c\nD. d\nAnswer:";
  };
  const std::string head = "The following are multiple choice questions (with answers) about ";
  check_fails([&] { evaluation::read_items(task, 9); }, 1,
              "line 2: task mmlu: there are 0 examples for it, and 'num_fewshot' is 1");
  task.fewshot_items = folder.put("dev.jsonl", line("s", "y") + line("t", "x") + line("u", "x"));
  CHECK(evaluation::read_items(task, 9)[1].contexts[0] ==
        head + "y.\n\n" + text("s") + " C\n\n" + text("q"));
  task.fewshot_items = folder.put("items2.jsonl", line("p", "x") + line("r", "x") + line("q", "y"));
  const auto items = evaluation::read_items(task, 9);
  CHECK(items[2].context(3) == head + "x.\n\n" + text("p") + " C\n\n" + text("r"));
  task.fewshot_items.reset();
  task.items = folder.put("items.jsonl", line("p", "x") + line("r", "x"));
  CHECK(evaluation::read_items(task, 9)[0].contexts[0] ==
        head + "x.\n\n" + text("r") + " C\n\n" + text("p"));
}

TEST_CASE("a continuation begins where the context's tokens end, its white space included",
          "[tasks]") {
  const data::Tokenizer gpt2 = data::Tokenizer::gpt2();
  const auto texts = [&](const std::string& context, const std::string& continuation) {
    const auto [tokens, begin] = evaluation::scored_tokens(gpt2, context, continuation);
    const auto middle = tokens.begin() + static_cast<std::ptrdiff_t>(begin);
    return std::pair(gpt2.decode(std::vector(tokens.begin(), middle)),
                     gpt2.decode(std::vector(middle, tokens.end())));
  };
  CHECK(texts("Answer:", " yes") == std::pair<std::string, std::string>("Answer:", " yes"));
  CHECK(texts("Answer: ", "yes") == std::pair<std::string, std::string>("Answer:", " yes"));
  CHECK(texts("", " yes") == std::pair<std::string, std::string>("<|endoftext|>", " yes"));
  CHECK_THROWS_WITH(evaluation::scored_tokens(gpt2, "Answer:", ""),
                    ContainsSubstring("no more than the context alone"));
}

TEST_CASE("log-likelihoods are those of a plain pass, whatever is shared or left out", "[tasks]") {
  const run::TextModel model = run::load_quantized(run::open_model(animals().run));
  const run::TextModel plain = run::load(animals().run);
  std::string examples;
  for (int i = 0; i < 9; ++i) examples += "the dog ate. ";
  const std::vector<evaluation::Item> items = {
      {.where = "a", .contexts = {"the", "the"}, .choices = {"cat sat on", "dog"}},
      {.where = "b", .contexts = {"the cat", "the dog"}, .choices = {"ate.", "ate."}},
      {.where = "c", .contexts = {"t", "t"}, .choices = {"t", "he cat sat on mat 1 and"}},
      {.where = "d", .contexts = {examples, examples}, .choices = {"the cat", "sat on"}},
      {.where = "e", .contexts = {examples + "on", examples + "on"}, .choices = {"mat", "a"}}};
  evaluation::LikelihoodScorer scorer(model, CacheType::f32);
  for (const evaluation::Item& item : items) {
    const std::vector<double> logprobs = scorer.score(item).logprobs;
    evaluation::LikelihoodScorer alone(model, CacheType::f32);
    CHECK(alone.score(item).logprobs == logprobs);
    for (std::size_t i = 0; i < item.choices.size(); ++i) {
      std::string context = item.contexts[i], continuation = " " + item.choices[i];
      while (context.ends_with(' ')) {
        context.pop_back();
        continuation = " " + continuation;
      }
      INFO(item.where << i);
      CHECK(std::abs(logprobs[i] - plain_logprob(plain, context, continuation)) < 1e-5);
    }
  }
  CHECK_THROWS_WITH(scorer.score({.where = "x.jsonl, line 7",
                                  .contexts = {"t", "t"},
                                  .choices = {"a", std::string(60, 'a')}}),
                    ContainsSubstring("x.jsonl, line 7: a choice has 61 tokens"));
}

TEST_CASE("the examples that items share are read once", "[tasks]") {
  const TinyRun run(2, {"--block-size", "120"});
  const run::TextModel model = run::load_quantized(run::open_model(run.run));
  std::string examples;
  for (int i = 0; i < 8; ++i) examples += "the dog ate. ";
  const auto item = [&](const std::string& end) {
    return evaluation::Item{
        .where = end, .contexts = {examples + end, examples + end}, .choices = {"sat", "on"}};
  };
  evaluation::LikelihoodScorer scorer(model, CacheType::f32), alone(model, CacheType::f32);
  scorer.score(item("the cat"));
  const std::int64_t first = scorer.tokens();
  const std::vector<double> logprobs = scorer.score(item("the mat")).logprobs;
  CHECK(scorer.tokens() - first < 20);
  CHECK(first > 100);
  CHECK(alone.score(item("the mat")).logprobs == logprobs);
}

TEST_CASE("choices are compared by sum, by character and by byte", "[tasks]") {
  using Chosen = std::vector<std::size_t>;
  const auto chosen = [](const std::vector<std::string>& choices,
                         const std::vector<double>& logprobs) {
    Chosen all;
    for (const auto& score :
         evaluation::scores_of({}, {.where = {}, .choices = choices, .right = 1}, {logprobs})) {
      all.push_back(score.found.get<std::size_t>());
      CHECK(score.value == (score.found == 1 ? 1 : 0));
    }
    return all;
  };
  CHECK(chosen({"a", "bcd", "ééé"}, {-3, -6, -7}) == Chosen{0, 1, 2});
  CHECK(chosen({"a", "b"}, {-2, -2}) == Chosen{0, 0, 0});
  CHECK(chosen({"", "b"}, {-1, -2}) == Chosen{0, 1, 1});
}

TEST_CASE("evaluate --task prints shares of right answers, and writes each item", "[tasks]") {
  const TaskFiles files;
  const Result r = files.evaluate();
  check_ended_well(r);
  CHECK_THAT(r.out, ContainsSubstring("task     ") && ContainsSubstring("animals  ") &&
                        ContainsSubstring(" ± ") && !ContainsSubstring("partial"));
  const auto lines = files.lines();
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].at("id") == "a");
  CHECK(lines[0].at("line") == 1);
  CHECK(lines[1].at("line") == 3);
  CHECK(lines[0].at("right") == 0);
  CHECK(lines[1].at("right") == 1);
  const run::TextModel model = run::load(animals().run);
  CHECK(std::abs(lines[1].at("logprobs")[1].get<double>() -
                 plain_logprob(model, "the dog", "  ate.")) < 1e-5);
  CHECK(files.lines({"--threads", "1"}) == lines);
  CHECK(files.lines({"--limit", "1"}).size() == 1);

  check_error_of("evaluate", files.evaluate({"--task", files.task, "--items", files.items}), 1,
                 "both have the name animals:items");
  files.folder.put("beasts.json", kAnimals);
  const Result both =
      files.evaluate({"--task", files.folder / "beasts.json", "--items", files.items, "--json"});
  check_ended_well(both);
  const auto tasks = nlohmann::json::parse(both.out).at("tasks");
  REQUIRE(tasks.size() == 2);
  CHECK(tasks[0].at("items") == 2);
  CHECK(tasks[0].at("partial") == false);
  int right = 0;
  for (const auto& line : lines) right += line.at("acc") == line.at("right");
  CHECK(tasks[1].at("acc") == right / 2.0);
  CHECK(tasks[1].at("acc_norm_stderr").is_number());

  files.folder.put("own/own.json", replaced(kAnimals, "{\n", "{\n\"items\": \"own.jsonl\",\n"));
  files.folder.put("own/own.jsonl", kAnimalItems);
  check_ended_well(
      run_program("evaluate", {animals().run, "--task", files.folder / "own/own.json"}));
}

TEST_CASE("a signal ends a task, whose items so far are marked as a part", "[tasks]") {
  const run::TextModel model = run::load_quantized(run::open_model(animals().run));
  evaluation::Questions questions;
  questions.tasks.push_back(evaluation::open_task(TaskFiles().task));
  questions.items = {{{.where = "a", .contexts = {"the", "the"}, .choices = {"cat", "dog"}}}};
  evaluation::ItemFile none;
  interrupt("a test");
  std::vector<evaluation::TaskResult> results;
  evaluation::evaluate_tasks({model}, questions, none, results);
  CHECK(results.empty());
  forget_interrupt();
  evaluation::evaluate_tasks({model}, questions, none, results);
  CHECK(results.size() == 1);
  const evaluation::TaskResult part{
      .name = "t", .all_items = 5000, .metrics = {{.name = "acc", .values = {1, 0, 1}}}};
  CHECK_THAT(evaluation::table_of({part}), ContainsSubstring("3 of 5,000 (partial)"));
  CHECK(evaluation::json_of({part})[0].at("partial") == true);
}

TEST_CASE("a broken task or item is named with file, line and key", "[tasks]") {
  const TaskFiles files;
  const auto task_fails = [&](const std::string& from, const std::string& to,
                              const std::string& message) {
    const auto task = files.folder.put("broken.json", replaced(kAnimals, from, to));
    const Result r =
        run_program("evaluate", {animals().run, "--task", task, "--items", files.items});
    check_error_of("evaluate", r, 1, "broken.json: " + message);
  };
  task_fails("doc_to_text", "text", "'text' is not a key of a task");
  task_fails("\"doc_to_text\": \"the {{ animal }}\",", "", "'doc_to_text' is missing");
  task_fails("\"ends\"", "5", "'doc_to_choice' must be a text");
  task_fails("\"ends\"", "[\"a\"]", "'doc_to_choice' must have two choices");
  task_fails("\"ends\"", "[]", "'doc_to_choice' is an empty list");
  task_fails("{{ animal }}", "{{ animal", "'doc_to_text': ");
  task_fails("\"ends\"", "\"ends)\"", "'doc_to_choice': ");
  task_fails("{\n", "{\"num_fewshot\": -1,", "'num_fewshot' must be from 0 to 64");
  task_fails("{\n", "{{", "");
  task_fails("\"the {{ animal }}\"", "[\"a\", \"b\", \"c\"]", "");
  check_error_of("evaluate", run_program("evaluate", {animals().run, "--task", "/none"}), 1,
                 "--task /none: there is no such file, and no such task: these are arc_challenge");
  check_error_of("evaluate", run_program("evaluate", {animals().run, "--task", "piqa"}), 1,
                 "task piqa: it names no 'items'");

  const auto item_fails = [&](const std::string& item, const std::string& message) {
    const auto items = files.folder.put("broken.jsonl", kAnimalItems + item + "\n");
    const Result r =
        run_program("evaluate", {animals().run, "--task", files.task, "--items", items});
    check_error_of("evaluate", r, 1, "broken.jsonl, line 4: " + message);
  };
  const std::string at = files.task + ": ";
  item_fails(R"({"ends": ["a", "b"], "label": 0})", at + "'doc_to_text': 'animal' is undefined");
  item_fails(R"({"animal": "a", "label": 0})", at + "'doc_to_choice': ");
  item_fails(R"({"animal": "a", "ends": ["a"], "label": 0})", at + "'doc_to_choice' must give");
  item_fails(R"({"animal": "a", "ends": "ab", "label": 0})", at + "'doc_to_choice' must give");
  item_fails(R"({"animal": "a", "ends": ["a", 1], "label": 0})", at + "'doc_to_choice' must give");
  item_fails(R"({"animal": "a", "ends": ["a", "b"], "label": 2})",
             at + "'doc_to_target' gives '2', which is neither a number from 0 to 1");
  item_fails(R"({"animal": "a", "ends": ["a", "b"], "label": -1})", at + "'doc_to_target' gives");
  item_fails(R"({"animal": "a", "ends": ["a", "b"], "label": ""})", at + "'doc_to_target' gives");
  item_fails(R"({"animal": "a", "ends": ["a", "b"]})",
             at + "'doc_to_target': 'label' is undefined");
  item_fails("[1]", "an item must be a JSON object");
  item_fails("{\"animal\":", "");
  item_fails(R"({"animal": "é", "ends": ["a", "o"], "label": 0})", "");
  const auto empty = files.folder.put("empty.jsonl", "\n\n");
  check_error_of("evaluate",
                 run_program("evaluate", {animals().run, "--task", files.task, "--items", empty}),
                 1, "empty.jsonl: there is no item");
}

TEST_CASE("options of texts and of tasks exclude each other", "[tasks]") {
  const TaskFiles files;
  const auto fails = [&](const Args& args, const std::string& message) {
    check_error_of("evaluate", files.evaluate(args), 2, message);
  };
  fails({"--stride", "2"}, "--stride is for text, and --task has none");
  fails({"text.txt"}, "give --task or texts, not both; repeat -m for more models");
  fails({"--items", files.items}, "--items is given 2 times, and --task 1");
  check_error_of("evaluate", run_program("evaluate", {animals().run, "x", "--items", "y"}), 2,
                 "--items needs --task");
}
