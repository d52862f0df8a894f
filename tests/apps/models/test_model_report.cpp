// evaluate with several models, and its page.

#include <nlohmann/json.hpp>

#include "tapegrad/apps/evaluate/model_report.h"
#include "tapegrad/run/models/model.h"
#include "tapegrad/tests/apps/models/animal_tasks.h"

using namespace tapegrad;

TEST_CASE("several models are evaluated one after the other, and shown side by side",
          "[evaluate]") {
  const TaskFiles files;
  const TinyRun other(3, {"--block-size", "40", "--n-layer", "1"});
  const Args models = {"--model", animals().run, "--model", other.run};
  const std::string text = files.folder.put("some.txt", "the cat sat on mat 3 and the dog ate.\n");
  const std::string page = files.folder / "page.html";

  const Result over = run_program("evaluate", models + Args{text, "--report", text});
  CHECK(over.code == 1);
  CHECK_THAT(over.err, ContainsSubstring("some.txt: the file that is there is no page, and stays"));

  const Result r = run_program("evaluate", models + Args{text, "--json", "--report", page});
  check_ended_well(r);
  const auto both = nlohmann::json::parse(r.out).at("models");
  REQUIRE(both.size() == 2);
  CHECK(both[0].at("weight_bytes") > both[1].at("weight_bytes"));
  const Result alone = run_program("evaluate", {other.run, text, "--json"});
  const auto second = nlohmann::json::parse(alone.out);
  for (const char* key : {"model", "loss", "bits_per_byte", "weight_bytes"}) {
    CHECK(both[1].at(key) == second.at(key));
  }
  const Result table = run_program("evaluate", models + Args{text});
  check_ended_well(table);
  const std::string bits = fmt::format("{:.4f}", second.at("bits_per_byte").get<double>());
  CHECK_THAT(table.out, ContainsSubstring("bits per byte  perplexity") &&
                            ContainsSubstring(other.run.string()) && ContainsSubstring(bits));
  const std::string html = TempFolder::get(page);
  CHECK_THAT(html, ContainsSubstring("Evaluation of 2 models") && ContainsSubstring("some.txt") &&
                       ContainsSubstring(other.run.string() + ": " + bits));
  for (const char* out : {"<script", "http:", "https:", "src="}) CHECK(html.find(out) == html.npos);

  const Result tasks = run_program(
      "evaluate", models + Args{"--task", files.task, "--items", files.items, "--report", page});
  check_ended_well(tasks);
  CHECK_THAT(tasks.out, ContainsSubstring("animals acc_norm"));
  CHECK_THAT(TempFolder::get(page), ContainsSubstring("animals: 2 items, 0 examples each"));

  for (const char* option : {"--adapter", "--against", "--per-item"}) {
    const Result refused = run_program(
        "evaluate", models + Args{"--task", files.task, "--items", files.items, option, "x"});
    check_error_of("evaluate", refused, 2, std::string(option) + " is for one --model");
  }
}

TEST_CASE("words that are models are models, wherever texts stand", "[evaluate]") {
  const TempFolder folder;
  const TinyRun a(3), b(3, {"--n-layer", "1"});
  const std::string text = folder.put("some.txt", "the cat sat on mat 3 and the dog ate.\n");
  const Args pair = {"--model", a.run, "--model", b.run};
  const auto numbers = [](const Result& r) {
    check_ended_well(r);
    auto models = nlohmann::json::parse(r.out).at("models");
    for (auto& model : models) model.erase("seconds");
    return models;
  };
  const auto right = numbers(run_program("evaluate", pair + Args{text, "--json"}));
  REQUIRE(right.size() == 2);
  CHECK(numbers(run_program("evaluate", {a.run, b.run, text, "--json"})) == right);
  CHECK(numbers(run_program("evaluate", {a.run, text, b.run, "--json"})) == right);
  CHECK(numbers(run_program("evaluate", {"-m", a.run, text, b.run, "--json"})) == right);
  CHECK(numbers(run_program("evaluate", {text, a.run, b.run, "--json"})) == right);
  check_error_of("evaluate", run_program("evaluate", {text, text}), 1, "some.txt");

  const std::string gguf = folder / "b.gguf";
  check_ended_well(run_program("export", {b.run, "-o", gguf}));
  const auto other = numbers(run_program("evaluate", {a.run, gguf, text, "--json"}));
  CHECK(other.at(1).at("loss").get<double>() == Approx(right[1].at("loss").get<double>()));

  const std::string chat =
      folder.put("chat.jsonl", R"({"messages": [{"role": "user", "content": "the"}]})"
                               "\n");
  check_error_of("evaluate", run_program("evaluate", {a.run, b.run, text, "--chat", chat}), 2,
                 "give --chat or texts, not both; repeat -m for more models");
  // A text is none, though it is packed as PyTorch packs its checkpoints.
  CHECK(run::is_model(a.run));
  CHECK(run::is_model(gguf));
  CHECK_FALSE(run::is_model(folder.path()));
  CHECK_FALSE(run::is_model(text));
  CHECK_FALSE(run::is_model(folder.put("text.zip", "PK\3\4 and more than sixteen bytes")));
  CHECK_FALSE(run::is_model(folder / "none"));
}

TEST_CASE("a page of models shows errors, what is missing, and any name", "[evaluate]") {
  const auto model = [](const std::string& name, bool partial) {
    const Json done = {{"task", "<t>"},    {"items", 3},    {"partial", partial},
                       {"num_fewshot", 1}, {"acc", 0.25},   {"acc_stderr", 0.125},
                       {"tokens", 10},     {"seconds", 2.0}};
    Json json = {{"model", name}, {"weight_bytes", 1000}, {"tasks", Json::array({done})}};
    if (partial) json["tasks"] = Json::array();
    return json;
  };
  const std::vector<Json> models = {model("a<b&\xff", false), model("c", true)};
  const std::string html = evaluation::models_page(models);
  CHECK_THAT(html, ContainsSubstring("a&lt;b&amp;?") && ContainsSubstring("0.2500 ± 0.1250") &&
                       ContainsSubstring("&lt;t&gt;: 3 items, 1 example each") &&
                       ContainsSubstring("c: –"));
  CHECK_THAT(html, ContainsSubstring("d=\"M0 28h115.0\"") &&        // a quarter of 460
                       ContainsSubstring("d=\"M57.5 28H172.5\""));  // ± an eighth
  CHECK_THAT(evaluation::models_table(models), ContainsSubstring("<t> acc"));
}
