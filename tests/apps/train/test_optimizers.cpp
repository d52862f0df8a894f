// Runs with an optimiser, learning rates and decays of their own.

#include <fmt/ranges.h>

#include "tapegrad/autograd/formats/safetensors.h"
#include "tapegrad/optim/optimizer_list.h"
#include "tapegrad/run/options/options.h"
#include "tapegrad/tests/apps/parsed.h"
#include "tapegrad/tests/apps/tiny_runs.h"

namespace {

const Args kSgd{"--optimizer", "sgd", "--momentum", "0.9", "--nesterov", "--learning-rate", "0.1"};
const Args kMixed = kSgd + Args{"--optimizer-for", "wte*=adamw", "--lr-scale",   "wte*=0.05",
                                "h.1.*=0.5",       "--decay",    "vectors=0.01", "wpe*=0"};

const Args kMuon{"--optimizer",
                 "muon",
                 "--muon-momentum-warmup",
                 "6",
                 "--cautious-decay",
                 "--weight-decay-end",
                 "0",
                 "--schedule",
                 "wsd",
                 "--lr-decay-iters",
                 "8"};

const Args kRmsprop{"--optimizer", "rmsprop", "--rmsprop-momentum", "0.9", "--rmsprop-centered"};

std::size_t tensors_of(const CorpusAndRun& run, const std::string& prefix) {
  const auto file = tapegrad::load_safetensors((run.run / "optimizer.safetensors").string());
  return static_cast<std::size_t>(
      std::count_if(file.tensors.begin(), file.tensors.end(),
                    [&](const auto& t) { return t.first.starts_with(prefix + "."); }));
}

}  // namespace

TEST_CASE("a resumed run of any optimiser ends with the bits of one that never stopped",
          "[optimizers]") {
  const Args choices[] = {kSgd,
                          kMixed,
                          {"--optimizer", "sgd"},
                          kMuon,
                          kRmsprop,
                          {"--optimizer", "adam"},
                          {"--optimizer", "adagrad"},
                          {"--optimizer", "nadam", "--nadam-decoupled-weight-decay"},
                          {"--optimizer", "adamw", "--amsgrad", "--beta2", "0.9"},
                          {"--optimizer", "lion", "--cautious-decay"},
                          {"--optimizer", "soap", "--precondition-frequency", "2"}};
  const Args& more = choices[GENERATE(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)];
  const TinyRun whole(8, more), parts(3, more);
  check_ended_well(train(resume_run(parts.run, 8)));
  CHECK(same_model(whole.run, parts.run));
  CHECK(whole.file("model.safetensors") != TinyRun(8).file("model.safetensors"));
}

TEST_CASE("an encoder and decoder learn by SGD and by Muon, also over a resume", "[optimizers]") {
  const Args choices[] = {kSgd + Args{"--lr-scale", "wte*=0.5"}, kMuon};
  const Args& more = choices[GENERATE(0, 1)];
  const TinyPairRun whole(8, more), parts(3, more);
  check_ended_well(train_pairs(resume_run(parts.run, 8)));
  CHECK(same_model(whole.run, parts.run));
}

TEST_CASE("a checkpoint has what each optimiser keeps, and config.json its options",
          "[optimizers]") {
  const TinyRun plain(1, {"--optimizer", "sgd"}), momentum(1, kSgd), mixed(1, kMixed), adamw(1);
  CHECK(tensors_of(plain, "momentum_buffer") == 0);
  const std::size_t all = tensors_of(momentum, "momentum_buffer");
  const TinyRun muon(1, {"--optimizer", "muon"});
  const TinyRun groups(1, {"--optimizer-for", "h.*=muon"});
  CHECK(tensors_of(muon, "momentum_buffer") == 2 * 4);  // of two layers
  CHECK(tensors_of(muon, "exp_avg") == all - 2 * 4);
  CHECK(muon.file("model.safetensors") == groups.file("model.safetensors"));
  CHECK(all > 10);
  CHECK(tensors_of(mixed, "momentum_buffer") == all - 1);
  CHECK(tensors_of(mixed, "exp_avg") == 1);
  CHECK(tensors_of(adamw, "exp_avg_sq") == all);
  CHECK_THAT(momentum.file("config.json"), ContainsSubstring("\"optimizer\": \"sgd\"") &&
                                               ContainsSubstring("\"momentum\": 0.9") &&
                                               ContainsSubstring("\"nesterov\": true"));
}

TEST_CASE("the header shows groups of parameters that are treated differently", "[optimizers]") {
  const TinyRun tiny(1);
  const auto header = [&](const Args& more) {
    const Result r =
        train(tiny_run(tiny.corpus, tiny.folder / "other", 0) + more + Args{"--overwrite"});
    check_ended_well(r);
    return r.out;
  };
  CHECK_THAT(header({}), !ContainsSubstring("groups:"));
  const std::string text = header(kMixed);
  CHECK_THAT(text, ContainsSubstring("groups:  adamw  lr × 0.05  decay 0.1 "));
  CHECK_THAT(text, ContainsSubstring("         sgd    lr × 0.5   decay 0.01"));
  const Result plan = train(tiny_run(tiny.corpus, tiny.folder / "planned", 1) +
                            Args{"--plan", "--optimizer", "sgd"});
  check_ended_well(plan);
  CHECK_THAT(plan.out, ContainsSubstring("groups:    sgd  lr × 1  decay 0.1  "));
  CHECK_THAT(plan.out, ContainsSubstring("optimiser 0,"));
}

