#pragma once

#include "tapegrad/tests/apps/program.h"
#include "tapegrad/tests/catch.h"

// Runs of the training programs that take no time.

// The same few lines again and again with a number that changes: text that is quickly learnt.
inline std::string tiny_text() {
  std::string text;
  for (int i = 0; i < 120; ++i) {
    text += "the cat sat on mat " + std::to_string(i) + " and the dog ate.\n";
  }
  return text;
}

// Numbers and the same numbers backwards: pairs that are quickly learnt.
inline std::string tiny_pairs() {
  std::string text;
  for (int i = 0; i < 300; ++i) {
    const std::string number = std::to_string(100 + i * 7 % 900);
    text += number + "\t" + std::string(number.rbegin(), number.rend()) + "\n";
  }
  return text;
}

// What both programs are told for a model and a run that take no time.
inline Args tiny_args(const std::filesystem::path& corpus, const std::filesystem::path& out_dir,
                      int max_iters) {
  return {"--corpus",         corpus,
          "--out-dir",        out_dir,
          "--max-iters",      std::to_string(max_iters),
          "--n-head",         "2",
          "--n-embd",         "16",
          "--eval-interval",  "5",
          "--log-interval",   "1",
          "--warmup-iters",   "2",
          "--lr-decay-iters", "20",
          "--learning-rate",  "0.01",
          "--dropout",        "0.1",
          "--tokenizer",      "char"};
}

// And what train-gpt alone is told.
inline Args tiny_run(const std::filesystem::path& corpus, const std::filesystem::path& out_dir,
                     int max_iters) {
  return tiny_args(corpus, out_dir, max_iters) +
         Args{"--preset",     "char-cpu", "--n-layer",    "2", "--block-size", "16",
              "--batch-size", "4",        "--eval-iters", "2", "--no-sample"};
}

// And train-seq2seq.
inline Args tiny_pair_run(const std::filesystem::path& corpus, const std::filesystem::path& out_dir,
                          int max_iters) {
  return tiny_args(corpus, out_dir, max_iters) + Args{"--n-layer",    "1", "--n-hidden",   "24",
                                                      "--block-size", "8", "--batch-size", "8",
                                                      "--eval-iters", "1", "--no-sample"};
}

inline Args resume_run(const std::filesystem::path& out_dir, int max_iters) {
  return {"--init-from", "resume", "--out-dir", out_dir, "--max-iters", std::to_string(max_iters)};
}

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

// A run of `iters` steps on a tiny text.
struct TinyRun : CorpusAndRun {
  explicit TinyRun(int iters, const Args& more = {}) : CorpusAndRun("text.txt", tiny_text()) {
    check_ended_well(train(tiny_run(corpus, run, iters) + more));
  }
};

// The same on tiny pairs.
struct TinyPairRun : CorpusAndRun {
  explicit TinyPairRun(int iters, const Args& more = {}) : CorpusAndRun("pairs.tsv", tiny_pairs()) {
    check_ended_well(train_pairs(tiny_pair_run(corpus, run, iters) + more));
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

// Whether two runs have come to the same weights, by the same way.
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
