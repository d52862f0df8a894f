#include <algorithm>

#include "tapegrad/apps/cli/cli.h"
#include "tapegrad/apps/gpt/plan.h"
#include "tapegrad/apps/gpt/train_options.h"
#include "tapegrad/autograd/base/parallel.h"
#include "tapegrad/autograd/ops.h"
#include "tapegrad/data/tokenize/utf8.h"
#include "tapegrad/run/batches.h"
#include "tapegrad/run/evaluate.h"
#include "tapegrad/run/interrupt.h"
#include "tapegrad/run/sampling.h"
#include "tapegrad/run/train_loop.h"

namespace tapegrad::apps {
namespace {

MemoryEstimate memory_of(const nn::GPTConfig& c, const TrainOptions& o) {
  return estimate_memory(
      c, o.batch_size,
      {.recompute = o.recompute, .stored_masks = o.one_generator(), .precision = o.precision()});
}

Report::About describe(const nn::GPTConfig& c, const TrainOptions& o, const Text& text,
                       const Dataset& data) {
  return {.model = fmt::format("n_layer {}, n_head {}, n_embd {}, block_size {}, vocab_size {}: {} "
                               "parameters",
                               c.n_layer, c.n_head, c.n_embd, c.block_size, c.vocab_size,
                               grouped(nn::summary(c).parameters())),
          .text = fmt::format("{}: {} tokens to train, {} to validate ({})", text.name,
                              grouped(static_cast<int64_t>(data.train.size())),
                              grouped(static_cast<int64_t>(data.val.size())), o.tokenizer),
          .step = grouped(o.batch_size * o.block_size * o.gradient_accumulation_steps) + " tokens",
          .memory = memory_of(c, o),
          .product = {o.batch_size * o.block_size, c.inner(), c.n_embd}};
}

void print_samples(const nn::GPT& gpt, const data::Tokenizer& tokenizer, uint64_t seed,
                   Report& report) {
  Rng rng(seed);
  for (const char* heading : {"\nsample:", "\nanother sample:"}) {
    if (interrupted()) return;
    report.line(heading);
    stream_sample(gpt, tokenizer, default_prompt(tokenizer),
                  {.max_new_tokens = 300, .temperature = 0.8, .top_k = 200}, rng);
    report.line("");
  }
}

// The text that the model makes of the prompt, on one line.
std::string continuation(const nn::GPT& gpt, const data::Tokenizer& tokenizer,
                         const std::vector<data::Token>& prompt) {
  Rng unused(0);
  std::vector<data::Token> tokens = prompt;
  const auto added = nn::generate(gpt, prompt, {.max_new_tokens = 50, .greedy = true}, unused);
  tokens.insert(tokens.end(), added.begin(), added.end());
  data::Utf8Stream whole_characters;
  std::string text = whole_characters.push(tokenizer.decode(tokens)) + whole_characters.flush();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

int finish(const nn::GPT& gpt, const Dataset& data, const TrainOptions& options, Report& report) {
  report.working("evaluating the whole validation split");
  if (const auto loss = validation_loss(gpt, data, options)) {
    report.result(
        fmt::format("final: val loss {:.4f} (whole split), perplexity {:.2f}, {:.2f} bits "
                    "per byte",
                    loss->loss, loss->perplexity, loss->bits_per_byte),
        {{"final_val_loss", loss->loss},
         {"perplexity", loss->perplexity},
         {"bits_per_byte", loss->bits_per_byte}});
  }
  if (options.sample && !interrupted()) print_samples(gpt, data.tokenizer, options.seed, report);
  report.next_steps();
  return interrupted() ? interrupted_exit_code : 0;
}

int print_summary(const TrainOptions& options) {
  fmt::print("{}", nn::summary(options.model_config(vocab_size_of(options))).str());
  return 0;
}

// corpus → tokenizer → loader → GPT → loss, of which run_training makes a model
int train(TrainOptions options) {
  RunFolder folder = options.resumes() ? RunFolder::open(options) : RunFolder::create(options);
  const Text text = folder.text(options, own_sources);
  const Dataset data = tokenize(text, options, folder.tokenizer());
  const nn::GPTConfig config = options.model_config(data.tokenizer.vocab_size());
  const std::vector<data::Token> prompt = data.tokenizer.encode(options.sample_prompt);
  check_memory(memory_of(config, options));

  Rng rng(options.seed);
  const nn::Params params = options.resumes()
                                ? nn::Params(folder.model(), DType::f32, options.precision())
                                : nn::Params(rng, DType::f32, options.precision());
  nn::GPT gpt(params, config);
  gpt.recompute = options.recompute;
  if (!options.resumes() && options.init == "gpt2") nn::init_gpt2(gpt, params, rng);
  Batches batches(data.train, options, rng);
  options.settle_epochs(batches.per_pass());
  optim::AdamW adamw(params.parameters(), options.adamw_options());
  Rng own(options.seed, Rng::Kind::philox);
  Rng& dropout = options.one_generator() ? batches.rng() : own;
  Progress at;
  const TrainState state{params, adamw, batches, own, at};
  if (options.resumes()) folder.restore(state);
  folder.write_setup(options, {.model = config_to_json(config),
                               .training = json_of_options(options),
                               .text = text,
                               .tokenizer = data.tokenizer});
  Report report(folder, options, at, {"train-gpt", "sample-text", "--num-samples 3"});
  report.header(describe(config, options, text, data));

  const auto next_loss = [&] {
    const auto [inputs, targets] = tensors_of(batches.next());
    return BatchLoss{gpt.loss(inputs, targets, &dropout), inputs.numel()};
  };
  const auto evaluate = [&] { return estimate_losses(gpt, data, options, batches.rng()); };
  const auto after_step = [&] {
    if (prompt.empty() || !batches.ended_pass(options.gradient_accumulation_steps)) return;
    report.line(continuation(gpt, data.tokenizer, prompt));
  };
  const bool done = run_training({options, folder, report, state, next_loss, evaluate, after_step});
  return done ? finish(gpt, data, options, report) : interrupted_exit_code;
}

}  // namespace
}  // namespace tapegrad::apps

int main(int argc, char** argv) {
  using namespace tapegrad;
  return apps::run_main("train-gpt", [&] {
    const auto options = apps::parse_train_options(argc, argv);
    if (options && options->threads) set_num_threads(*options->threads);
    if (!options) return 0;
    if (options->summary) return apps::print_summary(*options);
    if (options->plan) return apps::print_plan(*options, apps::vocab_size_of(*options));
    return apps::train(*options);
  });
}
