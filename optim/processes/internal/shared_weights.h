#pragma once

#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "tapegrad/optim/processes/internal/rank_weights.h"

namespace tapegrad::optim {

// Each rank has its fragments alone, and a block of the model (blocks_of) whole only around the
// time when it computes with it: Shard::parameters. Parameters of no block, such as embeddings and
// a head, are whole from the first round of a step to its update.
//
// The data of a parameter is absent otherwise (Tensor::release_data), and the op that asks for it
// first, forward or backward, is what brings its block, so that models know nothing of all this.
// The block was sent when the one before it was asked for, and travels while that is computed. It
// stays until the one after the next is asked for: an op at the border may work with two.
//
// To gather, all ranks must be there, and so they must come to the blocks in one order: in that of
// the parameters, and back. A rank without a micro-batch goes through the same order, and so does
// one whose backward passes a block over. Who asks in another one gets an Error. In a dry run,
// whose values do not matter, everything may be asked for.
class SharedWeights : public RankWeights {
 public:
  // Until the first round, the parameters are whole, and may be written to. Error if their memory
  // is of another owner.
  SharedWeights(const NamedTensors& parameters, const std::vector<Bucket>& buckets,
                Processes& processes);
  // Parameters have memory again, if there is enough. Contents are unspecified, but for those of
  // parameters that are whole.
  ~SharedWeights() override;

  Tensor own(std::size_t bucket, const Fragment& fragment) const override;
  void begin_round(Completed completed) override;
  void end_round() override;
  bool by_blocks() const override { return true; }
  void updated(std::size_t) override {}
  void end_update() override;
  void gather() override;

 private:
  // The number that stands for the parameters of no block.
  std::size_t others() const { return blocks_.size() - 1; }
  void keep_own_values();
  void* fetch(std::size_t parameter, std::size_t block);
  void enter_next();
  void tell_from(std::size_t block);
  void send_block(std::size_t block);
  void receive_block(std::size_t block);
  void release(std::size_t block);

  std::vector<ParameterNumbers> blocks_;
  std::vector<std::pair<std::size_t, std::size_t>> places_;  // of each block among the buckets
  std::vector<std::size_t> order_;                           // in which a round comes to blocks
  std::vector<Tensor> own_;                                  // of each bucket, what is this rank's
  std::vector<char> here_;  // whether a block is whole in this process
  bool whole_ = true;       // all are, and may have been written to
  bool in_round_ = false;
  std::thread::id computing_;
  Completed completed_;
  std::size_t next_ = 0;  // place in order_
  std::size_t told_ = 0;  // blocks from this one on
  Tensor blank_;          // for dry runs: as large as any parameter, without memory behind it
};

std::unique_ptr<RankWeights> make_shared_weights(const NamedTensors& parameters,
                                                 const std::vector<Bucket>& buckets,
                                                 Processes& processes);

}  // namespace tapegrad::optim
