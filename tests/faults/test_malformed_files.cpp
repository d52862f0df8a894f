// Thousands of broken files, each given to a program that reads it. Such a file is refused by a
// message that a user can act on, or it is loaded because it is valid. Nothing else may happen: no
// signal, no endless wait, no memory without bound.

#include <map>

#include "tapegrad/apps/seq2seq/seq2seq_program.h"
#include "tapegrad/apps/train/train_command.h"
#include "tapegrad/autograd/gemm/gemm.h"
#include "tapegrad/tests/apps/tiny_runs.h"
#include "tapegrad/tests/apps/unprivileged.h"
#include "tapegrad/tests/faults/child.h"
#include "tapegrad/tests/faults/malformed.h"
#include "tapegrad/tests/faults/verdict.h"

namespace fs = std::filesystem;
using namespace tapegrad;
using namespace tapegrad::faults;

namespace {

constexpr std::int64_t kMostKilobytes = std::int64_t{1} << 20;

// A program of this process, as its main() would run it.
using Main = std::function<int(const Args&)>;

// A training program, and its name.
struct Training {
  std::string name;
  int (*main)(const cli::Call&);

  int operator()(const Args& args) const {
    std::vector<const char*> argv = {"program"};
    for (const std::string& arg : args) argv.push_back(arg.c_str());
    return main({"program", static_cast<int>(argv.size()), argv.data()});
  }
};
const Training kTrainGPT = {"train-gpt", gpt::train};
const Training kTrainSeq2Seq = {"train-seq2seq", seq2seq::train};

// Outcomes of broken files, for a line of counts at the end.
class Counts {
 public:
  // A refusal must name one of `names`.
  void judge(const Malformed& file, const Args& names, const Ended& ended) {
    ++(ended.code == 0 ? loaded_ : refused_);
    const std::string fault = fault_of(file, names, ended);
    if (!fault.empty()) {
      faults_.push_back(names.front() + ", " + file.name + ": " + fault + "\n    " +
                        ended.err.substr(0, 1200));
    }
  }

  // Prints the counts; fails if there was a fault.
  void report(const std::string& what) const {
    fmt::print("{}: {} malformed, {} refused, {} loaded, {} faults\n", what, refused_ + loaded_,
               refused_, loaded_, faults_.size());
    for (const std::string& fault : faults_) UNSCOPED_INFO(fault);
    CHECK(faults_.empty());
  }

 private:
  static std::string fault_of(const Malformed& file, const Args& names, const Ended& ended) {
    if (never_ended(ended)) return "does not end";
    if (ended.code < 0 || ended.code > 2) return fmt::format("ended with {}", ended.code);
    if (ended.code == 0 && file.refused) return "was loaded";
    if (!kSanitized && ended.most_kb > kMostKilobytes)
      return fmt::format("took {} KB", ended.most_kb);
    // At what rate sample-text was is no message about a file.
    const bool only_rate = ended.err.ends_with(" tok/s\n") &&
                           std::count(ended.err.begin(), ended.err.end(), '\n') == 1;
    if (ended.code == 0 && (ended.err.empty() || only_rate)) return "";
    const bool named = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return ended.err.find(name) != ended.err.npos;
    });
    return named ? fault_of_message(ended.err) : "no file is named";
  }

  std::size_t refused_ = 0, loaded_ = 0;
  std::vector<std::string> faults_;
};

// A finished run of two steps, whose files are put into as many folders as children run at once.
class GoodRun {
 public:
  GoodRun(const Main& main, const Args& args, std::string_view text) : memory_(memory_folder()) {
    const fs::path corpus = memory_.put("text", text), made = memory_ / "good";
    REQUIRE(quietly(main, args, corpus, made) == 0);
    for (const auto& entry : fs::directory_iterator(made)) {
      files_[entry.path().filename().string()] = TempFolder::get(entry.path());
    }
    give_to_nobody(memory_.path());
    fs::permissions(memory_.path(), fs::perms::others_exec | fs::perms::others_read,
                    fs::perm_options::add);
  }

  std::string path() const { return memory_.path(); }
  const std::string& file(const std::string& name) const { return files_.at(name); }

  // A folder with the good files, but for `name`.
  fs::path with(std::size_t slot, const std::string& name, const std::string& bytes) const {
    const fs::path folder = memory_ / std::to_string(slot);
    fs::remove_all(folder);
    fs::create_directory(folder);
    give_to_nobody(folder);
    for (const auto& [other, contents] : files_) {
      std::ofstream(folder / other, std::ios::binary) << (other == name ? bytes : contents);
      give_to_nobody(folder / other);
    }
    return folder;
  }

