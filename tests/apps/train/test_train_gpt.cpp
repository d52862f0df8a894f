#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "tapegrad/tests/apps/parsed.h"
#include "tapegrad/tests/apps/tiny_runs.h"

namespace fs = std::filesystem;

namespace {

void check_error(const Result& r, int code, const std::string& text) {
  check_error_of("train-gpt", r, code, text);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

int count_matches(const std::string& text, const std::string& line_pattern) {
  const std::regex regex(line_pattern);
  int n = 0;
  for (const std::string& line : lines_of(text)) n += std::regex_match(line, regex) ? 1 : 0;
  return n;
}

// The lines of metrics.jsonl without the times, which differ from run to run.
std::vector<nlohmann::json> metrics_of(const fs::path& run) {
  std::vector<nlohmann::json> metrics;
  for (const std::string& line : lines_of(TempFolder::get(run / "metrics.jsonl"))) {
    metrics.push_back(nlohmann::json::parse(line));
    for (const char* name : {"ms", "tokens_per_second", "cpu_percent", "memory_percent"}) {
      metrics.back().erase(name);
    }
  }
  return metrics;
}

}  // namespace

TEST_CASE("training prints its lines and fills the run folder", "[train-gpt]") {
  const TempFolder folder;
  const auto text = folder.put("text.txt", tiny_text());
  Args args = tiny_run(text, folder / "run", 10);
  args.back() = "--sample";
  const Result r = train(args);
  INFO(r.out);
  CHECK(r.code == 0);
  CHECK(r.err.empty());
  const std::string number = "[0-9]+\\.[0-9]+";
  CHECK(count_matches(r.out, "step (0|5|10): train loss " + number + ", val loss " + number) == 3);
  CHECK(count_matches(r.out, "iter [0-9]: loss " + number + ", lr [0-9.]+e-[0-9]+, norm " + number +
                                 ", " + number + " ms, [0-9]+ tok/s") == 10);
  CHECK(count_matches(r.out, "final: val loss " + number + " \\(whole split\\), perplexity " +
                                 number + ", " + number + " bits per byte") == 1);
  CHECK_THAT(r.out, ContainsSubstring(" parameters: ") && ContainsSubstring("memory:") &&
                        !ContainsSubstring("OpenBLAS") && ContainsSubstring("sample:") &&
                        ContainsSubstring("tapegrad sample "));
  // Plain lines: nothing that only a terminal understands.
  CHECK(r.out.find_first_of("\r\x1b") == std::string::npos);

  for (const char* name : {"config.json", "tokenizer.json", "trainer.json"}) {
    CHECK(nlohmann::json::parse(TempFolder::get(folder / "run" / name)).is_object());
  }
  CHECK(fs::file_size(folder / "run/model.safetensors") > 10000);
  CHECK(fs::file_size(folder / "run/optimizer.safetensors") > 20000);
  CHECK(metrics_of(folder / "run").size() == 14);
  CHECK(std::distance(fs::directory_iterator(folder / "run"), {}) == 9);
}

TEST_CASE("a GPT learns a text", "[train-gpt]") {
  const TinyRun tiny(200, {"--lr-decay-iters", "200", "--batch-size", "8", "--dropout", "0"});
  const auto metrics = metrics_of(tiny.run);
  CHECK(metrics.front().at("val_loss") > 3.0);
  CHECK(metrics.back().at("final_val_loss") < 1.5);
}

TEST_CASE("equal seeds give equal models for any number of threads", "[train-gpt]") {
  // Large enough for threads to share the work.
  const Args base = {"--n-embd", "64", "--block-size", "64", "--batch-size", "16"};
  const TinyRun one(6, base + Args{"--threads", "1"});
  const TinyRun two(6, base + Args{"--threads", "2"});
  const TinyRun other(6, base + Args{"--seed", "7"});
  CHECK(same_model(one.run, two.run));
  CHECK_FALSE(same_model(one.run, other.run));
}

TEST_CASE("a run in bf16 or int8 says so, learns as well, and goes on so", "[train-gpt]") {
  const std::string dtype = GENERATE("bf16", "int8");
  const Args args = {"--dtype", dtype};
  const TinyRun full(40), rounded(40, args), stopped(20, args);
  const auto val_loss = [](const TinyRun& run) {
    return metrics_of(run.run).back().at("final_val_loss").get<double>();
  };
  CHECK(val_loss(full) != val_loss(rounded));
  CHECK(std::abs(val_loss(full) - val_loss(rounded)) < 0.02);
  const Result r = train(resume_run(stopped.run, 40));
  check_ended_well(r);
  CHECK_THAT(r.out, ContainsSubstring("dtype:   " + dtype + " in the products of linear layers"));
  CHECK(same_model(stopped.run, rounded.run));
}

TEST_CASE("evaluations do not change the training", "[train-gpt]") {
  const TinyRun often(6, {"--eval-interval", "1", "--eval-iters", "3"});
  const TinyRun seldom(6, {"--eval-interval", "100"});
  CHECK(same_model(often.run, seldom.run));
}

TEST_CASE("accumulated batches count like one batch of all their rows", "[train-gpt]") {
  const Args base = {"--dropout", "0"};
  const TinyRun whole(1, base + Args{"--batch-size", "8"});
  const TinyRun parts(1, base + Args{"--batch-size", "4", "--gradient-accumulation-steps", "2"});
  const auto a = metrics_of(whole.run)[1], b = metrics_of(parts.run)[1];
  CHECK(a.at("loss").get<double>() == Approx(b.at("loss").get<double>()).epsilon(1e-5));
  CHECK(a.at("norm").get<double>() == Approx(b.at("norm").get<double>()).epsilon(1e-4));
}

TEST_CASE("a resumed run ends as one that never stopped, bit for bit", "[train-gpt]") {
  const TinyRun straight(12);
  const TinyRun stopped(7);
  CHECK_FALSE(same_model(straight.run, stopped.run));
  const Result r = train(resume_run(stopped.run, 12));
  INFO(r.out << r.err);
  REQUIRE(r.code == 0);
  CHECK_THAT(r.out, ContainsSubstring("resumed at step 7"));
  CHECK(same_model(straight.run, stopped.run));
  // The first run's evaluation at its end is the only trace of the stop.
  auto metrics = metrics_of(stopped.run);
  const auto expected = metrics_of(straight.run);
  REQUIRE(metrics.size() == expected.size());
  CHECK(metrics == expected);
}

TEST_CASE("Ctrl-C saves the run, and it goes on from there", "[train-gpt]") {
  const TempFolder folder;
  const auto text = folder.put("text.txt", tiny_text());
  const auto run = folder / "run";
  const Args no_other_checkpoints = {"--eval-interval", "1000000"};
  Program program("train-gpt", tiny_run(text, run, 1000000) + no_other_checkpoints);
  program.wait_for("iter 8:");
  program.send(SIGINT);
  const Result r = program.wait();
  INFO(r.out << r.err);
  CHECK(r.code == 130);
  std::smatch match;
  REQUIRE(std::regex_search(r.out, match, std::regex("stopped at step ([0-9]+), which is saved")));
  CHECK_THAT(r.out, ContainsSubstring("train-gpt --init-from resume --out-dir " + run.string()));
  const int iteration = std::stoi(match[1]);
  CHECK(nlohmann::json::parse(TempFolder::get(run / "trainer.json")).at("iteration") == iteration);
  REQUIRE(train(resume_run(run, iteration + 2)).code == 0);
  const auto straight = folder / "straight";
  REQUIRE(train(tiny_run(text, straight, iteration + 2)).code == 0);
  CHECK(same_model(run, straight));
}

TEST_CASE("a checkpoint that was cut short is finished or forgotten", "[train-gpt]") {
  const TinyRun early(5), late(10);
  SECTION("complete, with the model already in its place") {
    fs::create_directory(early.run / "checkpoint.ready");
    fs::copy(late.run / "model.safetensors", early.run, fs::copy_options::overwrite_existing);
    for (const char* name : {"optimizer.safetensors", "trainer.json"}) {
      fs::copy(late.run / name, early.run / "checkpoint.ready");
    }
    const Result r = train(resume_run(early.run, 10));
    INFO(r.err);
    CHECK_THAT(r.out, ContainsSubstring("resumed at step 10"));
  }
  SECTION("not complete") {
    fs::create_directory(early.run / "checkpoint.writing");
    std::ofstream(early.run / "checkpoint.writing/model.safetensors") << "torn";
    const Result r = train(resume_run(early.run, 10));
    INFO(r.err);
    CHECK_THAT(r.out, ContainsSubstring("resumed at step 5"));
  }
  CHECK(same_model(early.run, late.run));
  CHECK(std::distance(fs::directory_iterator(early.run), {}) == 9);
}

TEST_CASE("broken or foreign checkpoints are told from good ones", "[train-gpt]") {
  const TinyRun tiny(5);
  const auto resume = [&](const Args& more = {}) { return train(resume_run(tiny.run, 6) + more); };
  const auto unread = [&](int code, const Args& more, const std::string& text) {
    check_unparsed(resume_run(tiny.run, 6) + more, code, text);
  };
  const auto damage = [&](const char* name, auto&& change) {
    std::string bytes = tiny.file(name);
    change(bytes);
    std::ofstream(tiny.run / name, std::ios::binary) << bytes;
  };
  SECTION("truncated model") {
    damage("model.safetensors", [](std::string& b) { b.resize(b.size() - 100); });
    check_error(resume(), 1, "model.safetensors");
  }
  SECTION("truncated optimiser state") {
    damage("optimizer.safetensors", [](std::string& b) { b.resize(50); });
    check_error(resume(), 1, "optimizer.safetensors");
  }
  SECTION("model of another shape") {
    const TinyRun wide(5, {"--n-embd", "32"});
    fs::copy(wide.run / "model.safetensors", tiny.run, fs::copy_options::overwrite_existing);
    check_error(resume(), 1, "has shape");
  }
  SECTION("a file of another step") {
    const TinyRun later(6);
    const auto name = GENERATE("model.safetensors", "optimizer.safetensors", "trainer.json");
    fs::copy(later.run / name, tiny.run, fs::copy_options::overwrite_existing);
    check_error(resume(), 1, "the files are not of one checkpoint");
  }
  SECTION("no optimiser state") {
    fs::remove(tiny.run / "optimizer.safetensors");
    check_error(resume(), 1, "optimizer.safetensors");
  }
  SECTION("trainer.json with a state that is none") {
    damage("trainer.json", [](std::string& b) {
      b = std::regex_replace(b, std::regex("\"loader\": \"torch"), "\"loader\": \"broken");
    });
    check_error(resume(), 1, "trainer.json");
  }
  SECTION("trainer.json of another version") {
    damage("trainer.json", [](std::string& b) {
      b = std::regex_replace(b, std::regex("\"version\": 1"), "\"version\": 99");
    });
    check_error(resume(), 1, "version 99");
  }
  SECTION("config.json with an optional value out of range") {
    damage("config.json", [](std::string& b) {
      b = std::regex_replace(b, std::regex("\"checkpoint_interval\": null"),
                             "\"checkpoint_interval\": 0");
    });
    unread(1, {}, "'checkpoint_interval' must be at least 1, not 0");
  }
  SECTION("fewer steps than were made") {
    check_error(train(resume_run(tiny.run, 4)), 2, "has made 5 steps already");
  }
  SECTION("a part that the run has without being told") {
    check_ended_well(train(resume_run(tiny.run, 6) + Args{"--activation", "gelu", "--positions",
                                                          "learned", "--val-fraction", "0.1",
                                                          "--n-inner", "64", "--no-gated"}));
    check_unparsed(resume_run(tiny.run, 7) + Args{"--activation", "relu"}, 2,
                   R"(--activation "relu" does not fit the run to resume, which has "gelu")");
    check_unparsed(resume_run(tiny.run, 7) + Args{"--val-fraction", "0.2"}, 2,
                   "--val-fraction 0.2 does not fit the run to resume, which has 0.1");
  }
  SECTION("config.json cut short") {
    damage("config.json", [](std::string& b) { b.resize(b.size() / 2); });
    check_error(resume(), 1, "config.json: not valid JSON at byte");
  }
  SECTION("config.json with values that no model can have") {
    damage("config.json", [](std::string& b) {
      b = std::regex_replace(b, std::regex("\"n_layer\": 2"), "\"n_layer\": 1e99");
    });
    unread(1, {}, "'n_layer' must be a whole number");
  }
  SECTION("config.json with a whole number that is too large") {
    damage("config.json", [](std::string& b) {
      b = std::regex_replace(b, std::regex("\"n_layer\": 2"), "\"n_layer\": 5000000000");
    });
    unread(1, {}, "'n_layer' must be a whole number from -2147483648 to 2147483647");
  }
  SECTION("config.json with a choice that is none") {
    damage("config.json", [](std::string& b) {
      b = std::regex_replace(b, std::regex("\"rng\": \"philox\""), "\"rng\": \"Torch\"");
    });
    unread(1, {}, "config.json: 'rng' must be one of torch, philox, not Torch");
  }
  SECTION("another text") {
    check_error(resume({"--corpus", tiny.folder.put("other.txt", tiny_text() + "!")}), 1,
                "was made of another text");
  }
  SECTION("another model") {
    unread(2, {"--n-layer", "3"}, "--n-layer 3 does not fit the run to resume");
  }
  SECTION("no run") {
    check_unparsed(resume_run(tiny.folder / "none", 6), 1, "there is no run to resume");
  }
}
