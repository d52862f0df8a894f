#include "tapegrad/apps/bench/trial.h"

#include <unordered_map>

#include "tapegrad/base/stopwatch.h"
#include "tapegrad/optim/internal/averaged_sync.h"
#include "tapegrad/run/train/internal/updater.h"

namespace tapegrad::bench {
namespace {

// Notes when backward has completed each gradient. For one process, and one batch a step.
class TimedGradientSync : public optim::GradientSync {
 public:
  explicit TimedGradientSync(optim::GradientSync& sync) : sync_(sync) {}

  void round(int, const Backward& backward) override {
    const Stopwatch watch;
    backward([&](Tensor parameter, const Tensor& gradient) {
      parameter.set_grad(gradient);
      completed_[parameter.id()] = watch.seconds();
    });
  }
  // Seconds after the round began.
  double completed(const Tensor& parameter) { return completed_[parameter.id()]; }

  optim::Clipping measure_clipping(double max_norm) override {
    return sync_.measure_clipping(max_norm);
  }
  std::vector<GradientPart> gradients() const override { return sync_.gradients(); }
  void step(double lr, double grad_factor, double decay_factor) override {
    sync_.step(lr, grad_factor, decay_factor);
  }
  void zero_grad() override { sync_.zero_grad(); }
  std::int64_t steps() const override { return sync_.steps(); }
  const optim::ParameterGroups& groups() const override { return sync_.groups(); }
  void save(const std::string& path, Metadata metadata, const NamedTensors& beside) const override {
    sync_.save(path, std::move(metadata), beside);
  }
  void load(const TensorSource& file) override { sync_.load(file); }
  std::string broken_tensor() const override { return sync_.broken_tensor(); }

 private:
  optim::GradientSync& sync_;
  std::unordered_map<std::uint64_t, double> completed_;
};

}  // namespace

Trial::Trial(const nn::DecoderConfig& config, int64_t B, int64_t T, const run::StepOptions& options,
             std::optional<DocumentLengths> documents)
    : dropout_(1337, options.dropout),
      documents_(documents),
      params_(options.params ? options.params() : nn::Params(rng_, DType::f32, options.precision)),
      gpt_(make_gpt(config, options)),
      inputs_(rows(B, T)),
      targets_(tokens(B, T)),
      task_{.params = params_,
            .batches = dropout_,
            .objective = run::objective_of(
                [this, loss = options.loss] {
                  return run::Loss(loss ? loss(gpt_, nullptr, inputs_, targets_, &dropout_)
                                        : gpt_.loss(inputs_, targets_, &dropout_));
                },
                {})},
      sync_(optim::make_gradient_sync(params_.parameters(), options.optimizer)) {
  if (options.averages) {
    sync_ = optim::with_averages(std::move(sync_), params_.parameters(), *options.averages);
  }
}

nn::Decoder Trial::make_gpt(const nn::DecoderConfig& config, const run::StepOptions& options) {
  nn::DecoderBuildOptions how = options.tuning.build_options(options.recompute);
  (options.params ? how.new_adapters : how.gpt2_weights) = &rng_;
  return nn::make_decoder(params_, config, how);
}

Tensor Trial::tokens(int64_t B, int64_t T) {
  std::vector<int32_t> ids(static_cast<size_t>(B * T));
  for (int32_t& id : ids) id = static_cast<int32_t>(rng_.randint(gpt_.config.vocab_size));
  return Tensor::from(ids, {B, T});
}

// The last document of a row is cut where the row ends.
nn::TokenRows Trial::rows(int64_t B, int64_t T) {
  const Tensor ids = tokens(B, T);
  if (!documents_) return ids;
  std::vector<int32_t> starts;
  for (int64_t b = 0; b < B; ++b) {
    for (int64_t t = 0, start = 0, end = 0; t < T; ++t) {
      if (t == end) {
        start = t;
        end += documents_->least + rng_.randint(documents_->most - documents_->least + 1);
      }
      starts.push_back(static_cast<int32_t>(start));
    }
  }
  return {ids, Tensor::from(starts, {B, T})};
}

void Trial::set_batch(int64_t B, int64_t T) {
  inputs_ = rows(B, T);
  targets_ = tokens(B, T);
}

Trial::Phases Trial::step() {
  TimedGradientSync timed(*sync_);
  run::Progress unused;
  const run::Report::Step step = run::Updater(task_, {}, timed).step(3e-4, unused);
  Phases phases{step.times, {}};
  for (const auto& [name, t] : parameters()) {
    phases.completed.push_back(timed.completed(t) - phases.forward);
  }
  return phases;
}

}  // namespace tapegrad::bench
