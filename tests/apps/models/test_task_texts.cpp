// evaluate --task: words that a model guesses, texts that it writes, and chats.

#include <cmath>
#include <nlohmann/json.hpp>

#include "tapegrad/apps/evaluate/generated_texts.h"
#include "tapegrad/apps/evaluate/likelihoods.h"
#include "tapegrad/apps/evaluate/task_table.h"
#include "tapegrad/base/interrupt.h"
#include "tapegrad/tests/apps/models/animal_tasks.h"
#include "tapegrad/tests/apps/parsed.h"
#include "tapegrad/tests/run/models/settings_support.h"

using namespace tapegrad;

namespace {

constexpr const char* kWords = R"({
  "output_type": "loglikelihood",
  "doc_to_text": "{{ text }}",
  "doc_to_target": "{{ end }}",
  "target_delimiter": ""
})";
constexpr const char* kTexts = R"({
  "output_type": "generate_until",
  "doc_to_text": "{{ text }}",
  "doc_to_target": "{{ end }}",
  "until": ["\n", "dog"],
  "max_gen_toks": 30,
  "filters": {"whole": "{{ output }}", "stripped": "{{ output.strip() }}"}
})";

struct Ends : TempFolder {
  std::string items = put("ends.jsonl",
                          "{\"text\": \"the cat sat\", \"end\": \"on mat\"}\n"
                          "{\"text\": \"the cat sat on mat 5\", \"end\": \"and the\"}\n"
                          "{\"text\": \"the dog\", \"end\": \" ate.\"}\n"
                          "{\"text\": \"s\", \"end\": \" nn\"}\n");
  std::string file = *this / "kept.jsonl";
  // Lines of --per-item, but the first one.
  std::vector<nlohmann::json> lines(const Args& args) const {
    check_ended_well(run_program("evaluate", Args{animals().run, "--items", items} + args +
                                                 Args{"--per-item", file, "--overwrite"}));
    std::istringstream text(get(file));
    std::vector<nlohmann::json> all;
    for (std::string line; std::getline(text, line);) all.push_back(nlohmann::json::parse(line));
    all.erase(all.begin());
    return all;
  }
};

std::vector<evaluation::Item> items_of(evaluation::Task& task, const TempFolder& folder,
                                       const std::string& lines,
                                       const std::optional<evaluation::ChatFormat>& chat = {}) {
  task.items = folder.put("made-up.jsonl", lines);
  return evaluation::read_items(task, 9, chat);
}

}  // namespace

TEST_CASE("LAMBADA asks for the last word, GSM8K for an answer behind its steps", "[tasks]") {
  const TempFolder folder;
  for (const char* name : {"lambada_openai", "lambada_standard"}) {
    evaluation::Task task = evaluation::open_task(name);
    const auto items = items_of(task, folder,
                                R"({"text": "\"Go,\" said\n Ann to  Bob."})"
                                "\n");
    CHECK(task.output == evaluation::OutputType::loglikelihood);
    CHECK(items[0].contexts == std::vector<std::string>{"\"Go,\" said\n Ann to "});
    CHECK(items[0].delimiter + items[0].choices[0] == " Bob.");
  }
  evaluation::Task task = evaluation::open_task("gsm8k");
  CHECK(task.num_fewshot == 5);
  CHECK(task.until == std::vector<std::string>{"Question:", "</s>", "<|im_end|>"});
  task.num_fewshot = 1;
  const auto items = items_of(task, folder,
                              R"({"question": "1+1?", "answer": "It is <<1+1=2>>2.\n#### 2"})"
                              "\n"
                              R"({"question": "Cost?", "answer": "$9\n#### 1,009"})"
                              "\n");
  CHECK(items[1].contexts[0] ==
        "Question: 1+1?\nAnswer: It is <<1+1=2>>2.\n#### 2\n\nQuestion: Cost?\nAnswer:");
  CHECK(items[1].answer == "1009");
}

