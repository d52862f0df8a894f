#include "tapegrad/apps/sweep/sweep_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tapegrad/apps/cli/option_text.h"
#include "tapegrad/apps/cli/run_main.h"

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

std::vector<Values> values_of(const SearchOptions& o, const std::vector<VariedOption>& options) {
  const auto is_list = [](const VariedOption& v) { return v.is_list(); };
  const auto range = std::find_if_not(options.begin(), options.end(), is_list);
  const bool draws =
      o.search == Search::random || (o.search != Search::grid && range != options.end());
  if (draws) {
    std::vector<Values> values;
    for (std::int64_t i = 0; i < o.runs.value_or(kDrawnRuns); ++i) {
      values.push_back(draw(options, o.seed, static_cast<std::size_t>(i)));
    }
    return values;
  }
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
