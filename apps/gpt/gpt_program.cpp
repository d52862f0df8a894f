#include "tapegrad/apps/gpt/gpt_program.h"

#include <algorithm>

#include "tapegrad/apps/cli/shell.h"
#include "tapegrad/apps/gpt/evaluate_text.h"
#include "tapegrad/apps/gpt/gpt_text.h"
#include "tapegrad/apps/gpt/init_from.h"
#include "tapegrad/apps/gpt/plan.h"
#include "tapegrad/apps/gpt/samples.h"
#include "tapegrad/autograd/ops.h"
#include "tapegrad/base/dry_run.h"
#include "tapegrad/base/interrupt.h"
#include "tapegrad/base/text/utf8.h"
#include "tapegrad/base/text/words.h"
#include "tapegrad/nn/summary.h"
#include "tapegrad/run/corpus/token_folder.h"

namespace tapegrad::embedded {
std::string_view default_corpus();
}

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

// What each process holds. Error if the machine cannot.
run::MemoryEstimate checked_memory(const Options& o, const run::RunFolder& folder) {
  const run::MemoryEstimate memory = memory_of(o);
  run::check_memory(memory, o.call.max_minutes.has_value(), folder.processes());
  return run::memory_of_rank(memory, folder.processes());
}

nn::Params make_params(const Options& o, const run::RunFolder& folder, Rng& rng) {
  if (o.call.folder.starts_from_model()) return initial_params(o);
  return folder.params(rng, o.optimizer.precision());
}

// What `rng` draws for a model that is not new are its adapters.
nn::Decoder make_gpt(const nn::Params& params, const Options& o, Rng& rng) {
  const run::FolderOptions& folder = o.call.folder;
  const bool starts = folder.starts_from_model();
  nn::DecoderMaking how = tuned_by(o);
  if (starts) how.new_adapters = &rng;
  if (!starts && !folder.resumes() && o.init.init == FirstWeights::gpt2) how.gpt2_weights = &rng;
  nn::Decoder gpt = nn::make_decoder(params, o.model, how);
  if (starts) check_initial_params(o, params);
  return gpt;
}

// --corpus may name a folder of --data, also in place of the one that a run has kept. Its tokenizer
// is that of the folder, whatever the preset has.
void take_folder(Options& o, const cli::CommandLine& cli) {
  run::TextOptions& text = o.text;
  if (!cli.given("--data") && text.corpus.size() == 1 && run::is_token_folder(text.corpus[0])) {
    text.data = text.corpus[0];
    text.corpus.clear();
  }
  if (text.data.empty() || o.call.folder.resumes()) return;
  if (!cli.given("--tokenizer")) text.tokenizer.clear();
}

// --eval-only.
int print_evaluation(const Options& o) {
  const run::FolderOptions& folder = o.call.folder;
  if (folder.out_dir.empty()) cli::usage_error("--eval-only needs --out-dir: the folder of a run");
  const run::TextModel model = run::load(folder.out_dir);
  Options stored;
  const std::filesystem::path path = std::filesystem::path(folder.out_dir) / run::kConfigFile;
  run::read_options(path, run::read_config(path, run::kGPTFormat), stored);
  const run::Text text = run::text_of_run(folder.out_dir, run::kGPTFormat, stored.text.source());
  const auto limit =
      run::evaluation_limit(o.passes.final_eval == "auto" ? "all" : o.passes.final_eval, 0);
  if (!limit) cli::usage_error("--eval-only and --final-eval none leave nothing to do");
  const data::Tokens val =
      text.tokens ? run::tokens_of(text, model.tokenizer, "")
                  : run::tokenize(text, model.tokenizer, stored.text.division(stored.random.seed),
                                  model.gpt.config.block_size)
                        .val;
  const auto result = evaluate_text(model, val,
                                    {.batch_size = stored.optimizer.batch_size,
                                     .block_size = model.gpt.config.block_size,
                                     .limit = *limit});
  if (result) fmt::print("validation split of {}: {}\n", text.identity.name, result->line());
  return interrupted() ? kInterruptedExitCode : 0;
}

}  // namespace