// What Python's re gives of the harness's patterns, "#### (\-?[0-9\.\,]+)", its first match, and
// "(-?[$0-9.,]{2,})|(-?[0-9]+)", its last one, without ",", "$", "(?s).*#### " and "\.$".
TEST_CASE("GSM8K's filters find what the harness's patterns find", "[tasks]") {
  const evaluation::Task task = evaluation::open_task("gsm8k");
  const std::vector<std::array<const char*, 3>> cases = {
      {"The answer is 72.\n#### 72", "72", "72"},
      {"#### -1,234.", "-1234", "-1234"},
      {"#### $5", "[invalid]", "5"},
      {"##### 7 #### 8", "7", "8"},
      {"#### x\n#### 3.50", "3.50", "3.50"},
      {"It costs $1,000.00 in all.", "[invalid]", "1000.00"},
      {"-3-5", "[invalid]", "-5"},
      {"5 - 3 = 2", "[invalid]", "2"},
      {"no number", "[invalid]", "[invalid]"},
      {"...", "[invalid]", ".."},
      {"so 7.", "[invalid]", "7"},
      {"#### ", "[invalid]", "[invalid]"},
      {"a -$20.5 b", "[invalid]", "-20.5"},
      {"x=-7", "[invalid]", "-7"},
      {"1 2 3 #### ,", "", "3"},
      {"$\nb#### #### 1,", "1", "1"},
      {"a$$9# b#### 156b$-#### ", "156", "156"},
      {"625ab3#\n.3b", "[invalid]", ".3"},
      {"#### b-#### 8#### 6#6  b1", "8", "1"},
      {"  #### ,2$3$59\n-", "2", "2359"},
      {"4415#### b$01.", "[invalid]", "01"},
      {"-#### 30.#### ,7-#### 3b1 ", "30", "1"},
      {" 96#-2#6#### -1a ,#### -", "-1", "-1"},
      {"98#$#### ####   ", "[invalid]", "98"},
      {"-9-bb", "[invalid]", "-9"},
      {"#### ####  b#### .3-#### #### 2 #### 90", ".3", "90"},
      {"- b .", "[invalid]", "[invalid]"},
      {".#### $3a26b12#### ", "[invalid]", "12"},
      {"1#### 3a8 b$7#### $\n27.-", "3", "27"}};
  for (const auto& [text, strict, flexible] : cases) {
    INFO(text);
    const auto scores =
        evaluation::scores_of(task, {.where = {}, .answer = strict}, {.text = text});
    REQUIRE(scores.size() == 2);
    CHECK(scores[0].metric == "strict-match");
    CHECK(scores[0].found == strict);
    CHECK(scores[0].value == 1);
    CHECK(scores[1].metric == "flexible-extract");
    CHECK(scores[1].found == flexible);
  }
}

TEST_CASE("a word counts as guessed if the model writes it, and its likelihood as perplexity",
          "[tasks]") {
  Ends ends;
  const run::TextModel model = run::load(animals().run);
  const std::string guessed = model.stream("the dog", {.max_new_tokens = 4, .greedy = true}).text();
  const std::pair<std::string, std::string> texts[] = {
      {"the cat sat", "on mat"}, {"the dog", guessed}, {"the dog", guessed.substr(0, 3) + "0"}};
  std::string items;
  for (const auto& [text, end] : texts) {
    items += nlohmann::json{{"text", text}, {"end", end}}.dump() + "\n";
  }
  ends.items = ends.put("words.jsonl", items);
  const auto lines = ends.lines({"--task", ends.put("words.json", kWords)});
  REQUIRE(lines.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(std::abs(lines[i].at("logprobs")[0].get<double>() -
                   plain_logprob(model, texts[i].first, texts[i].second)) < 1e-5);
    CHECK(lines[i].at("acc") == (i == 1));
  }

  const evaluation::Metric words{.name = "perplexity", .values = {-1, -2, -3}};
  CHECK(std::abs(words.value() - std::exp(2)) < 1e-12);
  CHECK(std::abs(words.error().value() - std::exp(2) / std::sqrt(3)) < 1e-12);
  CHECK_THAT(evaluation::table_of({{.name = "t", .all_items = 3, .metrics = {words}}},
                                  {{.name = "t", .all_items = 3, .metrics = {words}}}),
             ContainsSubstring("perplexity  7.3891 ± 4.2661  7.3891 ± 4.2661  +0.0000 nats"));
}

