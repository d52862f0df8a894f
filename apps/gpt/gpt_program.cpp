#include "tapegrad/apps/gpt/gpt_program.h"

#include "tapegrad/apps/cli/shell.h"
#include "tapegrad/apps/gpt/gpt_text.h"
#include "tapegrad/apps/gpt/init_from.h"
#include "tapegrad/apps/gpt/samples.h"
#include "tapegrad/base/interrupt.h"
#include "tapegrad/base/memory/dry_run.h"
#include "tapegrad/base/text/words.h"
#include "tapegrad/run/record/report.h"

namespace tapegrad::gpt {
namespace {

// The options that depend on the text: the vocabulary, the tokenizer of a folder of tokens, and the
// steps that --epochs take. Nothing changes them after this.
void settle(Options& o, const run::TextData& data) {
  o.model.vocab_size = data.tokenizer.vocab_size();
  if (o.text.tokenizer.empty()) {
    o.text.tokenizer = run::tokenizer_spec(data.tokenizer, o.text.data);
  }
  // The folder keeps a text that cannot be read again.
  if (o.text.source().reads_stdin()) o.text.corpus.clear();
  if (const auto epochs = std::exchange(o.passes.epochs, std::nullopt)) {
    const std::int64_t parts = o.optimizer.gradient_accumulation_steps;
    const std::int64_t pass = run::Batches(data.train, o.batches(), Rng(0)).per_pass();
    o.optimizer.max_iters = (*epochs * pass + parts - 1) / parts;
  }
}

nn::Params make_params(const Options& o, const run::RunFolder& folder, Rng& rng) {
  if (o.call.folder.starts_from_model()) return initial_params(o);
  return folder.params(rng, o.optimizer.precision());
}

// What `rng` draws for a model that is not new are its adapters.
nn::Decoder make_gpt(const nn::Params& params, const Options& o, Rng& rng) {
  const run::FolderOptions& folder = o.call.folder;
  const bool starts = folder.starts_from_model();
  nn::DecoderMaking how = o.tuning.making(o.extras.recompute);
  if (starts) how.new_adapters = &rng;
  if (!starts && !folder.resumes() && o.init.init == FirstWeights::gpt2) how.gpt2_weights = &rng;
  nn::Decoder gpt = nn::make_decoder(params, o.model, how);
  if (starts) check_initial_params(o, params);
  return gpt;
}

}  // namespace

std::unique_ptr<cli::Prepared> Training::prepare(run::RunFolder& folder) {
  const run::FolderOptions& from = o_.call.folder;
  run::LearntText learnt =
      run::text_data_of(o_.text, {.folder = folder,
                                  .format = format(),
                                  .own_text = own_sources,
                                  .tokenizer = given_tokenizer(o_),
                                  .tokenizer_of = folder.resumes() ? from.out_dir : from.init_from,
                                  .seed = o_.random.seed});
  print_note(o_, learnt);
  settle(o_, learnt.data);
  return std::make_unique<Program>(o_, folder, std::move(learnt.text), std::move(learnt.data));
}

Program::Program(const Options& options, run::RunFolder& folder, run::Text text, run::TextData data)
    : options_(options),
      folder_(folder),
      text_(std::move(text)),
      data_(std::move(data)),
      settings_(given_settings(options)),
      prompt_(run::prompt_tokens(data_.tokenizer, options.passes.sample_prompt)),
      memory_(run::checked_memory(memory_of(options), options.call.max_minutes.has_value(),
                                  folder.processes())),
      rng_(options.random.seed),
      params_(make_params(options, folder, rng_)),
      gpt_(make_gpt(params_, options, rng_)),
      batches_(data_.train, options.batches(), rng_),
      own_dropout_(options.random.seed, Rng::Kind::philox) {}

run::Task Program::task() {
  run::Config config = run::config_of(options_, run::kGPTFormat);
  config.set(run::section_of("model", options_.model));
  run::keep_identity(config, text_);
  return {
      .params = params_,
      .batches = batches_,
      .loss = [this] { return next_loss(); },
      .pass_over = [this] { pass_over(); },
      .evaluate =
          [this] {
            return run::estimate_losses(gpt_, data_, options_.batches(),
                                        options_.evaluation.eval_iters, options_.random,
                                        batches_.rng(), folder_.processes());
          },
      .dropout = &own_dropout_,
      .config = std::move(config),
      .write_files =
          [this](const std::filesystem::path& folder) {
            run::save_settings(folder, settings_, data_.tokenizer);
            run::keep_text(folder, data_.tokenizer, options_.text.source(), text_);
          },
      .after_step = [this](run::Report& report) { print_continuation(report); },
      .at_step = [this](run::Report& report) { print_sample(report); },
      .finish = [this](run::Report& report) { finish(report); },
      .side_costs = [this] { return side_costs(); },
      .about = about(),
  };
}

run::Loss Program::next_loss() {
  const auto [inputs, targets] = run::tensors_of(batches_.next());
  return {gpt_.loss(inputs, targets, &dropout()), inputs.numel()};
}

void Program::pass_over() {
  batches_.skip();
  if (options_.model.dropout == 0) return;
  const DryRun dry(DryRun::Draws::made);
  const Tensor ids =
      Tensor::zeros({options_.optimizer.batch_size, options_.text.block_size}, DType::i32);
  gpt_.loss(ids, ids, &dropout());
}

run::About Program::about() const {
  const nn::DecoderConfig& c = options_.model;
  const run::OptimizerOptions& o = options_.optimizer;
  const std::int64_t T = options_.text.block_size;
  run::About about{
      .lines = {{"model",
                 fmt::format("{}{} parameters: {} layers, {} heads, {} channels; it sees {} tokens "
                             "at once{}",
                             c.arch == nn::Architecture::gpt2
                                 ? ""
                                 : fmt::format("{}, ", name_of_enum(c.arch)),
                             grouped(params_.total_count()), c.n_layer, c.n_head, c.n_embd,
                             grouped(c.block_size),
                             T == c.block_size ? "" : fmt::format(", in training {}", grouped(T))),
                 fmt::format("n_layer {}, n_head {}, n_embd {}, block_size {}, vocab_size {}",
                             c.n_layer, c.n_head, c.n_embd, c.block_size, c.vocab_size)},
                {"text",
                 fmt::format("{}: {} to train, {} to validate ({})", text_name(text_),
                             amount(data_.train, data_.train_documents),
                             amount(data_.val, data_.val_documents), options_.text.tokenizer)}},
      .step = grouped(o.batch_size * T * o.gradient_accumulation_steps) + " tokens",
      .memory = memory_,
      .product = product_of(options_),
      .use_command = fmt::format("{} {} --num-samples 3", cli::program_path("tapegrad sample"),
                                 cli::quoted(folder_.path().string()))};
  const auto tuning = about_tuning(options_, params_);
  about.lines.insert(about.lines.begin() + 1, tuning.begin(), tuning.end());
  return about;
}

void Program::finish(run::Report& report) const {
  const std::string what = "evaluating the validation split";
  report.working(what);
  const auto limit = run::evaluation_limit(options_.passes.final_eval, report.training_seconds());
  std::optional<run::TextLoss> loss;
  if (limit) {
    loss = run::loss_of_tokens(gpt_, data_.tokenizer, data_.val,
                               {.batch_size = options_.optimizer.batch_size,
                                .block_size = options_.text.block_size,
                                .limit = *limit,
                                .on_progress = [&](double share, double left) {
                                  report.progress(what + ": " + run::progress_text(share, left));
                                }});
  }
  if (loss) {
    const std::string seen =
        loss->share == 1 ? "whole split" : fmt::format("{:.3g} % of the split", 100 * loss->share);
    report.result(fmt::format("final: val loss {} ({}), perplexity {:.2f}, {:.2f} bits per byte",
                              loss_text(loss->loss), seen, loss->perplexity, loss->bits_per_byte),
                  {{"final_val_loss", loss->loss},
                   {"final_val_share", loss->share},
                   {"perplexity", loss->perplexity},
                   {"bits_per_byte", loss->bits_per_byte}});
  }
  if (options_.call.sample) print_samples(report);
}

void Program::print_samples(run::Report& report) const {
  Rng rng(options_.random.seed);
  nn::GenerateOptions sampling = kSampling;
  sampling.stop_tokens = data_.tokenizer.ends();
  nn::TokenStream stream(gpt_, std::vector<nn::Tokens>{run::default_prompt(data_.tokenizer)},
                         sampling, rng, {.times = std::ssize(kSampleHeadings)});
  for (const char* heading : kSampleHeadings) {
    if (interrupted()) return;
    report.line(heading);
    run::stream_text(stream, data_.tokenizer, [&](std::string_view piece) {
      report.text(piece);
      return !interrupted();
    });
    report.line("");
    stream.next_text();
  }
}

// After every sample_interval steps: the same draws each time, and none of the run's own.
void Program::print_sample(run::Report& report) const {
  const auto interval = options_.passes.sample_interval;
  if (!interval || report.iteration() % *interval != 0) return;
  Rng rng(options_.random.seed);
  report.line(fmt::format("\nsample at step {}:", report.iteration()));
  std::string text = options_.passes.sample_prompt;
  report.text(text);
  run::stream_text(gpt_, data_.tokenizer, prompt_, kSampling, rng, [&](std::string_view piece) {
    report.text(piece);
    text += piece;
    return !interrupted();
  });
  report.line("\n");
  // A text that a signal has cut is made again when the run is resumed.
  if (!interrupted()) report.record({{"sample", text}});
}

// After each pass: the text that the model makes of the prompt, on one line.
void Program::print_continuation(run::Report& report) const {
  const std::int64_t parts = options_.optimizer.gradient_accumulation_steps;
  if (!continues_prompt() || !batches_.ended_pass(parts)) return;
  Rng unused(0);
  std::string text = options_.passes.sample_prompt;
  run::stream_text(gpt_, data_.tokenizer, prompt_,
                   {.max_new_tokens = kContinuationTokens, .greedy = true}, unused,
                   [&](std::string_view piece) {
                     text += piece;
                     return true;
                   });
  std::replace(text.begin(), text.end(), '\n', ' ');
  report.line(text);
}

}  // namespace tapegrad::gpt
