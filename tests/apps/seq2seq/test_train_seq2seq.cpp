#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "tapegrad/tests/apps/parsed.h"
#include "tapegrad/tests/apps/tiny_runs.h"

namespace fs = std::filesystem;

namespace {

void check_error(const Result& r, int code, const std::string& text) {
  check_error_of("train-seq2seq", r, code, text);
}

nlohmann::json last_metrics(const fs::path& run) {
  std::istringstream lines(TempFolder::get(run / "metrics.jsonl"));
  std::string line, last;
  while (std::getline(lines, line)) last = line;
  return nlohmann::json::parse(last);
}

}  // namespace

TEST_CASE("training on pairs prints its lines and fills the run folder", "[train-seq2seq]") {
  const TempFolder folder;
  Args args = tiny_pair_run(folder.put("pairs.tsv", tiny_pairs()), folder / "run", 5);
  args.push_back("--sample");
  const Result r = train_pairs(args);
  INFO(r.out << r.err);
  CHECK(r.code == 0);
  CHECK(r.err.empty());
  const std::string number = "[0-9]+\\.[0-9]+";
  const auto has = [&](const std::string& pattern) {
    return std::regex_search(r.out, std::regex("\n" + pattern + "\n"));
  };
  CHECK(has("text:    pairs.tsv: 2[0-9]{2} pairs to train, 30 held out \\(char\\)"));
  CHECK(has("step 5: train loss " + number + ", val loss " + number + ", token accuracy " + number +
            " %, exact match " + number + " %"));
  CHECK(has("iter 4: loss " + number + ", lr [0-9.]+e-[0-9]+, norm " + number + ", " + number +
            " ms, [0-9]+ tok/s"));
  CHECK(has("final: 30 held-out pairs: token accuracy " + number + " %, exact match " + number +
            " %"));
  CHECK_THAT(r.out, ContainsSubstring("held-out pairs:\n  ") &&
                        ContainsSubstring("tapegrad translate ") &&
                        ContainsSubstring("train-seq2seq --init-from resume"));
  for (const char* name : {"config.json", "tokenizer.json", "trainer.json"}) {
    CHECK(nlohmann::json::parse(TempFolder::get(folder / "run" / name)).is_object());
  }
  CHECK(last_metrics(folder / "run").at("held_out_pairs") == 30);
  // The parameters' count is that of the file: four bytes each, with the positions.
  CHECK_THAT(r.out, ContainsSubstring("5,280 parameters: 1 + 1 layers, 2 heads, 16 channels"));
}

TEST_CASE("a Transformer learns pairs that it has not seen", "[train-seq2seq]") {
  const auto metrics = last_metrics(reverser().run);
  CHECK(metrics.at("final_token_accuracy") > 0.95);
  CHECK(metrics.at("final_exact_match") > 0.9);
  CHECK(metrics.at("final_exact_match") <= metrics.at("final_token_accuracy"));
}

TEST_CASE("equal seeds give equal translators for any number of threads", "[train-seq2seq]") {
  const Args base = {"--n-embd", "64", "--n-hidden", "256", "--batch-size", "64"};
  const TinyPairRun one(4, base + Args{"--threads", "1"}), two(4, base + Args{"--threads", "2"});
  const TinyPairRun other(4, base + Args{"--seed", "7"});
  CHECK(same_model(one.run, two.run));
  CHECK_FALSE(same_model(one.run, other.run));
}

