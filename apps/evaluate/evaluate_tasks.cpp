#include "tapegrad/apps/evaluate/evaluate_tasks.h"

#include "tapegrad/apps/cli/run_main.h"
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

TaskResult begun(const ChoiceTask& task, const std::vector<ChoiceItem>& items) {
  return {.name = task.name, .all_items = std::ssize(items), .num_fewshot = task.num_fewshot};
}

TaskResult evaluate_task(const run::TextModel& model, CacheType cache, const ChoiceTask& task,
                         const std::vector<ChoiceItem>& items, ItemFile& file) {
  TaskResult result = begun(task, items);
  Terminal terminal;
  ChoiceScorer scorer(model, cache);
  const Stopwatch watch;
  for (const ChoiceItem& item : items) {
    if (interrupted()) break;
    if (const auto stored = file.find(task, item)) {
      add_scores(result, scores_of(item, *stored));
      ++result.stored;
      continue;
    }
    const ItemOutput output = scorer.score(item, task.target_delimiter);
    add_scores(result, scores_of(item, output));
    file.add(task, item, output);
    if (!terminal.wants_progress()) continue;
    const auto done = static_cast<double>(result.items() - result.stored);
    const auto left = static_cast<double>(result.all_items - result.items());
    const double share = static_cast<double>(result.items()) / static_cast<double>(items.size());
    const Metric& first = result.metrics.front();
    terminal.working(fmt::format("{}: {} {:.4f}, {}", cli::printable(task.name), first.name,
                                 first.value(),
                                 progress_text(share, watch.seconds() * left / done)));
  }
  result.seconds = watch.seconds();
  result.tokens = scorer.tokens();
  return result;
}

}  // namespace

std::vector<TaskResult> evaluate_tasks(const run::TextModel& model, CacheType cache,
                                       const Questions& questions, ItemFile& file) {
  catch_interrupts();
  std::vector<TaskResult> results;
  for (std::size_t i = 0; i < questions.tasks.size() && !interrupted(); ++i) {
    TaskResult result = evaluate_task(model, cache, questions.tasks[i], questions.items[i], file);
    if (result.items() > 0) results.push_back(std::move(result));
  }
  return results;
}

std::vector<TaskResult> stored_results(const Questions& questions, const StoredItems& stored) {
  std::vector<TaskResult> results;
  for (std::size_t i = 0; i < questions.tasks.size(); ++i) {
    const ChoiceTask& task = questions.tasks[i];
    TaskResult& result = results.emplace_back(begun(task, questions.items[i]));
    for (const ChoiceItem& item : questions.items[i]) {
      const auto output = stored.find(task, item);
      check(output.has_value(), "{}: it does not have task {}, line {}, as it is in {}",
            stored.path().string(), task.name, item.line, item.where);
      add_scores(result, scores_of(item, *output));
    }
    result.stored = result.items();
  }
  return results;
}

}  // namespace tapegrad::evaluation
