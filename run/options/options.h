#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tapegrad/autograd/gemm/precision.h"
#include "tapegrad/base/option_schema.h"
#include "tapegrad/base/random.h"
#include "tapegrad/base/stopwatch.h"
#include "tapegrad/optim/ema.h"
#include "tapegrad/optim/parameter_groups.h"
#include "tapegrad/optim/schedule.h"
#include "tapegrad/optim/sharing.h"

namespace tapegrad::run {

// The options of training, in parts that each go to one room. Names and meanings are nanoGPT's
// where nanoGPT has the option.

// The value of init_from beside the path of a model.
inline constexpr const char* kScratch = "scratch";
inline constexpr const char* kResume = "resume";

// Where the run folder is, and whether a run begins or is resumed there.
struct FolderOptions {
  std::string out_dir = {};  // empty: the next free folder runs/NAME-N
  std::string init_from = kScratch;
  std::optional<std::string> checkpoint = {};  // of what init_from names
  bool overwrite = false;

  bool resumes() const { return init_from == kResume; }
  bool goes_back() const { return resumes() && checkpoint == "best"; }  // see RunFolder::restore
  // A new run, whose task starts with the weights of that model: open_model() in model.h.
  bool starts_from_model() const { return init_from != kScratch && !resumes(); }
  void validate() const;

  template <class Self, class Table>
  static void describe(Self& o, Table& t) {
    t("out_dir", o.out_dir, "the run folder [the next free runs/PRESET-N]", {.value = "DIR"});
    t("init_from", o.init_from,
      "scratch: begin with random weights; resume: continue the run in --out-dir; PATH: begin with "
      "the weights and tokenizer of a run folder or of another program's model",
      {.value = "scratch|resume|PATH"});
    t("checkpoint", o.checkpoint,
      "weights that --init-from begins with: best, last or a step of PATH [best if PATH keeps it]; "
      "with resume, best goes back to the step of the lowest val loss [last]",
      {.value = "best|last|STEP"});
    t("overwrite", o.overwrite, "replace the run in --out-dir, if there is one");
  }
};

// The seed and the generators of random numbers.
struct RandomOptions {
  std::uint64_t seed = 1337;
  Rng::Kind rng = Rng::Kind::philox;

  // True if all random numbers come from the one generator that the initialisation begins with.
  bool one_generator() const { return rng == Rng::Kind::torch; }

  template <class Self, class Table>
  static void describe(Self& o, Table& t) {
    t("seed", o.seed, "seed for weights, batches and dropout");
    t("rng", o.rng, "philox: fast, for dropout only; torch: PyTorch's stream for everything");
  }
};

// The precision of linear layers' products. `automatic` becomes f32 or bf16, whichever is faster,
// before the model is made: faster_precision() in product_rate.h.
enum class TrainDtype { f32, bf16, int8, automatic };
inline constexpr std::string_view kTrainDtypeNames[] = {"f32", "bf16", "int8", "auto"};
inline std::span<const std::string_view> names_of(TrainDtype) { return kTrainDtypeNames; }

// The steps: how many, of how many batches each, with which learning rate, by which optimiser.
struct OptimizerOptions {
  std::int64_t max_iters = 2000;
  std::int64_t batch_size = 12, gradient_accumulation_steps = 1;
  double learning_rate = 1e-3, min_lr = 1e-4;
  optim::Schedule::Kind schedule = optim::Schedule::Kind::cosine;
  std::optional<std::int64_t> warmup_iters = {};    // [default_warmup()]
  std::optional<std::int64_t> lr_decay_iters = {};  // [max_iters]
  double decay_share = 0.4;                         // of the schedule wsd
  // Of other schedules: see optim::Schedule.
  std::optional<std::int64_t> step_size = {};
  std::vector<std::string> milestones = {};  // steps
  std::optional<double> gamma = {};          // [default_gamma()]
  std::int64_t t_mult = 1;
  std::int64_t schedule_begin = 0;  // the step that the schedule begins at
  std::int64_t most_warmup = 100;   // of warmup_iters, unless these are given
  // Which optimiser updates which parameters. To change some, begin with default_rules().
  optim::GroupRules rules = default_rules();
  std::optional<double> weight_decay_end = {};  // [rules.weight_decay]
  double grad_clip = 1.0;
  TrainDtype dtype = TrainDtype::f32;
  std::optional<double> ema = {};              // decay of averages of the weights: see averages()
  std::optional<std::int64_t> swa_start = {};  // the update whose weights begin their mean
  std::optional<double> skip_outliers = {};    // standard deviations: see optim::OutlierWindow
  bool overfit_batch = false;
  optim::CommDType comm_dtype = optim::CommDType::f32;
  optim::Shard shard = optim::Shard::gradients;
  std::optional<std::int64_t> local_steps = {};  // see sharing()
  double outer_learning_rate = optim::LocalSteps().learning_rate;
  double outer_momentum = optim::LocalSteps().momentum;
  std::optional<std::int64_t> groups = {};  // of processes that meet by MPI: see optim::LocalSteps
  // Local steps of groups that meet through files: see optim::MeetingPlace. `of` is the names of
  // all groups, such as "a,b,c". A run folder does not say where the files are: it may be a
  // stranger's, and nothing is written where it says.
  std::optional<std::string> meet = {}, group = {}, of = {}, meet_key = {};
  bool check_finite = false;  // see TapeOptions

