#include "tapegrad/run/plan/step_forecast.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "tapegrad/base/error.h"
#include "tapegrad/base/text/internal/number_text.h"
#include "tapegrad/optim/internal/sent_values.h"
#include "tapegrad/optim/internal/shares.h"

namespace tapegrad::run {
namespace {

// Processors' seconds to pack, copy into the system and out of it, and add up a byte: 0.45 ns were
// measured for TCP between two network namespaces, the rest is estimated. See docs/scaling.md.
constexpr double kSecondsPerByte = 0.6e-9;
// Seconds for a small message: threads are woken up.
constexpr double kSmallMessage = 100e-6;

// A link that sends one bucket after the other.
class Link {
 public:
  explicit Link(const Network& network) : network_(network) {}
  // A message that is ready at `time`.
  void send(double time, double bytes) {
    const double takes = network_.latency + bytes / network_.bytes_per_second;
    busy_ += takes;
    free_ = std::max(free_, time) + takes;
  }
  double free() const { return free_; }
  double busy() const { return busy_; }

 private:
  Network network_;
  double free_ = 0, busy_ = 0;
};

// The largest share of all elements that one rank owns.
double largest_share(const std::vector<optim::Bucket>& buckets, int ranks, double elements) {
  std::int64_t most = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    std::int64_t own = 0;
    for (const optim::Bucket& bucket : buckets) own += bucket.size_of(rank);
    most = std::max(most, own);
  }
  return static_cast<double>(most) / elements;
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
  const double others = static_cast<double>(group.ranks - 1) / group.ranks;
  StepForecast f;
  f.computing = rounds * (parts.forward + parts.backward) + parts.norm + parts.update;
  f.step = f.computing;
  if (group.ranks == 1) return f;
  Link link(network);
  double bytes = 0;
  for (const optim::Bucket& bucket : optim::share_out(parts.sizes, group.ranks)) {
    const auto all = static_cast<double>(optim::bytes_sent(group.sent, bucket.size()));
    link.send(link.free(), others * all);  // there, and back
    link.send(link.free(), others * all);
    bytes += 2 * all;
  }
  f.sending = f.waiting = link.busy() / steps;
  f.moving = kSecondsPerByte * bytes / steps;
  f.step += f.waiting + f.moving + network.latency + kSmallMessage;  // of losses
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
  const std::vector<optim::Bucket> buckets =
      optim::share_out(parts.sizes, group.ranks, optim::kBucketSize, parts.units);
  const double others = static_cast<double>(group.ranks - 1) / group.ranks;
  const double width = group.sent == optim::CommDType::bf16 ? 2 : 4;
  double elements = 0;
  for (const std::int64_t size : parts.sizes) elements += static_cast<double>(size);
  const bool alone = group.ranks == 1;
  const auto moving = [&](double bytes) { return alone ? 0 : kSecondsPerByte * bytes; };

  // The rank that owns most is waited for.
  const double share = alone ? 1 : largest_share(buckets, group.ranks, elements);
  StepForecast f;
  Link link(network);
  double now = 0;
  const double slower = 1 + (parts.backward > 0 ? moving(width * elements) / parts.backward : 0);
  for (std::int64_t round = 0; round < rounds; ++round) {
    const double begin = now + parts.forward;
    for (const optim::Bucket& bucket : buckets) {
      if (alone) break;
      link.send(begin + slower * completed(bucket, parts),
                others * width * static_cast<double>(bucket.size()));
    }
    now = begin + slower * parts.backward;
  }
  f.waiting = std::max(0.0, link.free() - now);
  now += f.waiting + parts.norm * share;
  if (!alone) now += 2 * (network.latency + kSmallMessage);  // norms, and losses
  const double update = parts.update * share + moving(4 * elements);
  double updated = 0;
  for (const optim::Bucket& bucket : buckets) {
    if (alone) break;
    updated += update * static_cast<double>(bucket.size()) / elements;
    link.send(now + updated, others * 4 * static_cast<double>(bucket.size()));
  }
  now += update;
  f.waiting += std::max(0.0, link.free() - now);
  f.step = std::max(now, link.free());
  f.sending = link.busy();
  f.moving = moving((static_cast<double>(rounds) * width + 4) * elements);
  f.computing = static_cast<double>(rounds) * (parts.forward + parts.backward) +
                (parts.norm + parts.update) * share;
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
