// Documents in the corpus of train-gpt: <|endoftext|>, and what a run is validated with.

#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>

#include "tapegrad/apps/train/plan/train_options.h"
#include "tapegrad/base/internal/fingerprint.h"
#include "tapegrad/base/text/words.h"
#include "tapegrad/data/corpus/corpus.h"
#include "tapegrad/nn/summary.h"
#include "tapegrad/run/corpus/text_data.h"
#include "tapegrad/run/models/model.h"
#include "tapegrad/tests/apps/parsed.h"
#include "tapegrad/tests/apps/tiny_runs.h"
#include "tapegrad/tests/data/token_values.h"

using namespace tapegrad;

namespace {

// Without the --corpus that they begin with.
Args few_options(const std::filesystem::path& out_dir, int max_iters) {
  const Args all = tiny_run("", out_dir, max_iters);
  return {all.begin() + 2, all.end()};
}

void check_error(const Result& r, int code, const std::string& text) {
  check_error_of("train-gpt", r, code, text);
}

// Ten files, each of its own length: the number of a part's tokens tells which ones are in it.
void put_ten(const TempFolder& folder) {
  for (int i = 0; i < 10; ++i) {
    std::string text;
    for (int line = 0; line < 30 + i; ++line) {
      text += "file " + std::to_string(i) + " has a cat.\n";
      if (i == 9 && line == 20) text += "\n";
    }
    folder.put("in/" + std::to_string(i) + ".txt", text);
  }
}

// A line of the header: "text: …".
std::string text_line(const Result& r) {
  const std::size_t begin = r.out.find("text: ");
  REQUIRE(begin != r.out.npos);
  return r.out.substr(begin, r.out.find('\n', begin) - begin);
}

std::string metric(const std::filesystem::path& run, const std::string& name) {
  const std::string text = TempFolder::get(run / "metrics.jsonl");
  std::smatch match;
  std::string last;
  const std::regex number("\"" + name + "\":([-+.0-9eE]+)");
  for (std::sregex_iterator it(text.begin(), text.end(), number), end; it != end; ++it) {
    last = (*it)[1];
  }
  return last;
}

// Short stories, one a line of JSON lines.
std::string stories(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += "{\"text\": \"a cat sat on mat " + std::to_string(i % 10) + ".\"}\n";
  }
  return text;
}

}  // namespace

TEST_CASE("whole files of a folder are drawn for validation", "[documents-of-runs]") {
  const TempFolder folder;
  put_ten(folder);
  std::vector<std::string> lines;
  for (const std::string seed : {"1", "2", "3", "4"}) {
    const Args args = Args{folder / "in", "--seed", seed} + few_options(folder / seed, 0);
    const Result r = train(args + Args{"--final-eval", "none"});
    check_ended_well(r);
    lines.push_back(text_line(r));
    CHECK_THAT(lines.back(), ContainsSubstring(" tokens of 9 documents to train, ") &&
                                 ContainsSubstring(" tokens of 1 document to validate"));
  }
  std::sort(lines.begin(), lines.end());
  CHECK(std::unique(lines.begin(), lines.end()) - lines.begin() > 1);  // not always the last ones
  const Result half =
      train(Args{folder / "in", "--val-fraction", "0.5"} + few_options(folder / "half", 0));
  CHECK_THAT(text_line(half), ContainsSubstring(" of 5 documents to train"));
}

TEST_CASE("a run on documents resumes to the same bits, and on no others", "[documents-of-runs]") {
  const TempFolder folder;
  put_ten(folder);
  const auto in = folder / "in";
  const auto options = [&](const char* name, int iters) {
    return Args{in, "--tokenizer", "bpe:270"} + few_options(folder / name, iters);
  };
  check_ended_well(train(options("whole", 8)));
  check_ended_well(train(options("parts", 5)));
  check_ended_well(train(resume_run(folder / "parts", 8)));
  CHECK(same_model(folder / "parts", folder / "whole"));
  check_unparsed(resume_run(folder / "parts", 9) + Args{"--val-fraction", "0.2"}, 2,
                 "--val-fraction 0.2 does not fit");
  check_unparsed(resume_run(folder / "parts", 9) + Args{"--separator", "."}, 2,
                 "--separator \".\" does not fit");
  // The same text altogether, in as many files, which are others: two become one, one becomes two.
  std::vector<std::string> files;
  for (int i = 0; i < 10; ++i) files.push_back(TempFolder::get(in / (std::to_string(i) + ".txt")));
  files[1] += "\n" + files[2];
  files.erase(files.begin() + 2);
  const std::size_t middle = files.back().find("\n\n");
  files.push_back(files.back().substr(middle + 2));
  files[8].resize(middle + 1);
  for (int i = 0; i < 10; ++i) folder.put("in/" + std::to_string(i) + ".txt", files[i]);
  check_error(train(resume_run(folder / "parts", 9)), 1, "was made of another text");
}

