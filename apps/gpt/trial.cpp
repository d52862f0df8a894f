#include "tapegrad/apps/gpt/trial.h"

#include <chrono>
#include <unordered_map>

#include "tapegrad/autograd/profile.h"
#include "tapegrad/optim/clip.h"
#include "tapegrad/run/plan/seconds_of.h"

namespace tapegrad::gpt {

using run::seconds_of;

Trial::Trial(const nn::DecoderConfig& config, int64_t B, int64_t T, const TrialOptions& options)
    : dropout_(1337, options.dropout),
      params_(rng_, DType::f32, options.precision),
      gpt_(make_gpt(config, options)),
      inputs_(tokens(config.vocab_size, B, T)),
      targets_(tokens(config.vocab_size, B, T)),
      updates_(optim::make_updates(params_.parameters(), options.optimizer)) {}

nn::Decoder Trial::make_gpt(const nn::DecoderConfig& config, const TrialOptions& options) {
  return nn::make_decoder(params_, config,
                          {.adapters = options.tuning.adapters(),
                           .frozen = options.tuning.frozen(),
                           .recompute = options.recompute,
                           .gpt2_weights = &rng_});
}

Tensor Trial::tokens(int64_t vocab_size, int64_t B, int64_t T) {
  std::vector<int32_t> ids(static_cast<size_t>(B * T));
  for (int32_t& id : ids) id = static_cast<int32_t>(rng_.randint(vocab_size));
  return Tensor::from(ids, {B, T});
}

Trial::Phases Trial::step() {
  Phases phases;
  {
    Tape tape;
    Tensor loss;
    phases.forward = seconds_of([&] {
      const ProfiledPart part("forward");
      loss = gpt_.loss(inputs_, targets_, &dropout_);
    });
    std::unordered_map<std::uint64_t, double> completed;
    const auto begin = std::chrono::steady_clock::now();
    const auto take = [&](Tensor parameter, const Tensor& gradient) {
      parameter.set_grad(gradient);
      completed[parameter.id()] =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    phases.backward = seconds_of([&] {
      const ProfiledPart part("backward");
      tape.backward(loss, {.take = take});
    });
    for (const auto& [name, t] : parameters()) phases.completed.push_back(completed[t.id()]);
  }
  double factor = 1;
  phases.norm = seconds_of([&] {
    const ProfiledPart part("norm of the gradients");
    factor = updates_->measure_clipping(1.0).factor;
  });
  phases.update = seconds_of([&] {
    const ProfiledPart part("update");
    updates_->step(3e-4, factor);
    updates_->zero_grad();
  });
  return phases;
}

}  // namespace tapegrad::gpt
