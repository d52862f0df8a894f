#pragma once

#include <variant>

#include "tapegrad/data/loader.h"
#include "tapegrad/run/corpus/text_data.h"

namespace tapegrad::run {

// How a text becomes batches of windows.
struct BatchPlan {
  BatchKind kind = BatchKind::random;
  std::int64_t batch_size = 12, block_size = 64;
  std::int64_t stride = 64;  // of passes
};
BatchPlan batch_plan(const TextOptions& text, std::int64_t batch_size);

// The training batches of a plan: random windows, or shuffled passes over all of them.
class Batches {
 public:
  Batches(const data::Tokens& tokens, const BatchPlan& plan, Rng rng);

  data::Batch next();
  void skip();  // see data::Loader
  // The generator that they are drawn from.
  Rng& rng();
  // Batches of one pass over the text; 0 if they are random.
  std::int64_t per_pass() const;
  // Whether one of the last `batches` batches ended a pass; never if they are random.
  bool ended_pass(std::int64_t batches) const;
  std::string state() const;
  void set_state(std::string_view state);

 private:
  std::variant<data::Loader, data::EpochLoader> loader_;
};

// How passes over a text are made for training; validation is neither shuffled nor cut short.
data::EpochLoader::Options pass_options(const BatchPlan& plan, bool training);

}  // namespace tapegrad::run
