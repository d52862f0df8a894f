#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "tapegrad/autograd/formats/safetensors.h"
#include "tapegrad/tests/apps/parsed.h"
#include "tapegrad/tests/apps/tiny_runs.h"
#include "tapegrad/tests/autograd/support.h"

namespace fs = std::filesystem;
using namespace tapegrad;
using tapegrad::testing::same_bits;

// Of other words, in characters that tiny_text() has.
inline std::string other_text() {
  std::string text;
  for (int i = 0; i < 120; ++i) {
    text += "a dog sat on a cat at " + std::to_string(7 * i) + ".\n";
  }
  return text;
}

inline const TinyRun& base() {
  static const TinyRun run(10);
  return run;
}

// A run that starts from the base, on another text.
struct Tuned {
  TempFolder folder;
  fs::path corpus = folder.put("other.txt", other_text()), run = folder / "run";

  Args args(int iters, const Args& more = {}, const fs::path& from = base().run) const {
    return Args{"--init-from",      from,   "--corpus",        corpus,
                "--out-dir",        run,    "--max-iters",     std::to_string(iters),
                "--learning-rate",  "0.01", "--warmup-iters",  "2",
                "--lr-decay-iters", "20",   "--eval-interval", "5",
                "--log-interval",   "1",    "--batch-size",    "4",
                "--eval-iters",     "2",    "--no-sample"} +
           more;
  }
  Result train(int iters, const Args& more = {}, const fs::path& from = base().run) const {
    return ::train(args(iters, more, from));
  }
  void check_refused(const Args& more, int code, const std::string& text) const {
    check_unparsed(args(1, more), code, text);
  }
};

inline std::map<std::string, Tensor> weights(const fs::path& run,
                                             const std::string& file = "model.safetensors") {
  return load_safetensors((run / file).string()).tensors;
}

inline nlohmann::json config_of(const fs::path& run) {
  return nlohmann::json::parse(TempFolder::get(run / "config.json"));
}

inline double loss_of(const fs::path& run, const fs::path& text) {
  const Result r = run_program("evaluate", {"--model", run, text, "--json"});
  check_ended_well(r);
  return nlohmann::json::parse(r.out).at("loss");
}

inline std::string sample(const fs::path& run) {
  const Result r =
      run_program("sample-text", {"--model", run, "--greedy", "--max-new-tokens", "30"});
  check_ended_well(r);
  return r.out;
}

inline const Args kLora = {"--lora-rank", "2", "--lora-alpha", "4"};
