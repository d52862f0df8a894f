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
      adamw_(params_.parameters(), {.beta2 = 0.95, .weight_decay = 0.1}) {}

nn::Decoder Trial::make_gpt(const nn::DecoderConfig& config, const TrialOptions& options) {
  params_.adapt(options.tuning.adapters());
  nn::Decoder gpt(params_, config);
  nn::init_gpt2(gpt, params_, rng_);
  params_.freeze(options.tuning.frozen());
  gpt.recompute = options.recompute;
  return gpt;
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
    factor = optim::measure_clipping(params_.parameters(), 1.0).factor;
  });
  phases.adamw = seconds_of([&] {
    const ProfiledPart part("AdamW");
    adamw_.step(3e-4, factor);
    adamw_.zero_grad();
  });
  return phases;
}

}  // namespace tapegrad::gpt
