// Runs whose weights, files or starts are broken.

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "tapegrad/autograd/formats/safetensors.h"
#include "tapegrad/tests/apps/tiny_runs.h"
#include "tapegrad/tests/places.h"

namespace fs = std::filesystem;
using namespace tapegrad;

namespace {

const Args kDiverging = {"--learning-rate",       "1e38", "--warmup-iters",  "0",
                         "--checkpoint-interval", "1",    "--eval-interval", "1000"};

// Puts NaN into the first value of a tensor of a run's file.
void break_tensor(const fs::path& path, const std::string& name) {
  SafeTensors file = load_safetensors(path.string());
  file.tensors.at(name).mutable_data<float>()[0] = std::numeric_limits<float>::quiet_NaN();
  save_safetensors(path.string(), {file.tensors.begin(), file.tensors.end()}, file.metadata);
}

void check_error(const Result& r, const std::string& text) {
  check_error_of("train-gpt", r, 1, text);
}

}  // namespace

TEST_CASE("broken weights do not replace a good checkpoint", "[broken-runs]") {
  const TempFolder folder;
  const auto corpus = folder.put("text.txt", tiny_text());
  const Result r = train(tiny_run(corpus, folder / "run", 5) + kDiverging);
  INFO(r.out << r.err);
  CHECK(r.code == 1);
  const SafeTensors model = load_safetensors((folder / "run/model.safetensors").string());
  for (const auto& [name, tensor] : model.tensors) {
    INFO(name);
    const auto values = tensor.values<float>();
    CHECK(std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); }));
  }
  // The run goes on from there.
  check_ended_well(train(resume_run(folder / "run", 3) + Args{"--learning-rate", "0.01"}));
}

TEST_CASE("a file with values that are not numbers is named", "[broken-runs]") {
  const TinyRun tiny(5);
  SECTION("optimiser") {
    break_tensor(tiny.run / "optimizer.safetensors", "exp_avg_sq.wte.weight");
    check_error(train(resume_run(tiny.run, 8)),
                "optimizer.safetensors: 'exp_avg_sq.wte.weight' has values that are not numbers");
  }
  SECTION("model") {
    break_tensor(tiny.run / "model.safetensors", "wte.weight");
    check_error(train(resume_run(tiny.run, 8)),
                "model.safetensors: 'wte.weight' has values that are not numbers");
  }
}

TEST_CASE("a start that was cut short can be replaced", "[broken-runs]") {
  const TempFolder folder;
  const auto corpus = folder.put("text.txt", tiny_text());
  const Args args = tiny_run(corpus, folder / "run", 2);
  std::string command = "ulimit -f 1; " + quoted_program("train-gpt");
  for (const std::string& arg : args) command += " " + quoted(arg);
  command += " >" + quoted(folder / "out") + " 2>" + quoted(folder / "err");
  // config.json has more than a kilobyte.
  CHECK(std::system(command.c_str()) != 0);
  CHECK_THAT(TempFolder::get(folder / "err"), ContainsSubstring("config.json': File too large"));
  check_ended_well(train(args + Args{"--overwrite"}));
}

TEST_CASE("temporary files of a program that was killed are removed by the next", "[broken-runs]") {
  const TinyRun tiny(5);
  const auto put = [&](const std::string& name) { std::ofstream(tiny.run / name) << "cut sh"; };
  for (const char* name : {"config.json.tmp-123-0", "tokenizer.json.tmp-9-12", "mine.tmp-1-0",
                           "config.json.tmp-mine"}) {
    put(name);
  }
  fs::create_directories(tiny.run / "config.json.tmp-7-7/mine");
  // A folder that is refused stays as it is.
  CHECK(train(tiny_run(tiny.corpus, tiny.run, 6)).code == 1);
  CHECK(fs::exists(tiny.run / "config.json.tmp-123-0"));
  check_ended_well(train(resume_run(tiny.run, 6)));
  CHECK_FALSE(fs::exists(tiny.run / "config.json.tmp-123-0"));
  CHECK_FALSE(fs::exists(tiny.run / "tokenizer.json.tmp-9-12"));
  CHECK(fs::exists(tiny.run / "mine.tmp-1-0"));
  CHECK(fs::exists(tiny.run / "config.json.tmp-mine"));
  CHECK(fs::exists(tiny.run / "config.json.tmp-7-7/mine"));  // the atomic writer makes no folders
}

TEST_CASE("counts of a checkpoint that do not fit are refused", "[broken-runs]") {
  const TinyRun tiny(5);
  const fs::path path = tiny.run / "optimizer.safetensors";
  const auto with_steps = [&](const std::string& steps) {
    SafeTensors file = load_safetensors(path.string());
    file.metadata.at("adamw.steps") = steps;
    save_safetensors(path.string(), {file.tensors.begin(), file.tensors.end()}, file.metadata);
    return train(resume_run(tiny.run, 8));
  };
  check_error(with_steps("9223372036854775807"), "adamw.steps is '9223372036854775807', not a");
  check_error(with_steps("4"), "the optimiser has made 4 steps, but trainer.json says 5");
  check_ended_well(with_steps("5"));
}

