#pragma once

#include <memory>
#include <variant>
#include <vector>

#include "tapegrad/data/loader.h"
#include "tapegrad/data/packed_batches.h"
#include "tapegrad/run/corpus/text_data.h"

namespace tapegrad::run {

// How a text becomes batches of windows.
struct BatchPlan {
  BatchKind kind = BatchKind::random;
  std::int64_t batch_size = 12, block_size = 64;
  std::int64_t stride = 64;                       // of epochs
  data::ChatLoss loss = data::ChatLoss::answers;  // of conversations
};
BatchPlan batch_plan(const TextOptions& text, std::int64_t batch_size);

// The training batches of a plan: random windows, shuffled epochs over all of them, or rows that
// are packed with conversations.
class Batches {
 public:
  Batches(const data::TokenSource& tokens, const BatchPlan& plan, Rng rng);
  Batches(const TextData& data, const BatchPlan& plan, Rng rng);  // of the training part

  data::Batch next();
  void skip();  // see data::Loader
  // The generator that they are drawn from.
  Rng& rng();
  // How many targets of each of the next batches count, if some do not; else empty.
  std::vector<std::int64_t> counted(std::int64_t batches) const;
  // Batches of one epoch; 0 if they are random.
  std::int64_t per_epoch() const;
  // True if one of the last `batches` batches ended an epoch; never if they are random.
  bool ended_epoch(std::int64_t batches) const;
  std::string state() const;
  void set_state(std::string_view state);

 private:
  std::variant<data::Loader, data::EpochLoader, data::PackedBatches> loader_;
};

// Packed rows of a plan. For training they are shuffled; see data::PackedBatches.
data::PackedBatches packed_batches(std::shared_ptr<const data::ChatSet> set, const BatchPlan& plan,
                                   bool training, Rng rng);

// How an epoch over a text is made for training; validation is neither shuffled nor cut short.
data::EpochLoader::Options epoch_options(const BatchPlan& plan, bool training);

}  // namespace tapegrad::run
