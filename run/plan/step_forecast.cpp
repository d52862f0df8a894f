#include "tapegrad/run/plan/step_forecast.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <utility>

#include "tapegrad/base/error.h"
#include "tapegrad/base/text/internal/number_text.h"
#include "tapegrad/comm/internal/carrier.h"
#include "tapegrad/optim/internal/sent_values.h"
#include "tapegrad/optim/internal/shares.h"

namespace tapegrad::run {
namespace {

// A thread's seconds to pack, copy into the system and out of it, and add up a byte: 0.45 ns were
// measured for TCP between two network namespaces, the rest is estimated. See docs/scaling.md.
constexpr double kSecondsPerByte = 0.6e-9;
// A thread's seconds for a message that is smaller than a piece, beside its bytes.
constexpr double kSecondsPerMessage = 5e-6;
// Seconds until threads are awake that wait for small messages.
constexpr double kWaking = 100e-6;

// What travels of a bucket: all of it, and in how many messages if each part were sent once.
struct Load {
  double bytes = 0, messages = 0;

  void operator+=(const Load& more) {
    bytes += more.bytes;
    messages += more.messages;
  }
};

Load operator*(double factor, const Load& load) {
  return {factor * load.bytes, factor * load.messages};
}

Load load_of(const optim::Bucket& bucket, optim::CommDType sent, int ranks) {
  std::vector<std::int64_t> parts(static_cast<std::size_t>(ranks));
  for (const optim::Fragment& f : bucket.fragments)
    parts[static_cast<std::size_t>(f.owner)] += optim::bytes_sent(sent, f.size());
  constexpr auto piece = static_cast<std::int64_t>(detail::kPiece);
  Load load;
  for (const std::int64_t bytes : parts)
    load += {static_cast<double>(bytes), static_cast<double>((bytes + piece - 1) / piece)};
  return load;
}

std::vector<Load> loads_of(const std::vector<optim::Bucket>& buckets, optim::CommDType sent,
                           int ranks) {
  std::vector<Load> loads;
  for (const optim::Bucket& bucket : buckets) loads.push_back(load_of(bucket, sent, ranks));
  return loads;
}

Load sum_of(const std::vector<Load>& loads) {
  Load sum;
  for (const Load& load : loads) sum += load;
  return sum;
}

// Seconds of a thread. kSecondsPerByte knows the messages that are whole pieces.
double moving_seconds(const Load& load) {
  const double whole = load.bytes / static_cast<double>(detail::kPiece);
  return kSecondsPerByte * load.bytes + kSecondsPerMessage * std::max(0.0, load.messages - whole);
}

// The network between a rank and the others, that sends one bucket after the other.
class Link {
 public:
  Link(const Network& network, int ranks, int threads)
      : network_(network),
        others_(static_cast<double>(ranks - 1) / ranks),
        moved_beside_(threads > 1) {}
  // A bucket that is ready at `time`: all parts but the rank's own.
  void send(double time, const Load& bucket) {
    const Load load = others_ * bucket;
    const double line = load.bytes / network_.bytes_per_second;
    const double takes =
        network_.latency + (moved_beside_ ? std::max(line, moving_seconds(load)) : line);
    busy_ += takes;
    sent_ += load.bytes;
    free_ = std::max(free_, time) + takes;
  }
  double free() const { return free_; }
  double busy() const { return busy_; }
  double sent() const { return sent_; }

