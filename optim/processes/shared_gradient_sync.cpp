#include "tapegrad/optim/processes/internal/shared_gradient_sync.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include "tapegrad/base/half.h"
#include "tapegrad/optim/internal/sent_values.h"

namespace tapegrad::optim {
namespace {

// Memory that is counted with that of tensors.
Tensor block(std::int64_t bytes) { return Tensor::empty({bytes}, DType::u8); }

std::span<std::byte> bytes_in(Tensor& t) {
  return std::as_writable_bytes(std::span(t.mutable_data<std::uint8_t>(), t.bytes()));
}

// sum ← sum + term, or term if there is no sum yet.
template <class T>
void add_term(float* sum, const T* term, std::int64_t n, bool first) {
  const auto value = [](T x) {
    if constexpr (std::is_same_v<T, bf16>)
      return to_float(x);
    else
      return x;
  };
  if (first) {
    for (std::int64_t i = 0; i < n; ++i) sum[i] = value(term[i]);
  } else {
    for (std::int64_t i = 0; i < n; ++i) sum[i] += value(term[i]);
  }
}

std::vector<std::size_t> as_sizes(const std::vector<std::int64_t>& sizes) {
  return {sizes.begin(), sizes.end()};
}

}  // namespace

SharedGradientSync::SharedGradientSync(const NamedTensors& parameters,
                                       const ParameterGroups& groups, Processes& processes,
                                       CommDType sent, Shard shard, std::int64_t bucket_size)
    : parameters_(parameters),
      groups_(groups),
      processes_(processes),
      sent_(sent),
      buckets_(share_out(
          sizes_of(parameters), processes.size(), bucket_size, units_of(parameters, groups),
          shard == Shard::parameters ? blocks_of(parameters) : std::vector<ParameterNumbers>())),
      weights_(make_rank_weights(shard, parameters, buckets_, processes)),
      traffic_(buckets_.size()),
      places_(parameters.size()),
      arrived_(parameters.size()),
      completed_(parameters.size()),
      state_({}, groups) {
  ParameterGroups of_slices = groups;
  of_slices.group_of.clear();
  for (std::size_t p = 0; p < parameters_.size(); ++p) index_[parameters_[p].second.id()] = p;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    for (std::size_t f = 0; f < buckets_[b].fragments.size(); ++f) {
      const Place place{b, f};
      places_[at(place).parameter].push_back(place);
      if (at(place).owner != rank()) continue;
      own_.push_back(place);
      of_slices.group_of.push_back(groups.group_of[at(place).parameter]);
      const auto& [name, parameter] = parameters_[at(place).parameter];
      slices_.emplace_back(at(place).size() == parameter.numel()
                               ? name
                               : fmt::format("{}[{}:{}]", name, at(place).begin, at(place).end),
                           weights_->own(b, at(place)).view(shape_of(at(place))));
    }
    traffic_[b].sum = Tensor::empty({buckets_[b].size_of(rank())});
  }
  state_ = OptimizerState(slices_, of_slices);
}

// Waits: transfers under way use this object's memory.
SharedGradientSync::~SharedGradientSync() {
  try {
    finish_transfers();
  } catch (const Error&) {  // which is known to who waits for it in good order
  }
}

// The shape of a fragment as the optimiser expects it.
Shape SharedGradientSync::shape_of(const Fragment& f) const {
  const Shape& whole = parameters_[f.parameter].second.shape();
  const ShardGranularity cut = groups_.of(f.parameter).optimizer->cut(whole);
  if (cut == ShardGranularity::elements) return {f.size()};
  if (f.size() == whole.numel()) return whole;
  return whole.with(0, f.size() / (whole.numel() / whole[0]));
}