  Precision precision() const;  // Error if dtype is automatic
  // nanoGPT's beta2 and weight decay, else the optimisers' own defaults.
  static optim::GroupRules default_rules();
  optim::Schedule learning_rates() const;
  // Takes weight_decay to weight_decay_end over the schedule, as nanochat does (get_weight_decay in
  // base_train.py, which ends at 0).
  optim::DecayFactor decay_factor() const;
  // The averages of the weights that are the run's model: moving ones (ema), or the mean from an
  // update on (swa_start). Without either, none.
  std::optional<optim::EMAOptions> averages() const;
  // About how many steps the averages of ema have in them: what is older counts e⁻¹ as much.
  std::int64_t averaged_steps() const;
  // How several processes work together. Its `local` are local steps, with which they do not meet
  // in each step.
  optim::Sharing sharing() const;
  // How many groups share a step's batches, beside processes: 1 unless they meet through files.
  // Error if what a run keeps of these does not go together.
  std::int64_t group_count() const;
  // The batches of a step that are this group's.
  std::int64_t own_batches() const { return gradient_accumulation_steps / group_count(); }
  // The next step from this one on at which processes meet: the step itself without local steps.
  std::int64_t meeting_from(std::int64_t step) const;
  // A tenth of the schedule's steps, but at most most_warmup; of one_cycle, 0.3, as PyTorch's.
  std::int64_t default_warmup() const;
  // PyTorch's 0.1; of the schedule exponential, what reaches min_lr at lr_decay_iters.
  double default_gamma() const;
  std::int64_t warmup() const { return warmup_iters.value_or(default_warmup()); }
  // lr_decay_iters, or the step by which the schedule has decayed without it.
  std::int64_t decay_end() const;
  // Error if groups meet through files, and no call has said in which folder.
  void check_meeting_place() const;
  void validate() const;  // Error, naming the value, for values that no run can have