run::Text own_sources() {
  return run::text_of_program("the program's own sources", embedded::default_corpus());
}

Product product_of(const Options& o) {
  return {o.optimizer.batch_size * o.model.block_size, o.model.inner(), o.model.n_embd};
}

std::int64_t vocab_size_of(const Options& o) {
  if (const auto given = given_tokenizer(o)) return given->vocab_size();
  std::optional<run::Text> text;
  const auto read = [&]() -> const run::Text& {
    return text.emplace(run::text_of_new_run(o.text.source(), own_sources));
  };
  return run::make_tokenizer(o.text, o.random.seed, read).vocab_size();
}

run::MemoryEstimate memory_of(const Options& o) {
  return run::estimate_memory(o.model, o.optimizer.batch_size,
                              {.recompute = o.extras.recompute,
                               .stored_masks = o.random.one_generator(),
                               .precision = o.optimizer.precision(),
                               .tuning = o.tuning,
                               .optimizer = o.optimizer.rules()});
}

void Training::describe(cli::CommandLine& cli) const {
  cli.example("tapegrad train", "two minutes on the program's own sources, then a sample");
  cli.example("tapegrad train --preset char-cpu --corpus shakespeare.txt",
              "nanoGPT's laptop recipe");
  cli.example("tapegrad train --corpus notes/ --tokenizer bpe:2000 --out-dir runs/notes",
              "all text files below a folder, with 2,000 tokens learnt from them");
  cli.example("zcat wiki.jsonl.gz | tapegrad train -", "any text from another program");
  cli.example("tapegrad train --corpus stories.jsonl.zst --field story",
              "JSON lines, packed or not");
  cli.example(
      "tapegrad train tales.txt --separator '\\n\\n\\n' --tokenizer bpe:2000 --sample-interval 500",
      "documents with two empty lines between them, and a sample every 500 steps");
  cli.example("tapegrad train notes/ --val letters/", "validates with other texts");
  cli.example("tapegrad train --data wiki-tokens/",
              "what tapegrad prepare has made of a large corpus");
  cli.example("tapegrad train --preset char --corpus notes/ --max-minutes 480",
              "a larger model, for as many steps as a night has time for");
  cli.example("tapegrad train --preset llama-char --corpus shakespeare.txt",
              "Llama's architecture, at the size of a laptop");
  cli.example("tapegrad train --preset gpt2-124m --block-size 1024 --summary",
              "GPT-2's layers, their parameters and FLOPs");
  cli.example("tapegrad train --preset gpt2-124m --batch-size 16 --plan",
              "whether that fits, and how long it would take");
  cli.example("tapegrad train --init-from resume --out-dir runs/notes --max-iters 4000",
              "goes on where that run stopped, up to 4,000 steps in all");
  cli.example("tapegrad train --init-from runs/notes letters/ --learning-rate 1e-4 --max-iters 500",
              "a new run on another text, which starts with the weights of that one");
  cli.example("tapegrad train --init-from SmolLM2-135M.gguf letters/ --max-iters 100",
              "a model of another program learns more: GGUF, or a folder of Hugging Face's");
  cli.example("tapegrad train --init-from runs/notes letters/ --lora-rank 8 --learning-rate 1e-3",
              "the same with LoRA: trains small adapters beside the weights, which stay");
}