void SharedGradientSync::round(int active, const Backward& backward) {
  check(active >= 1 && active <= processes_.size(), "{} of {} ranks cannot have a micro-batch",
        active, processes_.size());
  active_ = active;
  next_ = 0;
  std::fill(completed_.begin(), completed_.end(), false);
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    traffic_[b].missing = rank() < active ? std::ssize(buckets_[b].fragments) : 0;
  }
  allowed_ = weights_->by_blocks() ? 0 : buckets_.size();
  weights_->begin_round([this](const ParameterNumbers& parameters) { complete(parameters); });
  if (rank() < active) {
    backward([this](const Tensor& parameter, const Tensor& gradient) {
      const auto known = index_.find(parameter.id());
      if (known != index_.end()) take(known->second, gradient);
    });
  }
  weights_->end_round();
}

// The loss does not depend on those of the parameters that have no gradient by now.
void SharedGradientSync::complete(const ParameterNumbers& parameters) {
  for (const std::size_t p : parameters) {
    for (const Place place : places_[p]) allowed_ = std::max(allowed_, place.bucket + 1);
    if (rank() < active_ && !completed_[p]) take(p, Tensor());
  }
  send_full_buckets();
}

void SharedGradientSync::take(std::size_t p, const Tensor& gradient) {
  check(!completed_[p], "the gradient of '{}' comes after it was taken for complete",
        parameters_[p].first);
  completed_[p] = true;
  if (gradient.defined()) arrived_[p] = true;
  for (const auto [b, f] : places_[p]) {
    const Fragment& fragment = buckets_[b].fragments[f];
    Traffic& t = traffic_[b];
    // The last round's data may be on its way still.
    if (t.missing == std::ssize(buckets_[b].fragments)) finish(t);
    if (!t.outgoing.defined()) t.outgoing = block(bytes_of(buckets_[b].size()));
    std::uint8_t* to = t.outgoing.mutable_data<std::uint8_t>() + bytes_of(fragment.at);
    if (gradient.defined()) {
      pack(sent_, gradient.data<float>() + fragment.begin, to, fragment.size());
    } else {
      std::memset(to, 0, static_cast<std::size_t>(bytes_of(fragment.size())));
    }
    if (--t.missing == 0) send_full_buckets();
  }
}

// A message finds its receiver by its place in the order of messages. So a bucket that is full
// waits for those before it, which are filled later where backward takes another way.
void SharedGradientSync::send_full_buckets() {
  for (; next_ < allowed_ && traffic_[next_].missing == 0; ++next_) {
    send_gradients(next_);
    if (next_ >= kBucketsUnderWay) finish(traffic_[next_ - kBucketsUnderWay]);
  }
}

void SharedGradientSync::finish(Traffic& t) {
  t.transfer.wait();
  t.outgoing = t.incoming = Tensor();
}

void SharedGradientSync::send_gradients(std::size_t b) {
  Traffic& t = traffic_[b];
  const std::int64_t own = buckets_[b].size_of(rank());
  std::vector<std::int64_t> out, in;
  for (int r = 0; r < processes_.size(); ++r) {
    out.push_back(rank() < active_ ? bytes_of(buckets_[b].size_of(r)) : 0);
    in.push_back(r < active_ ? bytes_of(own) : 0);
  }
  if (rank() >= active_) {
    finish(t);  // of the last round
    t.outgoing = block(0);
  }
  t.incoming = block(bytes_of(own) * active_);
  const auto add_up = [this, own, sum = t.sum.mutable_data<float>(), active = active_,
                       first = !std::exchange(t.begun, true),
                       incoming = t.incoming.data<std::uint8_t>()] {
    for (int r = 0; r < active; ++r) {
      const std::uint8_t* term = incoming + r * bytes_of(own);
      if (sent_ == CommDType::bf16) {
        add_term(sum, reinterpret_cast<const bf16*>(term), own, first && r == 0);
      } else {
        add_term(sum, reinterpret_cast<const float*>(term), own, first && r == 0);
      }
    }
  };
  t.transfer = processes_.all_to_all(bytes_in(t.outgoing), as_sizes(out), bytes_in(t.incoming),
                                     as_sizes(in), add_up);
}

