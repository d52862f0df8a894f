#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tapegrad/apps/evaluate/items/item_lines.h"
#include "tapegrad/apps/evaluate/items/python_random.h"

namespace tapegrad::evaluation {

// The examples that stand before the questions of a task: the first ones of a file, or those that
// lm-evaluation-harness draws from it, with one generator for all items in their order. A task with
// `fewshot_same` has a generator for each value of that key, as the harness has a task for each.
class Examples {
 public:
  // The task must outlive it.
  explicit Examples(const Task& task);

  // The examples of the next item, none of which is the item itself; they are valid until the next
  // call. Error if there are too few of them.
  std::vector<const Item*> shown(const ItemLine& line);

 private:
  static constexpr std::uint32_t kFewshotSeed = 1234;  // the harness's
  struct Candidate {
    std::string text;
    std::int64_t number;
    std::optional<ItemLine> line = {};  // read when it is first shown
  };
  struct Group {
    std::vector<Candidate> candidates = {};
    PythonRandom random{kFewshotSeed};
  };

  const ItemLine& line_of(Candidate& candidate);

  const Task& task_;
  std::filesystem::path path_;
  bool same_file_ = false;
  std::map<std::string, Group> groups_;
};

}  // namespace tapegrad::evaluation