TEST_CASE("texts of a task end at its stops, and are those that the model writes alone",
          "[tasks]") {
  const TinyRun run(300, {"--block-size", "40", "--dropout", "0", "--lr-decay-iters", "300"});
  const run::TextModel model = run::load_quantized(run::open_model(run.run));
  const TempFolder folder;
  evaluation::Task task = evaluation::open_task(folder.put("texts.json", kTexts));
  std::string lines;
  for (int i = 0; i < 40; ++i) {
    lines += fmt::format(R"({{"text": "{} mat {}", "end": "x"}})",
                         i % 3 == 0 ? "the cat sat on" : "on", i) +
             "\n";
  }
  task.items = folder.put("many.jsonl", lines);
  const auto items = evaluation::read_items(task, 40);
  std::vector<const evaluation::Item*> pointers;
  for (const auto& item : items) pointers.push_back(&item);
  evaluation::GeneratedTexts texts(model, CacheType::f32, task, pointers, {});
  int stopped = 0;
  for (const auto& item : items) {
    const std::string& context = item.contexts[0];
    const std::string seen =
        context.substr(context.size() - std::min<std::size_t>(10, context.size()));
    std::string alone = model.stream(seen, {.max_new_tokens = 30, .greedy = true}).text();
    stopped += alone.find("dog") != alone.npos;
    for (const char* stop : {"\n", "dog"}) alone = alone.substr(0, alone.find(stop));
    const auto output = texts.next();
    REQUIRE(output);
    CHECK(output->text == alone);
  }
  CHECK(stopped > 5);
  evaluation::GeneratedTexts more(model, CacheType::f32, task, pointers, {});
  interrupt("a test");
  CHECK(!more.next());
  forget_interrupt();
  task.max_gen_toks = 40;
  CHECK_THROWS_WITH(evaluation::GeneratedTexts(model, CacheType::f32, task, pointers, {}),
                    ContainsSubstring("'max_gen_toks' is 40, and the model sees 40 tokens"));
}

TEST_CASE("evaluate writes the texts of a task, goes on with them, and compares", "[tasks]") {
  const Ends ends;
  const Args args = {"--task", ends.put("texts.json", kTexts), "--limit", "3"};
  const auto lines = ends.lines(args);
  REQUIRE(lines.size() == 3);
  for (const auto& line : lines) {
    const std::string text = line.at("text");
    CHECK(text.find("dog") == text.npos);
    CHECK(line.at("whole") == text);
  }
  CHECK(lines[0].at("right") == "on mat");
  CHECK(ends.lines(args + Args{"--threads", "1"}) == lines);
  const std::string whole = TempFolder::get(ends.file);
  ends.put("kept.jsonl", whole.substr(0, whole.size() - 20));
  const Result r = run_program("evaluate", Args{animals().run, "--items", ends.items, "--json",
                                                "--per-item", ends.file, "--against", ends.file} +
                                               args);
  CHECK(r.code == 1);  // the file lacks an item
  check_ended_well(run_program(
      "evaluate", Args{animals().run, "--items", ends.items, "--per-item", ends.file} + args));
  CHECK(TempFolder::get(ends.file) == whole);

  const auto fails = [&](const std::string& from, const std::string& to,
                         const std::string& message) {
    const auto task = ends.put("broken.json", replaced(kTexts, from, to));
    check_error_of("evaluate",
                   run_program("evaluate", {animals().run, "--items", ends.items, "--task", task}),
                   1, message);
  };
  fails("generate_until", "writes",
        "'output_type' must be one of multiple_choice, loglikelihood, generate_until");
  fails("generate_until", "loglikelihood", "'until' is not for the 'output_type' loglikelihood");
  fails("\"until\": [", "\"doc_to_choice\": \"x\", \"until\": [",
        "'doc_to_choice' is not for the 'output_type' generate_until");
  fails("\"until\": [\"\\n\", \"dog\"],", "", "'until' is missing");
  fails("\"dog\"", "\"\"", "'until' has an empty text");
  fails("30", "0", "'max_gen_toks' must be from 1 to 65536");
  fails("30", "40", "broken.json: 'max_gen_toks' is 40, and the model sees 40 tokens at once");
  fails("\"{{ output }}\"", "5", "'filters': 'whole' must be a text");
  fails("{{ output }}", "{{ outputs }}", "'outputs' is undefined");
  for (const char* fails_on_text :
       {"{{ raise_exception(\"'x' is undefined\") }}", "{{ output.none }}", "{{ output[999] }}"}) {
    Json own = Json::parse(kTexts);
    own["filters"]["whole"] = fails_on_text;
    CHECK(ends.lines({"--task", ends.put("failing.json", own.dump())}).at(0).at("whole").is_null());
  }
  fails("\"doc_to_text\": \"{{ text }}\"", "\"doc_to_text\": [\"a\", \"b\"]",
        "'doc_to_text' must be a text");
}

