#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tapegrad/apps/train/plan/facts.h"
#include "tapegrad/nn/summary.h"
#include "tapegrad/tests/apps/parsed.h"
#include "tapegrad/tests/apps/tiny_runs.h"
#include "tapegrad/tests/places.h"

namespace fs = std::filesystem;
using namespace tapegrad;

namespace {

void check_usage_error(const Result& r, int code, const std::string& text) {
  check_error_of("train-gpt", r, code, text);
}

}  // namespace

TEST_CASE("a corpus that cannot be learnt is refused", "[train-gpt]") {
  const TempFolder folder;
  const auto attempt = [&](const fs::path& corpus) {
    const Result r = train(tiny_run(corpus, folder / "run", 1));
    CHECK_FALSE(fs::exists(folder / "run"));
    return r;
  };
  check_usage_error(attempt(folder / "none"), 1, "No such file");
  check_usage_error(attempt(folder.put("empty", "")), 1, "empty");
  check_usage_error(attempt(folder.put("binary", std::string("a\0b", 3))), 1, "binary");
  check_usage_error(attempt(folder.put("latin1", "caf\xE9")), 1, "UTF-8");
  check_usage_error(attempt(folder.put("short", "0123456789012345678")), 1,
                    "its validation part has 2 tokens, and --block-size 16 needs at least 17");
}

TEST_CASE("an output folder that cannot be used is found before training", "[train-gpt]") {
  const TempFolder folder;
  const auto text = folder.put("text.txt", tiny_text());
  const auto attempt = [&](const fs::path& out, const Args& more = {}) {
    const Result r = train(tiny_run(text, out, 3) + more);
    if (r.code != 0) CHECK_FALSE(r.out.find("iter 0") != std::string::npos);
    return r;
  };
  check_usage_error(attempt(text), 1, "text.txt");
  check_usage_error(attempt(text / "below"), 1, "Not a directory");
  check_usage_error(attempt("/proc/none"), 1, "/proc/none");

  REQUIRE(attempt(folder / "run").code == 0);
  const std::string before = TempFolder::get(folder / "run/model.safetensors");
  check_usage_error(attempt(folder / "run", {"--seed", "2"}), 1, "holds a run already");
  CHECK(TempFolder::get(folder / "run/model.safetensors") == before);
  CHECK(attempt(folder / "run", {"--seed", "2", "--overwrite"}).code == 0);
  CHECK(TempFolder::get(folder / "run/model.safetensors") != before);
}

TEST_CASE("files that are not of a run are not replaced by one", "[train-gpt]") {
  const TempFolder folder;
  const std::string text = folder.put("text.txt", tiny_text());
  const std::string own = folder.put("corpus.txt", "mine");
  check_usage_error(train(tiny_run(text, folder / ".", 1)), 1, "corpus.txt that is not of a run");
  check_usage_error(train(tiny_run(text, folder / ".", 1) + Args{"--overwrite"}), 1,
                    "not of a run");
  CHECK(TempFolder::get(own) == "mine");

  const auto run = folder / "run";
  REQUIRE(train(tiny_run(text, run, 1)).code == 0);
  std::filesystem::copy(text, run / "corpus.txt");
  check_usage_error(train(tiny_run(run / "corpus.txt", run, 1) + Args{"--overwrite"}), 1,
                    "is a file that a run in");
  CHECK(TempFolder::get(run / "corpus.txt") == tiny_text());
}

TEST_CASE("a run does not become part of the text that it learns", "[train-gpt]") {
  const TempFolder folder;
  folder.put("text.txt", tiny_text());
  check_usage_error(train(tiny_run(folder / ".", folder / "runs/one", 1)), 1,
                    "lies inside --corpus");
}

TEST_CASE("a folder in which a program trains is left to it", "[train-gpt]") {
  const TempFolder folder;
  const auto text = folder.put("text.txt", tiny_text());
  Program program("train-gpt", tiny_run(text, folder / "run", 1000000));
  program.wait_for("iter 0:");
  check_usage_error(train(resume_run(folder / "run", 1)), 1, "another program is training");
  program.send(SIGTERM);
  CHECK(program.wait().code == 130);
}

TEST_CASE("without a name, a run gets the next free folder", "[train-gpt]") {
  const TempFolder folder;
  const auto text = folder.put("text.txt", tiny_text());
  Args args = tiny_run(text, "", 1);
  args.erase(args.begin() + 2, args.begin() + 4);  // --out-dir and its value
  for (const char* expected : {"runs/char-cpu-1", "runs/char-cpu-2"}) {
    const Result r = train(args, folder.path());
    INFO(r.err);
    CHECK(r.code == 0);
    CHECK(fs::exists(folder / expected / "trainer.json"));
  }
}

