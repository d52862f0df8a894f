#pragma once

#include "tests/apps/program.h"
#include "tests/catch.h"

// Numbers and the same numbers backwards: pairs that are quickly learnt.
inline std::string tiny_pairs() {
  std::string text;
  for (int i = 0; i < 300; ++i) {
    const std::string number = std::to_string(100 + i * 7 % 900);
    text += number + "\t" + std::string(number.rbegin(), number.rend()) + "\n";
  }
  return text;
}

// A model and a run that take no time.
inline Args tiny_pair_run(const std::filesystem::path& corpus, const std::filesystem::path& out_dir,
                          int max_iters) {
  return {"--corpus",
          corpus,
          "--out-dir",
          out_dir,
          "--max-iters",
          std::to_string(max_iters),
          "--n-layer",
          "1",
          "--n-head",
          "2",
          "--n-embd",
          "16",
          "--n-hidden",
          "24",
          "--block-size",
          "8",
          "--batch-size",
          "8",
          "--eval-interval",
          "5",
          "--eval-iters",
          "1",
          "--log-interval",
          "1",
          "--warmup-iters",
          "2",
          "--lr-decay-iters",
          "20",
          "--learning-rate",
          "0.01",
          "--dropout",
          "0.1",
          "--no-sample",
          "--tokenizer",
          "char"};
}

inline Result train_pairs(const Args& args, const std::filesystem::path& folder = ".") {
  return run_program("train-seq2seq", args, folder);
}

// A folder with tiny pairs and a run of `iters` steps on them.
struct TinyPairRun {
  TempFolder folder;
  std::filesystem::path pairs = folder.put("pairs.tsv", tiny_pairs());
  std::filesystem::path run = folder / "run";

  explicit TinyPairRun(int iters, const Args& more = {}) {
    const Result r = train_pairs(tiny_pair_run(pairs, run, iters) + more);
    INFO(r.out << r.err);
    REQUIRE(r.code == 0);
  }
  std::string file(std::string_view name) const { return TempFolder::get(run / name); }
};

// A model that reverses numbers that it has not seen; made once.
inline const TinyPairRun& reverser() {
  static const TinyPairRun run(
      1500, {"--learning-rate", "0.003", "--lr-decay-iters", "1500", "--warmup-iters", "20",
             "--dropout", "0", "--batch-size", "32", "--n-embd", "32", "--n-hidden", "64",
             "--eval-interval", "1500", "--log-interval", "100"});
  return run;
}

inline void check_error_of(const std::string& program, const Result& r, int code,
                           const std::string& text) {
  INFO(r.out << r.err);
  CHECK(r.code == code);
  CHECK(r.err.rfind(program + ": error: ", 0) == 0);
  CHECK_THAT(r.err, ContainsSubstring(text));
}