 private:
  static int quietly(const Main& main, const Args& args, const fs::path& corpus,
                     const fs::path& made) {
    const Args more = {"--corpus", corpus, "--out-dir", made, "--max-iters", "2"};
    return main(args + more);
  }
  TempFolder memory_;
  std::map<std::string, std::string> files_;
};

const Args kTiny = {"--n-head",     "2",    "--n-embd",     "16", "--n-layer",    "1",
                    "--block-size", "16",   "--batch-size", "2",  "--eval-iters", "1",
                    "--tokenizer",  "char", "--threads",    "1",  "--no-sample"};

// Arguments that keep an accepted run short, whatever its config says.
Args resume_args(const fs::path& folder) {
  return {"--init-from",
          "resume",
          "--out-dir",
          folder,
          "--max-iters",
          "2",
          "--eval-iters",
          "1",
          "--batch-size",
          "2",
          "--gradient-accumulation-steps",
          "1",
          "--threads",
          "1",
          "--no-sample"};
}

void give_all(Counts& counts, const GoodRun& run, const std::string& name,
              const MalformedFiles& files, const std::function<int(const fs::path&)>& body) {
  const std::size_t step = one_of(25, 120);
  run_children((files.size() + step - 1) / step, processors(),
               [&](std::size_t i, std::size_t slot) {
                 const fs::path folder = run.with(slot, name, files[i * step].bytes());
                 return Child([&body, folder] { return body(folder); });
               },
               [&](std::size_t i, const Ended& ended) {
                 // A file may be valid and not fit another one; a corpus is where config.json says.
                 counts.judge(files[i * step],
                              {name, run.path(), "cannot read '", "--corpus", "--held-out",
                               "File name too long"},
                              ended);
               });
}

// The broken versions of a file of a run.
MalformedFiles broken(const std::string& name, const std::string& good) {
  Rng rng(7);
  MalformedFiles files = mangled(good, 60, rng);
  const auto add = [&](MalformedFiles more) {
    for (Malformed& file : more) files.push_back(std::move(file));
  };
  if (name.ends_with(".json"))
    add(broken_json(Json::parse(good), [](const std::string& text) { return text; }));
  if (name.ends_with(".safetensors")) add(broken_safetensors(good));
  if (name.ends_with(".jsonl")) {
    const std::string first = good.substr(0, good.find('\n')), rest = good.substr(first.size());
    add(broken_json(Json::parse(first), [rest](const std::string& text) { return text + rest; }));
    for (Malformed& file : files) file.refused = false;  // such lines are left out
  }
  return files;
}

void check_runs(const Training& program, const std::string& text, const Args& more) {
  REQUIRE_FALSE(gemm_description().empty());  // loads the library that the children share
  const GoodRun run(program, kTiny + Args{"--layer-stats", "1"} + more, text);
  Counts counts;
  for (const char* name :
       {"config.json", "trainer.json", "tokenizer.json", "metrics.jsonl", "layers.jsonl",
        "sessions.jsonl", "model.safetensors", "optimizer.safetensors"}) {
    give_all(counts, run, name, broken(name, run.file(name)),
             [&](const fs::path& folder) { return program(resume_args(folder)); });
  }
  counts.report("files of runs of " + program.name);
}

// New runs on broken texts, or with broken option files.
void check_texts(const Training& program, const std::string& name, const std::string& good,
                 MalformedFiles more, const std::function<Args(const fs::path&)>& args) {
  REQUIRE_FALSE(gemm_description().empty());
  const TempFolder memory(memory_folder());
  give_to_nobody(memory.path());
  Rng rng(11);
  MalformedFiles files = mangled(good, 200, rng);
  for (Malformed& file : files) file.refused = false;  // most of them are texts as good as any
  for (Malformed& file : more) files.push_back(std::move(file));
  Counts counts;
  const std::size_t step = one_of(1, 5);
  run_children((files.size() + step - 1) / step, processors(),
               [&](std::size_t i, std::size_t slot) {
                 const fs::path folder = memory / std::to_string(slot);
                 fs::remove_all(folder);
                 fs::create_directory(folder);
                 give_to_nobody(folder);
                 std::ofstream(folder / name, std::ios::binary) << files[i * step].bytes();
                 return Child([&, folder] { return program(args(folder)); });
               },
               [&](std::size_t i, const Ended& ended) {
                 counts.judge(files[i * step], {name, "the corpus"}, ended);
               });
  counts.report(name + " of " + program.name);
}

Args new_run(const fs::path& folder, const fs::path& corpus) {
  return kTiny + Args{"--corpus", corpus, "--out-dir", folder / "run", "--max-iters", "0"};
}

}  // namespace