TEST_CASE("--rng decides what dropout draws from, and nothing else", "[train-seq2seq]") {
  const Args torch = {"--rng", "torch"}, none = {"--dropout", "0"};
  const auto model = [](const TinyPairRun& run) { return run.file("model.safetensors"); };
  const TinyPairRun of_torch(4, torch);
  CHECK(model(of_torch) != model(TinyPairRun(4)));
  CHECK(model(TinyPairRun(4, torch + none)) == model(TinyPairRun(4, none)));
  // Its masks depend on the seed alone, and evaluations do not draw from it.
  CHECK(model(of_torch) ==
        model(TinyPairRun(4, torch + Args{"--threads", "1", "--eval-interval", "1"})));
  CHECK(nlohmann::json::parse(of_torch.file("config.json")).at("random").at("rng") == "torch");
  // The generator of the batches has drawn them, too, and the other one has not been touched.
  const auto state = [](const TinyPairRun& run, const char* name) {
    return nlohmann::json::parse(run.file("trainer.json")).at(name);
  };
  const TinyPairRun fresh(0);
  CHECK(state(of_torch, "dropout") == state(fresh, "dropout"));
  CHECK(state(of_torch, "loader") != state(TinyPairRun(4), "loader"));
  check_unparsed_pairs(resume_run(of_torch.run, 5) + Args{"--rng", "philox"}, 2, "--rng");
}

TEST_CASE("a resumed run on pairs ends as one that never stopped, bit for bit", "[train-seq2seq]") {
  const Args kind = GENERATE(Args{"--rng", "philox"}, Args{"--rng", "torch"},
                             Args{"--dtype", "bf16"}, Args{"--dtype", "int8"});
  const TinyPairRun straight(12, kind), stopped(7, kind);
  CHECK_FALSE(same_model(straight.run, stopped.run));
  const Result r = train_pairs(resume_run(stopped.run, 12));
  INFO(r.out << r.err);
  REQUIRE(r.code == 0);
  CHECK_THAT(r.out, ContainsSubstring("resumed at step 7"));
  CHECK(same_model(straight.run, stopped.run));
  CHECK(last_metrics(straight.run) == last_metrics(stopped.run));
  check_unparsed_pairs(resume_run(stopped.run, 13) + Args{"--n-hidden", "32"}, 2,
                       "--n-hidden 32 does not fit the run to resume");
  check_unparsed_pairs(resume_run(stopped.run, 13) + Args{"--held-out", "9"}, 2, "--held-out");
  std::ofstream(stopped.corpus, std::ios::app) << "1\t1\n";
  check_error(train_pairs(resume_run(stopped.run, 13)), 1, "was made of another text");
}

TEST_CASE("Ctrl-C saves a run on pairs, and it goes on from there", "[train-seq2seq]") {
  const TempFolder folder;
  const auto pairs = folder.put("pairs.tsv", tiny_pairs());
  const Args rare = {"--eval-interval", "1000000"};
  Program program("train-seq2seq", tiny_pair_run(pairs, folder / "run", 1000000) + rare);
  program.wait_for("iter 8:");
  program.send(SIGINT);
  const Result r = program.wait();
  INFO(r.out << r.err);
  CHECK(r.code == 130);
  std::smatch match;
  REQUIRE(std::regex_search(r.out, match, std::regex("stopped at step ([0-9]+), which is saved")));
  const int iteration = std::stoi(match[1]);
  REQUIRE(train_pairs(resume_run(folder / "run", iteration + 2)).code == 0);
  REQUIRE(train_pairs(tiny_pair_run(pairs, folder / "straight", iteration + 2) + rare).code == 0);
  CHECK(same_model(folder / "run", folder / "straight"));
}

TEST_CASE("the preset base is the paper's base model, and begins to train", "[train-seq2seq]") {
  const TempFolder folder;
  Program program(
      "train-seq2seq",
      {"--preset", "base", "--corpus", folder.put("pairs.tsv", tiny_pairs()), "--tokenizer", "char",
       "--batch-size", "1", "--eval-iters", "1", "--verbose", "--out-dir", folder / "run"});
  // What comes next is a checkpoint of half a gigabyte.
  program.wait_for("step 0: train loss ");
  program.send(SIGKILL);
  CHECK_THAT(program.wait().out,
             ContainsSubstring("model:   44,087,296 parameters: 6 + 6 layers, ") &&
                 ContainsSubstring("n_layer 6 + 6, n_head 8, n_embd 512, n_hidden 2048, "
                                   "block_size 128, vocab_size 14\n"));
  const auto config = nlohmann::json::parse(TempFolder::get(folder / "run/config.json"));
  CHECK(config.at("model").at("dropout") == 0.1);
  const auto& training = config.at("optimizer");
  CHECK(training.at("beta2") == 0.98);
  CHECK(training.at("warmup_iters") == 4000);
  CHECK(training.at("max_iters") == 100000);
  CHECK(training.at("lr_decay_iters") == 100000);
  // Its vocabulary is one for texts: the program's own dates have too few words.
  check_error(train_pairs({"--preset", "base", "--out-dir", folder / "dates"}), 1,
              "too short for bpe:8000");
}