void Training::adjust(const cli::CommandLine& cli) {
  Options& o = o_;
  if (cli.given("--epochs") && cli.given("--max-iters")) {
    cli::usage_error("--epochs and --max-iters exclude each other");
  }
  if (cli.given("--epochs") && cli.given("--max-minutes")) {
    cli::usage_error("--epochs and --max-minutes exclude each other");
  }
  if (cli.given("--epochs")) o.call.max_minutes.reset();
  for (const char* option : {"--ranks", "--bandwidth", "--latency"}) {
    if (o.extras.plan || !cli.given(option)) continue;
    cli::usage_error("{} is for --plan: `mpirun -n 4 {} …` starts four processes", option,
                     cli::program_path("tapegrad train"));
  }
  if (cli.given("--max-iters") || o.call.max_minutes) o.passes.epochs.reset();
  take_folder(o, cli);
  take_initial_model(o, cli);
  if (o.extras.plan) {
    o.extras.batches_of_ranks =
        cli::batches_of_ranks(common(), cli, static_cast<int>(o.extras.ranks));
  }
}

Product Training::product() const { return product_of(o_); }

std::optional<int> Training::instead() const {
  if (o_.extras.eval_only) return print_evaluation(o_);
  if (!o_.extras.summary && !o_.extras.plan) return std::nullopt;
  Options known = o_;
  known.model.vocab_size = vocab_size_of(o_);
  if (o_.extras.plan) return print_plan(known);
  fmt::print("{}", nn::summary(known.model).str());
  return 0;
}

std::unique_ptr<cli::Prepared> Training::prepare(run::RunFolder& folder) {
  const run::FolderOptions& from = o_.call.folder;
  run::LearntText learnt =
      run::text_data_of(o_.text, {.folder = folder,
                                  .format = format(),
                                  .own_text = own_sources,
                                  .tokenizer = given_tokenizer(o_),
                                  .tokenizer_of = folder.resumes() ? from.out_dir : from.init_from,
                                  .seed = o_.random.seed,
                                  .block_size = o_.model.block_size});
  print_note(o_, learnt);
  settle(o_, learnt.data);
  return std::make_unique<Program>(o_, folder, std::move(learnt.text), std::move(learnt.data));
}

Program::Program(const Options& options, run::RunFolder& folder, run::Text text, run::TextData data)
    : options_(options),
      folder_(folder),
      text_(std::move(text)),
      data_(std::move(data)),
      prompt_(run::prompt_tokens(data_.tokenizer, options.passes.sample_prompt)),
      memory_(checked_memory(options, folder)),
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
      Tensor::zeros({options_.optimizer.batch_size, options_.model.block_size}, DType::i32);
  gpt_.loss(ids, ids, &dropout());
}

run::About Program::about() const {
  const nn::DecoderConfig& c = options_.model;
  const run::OptimizerOptions& o = options_.optimizer;
  run::About about{
      .lines = {{"model",
                 fmt::format("{}{} parameters: {} layers, {} heads, {} channels; it sees {} tokens "
                             "at once",
                             c.arch == nn::Architecture::gpt2
                                 ? ""
                                 : fmt::format("{}, ", name_of_enum(c.arch)),
                             grouped(params_.total_count()), c.n_layer, c.n_head, c.n_embd,
                             grouped(c.block_size)),
                 fmt::format("n_layer {}, n_head {}, n_embd {}, block_size {}, vocab_size {}",
                             c.n_layer, c.n_head, c.n_embd, c.block_size, c.vocab_size)},
                {"text",
                 fmt::format("{}: {} to train, {} to validate ({})", text_name(text_),
                             amount(data_.train, data_.train_documents),
                             amount(data_.val, data_.val_documents), options_.text.tokenizer)}},
      .step = grouped(o.batch_size * c.block_size * o.gradient_accumulation_steps) + " tokens",
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
                                .block_size = options_.model.block_size,
                                .limit = *limit,
                                .on_progress = [&](double share, double left) {
                                  report.progress(what + ": " + run::progress_text(share, left));
                                }});
  }
  if (loss) {
    const std::string seen =
        loss->share == 1 ? "whole split" : fmt::format("{:.3g} % of the split", 100 * loss->share);
    report.result(
        fmt::format("final: val loss {:.4f} ({}), perplexity {:.2f}, {:.2f} bits per byte",
                    loss->loss, seen, loss->perplexity, loss->bits_per_byte),
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
