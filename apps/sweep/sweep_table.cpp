#include "tapegrad/apps/sweep/sweep_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tapegrad/apps/events/tables.h"
#include "tapegrad/base/text/words.h"

namespace tapegrad::sweep {
namespace {

constexpr double kMinute = 60;

events::TableRow head(const SweepRecord& record, const std::string& loss) {
  events::TableRow row = {"run", loss};
  row.insert(row.end(), record.names.begin(), record.names.end());
  row.insert(row.end(), {"steps", "minutes", "error"});
  return row;
}

events::TableRow row_of(const RunRecord& run, const std::string& loss, const std::string& error) {
  events::TableRow row = {run.name, std::isnan(run.loss()) ? "" : loss};
  row.insert(row.end(), run.values.begin(), run.values.end());
  row.insert(row.end(),
             {std::to_string(run.steps), fmt::format("{:.2f}", run.seconds / kMinute), error});
  return row;
}

}  // namespace

std::vector<const RunRecord*> ranked(const SweepRecord& record) {
  std::vector<const RunRecord*> runs;
  for (const RunRecord& run : record.runs) runs.push_back(&run);
  std::stable_sort(runs.begin(), runs.end(), [](const RunRecord* a, const RunRecord* b) {
    const bool no_a = std::isnan(a->loss()), no_b = std::isnan(b->loss());
    if (no_a != no_b) return no_b;
    if (!no_a && a->losses.size() != b->losses.size()) return a->losses.size() > b->losses.size();
    if (!no_a) return a->loss() < b->loss();
    return !a->error.empty() && b->error.empty();
  });
  return runs;
}

std::string table_text(const SweepRecord& record) {
  std::vector<events::TableRow> rows;
  for (const RunRecord* run : ranked(record)) {
    std::string error = short_error(*run);
    if (error.empty() && run->losses.empty()) error = "not done";
    rows.push_back(row_of(*run, loss_text(run->loss()), error));
  }
  return events::text_table(head(record, "val loss"), rows);
}

std::string short_error(const RunRecord& run) {
  constexpr std::size_t most = 100;
  const std::string sentence = run.error.substr(0, run.error.find(". "));
  if (sentence.size() <= most) return sentence;
  return sentence.substr(0, sentence.rfind(' ', most)) + " …";
}

std::string table_csv(const SweepRecord& record) {
  std::vector<events::TableRow> rows;
  for (const RunRecord* run : ranked(record)) {
    rows.push_back(row_of(*run, fmt::format("{:.9g}", run->loss()), run->error));
  }
  return events::csv_table(head(record, "final_val_loss"), rows);
}

std::string described(const SweepRecord& record, const RunRecord& run) {
  std::string text;
  for (std::size_t i = 0; i < record.names.size(); ++i) {
    text += fmt::format("{}{}={}", i > 0 ? ", " : "", record.names[i], run.values[i]);
  }
  return text;
}

std::vector<std::string> value_args(const SweepRecord& record, const RunRecord& run) {
  std::vector<std::string> args;
  for (std::size_t i = 0; i < record.names.size(); ++i) {
    args.push_back(fmt::format("--{}={}", record.names[i], run.values[i]));
  }
  return args;
}

}  // namespace tapegrad::sweep
