#include "tapegrad/apps/train/plan/print_forecast.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "tapegrad/base/text/words.h"
#include "tapegrad/run/plan/sharing_ways.h"

namespace tapegrad::gpt {
namespace {

// --local-steps for a comparison, where it is not given.
constexpr std::int64_t kComparedSteps = 50;

// All that the lines are about.
struct Forecasts {
  const Plan& o;
  const run::StepParts& parts;
  const run::MemoryEstimate& estimate;
  run::Network network{run::parse_bandwidth(o.extras.bandwidth),
                       run::parse_latency(o.extras.latency)};
  // The way that the options name.
  run::Group group{.ranks = static_cast<int>(o.extras.ranks),
                   .batches = o.batches_of_ranks,
                   .sent = o.optimizer.comm_dtype,
                   .local_steps = o.optimizer.local_steps,
                   .shard = o.optimizer.shard};

  double batch_tokens() const {
    return static_cast<double>(o.optimizer.batch_size * o.text.block_size);
  }
  double tokens_per_second(const run::SharingWay& way) const {
    return batch_tokens() * way.batches_per_second();
  }
  run::SharingWay way(const run::Group& of) const {
    return {of, run::forecast_step(parts, of, network)};
  }
  // One process with its own number of batches.
  run::SharingWay alone() const {
    return way({.batches = o.optimizer.gradient_accumulation_steps});
  }
  run::MemoryEstimate memory(const run::Group& of) const {
    optim::Sharing sharing{.sent = of.sent, .shard = of.shard, .local = {}};
    if (of.local_steps) sharing.local = {.steps = *of.local_steps};
    return run::memory_of_rank(estimate, of.ranks, sharing);
  }
  // 0: these options make no local steps.
  std::int64_t compared_steps() const {
    if (o.optimizer.skip_outliers) return 0;
    return o.optimizer.local_steps.value_or(kComparedSteps);
  }
};

std::string sent_text(const run::SharingWay& way) {
  const run::StepForecast& f = way.forecast;
  if (!way.group.local_steps) return size_text(f.sent) + " in a step";
  return fmt::format("{} at a meeting, every {}: {} in a step", size_text(f.sent_at_meeting),
                     counted(*way.group.local_steps, "step"), size_text(f.sent));
}

void print_way(const Forecasts& all) {
  const run::SharingWay way = all.way(all.group);
  const run::StepForecast& f = way.forecast;
  const run::MemoryEstimate rank = all.memory(all.group);
  const double rate = all.tokens_per_second(way);
  fmt::print(
      "forecast:  {} ranks, {} and {} between them, steps of {:.0f} tokens:\n"
      "           {:.1f} ms per step, {:.0f} tokens/s, {:.3g} times one process\n"
      "           {:.1f} ms of computing, {:.1f} ms to move bytes, {:.1f} ms of network, of which "
      "{:.0f} % hidden: {:.1f} ms per step if nothing were\n"
      "           each rank sends {}\n"
      "           {:.0f} MB of tensors at once in each rank, optimiser {:.0f}\n",
      all.group.ranks, all.o.extras.bandwidth, all.o.extras.latency,
      all.batch_tokens() * static_cast<double>(all.group.batches), f.step * 1e3, rate,
      rate / all.tokens_per_second(all.alone()), f.computing * 1e3, f.moving * 1e3, f.sending * 1e3,
      100 * f.hidden(), f.one_after_the_other() * 1e3, sent_text(way), rank.total / 1e6,
      rank.optimizer / 1e6);
}

void print_ways(const Forecasts& all) {
  const std::vector<run::SharingWay> ways = run::sharing_ways(
      all.parts, all.group, all.network,
      {.parameters = !all.o.optimizer.averages(), .local_steps = all.compared_steps()});
  const char* heading = "ways:";
  for (const run::SharingWay& way : ways) {
    fmt::print("{:<10} {:<36} {:>10.1f} ms per step, {} of memory, {} sent\n", heading, way.name(),
               way.forecast.step * 1e3, size_text(all.memory(way.group).total), sent_text(way));
    heading = "";
  }
  const run::SharingWay& best = run::fastest(ways);
  if (&best == &ways.front()) {
    fmt::print("fastest:   {}: no other way is more than 2 % faster\n", best.name());
  } else {
    fmt::print("fastest:   {}, {:.3g} times as fast as {}\n", best.name(),
               best.batches_per_second() / ways.front().batches_per_second(), ways.front().name());
  }
}

std::string batches_text(std::int64_t n) { return n == 1 ? "1 batch" : grouped(n) + " batches"; }

void print_split(const Forecasts& all) {
  const run::SharingWay best = run::best_split(all.parts, all.group, all.network);
  const int ranks = best.group.ranks;
  fmt::print("split:     {} make a step of {} fastest, with {} each at most, in {:.1f} ms\n",
             ranks == all.group.ranks
                 ? fmt::format("all {} ranks", grouped(ranks))
                 : fmt::format("{} of {} ranks", grouped(ranks), grouped(all.group.ranks)),
             batches_text(all.group.batches), batches_text((all.group.batches + ranks - 1) / ranks),
             best.forecast.step * 1e3);
}

// The cells of a way for a number of ranks, which have at least two blanks between them. `one` has
// the tokens per second that count once.
std::string cells(const Forecasts& all, const run::Group& group, double one) {
  const run::SharingWay way = all.way(group);
  const run::StepForecast& f = way.forecast;
  const double sent = group.local_steps ? f.sent_at_meeting : f.sent;
  const double rate = all.tokens_per_second(way);
  return fmt::format("  {:>8}  {:>10}  {:>8}  {:>8}", group.ranks > 1 ? size_text(sent) : "0",
                     grouped(std::llround(rate)), fmt::format("{:.4g}", rate / one),
                     size_text(all.memory(group).total));
}

// The number of batches that each rank has stays the same.
void print_scaling(const Forecasts& all) {
  const std::int64_t each = (all.group.batches + all.group.ranks - 1) / all.group.ranks;
  const std::int64_t local = all.compared_steps();
  const bool asked = all.group.local_steps.has_value();
  const auto with = [&](int ranks, bool meets_each_step) {
    run::Group group{.ranks = ranks, .batches = each * ranks, .sent = all.group.sent};
    if (!meets_each_step) group.local_steps = local;
    if (meets_each_step) group.shard = all.group.shard;
    if (meets_each_step && asked) group.sent = optim::CommDType::f32;
    return group;
  };
  const auto heading = [&](bool meets_each_step) {
    return run::SharingWay{with(1, meets_each_step), {}}.name();
  };
  fmt::print("scaling:   {:>5}  {:<40}{}\n", "ranks", heading(true),
             local > 0 ? "  " + heading(false) : "");
  const std::string columns =
      fmt::format("  {:>8}  {:>10}  {:>8}  {:>8}", "sent", "tokens/s", "times", "memory");
  fmt::print("           {:>5}{}{}\n", "", columns, local > 0 ? columns : "");
  const double one = all.tokens_per_second(all.way(with(1, true)));
  for (const int ranks : run::numbers_of_ranks(all.group.ranks)) {
    fmt::print("           {:>5}{}{}\n", ranks, cells(all, with(ranks, true), one),
               local > 0 ? cells(all, with(ranks, false), one) : "");
  }
}

}  // namespace

void print_forecast(const Plan& o, const run::StepParts& parts,
                    const run::MemoryEstimate& estimate) {
  const Forecasts all{o, parts, estimate};
  print_way(all);
  print_ways(all);
  print_split(all);
  print_scaling(all);
}

}  // namespace tapegrad::gpt
