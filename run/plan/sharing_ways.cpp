#include "tapegrad/run/plan/sharing_ways.h"

#include <algorithm>
#include <optional>

#include "tapegrad/base/error.h"

namespace tapegrad::run {
namespace {

// The forecast is not exact enough to tell ways apart that are nearer to each other.
constexpr double kSameSpeed = 0.98;

}  // namespace

std::string SharingWay::name() const {
  const std::string_view type = optim::names_of(group.sent)[static_cast<std::size_t>(group.sent)];
  const bool all = group.shard == optim::Shard::parameters;
  if (!group.local_steps)
    return fmt::format("{} in {}", all ? "--shard parameters" : "each step", type);
  return fmt::format("--local-steps {} --comm-dtype {}", *group.local_steps, type);
}

std::vector<SharingWay> sharing_ways(const StepParts& parts, const Group& group,
                                     const Network& network, const ComparedWays& compared) {
  using enum optim::CommDType;
  using enum optim::Shard;
  std::vector<SharingWay> ways;
  const auto add = [&](optim::CommDType sent, optim::Shard shard,
                       std::optional<std::int64_t> local = {}) {
    Group other = group;
    other.sent = sent;
    other.shard = shard;
    other.local_steps = local;
    ways.push_back({other, forecast_step(parts, other, network)});
  };
  for (const optim::CommDType sent : {f32, bf16}) {
    add(sent, gradients);
    if (compared.parameters) add(sent, optim::Shard::parameters);
  }
  if (compared.local_steps == 0) return ways;
  for (const optim::CommDType sent : {f32, bf16, int8}) add(sent, gradients, compared.local_steps);
  return ways;
}

const SharingWay& fastest(const std::vector<SharingWay>& ways) {
  check(!ways.empty(), "[fastest] there are no ways to choose from");
  double most = 0;
  for (const SharingWay& way : ways) most = std::max(most, way.batches_per_second());
  return *std::find_if(ways.begin(), ways.end(), [&](const SharingWay& way) {
    return way.batches_per_second() >= kSameSpeed * most;
  });
}

std::vector<int> numbers_of_ranks(int ranks) {
  std::vector<int> numbers;
  for (int n = 1; n < ranks; n *= 2) numbers.push_back(n);
  numbers.push_back(ranks);
  return numbers;
}

SharingWay best_split(const StepParts& parts, const Group& group, const Network& network) {
  std::vector<SharingWay> ways;
  for (const int ranks : numbers_of_ranks(group.ranks)) {
    Group fewer = group;
    fewer.ranks = ranks;
    ways.push_back({fewer, forecast_step(parts, fewer, network)});
  }
  return fastest(ways);
}

}  // namespace tapegrad::run
