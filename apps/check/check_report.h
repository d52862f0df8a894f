#pragma once

#include <string>
#include <vector>

#include "tapegrad/autograd/check/gradcheck.h"

namespace tapegrad::checks {

struct ReportOptions {
  std::string filter;    // only names that have this in them
  bool verbose = false;  // every check, not only those that failed
  GradientCheckOptions check;
};

// One line of the table: what is checked, and the errors found.
struct Row {
  std::string name, shapes;
  std::vector<GradientCheck> first, second;
};

// Prints the table of gradient-check as it grows, and counts.
class CheckReport {
 public:
  // The options must live as long as this.
  explicit CheckReport(const ReportOptions& options) : options_(options) {}

  const ReportOptions& options() const { return options_; }
  bool wants(const std::string& name) const;
  // Begins a part of the table. Its heading is printed with its first row.
  void section(const std::string& title, const std::string& what, bool two_orders);
  void add(const Row& row);
  // Prints the summary and returns the exit code. UsageError if there was no row.
  int finish() const;

 private:
  const ReportOptions& options_;
  std::string pending_;  // heading
  bool two_orders_ = false;
  std::size_t rows_ = 0, checks_ = 0, wrong_ = 0;
  double worst_ = 0;
};

}  // namespace tapegrad::checks