TEST_CASE("pairs that cannot be learnt are refused before anything is written", "[train-seq2seq]") {
  const TempFolder folder;
  const auto attempt = [&](const std::string& text, const Args& more = {}) {
    const Result r =
        train_pairs(tiny_pair_run(folder.put("p.tsv", text), folder / "run", 1) + more);
    CHECK_FALSE(fs::exists(folder / "run"));
    return r;
  };
  check_error(attempt("1\t1\n2\t2\n3 3\n"), 1, "p.tsv: line 3 has no tab");
  check_error(attempt("1\t1\n2\t2\t2\n"), 1, "p.tsv: line 2 has more than one tab");
  check_error(attempt("\t1\n2\t2\n"), 1, "p.tsv: line 1 has an empty source");
  check_error(attempt("\uFEFF\t1\n2\t2\n"), 1, "p.tsv: line 1 has an empty source");
  check_error(attempt("1\t1\n2\t\r\n"), 1, "p.tsv: line 2 has an empty target");
  check_error(attempt("1\t1\n123456789\t2\n"), 1,
              "the source of line 2 has 9 tokens, and the model's longest has 8");
  check_error(attempt("1\t12345678\n2\t2\n"), 1,
              "the target of line 1 has 8 tokens, and the model's longest has 7");
  check_error(attempt("1\t1\n"), 1, "has 1 pairs, of which at least one must be left");
  check_error(attempt("1\t1\n1\t2\n"), 1, "none is left to train on");
  check_error(attempt(tiny_pairs(), {"--held-out", "300"}), 1, "--held-out 300: ");
  check_error(attempt(""), 1, "empty");
  check_error(attempt("\n\n"), 1, "there is nothing but white space in");
  check_error(attempt("caf\xE9\tx\n"), 1, "UTF-8");
  check_error(attempt(std::string("a\0b\tc\n", 6)), 1, "binary");
  check_error(train_pairs(tiny_pair_run(folder / "none", folder / "run", 1)), 1, "No such file");
}

TEST_CASE("patterns that name nothing are wrong usage, found before the pairs are read",
          "[train-seq2seq]") {
  const auto refused = [](const Args& more, const std::string& text) {
    check_unparsed_pairs(Args{"--corpus", "/no/such.tsv"} + more, 2, text);
  };
  refused({"--lr-scale", "wtx*=2"}, "--lr-scale: 'wtx*' names no parameter that is trained");
  refused({"--decay", "wtx*=2"}, "--decay: 'wtx*' names no parameter");
  refused({"--optimizer-for", "wtx*=sgd"}, "--optimizer-for: 'wtx*' names no parameter");
}

TEST_CASE("wrong usage of train-seq2seq has exit code 2", "[train-seq2seq]") {
  const TempFolder folder;
  const Args unknown = {"--heldout", "3"};
  check_error(train_pairs(unknown), 2, "did you mean --held-out?");
  const auto usage = [](const Args& args, const std::string& text) {
    check_unparsed_pairs(args, 2, text);
  };
  usage({"--corpus", folder.path()}, "is a folder; a file of pairs is needed");
  usage({"--corpus", "a", "b"}, "--corpus takes one file of pairs, not 2");
  usage({"--n-embd", "66", "--n-head", "4"}, "n_embd 66 is not divisible by n_head 4");
  usage({"--n-embd", "5", "--n-head", "5"}, "n_embd must be even, not 5");
  usage({"--block-size", "1"}, "--block-size must be at least 2, not 1");
  usage({"--held-out", "0"}, "--held-out: must be at least 1, not 0");
  usage({"--dropout", "1"}, "--dropout: must be at least 0 and below 1, not 1");
  usage(unknown, "did you mean --held-out?");
  usage({"--preset", "date"}, "did you mean dates?");
  CHECK_THAT(train_pairs({"--help"}).out, ContainsSubstring("  --corpus FILE "));
  CHECK_THAT(run_program("train-gpt", {"--help"}).out, ContainsSubstring("  --corpus PATH"));
  check_error(train_pairs({"--n-embd", "1000000", "--n-hidden", "1000000", "--n-layer", "400",
                           "--n-head", "1", "--out-dir", folder / "run"}),
              1, "are available");
}

