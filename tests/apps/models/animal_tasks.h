#pragma once

// A task of two made-up items, and a run on the characters of these.

#include <nlohmann/json.hpp>
#include <sstream>

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
