#include <cmath>

#include "apps/evaluate.h"
#include "apps/interrupt.h"
#include "apps/memory_estimate.h"
#include "apps/report.h"
#include "apps/run_folder.h"
#include "autograd/ops.h"
#include "autograd/parallel.h"
#include "autograd/tape.h"
#include "optim/clip.h"

namespace tapegrad::apps {
namespace {

void evaluate(const nn::GPT& gpt, const Dataset& data, const TrainOptions& options, Progress& at,
              Report& report) {
  const auto losses = estimate_losses(gpt, data, options);
  if (!losses) return;
  report.evaluation(*losses);
  check(std::isfinite(losses->train) && std::isfinite(losses->val),
        "the loss of step {} is not a number: the weights are broken. The last checkpoint is kept; "
        "lower the learning rate or clip the gradients",
        at.iteration);
  if (!at.best_val_loss || losses->val < *at.best_val_loss) {
    at.best_val_loss = losses->val;
    at.best_iteration = at.iteration;
  }
}

int finish(const nn::GPT& gpt, const Dataset& data, const TrainOptions& options, Report& report) {
  report.working("evaluating the whole validation split");
  if (const auto loss = validation_loss(gpt, data, options)) report.final(*loss);
  if (options.sample && !interrupted()) report.sample(gpt, data.tokenizer);
  report.next_steps();
  return interrupted() ? interrupted_exit_code : 0;
}

// corpus → tokenizer → loader → GPT → loss → backward → clip → AdamW → checkpoint
int train(const TrainOptions& options) {
  RunFolder folder = options.resumes() ? RunFolder::open(options) : RunFolder::create(options);
  const Text text = folder.text(options);
  const Dataset data = tokenize(text, options, folder.tokenizer());
  const nn::GPTConfig config = options.model_config(data.tokenizer.vocab_size());
  check_memory(estimate_memory(config, options.batch_size));

  Rng rng(options.seed);
  const nn::Params params = options.resumes() ? nn::Params(folder.model()) : nn::Params(rng);
  const nn::GPT gpt(params, config);
  if (!options.resumes()) nn::init_gpt2(gpt, params, rng);
  data::Loader loader(data.train, options.batch_size, options.block_size, rng);
  optim::AdamW adamw(params.parameters(), options.adamw_options());
  const optim::Schedule schedule = options.lr_schedule();
  Rng dropout(options.seed, Rng::Kind::philox);
  Progress at;
  const TrainState state{params, adamw, loader, dropout, at};
  if (options.resumes()) folder.restore(state);
  folder.write_setup(options, config, text, data.tokenizer);
  Report report(folder, options, at);
  report.header(config, text, data);

  catch_interrupts();
  for (; !interrupted(); ++at.iteration) {
    const bool ends = at.iteration >= options.max_iters;
    if (ends || at.iteration % options.eval_interval == 0) {
      evaluate(gpt, data, options, at, report);
      folder.save(state);
    }
    if (ends || interrupted()) break;
    Report::Step step(schedule(at.iteration));
    for (int64_t i = 0; i < options.gradient_accumulation_steps; ++i) {
      const auto [inputs, targets] = tensors_of(loader.next());
      const double share = 1.0 / static_cast<double>(options.gradient_accumulation_steps);
      Tape tape;
      const Tensor loss = cross_entropy(gpt(inputs, &dropout), targets);
      tape.backward(loss, {.seeds = {Tensor::scalar(share)}});
      step.loss += share * loss.item();
    }
    step.norm = optim::clip_grad_norm(params.parameters(), options.grad_clip);
    adamw.step(step.lr);
    adamw.zero_grad();
    at.seconds += report.step(step);
  }
  if (!interrupted()) return finish(gpt, data, options, report);
  folder.save(state);
  report.stopped();
  return interrupted_exit_code;
}

}  // namespace
}  // namespace tapegrad::apps

int main(int argc, char** argv) {
  using namespace tapegrad;
  return apps::run_main("train-gpt", [&] {
    const auto options = apps::parse_train_options(argc, argv);
    if (options && options->threads) set_num_threads(*options->threads);
    return options ? apps::train(*options) : 0;
  });
}