TEST_CASE("--apply-chat-template asks as a user, with examples in one message or in several",
          "[tasks]") {
  const TempFolder folder;
  evaluation::Task task = evaluation::open_task("mmlu");
  task.num_fewshot = 1;
  const std::string line = R"("subject": "law", "choices": ["a", "b", "c", "d"], "answer": 2})"
                           "\n";
  const std::string lines = "{\"question\": \"p\", " + line + "{\"question\": \"q\", " + line;
  const std::string system =
      "<|im_start|>system\nThe following are multiple choice questions (with answers) about "
      "law.\n\n<|im_end|>\n<|im_start|>user\n";
  const std::string choices = "\nA. a\nB. b\nC. c\nD. d\nAnswer:";
  const std::string end = "<|im_end|>\n<|im_start|>assistant\n";
  evaluation::ChatFormat chat{data::ChatTemplate::chatml()};
  const auto one = items_of(task, folder, lines, chat);
  CHECK(one[1].context(3) == system + "p" + choices + " C\n\nq" + choices + end);
  CHECK(one[1].delimiter.empty());
  CHECK(one[1].chat);
  chat.fewshot_as_multiturn = true;
  CHECK(items_of(task, folder, lines, chat)[1].contexts[0] ==
        system + "p" + choices + end + "C<|im_end|>\n<|im_start|>user\nq" + choices + end);
  task.num_fewshot = 0;
  chat.chat_template = data::ChatTemplate("{{ raise_exception('No.') }}");
  CHECK_THROWS_WITH(
      items_of(task, folder, lines, chat),
      ContainsSubstring("made-up.jsonl, line 1: the chat template: ") && ContainsSubstring("No."));
}

TEST_CASE("white space around an answer does not count, unless a filter counts it", "[tasks]") {
  const TempFolder folder;
  Json json = Json::parse(kTexts);
  json.erase("filters");
  const auto value = [&](const std::string& text, const std::string& answer) {
    evaluation::Task task = evaluation::open_task(folder.put("usual.json", json.dump()));
    const std::string line = Json{{"text", "a"}, {"end", answer}}.dump() + "\n";
    const evaluation::Item item = items_of(task, folder, line)[0];
    const evaluation::Score score = evaluation::scores_of(task, item, {.text = text}).at(0);
    CHECK(score.metric == (json.contains("filters") ? "exact" : "exact_match"));
    return score.value;
  };
  CHECK(value(" comedy", "comedy") == 1);
  CHECK(value("comedy\n", " comedy ") == 1);
  CHECK(value("comedy", "drama") == 0);
  CHECK(value("a  b", "a b") == 0);
  json["filters"] = {{"exact", "{{ output }}"}};
  CHECK(value(" comedy", "comedy") == 0);
  CHECK(value(" comedy", " comedy") == 1);
}

TEST_CASE("evaluate asks a model by its own chat template", "[tasks]") {
  const Ends ends;
  const TempFolder folder;
  const auto model = testing::put_hf_model(
      folder, {{"chat_template.jinja",
                "{{ messages[0].content }}{% if add_generation_prompt %}:{% endif %}"}});
  const std::string words = ends.put("words.json", kWords);
  const auto scored = [&](const Args& more) {
    const Result r = run_program("evaluate", Args{model, "--items", ends.items, "--json"} + more);
    check_ended_well(r);
    return nlohmann::json::parse(r.out).at("tasks")[0].at("perplexity").get<double>();
  };
  const std::string colon = ends.put("colon.json", replaced(kWords, "{{ text }}", "{{ text }}:"));
  const double chat = scored({"--task", words, "--apply-chat-template"});
  CHECK(chat == scored({"--task", colon}));
  CHECK(chat != scored({"--task", words}));
  const data::Tokenizer tokenizer =
      run::open_model(testing::golden_file("gguf_llama.gguf")).tokenizer;
  REQUIRE(tokenizer.begin().size() == 1);  // which the template of a chat writes, if it wants it
  const auto plain = evaluation::scored_tokens(tokenizer, "the", " cat");
  const auto asked = evaluation::scored_tokens(tokenizer, "the", " cat", true);
  CHECK(plain.begin == asked.begin + 1);
  CHECK(std::vector(plain.tokens.begin() + 1, plain.tokens.end()) == asked.tokens);

  check_error_of("evaluate",
                 run_program("evaluate", {animals().run, "--task", words, "--items", ends.items,
                                          "--apply-chat-template"}),
                 1, "has no chat template");
  check_error_of("evaluate",
                 run_program("evaluate", {animals().run, "--task", words, "--items", ends.items,
                                          "--fewshot-as-multiturn"}),
                 2, "--fewshot-as-multiturn needs --apply-chat-template");
}
