#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tapegrad/run/plan/step_forecast.h"

namespace tapegrad::run {

// What a group of processes may choose, and what the choices come to on a line.

// One way to share the work of steps.
struct SharingWay {
  Group group;
  StepForecast forecast;

  double batches_per_second() const { return static_cast<double>(group.batches) / forecast.step; }
  // "--local-steps 50 --comm-dtype bf16", "each step in f32" or "--shard parameters in f32".
  std::string name() const;
};

// Ways that are compared beside those that share gradients.
struct ComparedWays {
  bool parameters = true;        // which need StepParts::blocks
  std::int64_t local_steps = 0;  // 0: none
};
// The ranks of `group` meet in each step, in f32 and bf16, or every `local_steps` ones, in f32,
// bf16 and int8. Those come first whose results are nearer to those of one process.
std::vector<SharingWay> sharing_ways(const StepParts& parts, const Group& group,
                                     const Network& network, const ComparedWays& compared);

// The first of the ways whose speed is within 2 % of the fastest one's: less is no reason to round
// more, to meet more seldom, or to use more machines.
const SharingWay& fastest(const std::vector<SharingWay>& ways);

// 1, 2, 4 … and `ranks`.
std::vector<int> numbers_of_ranks(int ranks);

// By how many of the ranks of `group`, of these numbers, its batches of a step are made fastest.
SharingWay best_split(const StepParts& parts, const Group& group, const Network& network);

}  // namespace tapegrad::run