 private:
  Network network_;
  double others_;      // the share of each bucket that travels
  bool moved_beside_;  // by a thread that does not compute; otherwise computing is slower
  double free_ = 0, busy_ = 0, sent_ = 0;
};

// Seconds until all ranks have what each told all others (Processes::all_gather): lengths, and then
// texts.
double telling_seconds(const Network& network, int ranks) {
  return kWaking + 2 * (network.latency + kSecondsPerMessage * (ranks - 1));
}

// The largest share of all elements that one rank owns.
double largest_share(const std::vector<optim::Bucket>& buckets, int ranks) {
  std::vector<std::int64_t> owned(static_cast<std::size_t>(ranks));
  std::int64_t all = 0;
  for (const optim::Bucket& bucket : buckets) {
    all += bucket.size();
    for (int rank = 0; rank < ranks; ++rank)
      owned[static_cast<std::size_t>(rank)] += bucket.size_of(rank);
  }
  return static_cast<double>(*std::max_element(owned.begin(), owned.end())) /
         static_cast<double>(all);
}

// When the last gradient of a bucket is complete, in seconds after backward began.
double completed(const optim::Bucket& bucket, const StepParts& parts) {
  double last = 0;
  for (const optim::Fragment& f : bucket.fragments)
    last = std::max(last, parts.completed[f.parameter]);
  return last;
}

// The forecast of a local step of so many rounds.
StepForecast forecast_local_step(const StepParts& parts, const Group& group, const Network& network,
                                 double rounds) {
  const auto steps = static_cast<double>(*group.local_steps);
  StepForecast f;
  f.computing = rounds * (parts.forward + parts.backward) + parts.norm + parts.update;
  f.step = f.computing;
  if (group.ranks == 1) return f;
  const std::vector<Load> loads =
      loads_of(optim::share_out(parts.sizes, group.ranks), group.sent, group.ranks);
  Link link(network, group.ranks, parts.threads);
  for (const Load& bucket : loads) {
    link.send(link.free(), bucket);  // there, and back
    link.send(link.free(), bucket);
  }
  f.sent_at_meeting = link.sent();
  f.sent = link.sent() / steps;
  f.sending = f.waiting = link.busy() / steps;
  f.moving = moving_seconds(2 * sum_of(loads)) / parts.threads / steps;
  f.telling = telling_seconds(network, group.ranks);  // losses
  f.step += f.waiting + f.moving + f.telling;
  return f;
}

// Sends the gradients of each round. Returns when the last round's backward ends, which is that
// much slower while bytes are moved.
double send_gradients(Link& link, const std::vector<optim::Bucket>& buckets,
                      const std::vector<Load>& loads, const StepParts& parts, std::int64_t rounds,
                      double slower) {
  double now = 0;
  for (std::int64_t round = 0; round < rounds; ++round) {
    const double begin = now + parts.forward;
    for (std::size_t b = 0; b < buckets.size(); ++b)
      link.send(begin + slower * completed(buckets[b], parts), loads[b]);
    now = begin + slower * parts.backward;
  }
  return now;
}

// Sends each bucket's weights when they are updated, which takes `update` seconds for all of them.
void send_weights(Link& link, const std::vector<Load>& loads, double now, double update) {
  const double all = sum_of(loads).bytes;
  for (const Load& load : loads) {
    now += update * load.bytes / all;
    link.send(now, load);
  }
}

// The forecast of a step in which all ranks meet.
StepForecast forecast_shared_step(const StepParts& parts, const Group& group,
                                  const Network& network, std::int64_t rounds) {
  const std::vector<optim::Bucket> buckets =
      optim::share_out(parts.sizes, group.ranks, optim::kBucketSize, parts.units);
  const std::vector<Load> gradients = loads_of(buckets, group.sent, group.ranks);
  const std::vector<Load> weights = loads_of(buckets, optim::CommDType::f32, group.ranks);
  const double round_moves = moving_seconds(sum_of(gradients)) / parts.threads;
  const double update_moves = moving_seconds(sum_of(weights)) / parts.threads;
  const double share = largest_share(buckets, group.ranks);  // its rank is waited for

  StepForecast f;
  Link link(network, group.ranks, parts.threads);
  const double slower = 1 + (parts.backward > 0 ? round_moves / parts.backward : 0);
  double now = send_gradients(link, buckets, gradients, parts, rounds, slower);
  const double of_rounds = link.sent();
  f.waiting = std::max(0.0, link.free() - now);
  f.telling = 2 * telling_seconds(network, group.ranks);  // norms, and losses
  now += f.waiting + parts.norm * share + f.telling;
  const double update = parts.update * share + update_moves;
  send_weights(link, weights, now, update);
  now += update;
  f.waiting += std::max(0.0, link.free() - now);
  f.step = std::max(now, link.free());
  f.sending = link.busy();
  // In the last round, some ranks may have no batch to send gradients of.
  const double batches = static_cast<double>(group.batches) / group.ranks;
  f.sent = of_rounds * batches / static_cast<double>(rounds) + link.sent() - of_rounds;
  f.moving = static_cast<double>(rounds) * round_moves + update_moves;
  f.computing = static_cast<double>(rounds) * (parts.forward + parts.backward) +
                (parts.norm + parts.update) * share;
  return f;
}

// The buckets of a block of a model, with others for what is of no block.
struct BlockLoads {
  Load weights, gradients;
  double share = 0;  // of the elements of all blocks
};

// The last one is of no block.
std::vector<BlockLoads> loads_of_blocks(const std::vector<optim::Bucket>& buckets,
                                        const StepParts& parts, const Group& group) {
  const std::size_t others = parts.blocks.size() - 1;
  std::vector<BlockLoads> blocks(parts.blocks.size());
  std::vector<std::size_t> numbers(parts.sizes.size());  // of the blocks of parameters
  double all = 0;
  for (std::size_t i = 0; i <= others; ++i) {
    for (const std::size_t p : parts.blocks[i]) {
      numbers[p] = i;
      blocks[i].share += static_cast<double>(parts.sizes[p]);
    }
    all += i < others ? blocks[i].share : 0;
  }
  for (BlockLoads& block : blocks) block.share /= std::max(all, 1.0);
  for (const optim::Bucket& bucket : buckets) {
    BlockLoads& block = blocks[numbers[bucket.fragments.front().parameter]];
    block.weights += load_of(bucket, optim::CommDType::f32, group.ranks);
    block.gradients += load_of(bucket, group.sent, group.ranks);
  }
  return blocks;
}

// Makes a round that gathers blocks as it comes to them, from `now` on; returns its end. Computing
// is that much slower while bytes are moved. `arrives` is when what is of no block is there. What
// is waited for is added to `waiting`.
double gathering_round(Link& link, const std::vector<BlockLoads>& blocks, const StepParts& parts,
                       double now, double arrives, double slower, double& waiting) {
  const std::size_t n = blocks.size() - 1;
  const auto wait_until = [&](double time) {
    waiting += std::max(0.0, time - now);
    now = std::max(now, time);
  };
  wait_until(arrives);
  const auto gather = [&](std::size_t block) {
    link.send(now, blocks[block].weights);
    arrives = link.free();
  };
  if (n == 0) now += slower * (parts.forward + parts.backward);
  if (n > 0) gather(0);
  for (std::size_t i = 0; i < n; ++i) {
    wait_until(arrives);
    if (i + 1 < n) gather(i + 1);
    if (i + 1 == n && n > 2) gather(n - 3);  // the last two are here when backward begins
    now += slower * blocks[i].share * parts.forward;
  }
  for (std::size_t i = n; i-- > 0;) {
    if (i + 2 < n) {
      wait_until(arrives);
      if (i > 0) gather(i - 1);
      link.send(now, blocks[i + 2].gradients);
    }
    now += slower * blocks[i].share * parts.backward;
  }
  for (std::size_t i = std::min<std::size_t>(n, 2); i-- > 0;) link.send(now, blocks[i].gradients);
  link.send(now, blocks[n].gradients);
  return now;
}

// The forecast of a step of ranks that share the parameters, too.
StepForecast forecast_gathering_step(const StepParts& parts, const Group& group,
                                     const Network& network, std::int64_t rounds) {
  check(!parts.blocks.empty(), "[forecast] the blocks of the parameters are not known");
  const std::vector<optim::Bucket> buckets =
      optim::share_out(parts.sizes, group.ranks, optim::kBucketSize, parts.units, parts.blocks);
  const std::vector<BlockLoads> blocks = loads_of_blocks(buckets, parts, group);
  const double share = largest_share(buckets, group.ranks);
  Load moved;  // in a round
  for (const BlockLoads& block : blocks) moved += block.gradients;
  const Load gradients = moved;
  for (std::size_t i = 0; i + 1 < blocks.size(); ++i)
    moved += (i + 3 < blocks.size() ? 2.0 : 1.0) * blocks[i].weights;
  const double round_moves = moving_seconds(moved) / parts.threads;
  const double round_computes = parts.forward + parts.backward;
  const double slower = 1 + (round_computes > 0 ? round_moves / round_computes : 0);

  StepForecast f;
  Link link(network, group.ranks, parts.threads);
  link.send(0, blocks.back().weights);
  double now = 0, arrives = link.free();
  for (std::int64_t round = 0; round < rounds; ++round)
    now = gathering_round(link, blocks, parts, now, std::exchange(arrives, 0.0), slower, f.waiting);
  f.waiting += std::max(0.0, link.free() - now);
  f.telling = 2 * telling_seconds(network, group.ranks);  // norms, and losses
  f.computing = static_cast<double>(rounds) * round_computes + (parts.norm + parts.update) * share;
  f.moving = static_cast<double>(rounds) * round_moves +
             moving_seconds(blocks.back().weights) / parts.threads;
  f.sending = link.busy();
  // In the last round, some ranks may have no batch to send gradients of.
  const double idle =
      static_cast<double>(rounds) - static_cast<double>(group.batches) / group.ranks;
  f.sent = link.sent() - idle * gradients.bytes * (group.ranks - 1) / group.ranks;
  f.step = std::max(now, link.free()) + f.telling + (parts.norm + parts.update) * share +
           moving_seconds(blocks.back().weights) / parts.threads;
  return f;
}

using Unit = std::pair<std::string_view, double>;

double parse_number(const std::string& text, std::span<const Unit> units,
                    std::string_view example) {
  std::string_view unit = text;
  const double value = take_number<double>(unit).value_or(0);
  const auto known =
      std::find_if(units.begin(), units.end(), [&](const Unit& u) { return u.first == unit; });
  check(known != units.end() && value > 0 && std::isfinite(value),
        "'{}' is not a number above 0 with its unit, such as {}", text, example);
  return value * known->second;
}

}  // namespace

StepForecast forecast_step(const StepParts& parts, const Group& group, const Network& network) {
  const std::int64_t rounds = (group.batches + group.ranks - 1) / group.ranks;
  if (group.local_steps)
    return forecast_local_step(parts, group, network, static_cast<double>(rounds));
  if (group.ranks > 1 && group.shard == optim::Shard::parameters)
    return forecast_gathering_step(parts, group, network, rounds);
  if (group.ranks > 1) return forecast_shared_step(parts, group, network, rounds);
  StepForecast f;
  f.computing =
      static_cast<double>(rounds) * (parts.forward + parts.backward) + parts.norm + parts.update;
  f.step = f.computing;
  return f;
}

double parse_bandwidth(const std::string& text) {
  constexpr Unit units[] = {
      {"bit", 1.0 / 8}, {"kbit", 1e3 / 8}, {"Mbit", 1e6 / 8}, {"Gbit", 1e9 / 8}};
  return parse_number(text, units, "10Gbit");
}

double parse_latency(const std::string& text) {
  constexpr Unit units[] = {{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};
  return parse_number(text, units, "50us");
}

}  // namespace tapegrad::run
