#pragma once

#include "tapegrad/tests/apps/program.h"

// Arguments of the training programs for runs that take no time.

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

// Arguments of both programs for a model and a run that take no time.
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

// The arguments of train-gpt alone.
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

// The same on the conversations of a file.
inline Args tiny_chat_run(const std::filesystem::path& chats, const std::filesystem::path& out_dir,
                          int max_iters) {
  Args args = tiny_run(chats, out_dir, max_iters) + Args{"--n-layer", "1", "--block-size", "64"};
  args[0] = "--chat";
  return args;
}

inline Args resume_run(const std::filesystem::path& out_dir, int max_iters) {
  return {"--init-from", "resume", "--out-dir", out_dir, "--max-iters", std::to_string(max_iters)};
}