TEST_CASE("options of optimisers that mean nothing are errors", "[optimizers]") {
  const TinyRun tiny(1, {"--optimizer", "sgd", "--momentum", "0.5"});
  const auto refused = [&](const Args& more, const std::string& text, int code = 2) {
    check_unparsed(tiny_run(tiny.corpus, tiny.folder / "refused", 1) + more, code, text);
  };
  const std::string optimizers =
      fmt::format("{}", fmt::join(tapegrad::optim::names_of(tapegrad::optim::OptimizerId{}), ", "));
  refused({"--optimizer", "adammw"},
          "'adammw' is not one of " + optimizers + "; did you mean adamw?");
  refused({"--momentum", "0.9"}, "--momentum is for --optimizer sgd, and this run has adamw");
  refused({"--optimizer", "sgd", "--beta2", "0.9"}, "--beta2 is for --optimizer adamw");
  refused({"--optimizer", "sgd", "--nesterov"}, "nesterov needs a momentum above 0");
  refused({"--ns-steps", "4"}, "--ns-steps is for --optimizer muon, and this run has adamw");
  refused({"--precondition-frequency", "4"},
          "--precondition-frequency is for --optimizer soap, and this run has adamw");
  refused({"--optimizer", "sgd", "--cautious-decay"}, "cautious_decay is not for sgd");
  refused({"--optimizer", "adam", "--cautious-decay"}, "cautious_decay is not for adam");
  refused({"--optimizer", "adam", "--beta1", "0.8"}, "--beta1 is for --optimizer adamw");
  refused({"--weight-decay", "0", "--weight-decay-end", "0.1"},
          "weight_decay_end needs a weight_decay above 0");
  refused({"--optimizer", "muon", "--head-size", "4"},
          "--optimizer muon needs --separate-qkv with --head-size 4");
  refused({"--beta1", "1"}, "--beta1: must be at least 0 and below 1, not 1");
  refused({"--lr-scale", "wtx*=2"}, "--lr-scale: 'wtx*' names no parameter that is trained");
  refused({"--decay", "wte*"}, "--decay: 'wte*' is not PATTERN=X");
  refused({"--freeze", "wte*", "--lr-scale", "wte*=2"}, "'wte*' names no parameter");
  refused({"--optimizer-for", "wte*=x"}, "'x' is not an optimiser; there are " + optimizers);
  check_unparsed(resume_run(tiny.run, 2) + Args{"--optimizer", "adamw"}, 2,
                 "--optimizer \"adamw\" does not fit the run to resume, which has \"sgd\"");
  check_ended_well(
      train(resume_run(tiny.run, 2) + Args{"--momentum", "0.25", "--lr-scale", "wte*=0"}));
}

TEST_CASE("the weight decay changes with the schedule, also of one that is begun anew",
          "[optimizers]") {
  tapegrad::run::OptimizerOptions o{.max_iters = 100, .rules = {.weight_decay = 0.2}};
  CHECK(o.decay_factor()(50) == 1);
  o.weight_decay_end = 0.05;
  CHECK(o.decay_factor()(0) == 1);
  CHECK(o.decay_factor()(50) == Approx(0.625));
  CHECK(o.decay_factor()(100) == Approx(0.25));
  CHECK(o.decay_factor()(200) == Approx(0.25));
  o.weight_decay_end = 0, o.rules.weight_decay = 0;
  CHECK_NOTHROW(o.validate());
  CHECK(o.decay_factor()(50) == 1);
  o.weight_decay_end = 0.05, o.rules.weight_decay = 0.2;
  o.schedule_begin = 60;
  CHECK(o.decay_factor()(60) == 1);
  CHECK(o.decay_factor()(80) == Approx(0.625));
  o.lr_decay_iters = 160;
  CHECK(o.decay_factor()(110) == Approx(0.625));
}

TEST_CASE("what an optimiser keeps cannot change on resume", "[optimizers]") {
  const TinyRun momentum(1, {"--optimizer", "sgd", "--momentum", "0.5"});
  const TinyRun plain(1, {"--optimizer", "sgd"});
  check_error_of("train-gpt", train(resume_run(momentum.run, 2) + Args{"--momentum", "0"}), 1,
                 "it has momentum_buffer, which the optimiser does not keep with these options");
  check_error_of("train-gpt", train(resume_run(plain.run, 2) + Args{"--momentum", "0.5"}), 1,
                 "it has no momentum_buffer, which the optimiser keeps with these options");
}