TEST_CASE("a text that looks like an option is suggested as a text", "[train-seq2seq]") {
  const TempFolder folder;
  const std::string negative =
      std::regex_replace(tiny_pairs(), std::regex("(^|\n)([0-9])"), "$1-$2");
  const Result r = train_pairs(tiny_pair_run(folder.put("p.tsv", negative), folder / "run", 1));
  INFO(r.out << r.err);
  CHECK(r.code == 0);
  CHECK(std::regex_search(r.out, std::regex("tapegrad translate .+ -- -[0-9]+\n")));
}

TEST_CASE("memory is estimated for the longest pair, not for --block-size", "[train-seq2seq]") {
  const TempFolder folder;
  const auto megabytes = [&](const std::string& pairs, const char* block_size) {
    Program program("train-seq2seq",
                    tiny_pair_run(folder.put("p.tsv", pairs), folder / "run", 0) +
                        Args{"--block-size", block_size, "--overwrite", "--verbose"});
    // What comes next takes long: targets that are hardly learnt go on until they are full.
    program.wait_for("folder: ");
    program.send(SIGKILL);
    const std::string out = program.wait().out;
    INFO(out);
    std::smatch match;
    REQUIRE(std::regex_search(out, match, std::regex("memory:  about ([0-9]+) MB at once")));
    return std::stoi(match[1]);
  };
  CHECK(megabytes(tiny_pairs(), "8192") <= 5);
  const std::string longer(3000, '1');
  CHECK(megabytes(tiny_pairs() + longer + "\t1\n" + longer + "0\t1\n", "8192") > 10);
  CHECK(megabytes(tiny_pairs() + "1\t" + longer + "\n0\t" + longer + "\n", "8192") > 10);
}

TEST_CASE("runs of the two training programs are told apart", "[train-seq2seq]") {
  const TinyPairRun pairs(1);
  check_unparsed(resume_run(pairs.run, 2), 1,
                 "this is of a tapegrad-seq2seq folder; a tapegrad-gpt folder is needed");
  check_error_of("sample-text", run_program("sample-text", {"--model", pairs.run}), 1,
                 "this is of a tapegrad-seq2seq folder");
  const TempFolder folder;
  REQUIRE(
      run_program("train-gpt", tiny_run(folder.put("t", tiny_text()), folder / "gpt", 1)).code ==
      0);
  check_unparsed_pairs(resume_run(folder / "gpt", 2), 1, "this is of a tapegrad-gpt folder");
  check_error_of("translate", run_program("translate", {"--model", folder / "gpt", "x"}), 1,
                 "this is of a tapegrad-gpt folder");
}