TEST_CASE("--eval-only sees the documents that the run was validated with", "[documents-of-runs]") {
  const TempFolder folder;
  put_ten(folder);
  check_ended_well(train(Args{folder / "in"} + few_options(folder / "run", 5) +
                         Args{"--final-eval", "all", "--seed", "7"}));
  const Result r = train({"--eval-only", "--out-dir", folder / "run"});
  check_ended_well(r);
  const double loss = std::stod(metric(folder / "run", "final_val_loss"));
  char text[32];
  std::snprintf(text, sizeof text, "loss %.4f (whole", loss);
  CHECK_THAT(r.out, ContainsSubstring(text));
}

TEST_CASE("<|endoftext|> in a corpus is a token, and --separator names others",
          "[documents-of-runs]") {
  const TempFolder folder;
  std::string marked, ruled;
  for (int i = 0; i < 40; ++i) {
    const std::string story = "a cat sat on mat " + std::to_string(i) + ". so did I.";
    marked += story + "<|endoftext|>";
    ruled += story + "\n---\n";
  }
  const auto line = [&](const std::string& text, const char* name, const Args& more) {
    const Args args = Args{folder.put(std::string(name) + ".txt", text)} +
                      few_options(folder / name, 0) + Args{"--tokenizer", "bpe:262"} + more;
    const Result r = train(args);
    check_ended_well(r);
    const std::string found = text_line(r);
    return found.substr(found.find(".txt") + 4);
  };
  const std::string documents = line(marked, "marked", {});
  CHECK_THAT(documents, ContainsSubstring(" of 36 documents to train") &&
                            ContainsSubstring(" of 4 documents to validate"));
  // The last story has no other one behind it.
  std::string other = line(ruled, "ruled", {"--separator", "\\n---\\n"});
  CHECK_THAT(other, ContainsSubstring(" of 36 documents to train"));
  CHECK(TempFolder::get(folder / "marked/tokenizer.json") ==
        TempFolder::get(folder / "ruled/tokenizer.json"));
  CHECK(line(ruled, "unruled", {}).find("documents") == std::string::npos);
  CHECK(line(marked, "characters", {"--tokenizer", "char"}).find("documents") == std::string::npos);
}

TEST_CASE("a text from stdin has the same documents when it is resumed", "[documents-of-runs]") {
  const TempFolder folder;
  std::string text;
  for (int i = 0; i < 40; ++i) text += "the cat sat on mat " + std::to_string(i) + ".\n\n\n";
  const auto corpus = folder.put("text.txt", text);
  const Args more = {"--separator", "\\n\\n\\n", "--tokenizer", "char"};
  const Args args = Args{"-"} + few_options(folder / "run", 5) + more;
  check_ended_well(Program("train-gpt", args, ".", corpus).wait());
  const Result r = train(resume_run(folder / "run", 8));
  check_ended_well(r);
  CHECK_THAT(text_line(r), ContainsSubstring(" of 36 documents to train"));
  check_ended_well(train(Args{corpus} + few_options(folder / "same", 8) + more));
  CHECK(same_model(folder / "run", folder / "same"));
}

TEST_CASE("--val names the text to validate with", "[documents-of-runs]") {
  const TempFolder folder;
  const auto corpus = folder.put("text.txt", tiny_text());
  const auto val = folder.put("val/other.txt", tiny_text().substr(0, 400) + "Zebra");
  const Args args = Args{corpus, "--val", val} + few_options(folder / "run", 5);
  const Result r = train(args);
  check_ended_well(r);
  CHECK_THAT(text_line(r), ContainsSubstring("text.txt and, to validate, other.txt: ") &&
                               ContainsSubstring(" 405 tokens to validate"));
  check_ended_well(train(resume_run(folder / "run", 8)));
  check_ended_well(train({"--eval-only", "--out-dir", folder / "run"}));
  check_ended_well(train({"--summary", corpus, "--val", val}));
  folder.put("val/other.txt", tiny_text());
  check_error(train(resume_run(folder / "run", 9)), 1,
              "was made of another text: of other.txt with fingerprint");
  check_unparsed(args + Args{"--val-fraction", "0.2"}, 2,
                 "--val and --val-fraction exclude each other");
  check_unparsed(args + Args{"--val", "-"}, 2, "--val: - (stdin) is for --corpus alone");
  check_error(train(args + Args{"--val", folder / "val", "--out-dir", folder / "val/run"}), 1,
              "lies inside --val " + (folder / "val").string());
  const auto replaced = folder.put("out/corpus.txt", tiny_text());
  check_error(train(args + Args{"--val", replaced, "--out-dir", folder / "out"}), 1,
              "--val " + replaced.string() + " is a file that a run in");
  check_ended_well(train(Args{corpus} + few_options(folder / "part", 1)));
  check_error(train(resume_run(folder / "part", 2) + Args{"--val", val}), 1,
              "was validated with a part of its corpus: leave --val out");
  check_error(train(args + Args{"--val", folder / "none", "--out-dir", folder / "x"}), 1, "none");
  check_unparsed(args + Args{"--val-fraction", "0"}, 2, "--val-fraction: must be from");
}

