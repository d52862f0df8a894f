#include "tapegrad/apps/evaluate/evaluate_tasks.h"

#include <algorithm>
#include <cmath>

#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/base/interrupt.h"
#include "tapegrad/base/stopwatch.h"
#include "tapegrad/base/terminal.h"
#include "tapegrad/base/text/words.h"
#include "tapegrad/data/jinja/characters.h"

namespace tapegrad::evaluation {
namespace {

// An empty choice has no length to divide by, and is chosen last.
std::size_t likeliest(const std::vector<double>& logprobs,
                      const std::vector<std::size_t>& lengths) {
  std::vector<double> means;
  for (std::size_t i = 0; i < logprobs.size(); ++i) {
    means.push_back(lengths[i] == 0 ? -HUGE_VAL : logprobs[i] / static_cast<double>(lengths[i]));
  }
  return static_cast<std::size_t>(std::max_element(means.begin(), means.end()) - means.begin());
}

std::string line_of(const ChoiceTask& task, const ChoiceItem& item,
                    const std::vector<double>& logprobs,
                    const std::array<std::size_t, kMetrics.size()>& chosen) {
  Json line = {{"task", task.name}, {"line", item.line}};
  if (item.id) line["id"] = *item.id;
  line["logprobs"] = logprobs;
  for (std::size_t m = 0; m < kMetrics.size(); ++m) line[std::string(kMetrics[m])] = chosen[m];
  line["right"] = item.right;
  return json_text(line) + "\n";
}

TaskResult evaluate_task(const run::TextModel& model, CacheType cache, const ChoiceTask& task,
                         const std::vector<ChoiceItem>& items, std::string& per_item) {
  TaskResult result{
      .name = task.name, .all_items = std::ssize(items), .num_fewshot = task.num_fewshot};
  Terminal terminal;
  ChoiceScorer scorer(model, cache);
  const Stopwatch watch;
  for (const ChoiceItem& item : items) {
    if (interrupted()) break;
    const std::vector<double> logprobs = scorer.score(item, task.target_delimiter);
    const auto chosen = chosen_of(item, logprobs);
    for (std::size_t m = 0; m < kMetrics.size(); ++m) result.right[m] += chosen[m] == item.right;
    per_item += line_of(task, item, logprobs, chosen);
    const double share = static_cast<double>(++result.items) / static_cast<double>(items.size());
    if (!terminal.wants_progress()) continue;
    terminal.working(fmt::format("{}: acc {:.4f}, {}", cli::printable(task.name), result.share(0),
                                 progress_text(share, watch.seconds() * (1 / share - 1))));
  }
  result.seconds = watch.seconds();
  result.tokens = scorer.tokens();
  return result;
}

}  // namespace

std::array<std::size_t, kMetrics.size()> chosen_of(const ChoiceItem& item,
                                                   const std::vector<double>& logprobs) {
  std::vector<std::size_t> characters, bytes;
  for (const std::string& choice : item.choices) {
    characters.push_back(data::jinja::character_count(choice));
    bytes.push_back(choice.size());
  }
  const std::vector<std::size_t> ones(item.choices.size(), 1);
  return {likeliest(logprobs, ones), likeliest(logprobs, characters), likeliest(logprobs, bytes)};
}

double TaskResult::share(std::size_t metric) const {
  return static_cast<double>(right[metric]) / static_cast<double>(items);
}

std::optional<double> TaskResult::error(std::size_t metric) const {
  if (items < 2) return std::nullopt;
  const double p = share(metric);
  return std::sqrt(p * (1 - p) / static_cast<double>(items - 1));
}

std::vector<TaskResult> evaluate_tasks(const run::TextModel& model, CacheType cache,
                                       const std::vector<ChoiceTask>& tasks,
                                       const std::vector<std::vector<ChoiceItem>>& items,
                                       std::string& per_item) {
  catch_interrupts();
  std::vector<TaskResult> results;
  for (std::size_t i = 0; i < tasks.size() && !interrupted(); ++i) {
    TaskResult result = evaluate_task(model, cache, tasks[i], items[i], per_item);
    if (result.items > 0) results.push_back(std::move(result));
  }
  return results;
}

std::string table_of(const std::vector<TaskResult>& results) {
  std::size_t width = 4;
  for (const TaskResult& r : results) width = std::max(width, cli::printable(r.name).size());
  std::string table = fmt::format("{:<{}}  {:>7}  {:>5}", "task", width, "items", "shots");
  for (const std::string_view metric : kMetrics) table += fmt::format("  {:<15}", metric);
  table.erase(table.find_last_not_of(' ') + 1);
  for (const TaskResult& r : results) {
    table += fmt::format("\n{:<{}}  {:>7}  {:>5}", cli::printable(r.name), width, grouped(r.items),
                         r.num_fewshot);
    for (std::size_t m = 0; m < kMetrics.size(); ++m) {
      const auto error = r.error(m);
      table +=
          fmt::format("  {:.4f} ± {:<6}", r.share(m), error ? fmt::format("{:.4f}", *error) : "–");
    }
    if (r.items < r.all_items) table += fmt::format("  partial: of {} items", grouped(r.all_items));
  }
  return table + "\n";
}

Json json_of(const std::vector<TaskResult>& results) {
  Json all = Json::array();
  for (const TaskResult& r : results) {
    Json json = {{"task", r.name},
                 {"items", r.items},
                 {"partial", r.items < r.all_items},
                 {"num_fewshot", r.num_fewshot}};
    for (std::size_t m = 0; m < kMetrics.size(); ++m) {
      const std::string name(kMetrics[m]);
      json[name] = r.share(m);
      json[name + "_stderr"] = tapegrad::json_of(r.error(m));
    }
    json["tokens"] = r.tokens;
    json["seconds"] = r.seconds;
    all.push_back(std::move(json));
  }
  return all;
}

}  // namespace tapegrad::evaluation
