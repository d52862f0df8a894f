// layers.jsonl: how large gradients, weights and updates are, layer by layer, while a run goes on.

#include <nlohmann/json.hpp>
#include <set>

#include "tapegrad/tests/apps/tiny_runs.h"

using Json = nlohmann::ordered_json;

namespace {

std::vector<Json> lines_of(const std::filesystem::path& run, const std::string& name) {
  std::vector<Json> lines;
  std::istringstream text(TempFolder::get(run / name));
  for (std::string line; std::getline(text, line);) lines.push_back(Json::parse(line));
  return lines;
}

std::vector<int> iterations(const std::vector<Json>& lines) {
  std::vector<int> at;
  for (const Json& line : lines) at.push_back(line.at("iteration").get<int>());
  return at;
}

std::vector<std::string> names(const Json& line) {
  std::vector<std::string> all;
  for (const auto& [name, numbers] : line.at("layers").items()) all.push_back(name);
  return all;
}

}  // namespace

TEST_CASE("--layer-stats tells of each layer, and changes nothing else", "[layers]") {
  const TinyRun run(8, {"--layer-stats", "3", "--gradient-accumulation-steps", "2"});
  const auto plain = run.folder / "plain";
  check_ended_well(
      train(tiny_run(run.corpus, plain, 8) + Args{"--gradient-accumulation-steps", "2"}));
  CHECK(same_model(run.run, plain));
  CHECK_FALSE(std::filesystem::exists(plain / "layers.jsonl"));
  const auto lines = lines_of(run.run, "layers.jsonl");
  CHECK(iterations(lines) == std::vector<int>{0, 3, 6});
  const std::vector<std::string> layers = names(lines[0]);
  CHECK(std::vector(layers.begin(), layers.begin() + 4) ==
        std::vector<std::string>{"wte", "wpe", "h.0.ln_1", "h.0.attn.c_attn"});
  CHECK(layers.back() == "lm_head");
  for (const Json& line : lines) {
    CHECK(names(line) == layers);
    for (const auto& [name, numbers] : line.at("layers").items()) {
      INFO(name);
      CHECK(numbers.at("gradient").get<double>() > 0);
      CHECK(numbers.at("weight").get<double>() > 0);
      CHECK(numbers.at("update").get<double>() > 0);
      // AdamW moves a weight by about the learning rate, 0.01 at most.
      CHECK(numbers.at("update").get<double>() < 0.02);
    }
  }
}

TEST_CASE("train-seq2seq tells of its layers, too", "[layers]") {
  const TinyPairRun run(3, {"--layer-stats", "2"});
  CHECK(iterations(lines_of(run.run, "layers.jsonl")) == std::vector<int>{0, 2});
}

TEST_CASE("a resume continues layers.jsonl without doubles, and --overwrite removes it",
          "[layers]") {
  const TinyRun whole(13, {"--layer-stats", "2"});
  const auto parts = whole.folder / "parts";
  check_ended_well(train(tiny_run(whole.corpus, parts, 7) + Args{"--layer-stats", "2"}));
  // As of a run that was killed after step 8, and while it wrote a line.
  const std::string before = TempFolder::get(parts / "layers.jsonl");
  std::ofstream(parts / "layers.jsonl", std::ios::app) << "{\"iteration\":8,\"layers\":{}}\n{\"it";
  check_ended_well(train(resume_run(parts, 13)));
  CHECK(TempFolder::get(parts / "layers.jsonl") == whole.file("layers.jsonl"));
  CHECK(TempFolder::get(parts / "layers.jsonl").rfind(before, 0) == 0);

  check_ended_well(train(tiny_run(whole.corpus, parts, 2) + Args{"--overwrite"}));
  CHECK_FALSE(std::filesystem::exists(parts / "layers.jsonl"));
}

TEST_CASE("a step that is skipped updates nothing", "[layers]") {
  const TinyRun run(200, {"--layer-stats", "1", "--skip-outliers", "1", "--eval-interval", "1000",
                          "--lr-decay-iters", "200"});
  const auto layers = lines_of(run.run, "layers.jsonl");
  REQUIRE(layers.size() == 200);
  std::set<int> skipped;
  for (const Json& line : lines_of(run.run, "metrics.jsonl")) {
    if (line.contains("skipped")) skipped.insert(line.at("iteration").get<int>());
  }
  REQUIRE(!skipped.empty());
  for (const Json& line : layers) {
    const bool is_skipped = skipped.count(line.at("iteration").get<int>()) > 0;
    const Json& layer = line.at("layers").at("wpe");
    CHECK((layer.at("update").get<double>() == 0) == is_skipped);
    CHECK(layer.at("gradient").get<double>() > 0);
  }
}

TEST_CASE("only layers that are trained are told of", "[layers]") {
  const TinyRun base(2);
  const auto tuned = [&](const std::string& name, const Args& more) {
    check_ended_well(train(Args{"--init-from", base.run, "--corpus", base.corpus, "--out-dir",
                                base.folder / name, "--max-iters", "2", "--eval-iters", "1",
                                "--no-sample", "--layer-stats", "1"} +
                           more));
    return names(lines_of(base.folder / name, "layers.jsonl").at(0));
  };
  CHECK(tuned("frozen", {"--freeze", "w*,h.0.*,h.1.attn.*,h.1.ln*"}) ==
        std::vector<std::string>{"h.1.mlp.c_fc", "h.1.mlp.c_proj", "ln_f", "lm_head"});
  CHECK(tuned("lora", {"--lora-rank", "2", "--lora-target", "h.1.attn.c_proj"}) ==
        std::vector<std::string>{"h.1.attn.c_proj.lora_A", "h.1.attn.c_proj.lora_B"});
}

TEST_CASE("--layer-stats 0 is refused", "[layers]") {
  check_error_of("train-gpt", train({"--layer-stats", "0"}), 2, "--layer-stats");
}