TEST_CASE("a broken text is refused by a message that says why, or learnt", "[malformed]") {
  SECTION("corpus") {
    const std::string good = tiny_text();
    check_texts(kTrainGPT, "text.txt", good,
                {{"NUL", good + std::string(1, '\0'), true},
                 {"Latin-1", good + "\xe9t\xe9", true},
                 {"an overlong character", good + "\xc0\xaf", true},
                 {"a surrogate", good + "\xed\xa0\x80", true},
                 {"too short", "abc", true},
                 {"one long line", std::string(1'000'000, 'x') + good}},
                [](const fs::path& folder) {
                  return new_run(folder, folder / "text.txt") + Args{"--preset", "char-cpu"};
                });
  }
  SECTION("pairs") {
    const std::string good = tiny_pairs();
    check_texts(kTrainSeq2Seq, "pairs.tsv", good,
                {{"no tab", good + "x\n", true},
                 {"two tabs", good + "x\ty\tz\n", true},
                 {"no target", good + "x\t\n", true},
                 {"no source", good + "\ty\n", true},
                 {"NUL", good + std::string("a\0\tb\n", 5), true},
                 {"a long source", good + std::string(100, 'x') + "\ty\n", true},
                 {"one pair", "x\ty\n", true}},
                [](const fs::path& folder) { return new_run(folder, folder / "pairs.tsv"); });
  }
}

TEST_CASE("a broken option file is refused by a message that says why, or valid", "[malformed]") {
  const std::string good =
      "# options\n[model]\nn-layer = 1\nn_head = 2\ndropout = 0.1\nbias = true\n; more\n"
      "tokenizer = \"char\"\nschedule = 'linear'\nseed = 7\neval_iters = 1\n";
  const TempFolder folder(memory_folder());
  const fs::path corpus = folder.put("text", tiny_text());
  fs::permissions(folder.path(), fs::perms::others_exec, fs::perm_options::add);
  MalformedFiles more;
  for (const std::string& value : foreign_values()) {
    if (value.empty() || value.size() > 1000) continue;
    for (const char* name :
         {"n_layer", "dropout", "bias", "schedule", "corpus", "seed", "no_such"}) {
      more.push_back({fmt::format("{} = {}", name, value), fmt::format("{} = {}\n", name, value)});
    }
  }
  for (const char* line :
       {"[", "=", "\"", "seed = [1,2", "seed", "= 1", "seed = ", "[model", "seed = \"1"}) {
    more.push_back({line, std::string(line) + "\n", true});
  }
  check_texts(kTrainGPT, "options.ini", good, more, [&](const fs::path& slot) {
    return Args{"--config", slot / "options.ini"} + new_run(slot, corpus);
  });
}

TEST_CASE("a broken model is refused by the programs that open it", "[malformed]") {
  const TinyRun text(2);
  const TinyPairRun pairs(2);
  const CorpusAndRun lora("text.txt", tiny_text());
  check_ended_well(run_program(
      "train-gpt", {"--init-from", text.run, "--corpus", lora.corpus, "--out-dir", lora.run,
                    "--lora-rank", "2", "--max-iters", "2", "--eval-iters", "1", "--no-sample"}));
  struct Opens {
    const CorpusAndRun& run;
    std::string program;
    Args args;
  };
  const std::vector<Opens> all = {
      {text, "sample-text", {"--max-new-tokens", "3"}},
      {lora, "sample-text", {"--max-new-tokens", "3"}},
      {text, "gradient-check", {"--filter", "wpe"}},
      {pairs, "translate", {"--", "123"}},
      {text,
       "train-gpt",
       {"--init-from", "resume", "--max-iters", "2", "--eval-iters", "1", "--no-sample"}}};
  for (const auto& [run, program, args] : all) {
    const bool trains = program == "train-gpt";
    const Args all_args = Args{trains ? "--out-dir" : "--model", run.run} + args;
    check_ended_well(run_unprivileged(program, all_args, run.folder.path()));
    Counts counts;
    Rng rng(5);
    for (const char* name : {"config.json", "tokenizer.json", "model.safetensors"}) {
      const std::string good = run.file(name);
      MalformedFiles files = broken(name, good);
      const std::size_t step = files.size() / (kSanitized ? 3 : 12);
      for (std::size_t i = 0; i < files.size(); i += step) {
        std::ofstream(run.run / name, std::ios::binary) << files[i].bytes();
        const Result r = run_unprivileged(program, all_args, run.folder.path());
        counts.judge(files[i], {name, run.run, "cannot read '", "--corpus"}, {r.code, r.err, 0});
      }
      std::ofstream(run.run / name, std::ios::binary) << good;
    }
    counts.report("files that " + program + " opens");
  }
}

TEST_CASE("a broken file in a run folder is refused by a message that says why, or valid",
          "[malformed]") {
  SECTION("train-gpt") { check_runs(kTrainGPT, tiny_text(), {"--preset", "char-cpu"}); }
  SECTION("train-seq2seq") { check_runs(kTrainSeq2Seq, tiny_pairs(), {}); }
}
