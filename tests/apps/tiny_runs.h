#pragma once

#include <map>

#include "tapegrad/tests/apps/tiny_args.h"
#include "tapegrad/tests/catch.h"

// Runs of the training programs that take no time.

inline Result train(const Args& args, const std::filesystem::path& folder = ".") {
  return run_program("train-gpt", args, folder);
}

inline Result train_pairs(const Args& args, const std::filesystem::path& folder = ".") {
  return run_program("train-seq2seq", args, folder);
}

// A folder with a corpus, and with a run on it once one was made.
struct CorpusAndRun {
  TempFolder folder;
  std::filesystem::path corpus, run = folder / "run";
  CorpusAndRun(std::string_view name, std::string_view text) : corpus(folder.put(name, text)) {}
  std::string file(std::string_view name) const { return TempFolder::get(run / name); }
};

inline void check_ended_well(const Result& r) {
  INFO(r.out << r.err);
  REQUIRE(r.code == 0);
}

inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

// Runs the program, whose arguments name `at`, or if this process has done so with the same
// arguments, puts the files of that time there, which then name `at` as well.
inline void make_once(const CorpusAndRun& at, const std::string& program, const Args& args) {
  struct Made {
    std::string folder;
    std::map<std::string, std::string> files;
  };
  static std::map<Args, Made> all;
  const std::string folder = at.folder.path();
  Args key = {program};
  for (const std::string& arg : args) key.push_back(replaced(arg, folder, ""));
  const auto [entry, is_new] = all.try_emplace(key);
  auto& [first, files] = entry->second;
  if (is_new) {
    check_ended_well(run_program(program, args));
    first = folder;
    for (const auto& file : std::filesystem::recursive_directory_iterator(at.run)) {
      if (!file.is_regular_file()) continue;
      files[file.path().lexically_relative(folder)] = TempFolder::get(file.path());
    }
  } else {
    for (const auto& [name, bytes] : files) at.folder.put(name, replaced(bytes, first, folder));
  }
}

// A run of `iters` steps on a tiny text.
struct TinyRun : CorpusAndRun {
  explicit TinyRun(int iters, const Args& more = {}) : CorpusAndRun("text.txt", tiny_text()) {
    make_once(*this, "train-gpt", tiny_run(corpus, run, iters) + more);
  }
};

// The same on tiny pairs.
struct TinyPairRun : CorpusAndRun {
  explicit TinyPairRun(int iters, const Args& more = {}) : CorpusAndRun("pairs.tsv", tiny_pairs()) {
    make_once(*this, "train-seq2seq", tiny_pair_run(corpus, run, iters) + more);
  }
};

// A model that reverses numbers that it has not seen; made once.
inline const TinyPairRun& reverser() {
  static const TinyPairRun run(
      1500, {"--learning-rate", "0.003", "--lr-decay-iters", "1500", "--warmup-iters", "20",
             "--dropout", "0", "--batch-size", "32", "--n-embd", "32", "--n-hidden", "64",
             "--eval-interval", "1500", "--log-interval", "100"});
  return run;
}

// True if two runs have come to the same weights, by the same way.
inline bool same_model(const std::filesystem::path& a, const std::filesystem::path& b) {
  return TempFolder::get(a / "model.safetensors") == TempFolder::get(b / "model.safetensors") &&
         TempFolder::get(a / "optimizer.safetensors") ==
             TempFolder::get(b / "optimizer.safetensors");
}

inline void check_error_of(const std::string& program, const Result& r, int code,
                           const std::string& text) {
  INFO(r.out << r.err);
  CHECK(r.code == code);
  CHECK(r.err.rfind(program + ": error: ", 0) == 0);
  CHECK_THAT(r.err, ContainsSubstring(text));
}