TEST_CASE("tiny shakespeare is the default corpus, as a run on its file has it", "[train-gpt]") {
  const fs::path file = fs::path(places::kSources) / "data/corpora/tinyshakespeare.txt";
  const run::Text own = gpt::default_text(), read = run::read_text({{file}});
  CHECK(own.identity.bytes == 1115394);
  CHECK(own.identity.fingerprint == "4016c93c3be74c18");  // of char-rnn's file, byte for byte
  CHECK(own.contents == read.contents);
  CHECK(own.documents == read.documents);
  CHECK(own.identity.fingerprint == read.identity.fingerprint);
  CHECK(own.identity.documents == read.identity.documents);

  const TempFolder folder;
  const Args tiny = {"--n-layer",    "1",  "--n-embd",    "16", "--n-head",     "1",
                     "--block-size", "8",  "--max-iters", "2",  "--batch-size", "4",
                     "--eval-iters", "10", "--no-sample"};
  const auto losses = [&](const std::string& run) {
    Args numbers;
    std::istringstream lines(TempFolder::get(folder / run / "metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      const auto json = nlohmann::json::parse(line);
      for (const char* name : {"train_loss", "val_loss", "loss"}) {
        if (json.contains(name)) numbers.push_back(json[name].dump());
      }
    }
    return numbers;
  };
  for (const std::string tokenizer : {"char", "bpe:270"}) {
    const Args options = tiny + Args{"--tokenizer", tokenizer};
    const Result r = train(options + Args{"--out-dir", folder / ("own-" + tokenizer)});
    check_ended_well(r);
    check_ended_well(
        train(options + Args{"--out-dir", folder / ("read-" + tokenizer), "--corpus", file}));
    if (tokenizer == "char") {  // nanoGPT's parts
      CHECK_THAT(r.out, ContainsSubstring("tiny shakespeare: 1,003,854 tokens to train, 111,540 "
                                          "tokens to validate (char)"));
    }
    CHECK(losses("own-" + tokenizer).size() >= 5);
    CHECK(losses("own-" + tokenizer) == losses("read-" + tokenizer));
    CHECK(same_model(folder / ("own-" + tokenizer), folder / ("read-" + tokenizer)));
  }
}

TEST_CASE("a run keeps the default corpus that it began with", "[train-gpt]") {
  const TempFolder folder;
  const fs::path run = folder / "run";
  const Args resume = {"--init-from", "resume", "--no-sample", "--out-dir", run};
  check_ended_well(train({"--n-layer", "1", "--n-embd", "16", "--block-size", "8", "--max-iters",
                          "0", "--batch-size", "256", "--eval-iters", "1", "--tokenizer", "char",
                          "--no-sample", "--n-head", "1", "--out-dir", run}));
  CHECK(TempFolder::get(run / "corpus.txt") == gpt::default_text().contents);
  check_ended_well(train(resume));
  std::ofstream(run / "corpus.txt") << "changed";
  check_usage_error(train(resume), 1, "another text");
}

TEST_CASE("a byte-pair tokenizer learns from the corpus", "[train-gpt]") {
  const TinyRun tiny(2, {"--tokenizer", "bpe:270"});
  CHECK(nlohmann::json::parse(tiny.file("tokenizer.json")).at("vocab_size") == 270);
  check_usage_error(
      train(tiny_run(tiny.corpus, tiny.folder / "b", 1) + Args{"--tokenizer", "bpe:9000"}), 1,
      "bpe");
}

TEST_CASE("wrong usage is explained and has exit code 2", "[train-gpt]") {
  const Args unknown = {"--batchsize", "3"};
  const std::string meant = "unknown option --batchsize; did you mean --batch-size?";
  const Result r = train(unknown);
  check_usage_error(r, 2, meant);
  CHECK_THAT(r.err, ContainsSubstring("train-gpt --help"));
  const auto usage = [](const Args& args, const std::string& text) {
    check_unparsed(args, 2, text);
  };
  usage(unknown, meant);
  usage({"--steps", "abc"}, "unknown option --steps");
  usage({"--val", "a.txt", "b.txt"}, "--val needs --corpus");
  usage({"--max-iters", "abc"}, "--max-iters: 'abc' is not a whole number");
  usage({"--max-iters", "1.5"}, "--max-iters: '1.5' is not a whole number");
  usage({"--max-iters", "99999999999999999999"}, "--max-iters: 99999999999999999999 is too large");
  usage({"--max-iters"}, "--max-iters needs a value");
  usage({"--max-iters", "--seed", "1"}, "--max-iters needs a value");
  usage({"--batch-size=0"}, "--batch-size: must be from 1 to 262144, not 0");
  usage({"--learning-rate", "fast"}, "--learning-rate: 'fast' is not a number");
  usage({"--learning-rate", "nan"}, "--learning-rate: 'nan' is not a number");
  usage({"--n-embd", "770", "--n-head", "12"}, "n_embd 770 is not divisible by n_head 12");
  usage({"--dropout", "1"}, "--dropout: must be at least 0 and below 1, not 1");
  usage({"--bias=perhaps"}, "--bias: 'perhaps' is neither true nor false");
  usage({"--activation", "gelu-erv"}, "did you mean gelu-erf?");
  usage({"--tokenizer", "words"}, "--tokenizer: 'words' is not char, gpt2, the path");
  usage({"--preset", "huge"}, "--preset: 'huge' is not one of");
  usage({"--tokenizer", "bpe:100"},
        "'bpe:100' is not char, gpt2, the path of a tokenizer.json, or bpe:N with N tokens");
  usage({"--threads", "5000"}, "--threads must be at most 1024");
  usage({"--corpus", ""}, "--corpus: a path is empty");
  usage({"--out-dir", ""}, "--out-dir: the path is empty");
  usage({"--learning-rate", "1e-4", "--min-lr", "1e-3"}, "min_lr 0.001 is above the learning rate");
  usage({"--init-from", "resume"}, "--init-from resume needs --out-dir");
}

TEST_CASE("options may be written with underscores and come from a file", "[train-gpt]") {
  const TempFolder folder;
  const auto config =
      folder.put("run.toml", "# a comment\n[model]\nn_layer = 3\nbias = true\nmax-iters = 1\n");
  const gpt::Options o =
      parsed(tiny_run("text.txt", "run", 2) + Args{"--config", config, "--n_head=4"});
  // Explicit options go before the file, and the file before the preset.
  CHECK(o.model.n_layer == 2);
  CHECK(o.model.n_head == 4);
  CHECK(o.model.bias == true);
  CHECK(o.optimizer.max_iters == 2);

  check_unparsed({"--config", folder.put("bad.toml", "n_layr = 3\n")}, 2,
                 "unknown option --n-layr; did you mean --n-layer?");
  check_unparsed({"--config", folder / "none.toml"}, 2, "none.toml");
}

TEST_CASE("a model that the machine cannot hold is refused at once", "[train-gpt]") {
  const TempFolder folder;
  const auto text = folder.put("text.txt", tiny_text());
  check_usage_error(
      train(tiny_run(text, folder / "run", 1) + Args{"--n-embd", "1000000", "--n-layer", "4000"}),
      1, "are available");
  CHECK_FALSE(fs::exists(folder / "run"));
}

TEST_CASE("a run keeps the variant of its model, and another one is refused", "[train-gpt]") {
  const TinyRun tiny(
      2, {"--separate-qkv", "--positions", "rotary", "--norm", "unbiased", "--n-inner", "40",
          "--activation", "relu", "--ff-dropout", "--no-attn-out-dropout"});
  const auto model = nlohmann::json::parse(tiny.file("config.json")).at("model");
  for (const char* name : {"separate_qkv", "ff_dropout"}) {
    CHECK(model.at(name) == true);
  }
  CHECK(model.at("attn_out_dropout") == false);
  CHECK(model.at("n_inner") == 40);
  CHECK(model.at("positions") == "rotary");
  CHECK(model.at("norm") == "unbiased");
  const Result again = train(resume_run(tiny.run, 4));
  INFO(again.err);
  CHECK(again.code == 0);
  check_unparsed(resume_run(tiny.run, 5) + Args{"--positions", "none"}, 2,
                 "--positions \"none\" does not fit the run to resume, which has \"rotary\"");
  const Result text = run_program("sample-text", {"--model", tiny.run, "--max-new-tokens", "40"});
  CHECK(text.code == 0);
  CHECK(text.out ==
        run_program("sample-text", {"--model", tiny.run, "--max-new-tokens", "40", "--no-kv-cache"})
            .out);

  const auto config = tiny.run / "config.json";
  std::string json = TempFolder::get(config);
  const std::string mine = "\"separate_qkv\": true";
  REQUIRE(json.find(mine) != std::string::npos);
  json.replace(json.find(mine), mine.size(), "\"separate_qkv\": false");
  std::ofstream(config) << json;
  check_usage_error(train(resume_run(tiny.run, 5) + Args{"--no-separate-qkv"}), 1,
                    "h.0.attn.c_attn.weight");
  const Result mixed = run_program("sample-text", {"--model", tiny.run});
  CHECK(mixed.code == 1);
  CHECK_THAT(mixed.err, ContainsSubstring("h.0.attn.c_attn.weight"));
}

TEST_CASE("a run of an earlier version is refused with a sentence", "[train-gpt]") {
  const TinyRun tiny(2);
  const auto config = tiny.run / "config.json";
  auto json = nlohmann::json::parse(TempFolder::get(config));
  json["version"] = 1;
  std::ofstream(config) << json;
  const std::string sentence = "Version 1 is of tapegrad 0.1";
  check_unparsed(resume_run(tiny.run, 3), 1, sentence);
  const Result r = run_program("sample-text", {"--model", tiny.run});
  CHECK(r.code == 1);
  CHECK_THAT(r.err, ContainsSubstring(sentence));
}

TEST_CASE("config.json holds each value once, and nothing that no option knows", "[train-gpt]") {
  const TinyRun tiny(2);
  const auto config = tiny.run / "config.json";
  const auto json = nlohmann::json::parse(TempFolder::get(config));
  std::vector<std::string> names;
  for (const auto& [section, values] : json.items()) {
    if (!values.is_object()) continue;
    for (const auto& [name, value] : values.items()) names.push_back(name);
  }
  // The length in training, which is the option, and that of the model.
  CHECK(json["data"]["block_size"] == 16);
  CHECK(json["model"]["block_size"] == 16);
  names.erase(std::find(names.begin(), names.end(), "block_size"));
  std::sort(names.begin(), names.end());
  CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
  CHECK(names.size() > 40);

  auto missing = json, unknown = json;
  missing["model"].erase("n_head");
  std::ofstream(config) << missing;
  check_unparsed(resume_run(tiny.run, 3), 1, "'n_head' is missing in 'model'");
  unknown["model"]["n_heads"] = 2;
  std::ofstream(config) << unknown;
  check_unparsed(resume_run(tiny.run, 3), 1, "'n_heads' that this program does not know");
}

TEST_CASE("--summary prints the model's layers and trains nothing", "[train-gpt]") {
  const TempFolder folder;
  // The corpus of a model with GPT-2's tokens need not be there.
  const Args gpt2 = {"--preset", "gpt2-124m", "--block-size", "1024", "--corpus", "none.txt"};
  const Result printed = train(gpt2 + Args{"--summary"}, folder.path());
  check_ended_well(printed);
  CHECK(fs::is_empty(folder.path()));
  CHECK_THAT(printed.out, ContainsSubstring("124,439,808 parameters"));
  const auto summary = [&](const Args& args) {
    const gpt::ParsedCall call = parsed_call(args);
    const gpt::Plan plan =
        gpt::resolve(call.arguments, gpt::with_vocabulary(call.facts, call.plan));
    return nn::summary(plan.model, plan.text.block_size).str();
  };
  CHECK(summary(gpt2) == printed.out);
  CHECK_THAT(summary(gpt2 + Args{"--no-tied", "--no-qkv-bias", "--separate-qkv"}),
             ContainsSubstring("163,009,536 parameters, 621.83 MB") &&
                 ContainsSubstring("124,412,160 if the head shared wte's") &&
                 ContainsSubstring("4,722,432 of the feed-forward"));
  CHECK_THAT(summary({"--n-layer", "1"}), ContainsSubstring("h.0.attn.c_attn  (384, 128)"));

  const TinyRun tiny(1);
  CHECK_THAT(summary(resume_run(tiny.run, 1)), ContainsSubstring("wpe              (16, 16)"));
  const Args missing = {"--corpus", folder / "none"};
  check_fails([&] { summary(missing); }, 1, "No such file");
}

TEST_CASE("arguments that contradict each other are refused before any model is opened",
          "[train-gpt]") {
  const TempFolder folder;
  const std::string broken = folder.put("broken.gguf", "GGUF").string();
  const TinyRun tiny(1);
  struct Row {
    Args args;
    const char* why;
  };
  const Row rows[] = {
      {{"--teacher", broken, "--gflops", "3", "--preset", "char-cpu"}, "--gflops is for --preset"},
      {{"--init-from", broken, "--epochs", "1", "--max-iters", "2"}, "exclude each other"},
      {{"--init-from", broken, "--max-minutes", "1", "--max-iters", "2"}, "both decide how many"},
      {{"--chat", broken, "--tokenizer", "char", "--lora-rank", "8"}, "--chat needs a tokenizer"},
      {{"--init-from", tiny.run, "--adapter", broken, "--tokenizer", "gpt2"},
       "--tokenizer gpt2 does not fit the model"},
  };
  for (const Row& row : rows) check_unparsed(row.args, 2, row.why);
  check_unparsed({"--init-from", broken}, 1, "broken.gguf");
}

TEST_CASE("--help lists options with defaults, and --version the version", "[train-gpt]") {
  const Result help = train({"--help", "all"});
  CHECK(help.code == 0);
  CHECK_THAT(help.out, ContainsSubstring("Examples:") && ContainsSubstring("--beta2 X") &&
                           ContainsSubstring("[0.99]") && ContainsSubstring("char-cpu"));
  const Result version = train({"--version"});
  CHECK(version.code == 0);
  CHECK_THAT(version.out, ContainsSubstring("train-gpt (tapegrad) "));
}