  template <class Self, class Table>
  static void describe(Self& o, Table& t) {
    constexpr double most_steps = std::int64_t{1} << 40, most_rows = 1 << 18;
    t("max_iters", o.max_iters, "optimiser steps", {.least = 0, .most = most_steps});
    t("batch_size", o.batch_size, "sequences per forward pass", {.least = 1, .most = most_rows});
    t("gradient_accumulation_steps", o.gradient_accumulation_steps,
      "forward passes per optimiser step, which several processes share",
      {.least = 1, .most = most_rows});
    t("learning_rate", o.learning_rate, "learning rate after the warm-up", {.least = 0});
    t("min_lr", o.min_lr,
      "learning rate at the end of the decay, where --schedule has one; of exponential, without "
      "--gamma",
      {.least = 0});
    t("schedule", o.schedule, "how the learning rate decays");
    t("warmup_iters", o.warmup_iters,
      "steps until the full learning rate [a tenth of the schedule's steps, but at most 100, or "
      "what the preset has; of --schedule one_cycle, 0.3 of them]",
      {.least = 0, .most = most_steps});
    t("lr_decay_iters", o.lr_decay_iters, "steps until --min-lr [--max-iters]", {.least = 0});
    t("decay_share", o.decay_share,
      "share of the steps until --lr-decay-iters in which --schedule wsd decays",
      {.least = 0, .most = 1, .newer = true});
    t("step_size", o.step_size,
      "steps from one change of --schedule step to the next, or of the first cycle of --schedule "
      "cosine_with_restarts (T_0)",
      {.least = 1, .most = most_steps, .newer = true});
    t("milestones", o.milestones, "steps at which --schedule multistep changes the rate",
      {.value = "STEP…", .newer = true});
    t("gamma", o.gamma,
      "factor of the rate at a change of --schedule step or multistep [0.1], or at each step of "
      "--schedule exponential [what reaches --min-lr at --lr-decay-iters]",
      {.least = 0, .newer = true});
    t("t_mult", o.t_mult,
      "let each cycle of --schedule cosine_with_restarts have so many times the steps of the one "
      "before it (T_mult)",
      {.least = 1, .most = 1000, .newer = true});
    t("schedule_begin", o.schedule_begin, "the step that the schedule begins at",
      {.least = 0, .most = most_steps, .option = false, .newer = true});
    t("most_warmup", o.most_warmup, "what the warm-up is at most unless it is given",
      {.least = 0, .most = most_steps, .option = false, .newer = true});
    t("optimizer", o.rules.optimizer, "optimiser of the weights",
      {.lasting = Lasting::model, .newer = true});
    o.rules.settings.describe(t);
    t("weight_decay", o.rules.weight_decay, "weight decay of matrices and embeddings",
      {.least = 0});
    t("weight_decay_end", o.weight_decay_end,
      "let the weight decay change to X in a straight line until --lr-decay-iters [--weight-decay]",
      {.least = 0, .value = "X", .newer = true});
    t("cautious_decay", o.rules.cautious_decay,
      "decay a weight only where the update makes it smaller, too", {.newer = true});
    t("decay_all", o.rules.decay_all, "decay biases and norms, too");
    t("decay", o.rules.decay,
      "set the weight decay of the parameters of these names, such as 'wte*=0'; matrices and "
      "vectors name all of a kind",
      {.value = "PATTERN=X…", .newer = true});
    t("lr_scale", o.rules.lr_scale,
      "multiply the learning rate of the parameters of these names, such as 'wte*=0.5'",
      {.value = "PATTERN=X…", .newer = true});
    t("optimizer_for", o.rules.optimizer_for,
      "update the parameters of these names by another optimiser, such as 'wte*=adamw'",
      {.value = "PATTERN=NAME…", .lasting = Lasting::model, .newer = true});
    t("grad_clip", o.grad_clip, "largest norm of the gradient; 0 turns clipping off", {.least = 0});
    t("ema", o.ema,
      "average the weights after each step, average ← DECAY · average + (1 − DECAY) · weights: "
      "evaluations, samples and the saved model have the averages; training goes on without them",
      {.least = 0,
       .most = 1,
       .below_most = true,
       .value = "DECAY",
       .lasting = Lasting::model,
       .newer = true});
    t("swa_start", o.swa_start,
      "stochastic weight averaging: as --ema, with the mean of the weights after update STEP and "
      "all later ones; until then, the weights themselves",
      {.least = 1, .most = most_steps, .value = "STEP", .lasting = Lasting::model, .newer = true});
    t("dtype", o.dtype,
      "precision of the products in linear layers; everything else stays f32. auto: bf16 where it "
      "is faster");
    t("skip_outliers", o.skip_outliers,
      "skip updates whose loss or gradient norm is more than Z standard deviations above the mean "
      "of the last 128, as llm.c does",
      {.least = 1, .most = 11, .value = "Z", .newer = true});
    t("overfit_batch", o.overfit_batch,
      "test the model: learn one batch again and again; its loss must go to about 0",
      {.newer = true});
    t("comm_dtype", o.comm_dtype,
      "type in which gradients, or what --local-steps changed, travel between processes (mpirun); "
      "bf16 halves the bytes and rounds; int8 is for --local-steps",
      {.newer = true});
    t("shard", o.shard,
      "what each process (mpirun) has a part of alone: gradients and the optimiser's moments "
      "(moments is the same), or parameters as well, which are gathered block by block",
      {.newer = true});
    t("local_steps", o.local_steps,
      "let each process (mpirun) train H steps by itself before all meet, as DiLoCo does",
      {.least = 1, .most = most_steps, .value = "H", .lasting = Lasting::model, .newer = true});
    t("outer_learning_rate", o.outer_learning_rate,
      "learning rate of the step that is made where processes meet (--local-steps)",
      {.least = 0, .newer = true});
    t("outer_momentum", o.outer_momentum, "Nesterov momentum of that step",
      {.least = 0, .most = 1, .below_most = true, .newer = true});
    t("groups", o.groups,
      "let processes make --local-steps as G groups of neighbours, whose members share each step "
      "[each process by itself]",
      {.least = 1, .most = 1 << 20, .value = "G", .newer = true});
    t("meet", o.meet,
      "after every --local-steps, meet the groups in other places through files in DIR, which "
      "tapegrad meet and whatever carries the files bring together",
      {.value = "DIR", .lasting = Lasting::call});
    t("group", o.group, "the name of this group (--meet)",
      {.value = "NAME", .lasting = Lasting::model, .newer = true});
    t("of", o.of, "the names of all groups that meet, the same list for all of them",
      {.value = "A,B,…", .lasting = Lasting::model, .newer = true});
    t("meet_key", o.meet_key,
      "sign the files of --meet by the key in FILE, and take none that is not signed by it",
      {.value = "FILE", .lasting = Lasting::call});
    t("check_finite", o.check_finite,
      "stop at the first NaN or infinity of a step, and name the op and module that made it",
      {.lasting = Lasting::call});
  }
};

// The steps `first`, `first` + `every`, `first` + 2·`every` …
struct StepInterval {
  std::int64_t every, first = 0;

