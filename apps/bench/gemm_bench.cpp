#include "tapegrad/apps/bench/gemm_bench.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <thread>

#include "tapegrad/autograd/gemm/timed_gemm.h"
#include "tapegrad/base/internal/median.h"
#include "tapegrad/base/parallel.h"

namespace tapegrad::bench {
namespace {

// How a product is computed: by gemm(), or whole by a library with threads of its own.
struct Way {
  std::string name;
  GemmLibrary library;  // automatic: gemm()
  int threads;
};

std::vector<Way> ways() {
  const int all = num_threads();
  std::vector<Way> list = {{"gemm", GemmLibrary::automatic, all}};
  for (const GemmLibrary library : {GemmLibrary::openblas, GemmLibrary::onednn}) {
    const std::string name(name_of_enum(library));
    list.push_back({name + " 1", library, 1});
    if (all > 1) list.push_back({fmt::format("{} {}", name, all), library, all});
  }
  return list;
}

// Median seconds of each way; 0 where a library is not there. Each is tried for a while, then the
// next, three times, since the machine's speed changes. Between them is a pause: the threads of
// OpenMP go on turning for some milliseconds, and would take a processor from the next.
std::vector<double> measure(const GemmShape& shape, const std::vector<Way>& ways) {
  using namespace std::chrono_literals;
  constexpr double kSeconds = 0.04;
  TimedGemm product(shape);
  const bool small = shape.m * shape.n * shape.k < kUncutWork;  // of no use to several threads
  const auto seconds = [&](const Way& way) {
    return way.library == GemmLibrary::automatic
               ? product.seconds()
               : product.seconds(way.library, small ? 1 : way.threads).value_or(0);
  };
  std::vector<std::vector<double>> tries(ways.size());
  for (int round = 0; round < 3; ++round) {
    for (std::size_t w = 0; w < ways.size(); ++w) {
      std::this_thread::sleep_for(10ms);
      const int times = std::clamp(static_cast<int>(kSeconds / (seconds(ways[w]) + 1e-6)), 2, 500);
      for (int i = 0; i < times; ++i) tries[w].push_back(seconds(ways[w]));
    }
  }
  std::vector<double> medians;
  for (auto& list : tries) medians.push_back(median(std::move(list)));
  return medians;
}

struct Row {
  GemmShape shape;
  std::int64_t calls;
  double flops() const { return shape.flops() * static_cast<double>(calls); }
};

// The products of a step that are more than a thousandth of its work, the largest share first.
std::vector<Row> products_of(Trial& trial) {
  std::vector<Row> rows;
  double all = 0;
  {
    const GemmLog log;
    trial.step();
    for (const auto& [shape, calls] : log.counts()) rows.push_back({shape, calls});
  }
  for (const Row& row : rows) all += row.flops();
  std::erase_if(rows, [&](const Row& row) { return row.flops() < 1e-3 * all; });
  std::sort(rows.begin(), rows.end(),
            [](const Row& a, const Row& b) { return a.flops() > b.flops(); });
  return rows;
}

}  // namespace

void bench_gemm(const BenchCase& c, const BenchOptions& o) {
  Trial trial(c.model, c.B, c.T, {.recompute = o.recompute, .precision = o.dtype});
  const std::vector<Row> rows = products_of(trial);
  double all = 0;
  for (const Row& row : rows) all += row.flops();
  const std::vector<Way> columns = ways();
  fmt::print("{}: products of a step, {}, {} threads; GFLOP/s, N: as stored, T: transposed\n\n",
             c.name, gemm_description(o.dtype), num_threads());
  fmt::print("  {:<24} {:>6} {:>7}", "m×n×k", "calls", "share");
  for (const Way& way : columns) fmt::print(" {:>11}", way.name);
  fmt::print("\n");
  double by_gemm = 0, by_better = 0;
  for (const Row& row : rows) {
    const GemmShape& s = row.shape;
    const std::vector<double> seconds = measure(s, columns);
    const std::string name =
        fmt::format("{}{} {}×{}×{}", s.ta ? 'T' : 'N', s.tb ? 'T' : 'N', s.m, s.n, s.k);
    fmt::print("  {:<24} {:>6} {:>5.1f} %", name, row.calls, 100 * row.flops() / all);
    double better = std::numeric_limits<double>::infinity();
    for (std::size_t w = 0; w < columns.size(); ++w) {
      if (seconds[w] <= 0) {
        fmt::print(" {:>11}", "-");
        continue;
      }
      fmt::print(" {:>11.0f}", s.flops() / seconds[w] / 1e9);
      if (w > 0 && columns[w].threads == num_threads()) better = std::min(better, seconds[w]);
    }
    fmt::print("\n");
    by_gemm += seconds.front() * static_cast<double>(row.calls);
    // Products of int8 are ours alone: a library makes their sums, and we scale them.
    if (std::isinf(better)) better = seconds.front();
    by_better += better * static_cast<double>(row.calls);
  }
  std::vector<double> steps;
  for (int i = 0; i < o.steps; ++i) steps.push_back(trial.step().parts());
  const double step = median(steps);
  fmt::print(
      "\nAll of them: {:.1f} ms by gemm, {:.1f} ms by the better library with its own threads.\n"
      "A step takes {:.1f} ms: {:.0f} and {:.0f} % of it.\n",
      by_gemm * 1e3, by_better * 1e3, step * 1e3, 100 * by_gemm / step, 100 * by_better / step);
}

}  // namespace tapegrad::bench
