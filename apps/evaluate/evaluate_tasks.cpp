#include "tapegrad/apps/evaluate/evaluate_tasks.h"

#include <algorithm>
#include <optional>

#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/apps/evaluate/generated_texts.h"
#include "tapegrad/base/interrupt.h"
#include "tapegrad/base/stopwatch.h"
#include "tapegrad/base/terminal.h"
#include "tapegrad/base/text/words.h"

namespace tapegrad::evaluation {
namespace {

void add_scores(TaskResult& result, const std::vector<Score>& scores) {
  if (result.metrics.empty()) {
    for (const Score& score : scores) result.metrics.push_back({.name = score.metric});
  }
  for (std::size_t m = 0; m < scores.size(); ++m) {
    result.metrics[m].values.push_back(scores[m].value);
  }
}

TaskResult begun(const Task& task, const std::vector<Item>& items) {
  return {.name = task.name, .all_items = std::ssize(items), .num_fewshot = task.num_fewshot};
}

// The outputs of a model for items, in their order.
class Outputs {
 public:
  Outputs(const Answering& answering, const Task& task, std::vector<const Item*> items)
      : items_(items), scorer_(answering.model, answering.cache) {
    if (task.output != OutputType::generate_until || items.empty()) return;
    texts_.emplace(answering.model, answering.cache, task, std::move(items), answering.ends);
  }
  // None if a signal comes.
  std::optional<ItemOutput> next() {
    if (interrupted()) return std::nullopt;
    return texts_ ? texts_->next() : scorer_.score(*items_[at_++]);
  }
  std::int64_t tokens() const { return texts_ ? texts_->tokens() : scorer_.tokens(); }

 private:
  std::vector<const Item*> items_;
  std::size_t at_ = 0;
  LikelihoodScorer scorer_;
  std::optional<GeneratedTexts> texts_;
};

// What there is when an error ends it stays in `result`.
void evaluate_task(const Answering& answering, const Task& task, const std::vector<Item>& items,
                   ItemFile& file, TaskResult& result) {
  std::vector<std::optional<ItemOutput>> stored;
  std::vector<const Item*> open;
  for (const Item& item : items) {
    if (!stored.emplace_back(file.find(task, item))) open.push_back(&item);
  }
  result.stored = std::ssize(items) - std::ssize(open);
  Outputs outputs(answering, task, std::move(open));
  Terminal terminal;
  const Stopwatch watch;
  const auto count = [&] {
    result.seconds = watch.seconds();
    result.tokens = outputs.tokens();
  };
  std::int64_t done = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (stored[i]) {
      add_scores(result, scores_of(task, items[i], *stored[i]));
      continue;
    }
    const std::optional<ItemOutput> output = outputs.next();
    if (!output) break;
    count();
    file.add(task, items[i], *output);
    add_scores(result, scores_of(task, items[i], *output));
    const double share =
        static_cast<double>(++done) / static_cast<double>(result.all_items - result.stored);
    if (!terminal.wants_progress()) continue;
    const Metric& first = result.metrics.front();
    terminal.working(fmt::format("{}: {} {:.4f}, {}", cli::printable(task.name), first.name,
                                 first.value(),
                                 progress_text(share, watch.seconds() * (1 / share - 1))));
  }
  count();
}

}  // namespace

void evaluate_tasks(const Answering& answering, const Questions& questions, ItemFile& file,
                    std::vector<TaskResult>& results) {
  catch_interrupts();
  for (std::size_t i = 0; i < questions.tasks.size() && !interrupted(); ++i) {
    const Task& task = questions.tasks[i];
    TaskResult& result = results.emplace_back(begun(task, questions.items[i]));
    const auto drop_empty = [&] {
      if (result.items() == 0) results.pop_back();
    };
    try {
      evaluate_task(answering, task, questions.items[i], file, result);
    } catch (...) {
      drop_empty();
      throw;
    }
    drop_empty();
  }
}

std::vector<TaskResult> stored_results(const Questions& questions, const StoredItems& stored) {
  std::vector<TaskResult> results;
  for (std::size_t i = 0; i < questions.tasks.size(); ++i) {
    const Task& task = questions.tasks[i];
    TaskResult& result = results.emplace_back(begun(task, questions.items[i]));
    for (const Item& item : questions.items[i]) {
      add_scores(result, scores_of(task, item, stored.asked(task, item)));
    }
    result.stored = result.items();
  }
  return results;
}

void keep_common(std::vector<TaskResult>& here, std::vector<TaskResult>& there) {
  for (std::size_t i = 0; i < std::min(here.size(), there.size()); ++i) {
    const auto common = static_cast<std::size_t>(std::min(here[i].items(), there[i].items()));
    for (TaskResult* result : {&here[i], &there[i]}) {
      for (Metric& metric : result->metrics) metric.values.resize(common);
    }
  }
}

}  // namespace tapegrad::evaluation