TEST_CASE("the default pairs are dates in many forms, each with its ISO form", "[train-seq2seq]") {
  const TempFolder folder;
  const Result r = train_pairs({"--n-layer", "1", "--n-embd", "8", "--n-head", "1", "--n-hidden",
                                "8", "--max-iters", "0", "--eval-iters", "1", "--held-out", "2",
                                "--no-sample", "--out-dir", folder / "run"});
  INFO(r.out << r.err);
  REQUIRE(r.code == 0);
  CHECK_THAT(r.out, ContainsSubstring("dates and times: 201,998 pairs to train, 2 held out"));
  std::istringstream lines(TempFolder::get(folder / "run/corpus.txt"));
  const std::regex iso(
      "((19|20)[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01]))?(T(?!$))?"
      "(([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?Z?)?");
  const std::regex slashes("(on )?([0-9]{1,2})/([0-9]{1,2})/([0-9]{4})");
  const std::regex dots("(on )?([0-9]{1,2})\\.([0-9]{1,2})\\.([0-9]{4})");
  // One of each written form, as a reader of English understands it.
  std::set<std::pair<std::string, std::string>> missing = {
      {"noon", "12:00"},
      {"midnight", "00:00"},
      {"12 am", "00:00"},
      {"12pm", "12:00"},
      {"12:50 AM", "00:50"},
      {"12:08 pm", "12:08"},
      {"nine oh eight p.m.", "21:08"},
      {"seven oh two a.m.", "07:02"},
      {"2210 hours", "22:10"},
      {"04:40:36 GMT", "04:40:36Z"},
      {"twelve o'clock at night", "00:00"},
      {"quarter to seven in the morning", "06:45"},
      {"quarter past three in the afternoon", "15:15"},
      {"half past three in the afternoon", "15:30"},
      {"half past twelve at night UTC", "00:30Z"},
      {"one minute to one in the afternoon", "12:59"},
      {"seven minutes to twelve at night", "23:53"},
      {"ten to one at night", "00:50"},
      {"FIVE PAST SEVEN IN THE EVENING", "19:05"},
      {"February 13, '90", "1990-02-13"},
      {"November 10, '08", "2008-11-10"},
      {"1/25/21", "2021-01-25"},
      {"07/01/1992", "1992-07-01"},
      {"16.09.1902", "1902-09-16"},
      {"2040/2/8", "2040-02-08"},
      {"1942-06-13", "1942-06-13"},
      {"20290917", "2029-09-17"},
      {"02-Jul-40", "2040-07-02"},
      {"the 23rd of March 1917", "1917-03-23"},
      {"Tue, 16th Dec. 1986", "1986-12-16"},
      {"June the eleventh, two thousand and thirty-five", "2035-06-11"},
      {"the third of October twenty thirteen", "2013-10-03"},
      {"March twenty-first, nineteen hundred", "1900-03-21"},
      {"March second, nineteen oh four", "1904-03-02"},
      {"September third, two thousand", "2000-09-03"},
      {"07/31/2048 at midnight", "2048-07-31T00:00"},
      {"2nd of September, 1937, half past nine at night GMT", "1937-09-02T21:30Z"},
      {"quarter to one at night, 26.10.1955", "1955-10-26T00:45"},
      {"14 Sep., 2099 quarter to one in the afternoon", "2099-09-14T12:45"}};
  std::set<std::string> written;
  std::size_t american = 0, european = 0, wrong = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t tab = line.find('\t');
    const std::string source = line.substr(0, tab), target = line.substr(tab + 1);
    written.insert(source);
    missing.erase({source, target});
    wrong += !std::regex_match(target, iso);
    // Two forms that can be read here without a calendar of words.
    std::smatch m;
    const auto two = [](const std::string& digits) {
      return digits.size() == 1 ? "0" + digits : digits;
    };
    if (std::regex_match(source, m, slashes)) {
      ++american;
      wrong += target != m.str(4) + "-" + two(m.str(2)) + "-" + two(m.str(3));
    } else if (std::regex_match(source, m, dots)) {
      ++european;
      wrong += target != m.str(4) + "-" + two(m.str(3)) + "-" + two(m.str(2));
    }
  }
  // Resumed, it is the same text, though it is now read from a file.
  const Result again = train_pairs(resume_run(folder / "run", 1) + Args{"--no-sample"});
  INFO(again.out << again.err);
  REQUIRE(again.code == 0);
  CHECK_THAT(again.out, ContainsSubstring("dates and times: 201,998 pairs to train, 2 held out"));
  CHECK(nlohmann::json::parse(TempFolder::get(folder / "run/config.json")).at("text").at("name") ==
        "dates and times");
  CHECK(written.size() == 202000);  // no two are alike
  CHECK(wrong == 0);
  for (const auto& [source, target] : missing) FAIL_CHECK("no line " << source << "\t" << target);
  CHECK((american > 500 && european > 500));
}
