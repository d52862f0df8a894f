#include "tapegrad/optim/processes/internal/rank_weights.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "tapegrad/optim/processes/internal/shared_weights.h"

namespace tapegrad::optim {

RankWeights::RankWeights(const NamedTensors& parameters, const std::vector<Bucket>& buckets,
                         Processes& processes)
    : parameters_(parameters), buckets_(buckets), processes_(processes), traffic_(buckets.size()) {}

RankWeights::~RankWeights() {
  for (Traffic& t : traffic_) {
    try {
      t.transfer.wait();
    } catch (const Error&) {  // which is known to who waits for it in good order
    }
  }
}

void RankWeights::send(std::size_t b) {
  Traffic& t = traffic_[b];
  t.values = Tensor::empty({buckets_[b].size()});
  float* to = t.values.mutable_data<float>();
  for (const Fragment& f : buckets_[b].fragments) {
    if (f.owner != rank()) continue;
    const Tensor values = own(b, f);
    std::copy_n(values.data<float>(), f.size(), to + f.at);
  }
  std::vector<std::size_t> sizes;
  for (int r = 0; r < processes_.size(); ++r) {
    sizes.push_back(static_cast<std::size_t>(buckets_[b].size_of(r)) * sizeof(float));
  }
  t.transfer = processes_.all_gather_parts(
      std::as_writable_bytes(std::span(to, static_cast<std::size_t>(t.values.numel()))), sizes);
}

Tensor RankWeights::receive(std::size_t b) {
  traffic_[b].transfer.wait();
  return std::exchange(traffic_[b].values, Tensor());
}

namespace {

// Every rank has all parameters, whose new values travel while the next bucket is updated.
class WholeWeights : public RankWeights {
 public:
  WholeWeights(const NamedTensors& parameters, const std::vector<Bucket>& buckets,
               Processes& processes)
      : RankWeights(parameters, buckets, processes), all_(parameters.size()) {
    std::iota(all_.begin(), all_.end(), std::size_t{0});
  }

  Tensor own(std::size_t, const Fragment& f) const override {
    const Tensor& whole = parameters_[f.parameter].second;
    return whole.detach().view({whole.numel()}).rows(f.begin, f.end);
  }
  void begin_round(Completed completed) override { completed_ = std::move(completed); }
  void end_round() override { completed_(all_); }
  bool by_blocks() const override { return false; }
  void updated(std::size_t end) override {
    for (; sent_ < end; ++sent_) {
      send(sent_);
      if (sent_ >= kBucketsUnderWay) take_values(sent_ - kBucketsUnderWay);
    }
  }
  void end_update() override {
    updated(buckets_.size());
    const std::size_t under_way = std::min(kBucketsUnderWay, buckets_.size());
    for (std::size_t b = buckets_.size() - under_way; b < buckets_.size(); ++b) take_values(b);
    sent_ = 0;
  }
  void gather() override {}

 private:
  void take_values(std::size_t b) {
    const Tensor values = receive(b);
    for (const Fragment& f : buckets_[b].fragments) {
      if (f.owner == rank()) continue;
      float* to = parameters_[f.parameter].second.mutable_data<float>() + f.begin;
      std::copy_n(values.data<float>() + f.at, f.size(), to);
    }
  }

  ParameterNumbers all_;
  Completed completed_;
  std::size_t sent_ = 0;  // buckets, in this update
};

}  // namespace

std::unique_ptr<RankWeights> make_rank_weights(Shard shard, const NamedTensors& parameters,
                                               const std::vector<Bucket>& buckets,
                                               Processes& processes) {
  if (shard == Shard::parameters) return make_shared_weights(parameters, buckets, processes);
  return std::make_unique<WholeWeights>(parameters, buckets, processes);
}

}  // namespace tapegrad::optim
