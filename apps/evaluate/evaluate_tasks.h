#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/apps/evaluate/items/item_file.h"
#include "tapegrad/apps/evaluate/items/metrics.h"
#include "tapegrad/apps/evaluate/likelihoods.h"

namespace tapegrad::evaluation {

struct TaskResult {
  std::string name;
  std::int64_t all_items = 0, num_fewshot = 0;  // all: fewer were seen after a signal
  std::vector<Metric> metrics = {};
  std::int64_t stored = 0;  // items that were in the file of an earlier call
  double seconds = 0;       // of the others
  std::int64_t tokens = 0;

  std::int64_t items() const { return metrics.empty() ? 0 : std::ssize(metrics.front().values); }
};

// The tasks of a call, and their items.
struct Questions {
  std::vector<Task> tasks = {};
  std::vector<std::vector<Item>> items = {};
};

// What answers questions.
struct Answering {
  const run::TextModel& model;
  CacheType cache = CacheType::f32;
  std::vector<data::Token> ends = {};  // the tokens that end a text which it writes
};

// Scores the items of each task that are not in `file`, to which it adds them, and shows progress
// on a terminal. A signal or an error ends it early: `results` then has the items so far, and no
// task without items.
void evaluate_tasks(const Answering& answering, const Questions& questions, ItemFile& file,
                    std::vector<TaskResult>& results);
// The results of a file that has all items. Error, naming the first one that it does not have.
std::vector<TaskResult> stored_results(const Questions& questions, const StoredItems& stored);
// Of tasks that both have, keeps the items that both have: a signal may have ended one of them
// early.
void keep_common(std::vector<TaskResult>& here, std::vector<TaskResult>& there);

}  // namespace tapegrad::evaluation
