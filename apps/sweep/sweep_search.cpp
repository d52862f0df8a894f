#include "tapegrad/apps/sweep/sweep_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "tapegrad/apps/cli/option_text.h"
#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/base/terminal.h"

namespace tapegrad::sweep {
namespace {

class OptionKinds : public OptionTable {
 public:
  explicit OptionKinds(OptionSchema options) { options.describe(*this); }

  OptionKind of(const std::string& name) const {
    if (const auto it = kinds_.find(name); it != kinds_.end()) return it->second;
    std::vector<std::string> names;
    for (const auto& [known, kind] : kinds_) names.push_back("--" + known);
    const std::string meant = cli::nearest("--" + name, names);
    cli::usage_error("--vary {0}: tapegrad train has no option --{0}{1}", name,
                     meant.empty() ? "" : fmt::format("; did you mean {}?", meant.substr(2)));
  }

 private:
  void visit(std::string_view name, const Member& member, std::string_view,
             const Rule& rule) override {
    using Type = Member::Type;
    if (!rule.option) return;
    const Type type = member.type();
    const bool whole = type == Type::whole32 || type == Type::whole64 || type == Type::unsigned64;
    kinds_[cli::option_name(name).substr(2)] = whole                ? OptionKind::whole
                                               : type == Type::real ? OptionKind::real
                                                                    : OptionKind::other;
  }

  std::map<std::string, OptionKind> kinds_;
};

auto first_range(const std::vector<VariedOption>& options) {
  return std::find_if_not(options.begin(), options.end(),
                          [](const VariedOption& v) { return v.is_list(); });
}

std::vector<Values> drawn_values(const SearchOptions& o, const std::vector<VariedOption>& options) {
  // After so many in a row that are known, hardly any is new: each of 999 would be drawn 20 times.
  constexpr int most_known = 20'000;
  const auto count = static_cast<std::size_t>(o.runs.value_or(kDrawnRuns));
  std::vector<Values> values;
  std::set<Values> known;
  std::size_t index = 0;
  for (int in_a_row = 0; values.size() < count && in_a_row < most_known; ++in_a_row) {
    const Values drawn = draw(options, o.seed, index++);
    if (!known.insert(drawn).second) continue;
    values.push_back(drawn);
    in_a_row = 0;
  }
  if (values.size() < count) {
    print_error(fmt::format("note: found only {} different combinations of values, and not {}\n",
                            values.size(), count));
  }
  return values;
}

}  // namespace

std::vector<VariedOption> varied_options(const SearchOptions& o, OptionSchema training) {
  const OptionKinds kinds(training);
  std::vector<VariedOption> options;
  for (const std::string& text : o.vary) {
    VariedOption next = parse_varied(text, [&](const auto& name) { return kinds.of(name); });
    const std::string& name = next.name;
    for (const VariedOption& other : options) {
      if (other.name == name) cli::usage_error("--vary {}: it is there twice", name);
    }
    for (const char* same : {"max-minutes", "out-dir", "threads"}) {
      if (name == same) cli::usage_error("--vary {0}: the sweep decides --{0}", name);
    }
    options.push_back(next);
  }
  return options;
}

bool draws(const SearchOptions& o, const std::vector<VariedOption>& options) {
  return o.search == Search::random ||
         (o.search != Search::grid && first_range(options) != options.end());
}

std::vector<Values> values_of(const SearchOptions& o, const std::vector<VariedOption>& options) {
  if (draws(o, options)) return drawn_values(o, options);
  const auto range = first_range(options);
  if (range != options.end()) {
    cli::usage_error("--search grid needs lists, and --vary {} has a range", range->name);
  }
  const std::size_t all = combinations(options);
  if (!o.runs && all > static_cast<std::size_t>(kMostRuns)) {
    cli::usage_error("there are {} combinations: give --runs, {} at most", all, kMostRuns);
  }
  return grid(options, static_cast<std::size_t>(o.runs.value_or(kMostRuns)));
}

}  // namespace tapegrad::sweep
