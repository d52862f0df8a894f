#pragma once

#include <variant>

#include "tapegrad/data/loader.h"
#include "tapegrad/run/dataset.h"

namespace tapegrad::apps {

// The training batches that --batches asks for: random windows, or shuffled passes over all.
class Batches {
 public:
  Batches(const std::vector<data::Token>& tokens, const TrainOptions& options, Rng rng);

  data::Batch next();
  // The generator that they are drawn from.
  Rng& rng();
  // Batches of one pass over the text; 0 if they are random.
  int64_t per_pass() const;
  // Whether a pass came to its end with one of the last `batches` batches; never if they are
  // random.
  bool ended_pass(int64_t batches) const;
  std::string state() const;
  void set_state(std::string_view state);

 private:
  std::variant<data::Loader, data::EpochLoader> loader_;
};

// How passes over a text are made for training; validation is neither shuffled nor cut short.
data::EpochLoader::Options pass_options(const TrainOptions& options, bool training);

}  // namespace tapegrad::apps
