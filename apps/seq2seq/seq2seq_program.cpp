#include "tapegrad/apps/seq2seq/seq2seq_program.h"

#include <algorithm>
#include <utility>

#include "tapegrad/apps/cli/run_processes.h"
#include "tapegrad/apps/cli/shell.h"
#include "tapegrad/apps/seq2seq/accuracy.h"
#include "tapegrad/base/interrupt.h"
#include "tapegrad/base/stopwatch.h"
#include "tapegrad/base/text/words.h"
#include "tapegrad/data/tokenize/decode_text.h"
#include "tapegrad/nn/summary.h"
#include "tapegrad/run/models/pair_tensors.h"
#include "tapegrad/run/record/report.h"

namespace tapegrad::seq2seq {
namespace {

constexpr std::size_t kExamples = 5;

PairData read_data(const run::Text& text, const Options& o, const run::RunFolder& folder) {
  if (!folder.resumes()) return read_pairs(text, o);
  return read_pairs(text, o, data::Tokenizer::load(folder.path() / run::kTokenizerFile));
}

// The memory that the largest possible batch needs.
run::MemoryEstimate memory_of(const Options& o, const PairData& data) {
  run::PairSizes batch{.rows = o.optimizer.batch_size, .source = 0, .target = 0};
  for (const data::TokenPair& pair : data.train) {
    batch.source = std::max(batch.source, static_cast<std::int64_t>(pair.source.size()));
    batch.target = std::max(batch.target, static_cast<std::int64_t>(pair.target.size()) + 1);
  }
  return run::estimate_memory(o.model, batch,
                              {.step = {.precision = o.optimizer.precision(),
                                        .dropout = o.random.rng,
                                        .optimizer = o.optimizer.rules,
                                        .averages = o.optimizer.averages()}});
}

nn::Transformer make_model(const nn::Params& params, const Options& o, Rng& rng) {
  nn::Transformer model(params, o.model);
  if (!o.call.folder.resumes()) nn::init_transformer(params, rng);
  return model;
}

Product product_of(const Options& o) {
  return {o.optimizer.batch_size * o.model.block_size, o.model.n_hidden, o.model.n_embd};
}

void describe(cli::CommandLine& cli) {
  cli.common("What is learnt", {"--corpus", "--tokenizer", "--block-size", "--held-out"});
  cli.common("For how long, and where",
             {"--preset", "--max-minutes", "--max-iters", "--out-dir", "--init-from", "--serve"});
  cli.common("The model", {"--n-layer", "--n-head", "--n-embd", "--dropout", "--seed"});
  cli.common("Steps", {"--batch-size", "--gradient-accumulation-steps", "--learning-rate",
                       "--schedule", "--optimizer", "--weight-decay", "--dtype", "--threads"});
  cli.common("Evaluation", {"--eval-interval", "--early-stop", "--keep"});
  cli.example("tapegrad seq2seq", "learns to write dates and times as ISO 8601");
  cli.example("tapegrad seq2seq --corpus pairs.tsv --out-dir runs/pairs",
              "learns from a file whose lines are a source, a tab and a target");
  cli.example("tapegrad seq2seq --init-from resume --out-dir runs/pairs --max-iters 6000",
              "goes on where that run stopped, up to 6,000 steps in all");
}

Options resolve(const cli::Arguments<Options>& arguments, const Facts& facts) {
  Options plan = arguments.options;
  if (plan.call.folder.starts_from_model()) {
    cli::usage_error(
        "--init-from must be scratch or resume, not {}: only train-gpt starts from a "
        "model",
        plan.call.folder.init_from);
  }
  cli::resolve_shared(plan, arguments);
  cli::resolve_dtype(plan.optimizer, facts.faster);
  if (facts.vocab_size) plan.model.vocab_size = *facts.vocab_size;
  return plan;
}

void check_patterns(const Options& o) {
  const optim::GroupRules rules = o.optimizer.rules;
  if (rules.plain()) return;
  optim::make_groups(nn::shapes_of<nn::Transformer>(o.model).parameters(), rules);
}

run::Text read_text(const Options& o, const run::RunFolder& folder) {
  return folder.resumes() ? run::text_of_run(folder.path(), run::kSeq2SeqFormat, {o.text.corpus})
                          : run::text_of_new_run({o.text.corpus}, own_pairs);
}

}  // namespace

const cli::TrainingProgram<Options, Facts>& training() {
  static const cli::TrainingProgram<Options, Facts> program{
      .summary =
          "Trains an encoder-decoder Transformer on pairs of texts, and keeps it in a run folder.",
      .format = run::kSeq2SeqFormat,
      .presets = presets(),
      .describe = describe,
      .resolve = resolve,
      .check_patterns = check_patterns,
      .product = product_of};
  return program;
}

int train(const cli::Call& call) {
  ignore_closed_pipes();
  return cli::run_processes(call.name, [&](Processes& processes) {
    const auto parsed = cli::parse(training(), call, processes);
    if (!parsed) return 0;
    cli::TrainingCall here(call, processes, parsed->arguments.given, parsed->plan);
    run::Text text = read_text(parsed->plan, here.folder());
    PairData data = read_data(text, parsed->plan, here.folder());
    Facts facts = parsed->facts;
    facts.vocab_size = data.vocab_size();
    const Options plan = resolve(parsed->arguments, facts);
    Program program(plan, here.folder(), std::move(text), std::move(data));
    return here.train(program.task(), plan.optimizer, plan.evaluation);
  });
}

Program::Program(Options plan, run::RunFolder& folder, run::Text text, PairData data)
    : plan_(std::move(plan)),
      folder_(folder),
      text_(std::move(text)),
      data_(std::move(data)),
      memory_(run::checked_memory(memory_of(plan_, data_), plan_.call.max_minutes.has_value(),
                                  folder.processes(), plan_.optimizer.sharing())),
      rng_(plan_.random.seed),
      params_(folder.params(rng_, plan_.optimizer.precision())),
      model_(make_model(params_, plan_, rng_)),
      loader_(data_.train, plan_.optimizer.batch_size, data_.special, rng_),
      own_dropout_(plan_.random.seed, Rng::Kind::philox) {}

run::Task Program::task() {
  run::Config config = run::config_of(plan_, run::kSeq2SeqFormat);
  run::keep_identity(config, text_);
  return {
      .params = params_,
      .batches = loader_,
      .objective = run::objective_of([this] { return next_loss(); },
                                     [this] { return losses_of(plan_.evaluation.eval_iters); }),
      .dropout = &own_dropout_,
      .config = std::move(config),
      .write_files =
          [this](const std::filesystem::path& folder) {
            run::keep_text(folder, data_.tokenizer, {plan_.text.corpus}, text_);
          },
      .finish = [this](run::Report& report) { finish(report); },
      .side_costs = [this] { return side_costs(); },
      .about = about(),
  };
}

run::Loss Program::next_loss() {
  const run::PairTensors t = run::tensors_of(loader_.next(), data_.special);
  Rng& dropout = plan_.random.one_generator() ? loader_.rng() : own_dropout_;
  return {model_.loss(t.sources, t.inputs, t.labels, t.masks, &dropout), t.tokens};
}

std::optional<run::Losses> Program::losses_of(std::int64_t batches) const {
  return estimate_losses(model_, data_, plan_.optimizer.batch_size, batches, plan_.random.seed);
}

run::SideCosts Program::side_costs() const {
  const double batch = seconds_of([&] { losses_of(1); });
  const auto pairs = static_cast<std::int64_t>(data_.held_out.size());
  const std::int64_t rows = plan_.optimizer.batch_size;
  const std::int64_t batches = (pairs + rows - 1) / rows + (plan_.call.sample ? 1 : 0);
  return {.evaluation = batch * static_cast<double>(plan_.evaluation.eval_iters),
          .end = batch * static_cast<double>(batches)};
}

run::RunHeader Program::about() const {
  const nn::TransformerConfig& c = plan_.model;
  const run::OptimizerOptions& o = plan_.optimizer;
  const std::string sample = data::decode_text(data_.tokenizer, data_.held_out.front().source);
  return {
      .lines = {{"model",
                 fmt::format("{}: {} + {} layers, {}, {}; it sees {} at once",
                             counted(params_.count(), "parameter"), c.n_layer, c.n_layer,
                             counted(c.n_head, "head"), counted(c.n_embd, "channel"),
                             counted(c.block_size, "token")),
                 fmt::format("n_layer {} + {}, n_head {}, n_embd {}, n_hidden {}, block_size {}, "
                             "vocab_size {}",
                             c.n_layer, c.n_layer, c.n_head, c.n_embd, c.n_hidden, c.block_size,
                             c.vocab_size)},
                {"text", fmt::format("{}: {} to train, {} held out ({})", text_.identity.name,
                                     counted(std::ssize(data_.train), "pair"),
                                     grouped(static_cast<std::int64_t>(data_.held_out.size())),
                                     plan_.text.tokenizer)}},
      .step = counted(o.batch_size * o.gradient_accumulation_steps, "pair"),
      .memory = memory_,
      .product = product_of(plan_),
      .use_command = fmt::format("{} {} {}{}", cli::program_path("tapegrad translate"),
                                 cli::quoted(folder_.path().string()),
                                 sample.starts_with('-') ? "-- " : "", cli::quoted(sample))};
}

void Program::finish(run::Report& report) const {
  report.working("translating all held-out pairs");
  if (const auto accuracy = held_out_accuracy(model_, data_, plan_.optimizer.batch_size)) {
    const auto pairs = static_cast<std::int64_t>(data_.held_out.size());
    report.result(fmt::format("final: {} held-out pairs: token accuracy {:.2f} %, exact match "
                              "{:.2f} %",
                              grouped(pairs), 100 * accuracy->tokens, 100 * accuracy->exact),
                  {{"final_token_accuracy", accuracy->tokens},
                   {"final_exact_match", accuracy->exact},
                   {"held_out_pairs", pairs}});
  }
  if (plan_.call.sample && !interrupted()) print_examples(report);
}

void Program::print_examples(run::Report& report) const {
  std::vector<std::vector<data::Token>> sources;
  for (const data::TokenPair& pair : data_.held_out) {
    if (sources.size() < kExamples) sources.push_back(pair.source);
  }
  const auto found = run::translate_all(
      model_, data_.tokenizer, sources,
      {.start = data_.special.start, .end = data_.special.end, .interrupted = interrupted});
  report.line("\nheld-out pairs:");
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const std::string expected = data::decode_text(data_.tokenizer, data_.held_out[i].target);
    report.line(fmt::format("  {}\n    {}{}", data::decode_text(data_.tokenizer, sources[i]),
                            found[i], found[i] == expected ? "" : ", which should be " + expected));
  }
}

}  // namespace tapegrad::seq2seq
