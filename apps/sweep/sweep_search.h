#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/apps/sweep/varied_options.h"
#include "tapegrad/base/option_schema.h"

namespace tapegrad::sweep {

enum class Search { grid, random, halving };
inline constexpr std::string_view kSearchNames[] = {"grid", "random", "halving"};
inline std::span<const std::string_view> names_of(Search) { return kSearchNames; }

// More runs would need longer names of folders.
inline constexpr std::int64_t kMostRuns = 999;
inline constexpr std::int64_t kDrawnRuns = 12;

// The values to try, as the command line has them.
struct SearchOptions {
  std::vector<std::string> vary = {};
  std::optional<Search> search = {};
  int eta = 3;
  std::optional<std::int64_t> runs = {};
  std::uint64_t seed = 1337;

  bool halves() const { return search == Search::halving; }

  template <class Self, class Table>
  static void describe(Self& o, Table& t) {
    t("vary", o.vary,
      "an option of tapegrad train and its values, n-layer=4,6, or its range, "
      "learning-rate=1e-3..1e-2; once for each option",
      {.value = "NAME=VALUES"});
    t("search", o.search,
      "grid: all combinations of lists; random: each value drawn by itself; halving: the same "
      "runs as without this option, all for a few steps, then the best third of them for three "
      "times as many, and so on up to --max-iters [grid, or random if there is a range]");
    t("eta", o.eta, "halving: keep one run of N, for N times the steps", {.least = 2, .most = 100});
    t("runs", o.runs, "number of runs; of a grid, the first ones [random: 12; grid: all]",
      {.least = 1, .most = kMostRuns});
    t("seed", o.seed,
      "seed of the values that are drawn; all runs train with the same seed, which -- --seed sets");
  }
};

// The options to vary, checked by the table of the options that training has. UsageError for one
// that is not in it, is there twice, or is the sweep's own.
std::vector<VariedOption> varied_options(const SearchOptions& o, OptionSchema training);

// True if the values are drawn.
bool draws(const SearchOptions& o, const std::vector<VariedOption>& options);

// The values of each run, no two the same. Of those that are drawn, the first ones do not depend on
// the number of runs; if nothing new is drawn any more, there are fewer runs, which stderr says.
std::vector<Values> values_of(const SearchOptions& o, const std::vector<VariedOption>& options);

}  // namespace tapegrad::sweep