TEST_CASE("a model learns where documents end, and samples end there", "[documents-of-runs]") {
  const TempFolder folder;
  check_ended_well(train(Args{folder.put("s.jsonl", stories(300))} +
                         few_options(folder / "run", 400) +
                         Args{"--tokenizer", "bpe:270", "--eval-interval", "400", "--dropout", "0",
                              "--log-interval", "100", "--lr-decay-iters", "400"}));
  const auto sample = [&](const Args& more) {
    const Result r =
        run_program("sample-text", Args{"--model", folder / "run", "--seed", "3"} + more);
    INFO(r.out << r.err);
    REQUIRE(r.code == 0);
    return r.out;
  };
  // Nothing but a document, from its beginning.
  const std::regex story("a cat sat on mat [0-9]\\.\n");
  CHECK(std::regex_match(sample({}), story));
  CHECK(std::regex_match(sample({"--prompt", "<|endoftext|>"}),
                         std::regex("<\\|endoftext\\|>a cat sat on mat [0-9]\\.\n")));
  const std::string more = sample({"--ignore-eos", "--max-new-tokens", "60"});
  CHECK_THAT(more, ContainsSubstring(".<|endoftext|>a cat sat"));
}

TEST_CASE("a run that is older than documents resumes as it was", "[documents-of-runs]") {
  const TempFolder folder;
  folder.put("in/1.txt", tiny_text().substr(0, 900) + "<|endoftext|>" + tiny_text().substr(900));
  folder.put("in/2.txt", tiny_text());
  check_ended_well(
      train(Args{folder / "in"} + few_options(folder / "run", 5) + Args{"--tokenizer", "bpe:270"}));
  // Such a run's config lacks all that is newer, and its fingerprint is that of the bytes.
  const std::filesystem::path path = folder / "run/config.json";
  auto config = nlohmann::json::parse(TempFolder::get(path));
  const gpt::Options defaults;
  for (const run::Section& section : run::config_of(defaults, run::kGPTFormat).sections) {
    auto& stored = config.at(section.name);
    for (const std::string& name : section.newer) CHECK(stored.erase(name) == 1);
    if (stored.empty()) config.erase(section.name);
  }
  CHECK_FALSE(config.contains(run::kTuningSection));
  const run::CorpusSource source{{folder / "in"}};
  const run::Text text = run::read_text(source);
  REQUIRE(text.documents.size() == 2);
  CHECK(config["text"].erase("documents") == 1);
  config["text"]["fingerprint"] = fingerprint(text.contents);
  std::ofstream(path) << config;
  const Result r = train(resume_run(folder / "run", 8));
  check_ended_well(r);
  // It had <|endoftext|> as ordinary text, and the last tenth of all for validation.
  const auto tokenizer = data::Tokenizer::load(folder / "run/tokenizer.json");
  const data::TextSplit parts = data::split_text(text.contents, 0.9);
  const auto expected = tokenizer.encode(parts.train), held_out = tokenizer.encode(parts.val);
  CHECK_THAT(text_line(r), ContainsSubstring(fmt::format(
                               ": {} tokens to train, {} tokens to validate",
                               grouped(std::ssize(expected)), grouped(std::ssize(held_out)))));
  const run::Text old = run::text_of_run(folder / "run", run::kGPTFormat, source);
  const run::TextData data = run::tokenize(old, tokenizer, {}, 16);
  CHECK(values_of(data.train) == expected);
  CHECK(values_of(data.val) == held_out);
}

TEST_CASE("evaluate reads documents as training does", "[documents-of-runs]") {
  const TempFolder folder;
  const auto corpus = folder.put("s.jsonl", stories(100));
  check_ended_well(
      train(Args{corpus} + few_options(folder / "run", 5) + Args{"--tokenizer", "bpe:270"}));
  std::string marked, ruled;
  for (int i = 0; i < 100; ++i) {
    const std::string story = "a cat sat on mat " + std::to_string(i % 10) + ".";
    marked += (i > 0 ? "<|endoftext|>" : "") + story;
    ruled += (i > 0 ? "##" : "") + story;
  }
  const auto loss = [&](const Args& args) {
    const Result r = run_program("evaluate", Args{"--model", folder / "run"} + args);
    INFO(r.err);
    REQUIRE(r.code == 0);
    return r.out.substr(r.out.find("loss"), r.out.find("tokens") - r.out.find("loss"));
  };
  const std::string expected = loss({corpus});
  CHECK(loss({folder.put("marked.txt", marked)}) == expected);
  CHECK(loss({folder.put("ruled.txt", ruled), "--separator", "##"}) == expected);
  CHECK(loss({folder / "ruled.txt"}) != expected);
}
