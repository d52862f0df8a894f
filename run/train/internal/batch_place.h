#pragma once

#include <optional>
#include <string>

#include "tapegrad/run/folder/run_checkpoint.h"

namespace tapegrad::run {

// The place of training among its batches.
class BatchPlace {
 public:
  // `batches` must live as long as this. `repeats`: all steps have the same batches.
  BatchPlace(const Resumable& batches, bool repeats) : batches_(batches), repeats_(repeats) {}

  // Goes back after `work`, until the next step: a checkpoint that is taken in between repeats
  // `work` after a resume.
  template <class Work>
  void look_ahead(const Work& work) {
    const std::string before = batches_.state();
    work();
    ahead_ = batches_.state();
    batches_.set_state(before);
  }
  // What `make` returns, which draws a step's batches.
  template <class Make>
  auto step(const Make& make) {
    if (ahead_ && !repeats_) batches_.set_state(*ahead_);
    ahead_.reset();
    const std::string drawn = repeats_ ? batches_.state() : std::string();
    auto made = make();
    if (repeats_) batches_.set_state(drawn);
    return made;
  }

 private:
  const Resumable& batches_;
  const bool repeats_;
  std::optional<std::string> ahead_;
};

}  // namespace tapegrad::run
