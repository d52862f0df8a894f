#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "tapegrad/optim/internal/plain_updates.h"
#include "tapegrad/optim/internal/sent_values.h"
#include "tapegrad/optim/internal/shares.h"
#include "tapegrad/optim/optimizer_state.h"
#include "tapegrad/optim/processes/internal/rank_weights.h"

namespace tapegrad::optim {

// The updates of several processes (data parallel). Each rank has the sums of gradients and the
// OptimizerState of its own fragments only (ZeRO, stage 2), and with Shard::parameters their
// values.
//
// While backward runs, each gradient that is complete is copied into the buckets that it belongs
// to. Full buckets are sent, in the same order by all ranks: part j to rank j, which adds up what
// it gets from ranks 0, 1, … in this order, after what it got in earlier rounds. That is the order
// in which one process adds up the same micro-batches, so the sums have the same bits. What becomes
// of updated values is up to RankWeights.
class SharedGradientSync : public PlainUpdates {
 public:
  SharedGradientSync(const NamedTensors& parameters, const ParameterGroups& groups,
                     Processes& processes, CommDType sent, Shard shard = Shard::gradients,
                     std::int64_t bucket_size = kBucketSize);
  ~SharedGradientSync() override;

  void round(int active, const Backward& backward) override;
  Clipping measure_clipping(double max_norm) override;
  std::vector<GradientPart> gradients() const override;
  void step(double lr, double grad_factor, double decay_factor = 1) override;
  void zero_grad() override;
  void gather_parameters() override { weights_->gather(); }
  std::int64_t steps() const override { return state_.steps(); }
  const ParameterGroups& groups() const override { return groups_; }
  Kept kept() const override;
  void save(const std::string& path, Metadata metadata, const NamedTensors& beside) const override;
  void load(const TensorSource& file) override;
  std::string broken_tensor() const override;

 private:
  // A fragment of a bucket.
  struct Place {
    std::size_t bucket, fragment;
  };
  // The traffic of a bucket during a step.
  struct Traffic {
    std::int64_t missing = 0;  // fragments whose gradients are not complete in this round
    Tensor outgoing, incoming;
    Processes::Transfer transfer;
    Tensor sum;          // of this rank's part, f32
    bool begun = false;  // `sum` has something in it
  };

  int rank() const { return processes_.rank(); }
  const Fragment& at(Place place) const { return buckets_[place.bucket].fragments[place.fragment]; }
  // Bytes of so many elements as they are sent.
  std::int64_t bytes_of(std::int64_t elements) const { return bytes_sent(sent_, elements); }
  Shape shape_of(const Fragment& fragment) const;
  void take(std::size_t parameter, const Tensor& gradient);
  void complete(const ParameterNumbers& parameters);
  void send_full_buckets();
  void send_gradients(std::size_t bucket);
  void finish(Traffic& traffic);
  void finish_transfers();
  double norm_of(const std::vector<std::string>& squares) const;
  Tensor gradient_of(Place place) const;
  // The optimiser's tensors for a parameter.
  std::vector<StateSpec> kept_of(std::size_t parameter) const;
  Tensor gather(std::size_t parameter, std::size_t index, const Shape& shape) const;

  NamedTensors parameters_;
  ParameterGroups groups_;
  Processes& processes_;
  CommDType sent_;
  std::vector<Bucket> buckets_;
  std::unique_ptr<RankWeights> weights_;
  std::vector<Traffic> traffic_;                          // of each bucket
  std::vector<std::vector<Place>> places_;                // of each parameter
  std::unordered_map<std::uint64_t, std::size_t> index_;  // of a parameter, by its id
  std::vector<char> arrived_;    // whether a parameter has a gradient in this step,
  std::vector<char> completed_;  // and whether it is complete in this round
  std::size_t next_ = 0;         // bucket that is sent in this round
  std::size_t allowed_ = 0;      // buckets that may be sent as soon as they are full
  int active_ = 0;               // ranks of this round that have a micro-batch
  std::vector<Place> own_;       // this rank's fragments
  NamedTensors slices_;          // and the tensors that they are, which are updated here
  OptimizerState state_;
};

}  // namespace tapegrad::optim
