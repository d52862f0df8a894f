#pragma once

// A task of two made-up items, and a run on the characters of these.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tapegrad/autograd/ops.h"
#include "tapegrad/run/models/model.h"
#include "tapegrad/tests/apps/tiny_runs.h"

inline constexpr const char* kAnimals = R"({
  "doc_to_text": "the {{ animal }}",
  "doc_to_choice": "ends",
  "doc_to_target": "{{ label }}"
})";
inline constexpr const char* kAnimalItems =
    "{\"id\": \"a\", \"animal\": \"cat\", \"ends\": [\"sat on mat\", \"ate\", \"on\"], \"label\": "
    "0}\n"
    "\n"
    "{\"animal\": \"dog \", \"ends\": [\"sat\", \"ate.\"], \"label\": \"ate.\"}\r\n";

// A run on the characters of the items.
inline const TinyRun& animals() {
  static const TinyRun run(20, {"--block-size", "40"});
  return run;
}

struct TaskFiles {
  TempFolder folder;
  std::string task = folder.put("animals.json", kAnimals);
  std::string items = folder.put("items.jsonl", kAnimalItems);
  Result evaluate(const Args& more = {}) const {
    return run_program("evaluate", Args{animals().run, "--task", task, "--items", items} + more);
  }
  // Lines of --per-item.
  std::vector<nlohmann::json> lines(const Args& more = {}) const {
    check_ended_well(evaluate(more + Args{"--per-item", folder / "lines.jsonl", "--overwrite"}));
    std::istringstream text(TempFolder::get(folder / "lines.jsonl"));
    std::vector<nlohmann::json> all;
    for (std::string line; std::getline(text, line);) all.push_back(nlohmann::json::parse(line));
    CHECK(all.at(0).at("model") == animals().run.string());
    all.erase(all.begin());
    return all;
  }
};

// The log-likelihood of a continuation by one forward pass without caches.
inline double plain_logprob(const tapegrad::run::TextModel& model, const std::string& context,
                            const std::string& continuation) {
  const auto before = model.tokenizer.encode(context);
  auto tokens = model.tokenizer.encode(context + continuation);
  const std::int64_t scored = std::ssize(tokens) - std::ssize(before);
  const std::int64_t cut =
      std::max<std::int64_t>(std::ssize(tokens) - 1 - model.gpt.config.block_size, 0);
  tokens.erase(tokens.begin(), tokens.begin() + cut);
  const std::int64_t n = std::ssize(tokens);
  const tapegrad::Tensor log_p = log_softmax(
      model.gpt(tapegrad::Tensor::from(std::vector(tokens.begin(), tokens.end() - 1), {1, n - 1})),
      -1);
  double sum = 0;
  for (std::int64_t t = n - scored; t < n; ++t) {
    sum += log_p.at((t - 1) * log_p.dim(2) + tokens[static_cast<std::size_t>(t)]);
  }
  return sum;
}
