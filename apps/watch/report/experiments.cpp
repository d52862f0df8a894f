#include "tapegrad/apps/watch/report/experiments.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <map>
#include <set>

#include "tapegrad/base/text/words.h"

namespace tapegrad::watch {
namespace {

constexpr const char* kSeed = "seed";
using Values = std::vector<std::optional<std::string>>;

struct Result {
  const char *name, *for_people;
  bool is_step = false;
};
constexpr std::array<Result, 5> kResults = {{{"best_val_loss", "best val loss"},
                                             {"best_iteration", "at step", true},
                                             {"train_loss", "train loss there"},
                                             {"final_val_loss", "final val loss"},
                                             {"bits_per_byte", "bits per byte"}}};
using Results = std::array<std::optional<double>, kResults.size()>;

std::optional<double> last_of(const History& history, const std::string& name) {
  const auto found = history.series().find(name);
  if (found == history.series().end() || found->second.size() == 0) return std::nullopt;
  return found->second[found->second.size() - 1].value;
}

Results results_of(const RunFiles& run) {
  const History& history = run.history();
  const auto& best = history.best();
  if (!best) return {};
  return {best->val_loss, static_cast<double>(best->iteration), best->train_loss,
          last_of(history, "final_val_loss"), last_of(history, "bits_per_byte")};
}

// The values of one run in all rows.
Values values_of(const std::vector<OptionRow>& rows, std::size_t run) {
  Values values;
  for (const OptionRow& row : rows) values.push_back(row.values[run]);
  return values;
}

std::size_t kinds(const std::vector<OptionRow>& rows, std::size_t runs) {
  std::set<Values> all;
  for (std::size_t i = 0; i < runs; ++i) all.insert(values_of(rows, i));
  return all.size();
}

struct Spread {
  double mean = 0, deviation = 0;  // the latter of a sample: n - 1
};

// Nothing if a run has no such result.
std::optional<Spread> spread(const std::vector<Results>& runs, std::size_t result) {
  Spread s;
  const auto n = static_cast<double>(runs.size());
  for (const Results& run : runs) {
    if (!run[result]) return std::nullopt;
    s.mean += *run[result] / n;
  }
  for (const Results& run : runs) s.deviation += std::pow(*run[result] - s.mean, 2);
  s.deviation = runs.size() > 1 ? std::sqrt(s.deviation / (n - 1)) : 0;
  return s;
}

std::string number(double value, bool is_step) {
  return is_step ? fmt::format("{:.0f}", value) : loss_text(value);
}

void add_cells(std::vector<std::string>& row, const std::optional<Spread>& s, std::size_t runs,
               bool is_step, bool apart) {
  std::string deviation;
  if (s && runs > 1 && apart) deviation = fmt::format("{:.9g}", s->deviation);
  if (s && runs > 1 && !apart) {
    // As many digits behind the point as the mean has.
    const bool small = !is_step && s->mean < 1e-3;
    deviation = " ± " + (small ? loss_text(s->deviation)
                               : fmt::format("{:.{}f}", s->deviation, is_step ? 0 : 4));
  }
  if (apart) {
    row.push_back(s ? fmt::format("{:.9g}", s->mean) : "");
    row.push_back(deviation);
  } else {
    row.push_back(s ? number(s->mean, is_step) + deviation : "–");
  }
}

}  // namespace

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : json_text(value);
}

std::vector<OptionRow> option_rows(const Runs& runs, const std::string& section) {
  std::vector<OptionRow> rows;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto found = runs[i]->options().find(section);
    if (found == runs[i]->options().end()) continue;
    for (const auto& [name, value] : found->items()) {
      auto row = std::find_if(rows.begin(), rows.end(),
                              [&, &key = name](const OptionRow& r) { return r.name == key; });
      if (row == rows.end()) row = rows.insert(row, {name, Values(runs.size())});
      row->values[i] = text_of(value);
    }
  }
  return rows;
}