  bool due(std::int64_t step) const { return step >= first && (step - first) % every == 0; }
  // How many of them come before `step`.
  std::int64_t before(std::int64_t step) const {
    return step <= first ? 0 : (step - 1 - first) / every + 1;
  }
};

// When a run evaluates, saves and prints.
struct EvaluationOptions {
  std::int64_t eval_interval = 250, eval_offset = 0, eval_iters = 20, log_interval = 10;
  std::optional<std::int64_t> checkpoint_interval = {};  // [at each evaluation]
  std::string keep = "best,last";                        // see keep_rule.h
  std::optional<std::int64_t> early_stop = {};
  std::optional<std::int64_t> layer_stats = {};  // see LayerStats
  bool strict_log = false;
  bool chart = false, verbose = false;

  StepInterval evaluations() const { return {eval_interval, eval_offset}; }
  StepInterval checkpoints() const {
    return checkpoint_interval ? StepInterval{*checkpoint_interval} : evaluations();
  }
  void validate() const;  // Error, naming the value

  template <class Self, class Table>
  static void describe(Self& o, Table& t) {
    t("eval_interval", o.eval_interval, "steps between evaluations", {.least = 1});
    t("eval_offset", o.eval_offset, "steps before the first evaluation", {.least = 0});
    t("checkpoint_interval", o.checkpoint_interval,
      "steps between checkpoints [at each evaluation]", {.least = 1});
    t("keep", o.keep,
      "weights to keep: best (the lowest val loss), last, and a number of the latest checkpoints",
      {.value = "best,last,N", .newer = true});
    t("early_stop", o.early_stop, "stop after N evaluations in a row without a new lowest val loss",
      {.least = 1, .newer = true});
    t("eval_iters", o.eval_iters, "batches per split and evaluation",
      {.least = 1, .most = 1'000'000});
    t("log_interval", o.log_interval, "steps between iter lines", {.least = 1});
    t("layer_stats", o.layer_stats,
      "every N steps, record the size of each layer's gradients, weights and updates in "
      "layers.jsonl",
      {.least = 1, .newer = true});
    t("strict_log", o.strict_log,
      "save and stop if the output cannot be written (a full disk), in place of training on "
      "without it",
      {.lasting = Lasting::call});
    t("chart", o.chart, "draw the losses as a small chart below the lines, on a terminal",
      {.lasting = Lasting::call});
    t("verbose", o.verbose,
      "say more at the beginning: the model's shape, the learning rate, memory by kind, how the "
      "time was measured, and the library for products with its speed",
      {.lasting = Lasting::call});
  }
};

// A trace of some steps of a call, for people who ask where the time goes: see step_trace.h.
struct TraceOptions {
  std::string profile = {};  // the file; empty: none
  std::int64_t profile_steps = 5;

  template <class Self, class Table>
  static void describe(Self& o, Table& t) {
    t("profile", o.profile,
      "write a trace of some steps for ui.perfetto.dev or chrome://tracing: ops by thread, with "
      "module, bytes and GFLOP/s",
      {.value = "FILE"});
    t("profile_steps", o.profile_steps,
      "steps that --profile records, after the first two of this call", {.least = 1, .most = 1000});
  }
};

// The minutes that a new run may take, all in all, from `begin` on; and after how many steps it
// ends all the same.
struct TimeBudget {
  double minutes;
  Stopwatch begin = {};
  std::optional<std::int64_t> most_steps = {};
};

}  // namespace tapegrad::run
