#pragma once

#include <functional>
#include <memory>

#include "tapegrad/comm/processes.h"
#include "tapegrad/optim/internal/shares.h"
#include "tapegrad/optim/sharing.h"

namespace tapegrad::optim {

// The parameters of several processes, each of which updates its own fragments. Functions marked
// (all) must be called by every rank, in the same order.
class RankWeights {
 public:
  // Receives parameters whose gradients are complete, as far as there are any.
  using Completed = std::function<void(const ParameterNumbers&)>;

  // Waits: transfers under way use this object's memory.
  virtual ~RankWeights();
  RankWeights(const RankWeights&) = delete;
  RankWeights& operator=(const RankWeights&) = delete;

  // The values of a fragment of this rank, in one dimension, which updates change.
  virtual Tensor own(std::size_t bucket, const Fragment& fragment) const = 0;
  // (all) Before and after the forward and backward pass of a round, on ranks that make none, too.
  // In between, `completed` receives all parameters once, in the same order on all ranks.
  virtual void begin_round(Completed completed) = 0;
  virtual void end_round() = 0;
  // True if `completed` receives parameters block by block. Then it must send their gradients, and
  // nobody may do so earlier: weights travel between them, and all ranks must send both in the same
  // order.
  virtual bool by_blocks() const = 0;
  // (all) In an update: buckets before `end` have new values; and all of them do.
  virtual void updated(std::size_t end) = 0;
  virtual void end_update() = 0;
  // (all) Until the next round or update, each rank has all parameters.
  virtual void gather() = 0;

 protected:
  RankWeights(const NamedTensors& parameters, const std::vector<Bucket>& buckets,
              Processes& processes);
  // (all) Begins to send this rank's own() of a bucket to all; waits for what is sent, which is the
  // values of the whole bucket.
  void send(std::size_t bucket);
  Tensor receive(std::size_t bucket);
  int rank() const { return processes_.rank(); }

  NamedTensors parameters_;
  const std::vector<Bucket>& buckets_;

 private:
  struct Traffic {
    Tensor values;
    Processes::Transfer transfer;
  };
  Processes& processes_;
  std::vector<Traffic> traffic_;  // of each bucket
};

// `buckets` must live as long as the object. For Shard::parameters, they must be share_out()'s by
// the blocks of the parameters.
std::unique_ptr<RankWeights> make_rank_weights(Shard shard, const NamedTensors& parameters,
                                               const std::vector<Bucket>& buckets,
                                               Processes& processes);

}  // namespace tapegrad::optim
