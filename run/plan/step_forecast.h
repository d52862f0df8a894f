#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tapegrad/optim/sharing.h"

namespace tapegrad::run {

// How long a step of several processes takes, from what one process was measured to take and from
// the network between them. The model follows what optim::SharedGradientSync does:
//
//   - A round is a forward and a backward pass on every rank. Each bucket is sent when backward has
//     completed its last gradient and the buckets before it are through: (R − 1)/R of its bytes, in
//     and out at once. What is still on its way when backward ends is waited for after the last
//     round; before, the next round's work hides it.
//   - Each rank measures and updates its share of the parameters; the largest share counts. Each
//     bucket is sent on when it is updated, to be waited for at the end.
//   - With Shard::parameters, a bucket has weights of one block. A block is sent when the one
//     before it begins, forward and backward, and is waited for when it begins itself; how long it
//     takes goes by its elements. Its gradients are sent two blocks later; what is of no block is
//     sent before the first round, and its gradients behind all others. Updated weights are not
//     sent on.
//   - With local steps, each rank measures and updates all parameters in each step. A meeting sends
//     differences of weights there and back, hides nothing, and is shared by the steps before it.
//   - Moving bytes takes one thread's time, too: from whatever its processor does meanwhile. Beside
//     others that compute, it moves no more bytes than it has time for, however fast the line is.
//   - All ranks tell each other a few numbers in each step, by a message from each to each.

// The time of one process, in seconds.
struct StepParts {
  double forward = 0, backward = 0;  // of one batch
  double norm = 0, update = 0;       // of all parameters
  // For each trained parameter, in the order of nn::Params::parameters(): its number of elements,
  // and when backward has completed its gradient.
  std::vector<std::int64_t> sizes = {};
  std::vector<double> completed = {};
  std::vector<std::int64_t> units = {};  // where each may be cut: see optim/internal/shares.h
  // The parameters of each block, for Shard::parameters: optim::blocks_of().
  std::vector<std::vector<std::size_t>> blocks = {};
  int threads = 1;  // that took this time
};

struct Network {
  double bytes_per_second;  // of each process, in each direction
  double latency;           // seconds, one way
};

struct Group {
  int ranks = 1;
  std::int64_t batches = 1;  // of a step, which the ranks share
  optim::CommDType sent = optim::CommDType::f32;
  std::optional<std::int64_t> local_steps = {};
  optim::Shard shard = optim::Shard::gradients;
};

struct StepForecast {
  double step = 0;       // seconds of one step
  double computing = 0;  // of these, what each rank computes
  double moving = 0;     // of these, processors' time to move bytes
  double sending = 0;    // seconds that the network is busy, hidden or not
  double waiting = 0;    // of these, those that nothing hides
  double telling = 0;    // seconds of small messages, which nothing hides
  // Bytes that a rank sends to others, in the mean over the ranks and without small messages: in a
  // step, and with local steps at each meeting.
  double sent = 0, sent_at_meeting = 0;
  // Seconds of a step if nothing were hidden.
  double one_after_the_other() const { return computing + moving + sending + telling; }
  double hidden() const { return sending > 0 ? 1 - waiting / sending : 1; }
};
StepForecast forecast_step(const StepParts& parts, const Group& group, const Network& network);

// "10Gbit", "250Mbit" or "1.5kbit" in bytes per second, as tc writes rates; "50us", "2ms" or "1s"
// in seconds. Error for any other text.
double parse_bandwidth(const std::string& text);
double parse_latency(const std::string& text);

}  // namespace tapegrad::run