std::vector<OptionRow> differing_options(const Runs& runs, bool seeds) {
  std::set<std::string> names;
  for (const RunFiles* run : runs) {
    for (const auto& [name, section] : run->options().items()) names.insert(name);
  }
  std::vector<std::string> sections(names.begin(), names.end());
  std::stable_partition(sections.begin(), sections.end(),
                        [](const std::string& name) { return name == "optimizer"; });
  std::vector<OptionRow> all, told, seed;
  for (const std::string& section : sections) {
    for (OptionRow& row : option_rows(runs, section)) {
      const Values& values = row.values;
      const bool same = std::all_of(values.begin(), values.end(),
                                    [&](const auto& value) { return value == values.front(); });
      // block_size stands in two sections.
      const bool known = std::any_of(all.begin(), all.end(), [&](const OptionRow& other) {
        return other.name == row.name && other.values == values;
      });
      if (same || known) continue;
      if (row.name == kSeed) {
        seed.push_back(std::move(row));
        continue;
      }
      const auto first = std::find_if(values.begin(), values.end(),
                                      [](const auto& value) { return value.has_value(); });
      if (std::any_of(first, values.end(),
                      [&](const auto& value) { return value && value != *first; })) {
        told.push_back(row);
      }
      all.push_back(std::move(row));
    }
  }
  for (auto* rows : {&all, &told}) {
    std::stable_partition(rows->begin(), rows->end(),
                          [](const OptionRow& row) { return row.name == "optimizer"; });
  }
  auto& rows = kinds(told, runs.size()) == kinds(all, runs.size()) ? told : all;
  if (seeds) rows.insert(rows.end(), seed.begin(), seed.end());
  return rows;
}

Experiments experiments_of(const Runs& runs, bool apart) {
  Experiments table;
  Runs counted;
  for (const RunFiles* run : runs) {
    if (run->history().best()) {
      counted.push_back(run);
      if (run->state() == RunState::ended) continue;
      table.notes.push_back(fmt::format(
          "{}: {}", run->name(),
          run->state() == RunState::training ? "still in training" : name_of(run->state())));
    } else {
      table.notes.push_back(run->name() + ": left out, it has no validation loss");
    }
  }
  check(!counted.empty(), "none of the {} runs has a validation loss", runs.size());
  const std::vector<OptionRow> options = differing_options(counted, false);
  const std::vector<OptionRow> seeds = differing_options(counted);
  struct Group {
    std::vector<Results> results = {};
    std::map<Values, std::string> seeds = {};  // the first run of each
  };
  std::map<Values, Group> groups;
  for (std::size_t i = 0; i < counted.size(); ++i) {
    Group& group = groups[values_of(options, i)];
    group.results.push_back(results_of(*counted[i]));
    const auto [first, is_new] = group.seeds.emplace(values_of(seeds, i), counted[i]->name());
    if (is_new) continue;
    table.notes.push_back(
        fmt::format("{} has the seed of {}: both are counted", counted[i]->name(), first->second));
  }
  for (const OptionRow& option : options) table.head.push_back(option.name);
  table.head.push_back("seeds");
  std::array<bool, kResults.size()> shown{};
  for (const auto& [values, group] : groups) {
    for (std::size_t k = 0; k < shown.size(); ++k) {
      shown[k] = shown[k] || spread(group.results, k).has_value();
    }
  }
  for (std::size_t k = 0; k < shown.size(); ++k) {
    if (!shown[k]) continue;
    const std::string name = apart ? kResults[k].name : kResults[k].for_people;
    table.head.push_back(apart ? name + "_mean" : name);
    if (apart) table.head.push_back(name + "_sd");
  }
  std::multimap<double, std::vector<std::string>> sorted;
  for (const auto& [values, group] : groups) {
    std::vector<std::string> row;
    const std::size_t n = group.results.size();
    for (const auto& value : values) row.push_back(value.value_or(apart ? "" : "–"));
    row.push_back(std::to_string(n));
    for (std::size_t k = 0; k < shown.size(); ++k) {
      if (shown[k]) add_cells(row, spread(group.results, k), n, kResults[k].is_step, apart);
    }
    table.repeated = table.repeated || n > 1;
    sorted.emplace(spread(group.results, 0)->mean, std::move(row));
  }
  for (auto& [loss, row] : sorted) table.rows.push_back(std::move(row));
  return table;
}

}  // namespace tapegrad::watch