TEST_CASE("numbers of trainer.json that no run can have are refused", "[broken-runs]") {
  const TinyRun tiny(5);
  const std::string good = tiny.file("trainer.json");
  const auto with = [&](const std::string& name, const std::string& value) {
    nlohmann::ordered_json json = nlohmann::ordered_json::parse(good);
    json[name] = nlohmann::ordered_json::parse(value);
    std::ofstream(tiny.run / "trainer.json") << json;
    return train(resume_run(tiny.run, 8));
  };
  check_error(with("iteration", "-1"), "trainer.json: 'iteration' must be 0 or more, not -1");
  check_error(with("best_iteration", "6"), "trainer.json: 'best_iteration' must be from 0 to 5");
  check_error(with("seconds", "1e300"), "trainer.json: 'seconds' must be from 0 to");
  check_error(with("seconds", "-1"), "trainer.json: 'seconds' must be from 0 to");
  check_ended_well(with("seconds", "7"));
}

TEST_CASE("a checkpoint with other batches than its own is refused", "[broken-runs]") {
  const TinyRun tiny(5), shorter(4);
  nlohmann::ordered_json trainer = nlohmann::ordered_json::parse(tiny.file("trainer.json"));
  const std::string name = GENERATE("loader", "dropout");
  trainer[name] = nlohmann::json::parse(shorter.file("trainer.json")).at(name);
  std::ofstream(tiny.run / "trainer.json") << trainer.dump();
  check_error(train(resume_run(tiny.run, 8)), "optimizer.safetensors: this was saved with other");
}

TEST_CASE("a value that config.json lacks is named", "[broken-runs]") {
  const TinyRun tiny(5);
  nlohmann::ordered_json config = nlohmann::ordered_json::parse(tiny.file("config.json"));
  config["model"].erase("n_head");
  std::ofstream(tiny.run / "config.json") << config.dump();
  check_error(train(resume_run(tiny.run, 8)), "config.json: 'n_head' is missing in 'model'");
}

TEST_CASE("a corpus whose path is not UTF-8 is found again", "[broken-runs]") {
  const TempFolder folder;
  const auto corpus = folder.put("text-\xff.txt", tiny_text());
  check_ended_well(train(tiny_run(corpus, folder / "run", 5)));
  check_ended_well(train(resume_run(folder / "run", 8)));
}

TEST_CASE("a name that a file has twice is refused", "[broken-runs]") {
  const std::string name = GENERATE("config.json", "trainer.json", "tokenizer.json");
  const TinyRun tiny(5);
  std::string text = tiny.file(name);
  text.insert(text.find('{') + 1, "\"version\": 1, ");
  std::ofstream(tiny.run / name) << text;
  const Result r = train(resume_run(tiny.run, 8));
  check_error(r, name);
  CHECK_THAT(r.err, ContainsSubstring("'version' is there twice"));
}

TEST_CASE("a log that a full disk cannot take does not end the run", "[broken-runs]") {
  const TempFolder folder;
  const auto corpus = folder.put("text.txt", tiny_text());
  const auto run = [&](const Args& more) {
    std::string command = quoted_program("train-gpt");
    for (const std::string& arg : more) command += " " + quoted(arg);
    command += " >/dev/full 2>" + quoted(folder / "err");
    return WEXITSTATUS(std::system(command.c_str()));
  };
  const auto steps = [&] {
    return nlohmann::json::parse(TempFolder::get(folder / "run/trainer.json")).at("iteration");
  };
  const Args args = tiny_run(corpus, folder / "run", 7);
  // A strict log ends it, saved, at the first line that is lost.
  CHECK(run(args + Args{"--strict-log"}) == 130);
  CHECK(steps() == 0);
  CHECK_THAT(TempFolder::get(folder / "err"), ContainsSubstring("since the log is strict"));
  CHECK(run(resume_run(folder / "run", 7)) == 0);
  CHECK(steps() == 7);
  CHECK_THAT(TempFolder::get(folder / "err"),
             ContainsSubstring("the output cannot be written: No space left on device"));
}

TEST_CASE("an error that nobody can be told of ends the program with its code", "[broken-runs]") {
  const std::string program = quoted_program("train-gpt");
  CHECK(WEXITSTATUS(std::system((program + " --corpus /none 2>/dev/full").c_str())) == 1);
}

TEST_CASE("messages show control characters and stay short", "[broken-runs]") {
  const Result r = train({"--corpus", "/none/\x1b[31mred" + std::string(5000, 'x')});
  CHECK(r.code == 1);
  CHECK(r.err.find('\x1b') == std::string::npos);
  CHECK_THAT(r.err, ContainsSubstring("\\x1b[31mred"));
  CHECK(r.err.size() < 1000);

  // U+009B begins a sequence as ESC [ does.
  const Result c1 = train({"--corpus", "/none/\u009B31m\u00A9"});
  CHECK_THAT(c1.err, ContainsSubstring("/none/\\u009b31m\u00A9"));

  for (const char* odd : {"", "x", "xx"}) {  // one of them would cut a character
    std::string name = odd;
    for (int i = 0; i < 1500; ++i) name += "€";
    const Result cut = train({"--corpus", "/none/" + name});
    CHECK_THAT(cut.err, ContainsSubstring("€ …"));
  }
}
