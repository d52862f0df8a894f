#include "tapegrad/apps/check/check_report.h"

#include <algorithm>
#include <cstdio>

#include "tapegrad/apps/cli/run_main.h"

namespace tapegrad::checks {
namespace {

double worst_error(const std::vector<GradientCheck>& checks) {
  double worst = 0;
  for (const GradientCheck& check : checks) worst = std::max(worst, check.error);
  return worst;
}

}  // namespace

bool CheckReport::wants(const std::string& name) const {
  return name.find(options_.filter) != std::string::npos;
}

void CheckReport::section(const std::string& title, const std::string& what, bool two_orders) {
  pending_ = fmt::format("{}\n\n  {:<29} {:<43} {:>10}{}  verdict\n", title, what, "shapes",
                         two_orders ? "1st order" : "error", two_orders ? "  2nd order" : "");
  two_orders_ = two_orders;
}

void CheckReport::add(const Row& row) {
  if (!pending_.empty()) fmt::print("{}{}", rows_ == 0 ? "" : "\n", pending_);
  pending_.clear();
  ++rows_;
  std::vector<GradientCheck> all = row.first;
  all.insert(all.end(), row.second.begin(), row.second.end());
  const auto wrong = std::count_if(all.begin(), all.end(), [](const auto& c) { return !c.passed; });
  fmt::print("  {:<29} {:<43} {:>10.1e}{}  {}\n", row.name, row.shapes, worst_error(row.first),
             two_orders_ ? fmt::format(" {:>10.1e}", worst_error(row.second)) : "",
             wrong == 0 ? "ok" : "WRONG");
  for (const GradientCheck& check : all) {
    if (options_.verbose || !check.passed) fmt::print("      {}\n", check.str());
  }
  std::fflush(stdout);
  checks_ += all.size();
  wrong_ += static_cast<std::size_t>(wrong);
  worst_ = std::max(worst_, worst_error(all));
}

int CheckReport::finish() const {
  if (rows_ == 0) {
    cli::usage_error("--filter: no op or parameter has '{}' in its name", options_.filter);
  }
  fmt::print("\n{} gradients checked, {}; the largest error is {:.1e}; up to {:g} is allowed.\n",
             checks_, wrong_ == 0 ? "all right" : fmt::format("{} WRONG", wrong_), worst_,
             options_.check.tolerance);
  return wrong_ == 0 ? 0 : 1;
}

}  // namespace tapegrad::checks