void SharedGradientSync::finish_transfers() {
  for (Traffic& t : traffic_) finish(t);
}

// All ranks end with the same: which parameters have a gradient (on any rank), and the norm of all
// gradients. Each rank sums the squares of its own ones in the chunks that one process uses, and
// all add these sums up in the order of one process.
Clipping SharedGradientSync::measure_clipping(double max_norm) {
  finish_transfers();
  std::vector<double> sums;
  for (const Place place : own_) {
    const std::vector<double> more = square_sums(gradient_of(place));
    sums.insert(sums.end(), more.begin(), more.end());
  }
  std::string mine(arrived_.begin(), arrived_.end());
  mine.append(reinterpret_cast<const char*>(sums.data()), sums.size() * sizeof(double));
  const std::vector<std::string> all = processes_.all_gather(mine);
  for (const std::string& theirs : all) {
    for (std::size_t p = 0; p < arrived_.size(); ++p) arrived_[p] |= theirs[p];
  }
  for (std::size_t i = 0; i < own_.size(); ++i) {
    if (arrived_[at(own_[i]).parameter]) slices_[i].second.set_grad(gradient_of(own_[i]));
  }
  return clipping_of(norm_of(all), max_norm);
}

double SharedGradientSync::norm_of(const std::vector<std::string>& squares) const {
  std::vector<std::vector<double>> sums(parameters_.size());  // of each parameter's chunks
  for (std::size_t p = 0; p < sums.size(); ++p) {
    const std::int64_t n = parameters_[p].second.numel();
    sums[p].resize(static_cast<std::size_t>((n + kSquareChunk - 1) / kSquareChunk));
  }
  std::vector<std::size_t> read(squares.size(), arrived_.size());  // bytes of each rank's
  for (const Bucket& bucket : buckets_) {
    for (const Fragment& f : bucket.fragments) {
      const auto owner = static_cast<std::size_t>(f.owner);
      const auto count = static_cast<std::size_t>((f.size() + kSquareChunk - 1) / kSquareChunk);
      std::memcpy(sums[f.parameter].data() + f.begin / kSquareChunk,
                  squares[owner].data() + read[owner], count * sizeof(double));
      read[owner] += count * sizeof(double);
    }
  }
  double all = 0;
  for (const std::vector<double>& parts : sums)
    all += std::accumulate(parts.begin(), parts.end(), 0.0);
  return std::sqrt(all);
}

// The gradient of a fragment of this rank: the sum over all micro-batches.
Tensor SharedGradientSync::gradient_of(Place place) const {
  const Fragment& f = at(place);
  const std::int64_t begin =
      f.at - buckets_[place.bucket].offsets[static_cast<std::size_t>(rank())];
  return traffic_[place.bucket].sum.rows(begin, begin + f.size()).view(shape_of(f));
}

std::vector<GradientSync::GradientPart> SharedGradientSync::gradients() const {
  std::vector<GradientPart> parts;
  for (const Place place : own_) {
    const Fragment& f = at(place);
    if (arrived_[f.parameter]) parts.push_back({f.parameter, f.begin, gradient_of(place)});
  }
  return parts;
}

void SharedGradientSync::step(double lr, double grad_factor, double decay_factor) {
  check(std::count(arrived_.begin(), arrived_.end(), true) > 0,
        "step: none of {} parameters has a gradient", parameters_.size());
  state_.step_part(lr, grad_factor, decay_factor, [&](std::size_t i) {
    const bool last = i + 1 == own_.size();
    if (!last) weights_->updated(own_[i + 1].bucket);
  });
  weights_->end_update();
}

void SharedGradientSync::zero_grad() {
  state_.zero_grad();
  std::fill(arrived_.begin(), arrived_.end(), false);
  for (Traffic& t : traffic_) t.begun = false;
}

}  // namespace tapegrad::optim
