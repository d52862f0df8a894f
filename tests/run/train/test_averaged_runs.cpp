// Runs with --ema and --swa-start.

#include <cstring>
#include <map>
#include <string>

#include "tapegrad/autograd/formats/safetensors.h"
#include "tapegrad/tests/apps/on_processes.h"
#include "tapegrad/tests/apps/tiny_runs.h"

using namespace tapegrad;

namespace {

using Tensors = std::map<std::string, Tensor>;
const std::string kOwn = "training_weights.";

Tensors tensors_in(const std::filesystem::path& run,
                   const std::string& file = "model.safetensors") {
  return load_safetensors((run / file).string()).tensors;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && std::memcmp(a.data<float>(), b.data<float>(), a.bytes()) == 0;
}

bool same_bits(const Tensors& a, const Tensors& b) {
  if (a.size() != b.size()) return false;
  for (const auto& [name, t] : a) {
    if (b.count(name) == 0 || !same_bits(t, b.at(name))) return false;
  }
  return true;
}

// The tensors of an optimiser's file: the parameters' own values, and all others.
struct OptimizerFile {
  Tensors own, others;
  explicit OptimizerFile(const std::filesystem::path& run) {
    for (const auto& [name, t] : tensors_in(run, "optimizer.safetensors")) {
      if (name.starts_with(kOwn)) {
        own.emplace(name.substr(kOwn.size()), t);
      } else {
        others.emplace(name, t);
      }
    }
  }
};

struct Averaged {
  TempFolder folder;
  std::filesystem::path corpus = folder.put("text.txt", tiny_text());

  std::filesystem::path made(const std::string& run, int iters, const Args& more = {}) const {
    check_ended_well(train(tiny_run(corpus, folder / run, iters) + more));
    return folder / run;
  }
  // The last value of that name in metrics.jsonl.
  static double last(const std::filesystem::path& run, const std::string& name) {
    const std::string text = TempFolder::get(run / "metrics.jsonl");
    const std::size_t at = text.rfind('"' + name + '"');
    REQUIRE(at != text.npos);
    return std::stod(text.substr(text.find(':', at) + 1));
  }
};

}  // namespace

TEST_CASE("a run with --ema keeps the average that its formula says, and trains as without it",
          "[averaged_runs]") {
  const Averaged runs;
  const Args keep = {"--checkpoint-interval", "1", "--keep", "last,4"};
  const auto plain = runs.made("plain", 3, keep);
  for (const double decay : {0.75, 0.25}) {
    const auto run =
        runs.made(std::to_string(decay), 3, keep + Args{"--ema", std::to_string(decay)});
    CHECK(same_bits(OptimizerFile(run).own, tensors_in(plain)));
    CHECK(same_bits(OptimizerFile(run).others, OptimizerFile(plain).others));
    CHECK(same_bits(tensors_in(run, "model-0.safetensors"),
                    tensors_in(plain, "model-0.safetensors")));
    Tensors first = tensors_in(plain, "model-1.safetensors"),
            second = tensors_in(plain, "model-2.safetensors"), third = tensors_in(plain);
    const Tensors one = tensors_in(run, "model-1.safetensors"),
                  two = tensors_in(run, "model-2.safetensors"), three = tensors_in(run);
    CHECK(same_bits(one, first));
    CHECK_FALSE(same_bits(three, third));
    REQUIRE(three.size() == first.size());
    double worst = 0;
    for (const auto& [name, t] : first) {
      for (std::int64_t i = 0; i < t.numel(); ++i) {
        const double at_two = decay * t.at(i) + (1 - decay) * second.at(name).at(i);
        const double at_three = decay * at_two + (1 - decay) * third.at(name).at(i);
        worst = std::max({worst, std::abs(two.at(name).at(i) - at_two),
                          std::abs(three.at(name).at(i) - at_three)});
      }
    }
    CHECK(worst <= 1e-7);
  }
}

TEST_CASE("a run with --ema that is interrupted goes on to the same bits", "[averaged_runs]") {
  const Averaged runs;
  const Args more = GENERATE(Args{}, Args{"--dtype", "bf16", "--gradient-accumulation-steps", "3"},
                             Args{"--dtype", "int8"}, Args{"--optimizer", "muon"},
                             Args{"--skip-outliers", "2", "--sample-interval", "2"});
  const auto straight = runs.made("straight", 9, more + Args{"--ema", "0.6"});
  const auto run = runs.made("stopped", 4, more + Args{"--ema", "0.6"});
  const Result r = train(resume_run(run, 9));
  check_ended_well(r);
  CHECK_THAT(r.out, ContainsSubstring("averages of about the last 3 steps are evaluated"));
  CHECK(checkpoint_bytes(run) == checkpoint_bytes(straight));
  CHECK(TempFolder::get(run / "model-best.safetensors") ==
        TempFolder::get(straight / "model-best.safetensors"));
  CHECK(same_bits(OptimizerFile(run).own, tensors_in(runs.made("plain", 9, more))));
}

TEST_CASE(
    "a run with --swa-start keeps the mean of the weights from there on, and trains as without",
    "[averaged_runs]") {
  const Averaged runs;
  const Args keep = {"--checkpoint-interval", "1", "--keep", "last,5"};
  const auto plain = runs.made("plain", 5, keep);
  const auto run = runs.made("run", 5, keep + Args{"--swa-start", "3"});
  CHECK(same_bits(OptimizerFile(run).own, tensors_in(plain)));
  for (const char* model : {"model-1.safetensors", "model-2.safetensors", "model-3.safetensors"})
    CHECK(same_bits(tensors_in(run, model), tensors_in(plain, model)));
  const Tensors three = tensors_in(plain, "model-3.safetensors"),
                four = tensors_in(plain, "model-4.safetensors"), five = tensors_in(plain),
                mean = tensors_in(run);
  CHECK_FALSE(same_bits(mean, five));
  double worst = 0;
  for (const auto& [name, t] : mean) {
    for (std::int64_t i = 0; i < t.numel(); ++i) {
      const double sum = three.at(name).at(i) + four.at(name).at(i) + five.at(name).at(i);
      worst = std::max(worst, std::abs(t.at(i) - sum / 3));
    }
  }
  CHECK(worst <= 1e-7);
}

TEST_CASE("a run with --swa-start that is interrupted goes on to the same bits",
          "[averaged_runs]") {
  const Averaged runs;
  const Args swa = {"--swa-start", GENERATE("3", "6")};  // before and after the interruption
  const auto straight = runs.made("straight", 9, swa), run = runs.made("stopped", 4, swa);
  const Result r = train(resume_run(run, 9));
  check_ended_well(r);
  CHECK_THAT(r.out, ContainsSubstring("on, the mean of the weights is evaluated and saved"));
  CHECK(checkpoint_bytes(run) == checkpoint_bytes(straight));
}

TEST_CASE("a start of averages that means nothing is refused, or told", "[averaged_runs]") {
  const Averaged runs;
  const auto error = [&](const Args& more) {
    return train(tiny_run(runs.corpus, runs.folder / "none", 2) + more).err;
  };
  CHECK_THAT(error({"--swa-start", "0"}), ContainsSubstring("--swa-start"));
  CHECK_THAT(error({"--swa-start", "1", "--ema", "0.9"}),
             ContainsSubstring("ema and swa_start exclude each other"));
  CHECK_THAT(error({"--swa-start", "1", "--local-steps", "2"}),
             ContainsSubstring("swa_start and local_steps exclude each other"));
  CHECK_THAT(error({"--swa-start", "1", "--shard", "parameters"}),
             ContainsSubstring("shard parameters and swa_start exclude each other"));
  const auto out = [&](const char* run, const char* start) {
    return train(tiny_run(runs.corpus, runs.folder / run, 4) + Args{"--swa-start", start}).out;
  };
  CHECK_THAT(out("late", "4"),
             ContainsSubstring("--swa-start 4 averages nothing in a run of 4 steps"));
  CHECK_THAT(out("soon", "3"), !ContainsSubstring("averages nothing"));
}

TEST_CASE("pairs are learnt with --ema, too", "[averaged_runs]") {
  const Args ema = {"--ema", "0.6"};
  const TinyPairRun straight(9, ema), stopped(4, ema);
  check_ended_well(train_pairs(resume_run(stopped.run, 9)));
  CHECK(checkpoint_bytes(stopped.run) == checkpoint_bytes(straight.run));
}

TEST_CASE("processes average as one does", "[averaged_runs]") {
  if (!have_processes()) return;
  const Averaged runs;
  const Args more = {"--ema", "0.6", "--gradient-accumulation-steps", "2"};
  const auto one = runs.made("one", 7, more);
  const auto two = runs.folder / "two";
  check_ended_well(on_processes(2, "train-gpt", tiny_run(runs.corpus, two, 3) + more));
  check_ended_well(on_processes(2, "train-gpt", resume_run(two, 7)));
  CHECK(checkpoint_bytes(two) == checkpoint_bytes(one));
}

TEST_CASE("adapters are averaged, and what they adapt is not", "[averaged_runs]") {
  const Averaged runs;
  const auto base = runs.made("base", 2);
  const Args more = {"--init-from", base, "--checkpoint", "last",
                     "--lora-rank", "2",  "--ema",        "0.6"};
  const auto lora = [&](const std::string& name, int iters) {
    const auto run = runs.folder / name;
    check_ended_well(train(more + Args{"--corpus", runs.corpus, "--out-dir", run, "--max-iters",
                                       std::to_string(iters), "--lr-decay-iters", "20",
                                       "--warmup-iters", "0", "--eval-iters", "1", "--no-sample"}));
    return run;
  };
  const auto straight = lora("straight", 6), run = lora("stopped", 3);
  check_ended_well(train(resume_run(run, 6)));
  CHECK(checkpoint_bytes(run) == checkpoint_bytes(straight));
  const Tensors model = tensors_in(run);
  const OptimizerFile file(run);
  CHECK_FALSE(file.own.empty());
  for (const auto& [name, t] : file.own) CHECK_THAT(name, ContainsSubstring("lora_"));
  for (const auto& [name, t] : tensors_in(base)) CHECK(same_bits(t, model.at(name)));
}

TEST_CASE("the losses of a run with --ema are those of the model that it keeps",
          "[averaged_runs]") {
  const Averaged runs;
  const Args all = {"--final-eval", "all"};
  const auto run = runs.made("run", 10, all + Args{"--ema", "0.8"});
  const auto plain = runs.made("plain", 10, all);
  CHECK(Averaged::last(run, "loss") == Averaged::last(plain, "loss"));  // of the steps
  CHECK(Averaged::last(run, "final_val_loss") != Averaged::last(plain, "final_val_loss"));
  // A run that begins with that model and makes no step evaluates nothing else.
  const auto model = runs.folder / "model";
  check_ended_well(train(all + Args{"--init-from", run, "--checkpoint", "last", "--corpus",
                                    runs.corpus, "--out-dir", model, "--max-iters", "0",
                                    "--batch-size", "4", "--eval-iters", "1", "--no-sample"}));
  CHECK(Averaged::last(model, "final_val_loss") ==
        Approx(Averaged::last(run, "final_val_loss")).epsilon(1e-6));
}

TEST_CASE("a run with --ema goes back to its best averages, and trains on from them",
          "[averaged_runs]") {
  const Averaged runs;
  const auto run = runs.made("run", 5, {"--ema", "0.5"});
  const std::string best = TempFolder::get(run / "model-best.safetensors");
  check_ended_well(train(resume_run(run, 10) + Args{"--learning-rate", "20"}));
  REQUIRE(TempFolder::get(run / "model-best.safetensors") == best);
  check_ended_well(train(resume_run(run, 5) + Args{"--checkpoint", "best"}));
  CHECK(TempFolder::get(run / "model.safetensors") == best);
  CHECK(same_bits(OptimizerFile(run).own, tensors_in(run)));
  check_ended_well(train(resume_run(run, 8)));
}

TEST_CASE("decays that average nothing, and what cannot be with them, are refused",
          "[averaged_runs]") {
  const Averaged runs;
  const auto error = [&](const std::string& decay, const Args& more = {}) {
    const Result r =
        train(tiny_run(runs.corpus, runs.folder / "none", 2) + Args{"--ema", decay} + more);
    CHECK(r.code != 0);
    return r.err;
  };
  for (const char* decay : {"1", "1.5", "-0.1"}) {
    CHECK_THAT(error(decay), ContainsSubstring("--ema") && ContainsSubstring("below 1"));
  }
  CHECK_THAT(error("0"), ContainsSubstring("ema 0 would keep the weights of the last step alone"));
  for (const char* decay : {"nan", "much"}) {
    CHECK_THAT(error(decay), ContainsSubstring(fmt::format("--ema: '{}' is not a number", decay)));
  }
  CHECK_THAT(error("0.9", {"--local-steps", "2"}),
             ContainsSubstring("ema and local_steps exclude each other"));
  CHECK_FALSE(std::filesystem::exists(runs.folder / "none"));
  const auto run = runs.made("run", 2, {"--ema", "0.9"}), plain = runs.made("plain", 2);
  CHECK_THAT(train(resume_run(run, 4) + Args{"--ema", "0.8"}).err,
             ContainsSubstring("--ema 0.8 does not fit the run to resume, which has 0.9"));
  CHECK_THAT(train(resume_run(plain, 4) + Args{"--ema", "0.8"}).err,
             ContainsSubstring("--ema 0.8 does not fit the run to resume"));
}

TEST_CASE("a decay that is too slow for a run is told before it begins", "[averaged_runs]") {
  const Averaged runs;
  const std::string note =
      "averages of about 1,000 steps (--ema 0.999) end with 89 % of the first "
      "step's weights in a run of 120. --ema 0.916667 averages a tenth of the run";
  const auto out = [&](const char* name, const char* decay) {
    return train(tiny_run(runs.corpus, runs.folder / name, 120) +
                 Args{"--ema", decay, "--eval-interval", "1000", "--log-interval", "1000"})
        .out;
  };
  CHECK_THAT(out("slow", "0.999"), ContainsSubstring(note));
  // 0.975¹¹⁹ is 4.9 %, and 0.976¹¹⁹ is 5.6 %.
  CHECK_THAT(out("quick", "0.975"), !ContainsSubstring("of the first step's weights"));
  CHECK_THAT(out("slower", "0.976"),
             ContainsSubstring("(--ema 0.976) end with 6 % of the first step's weights"));
}

TEST_CASE("--plan counts the averages of --ema", "[averaged_runs]") {
  const Averaged runs;
  const Args plan = tiny_run(runs.corpus, runs.folder / "none", 2) +
                    Args{"--n-embd", "256", "--n-layer", "4", "--plan"};
  const Result plain = train(plan), averaged = train(plan + Args{"--ema", "0.999"});
  check_ended_well(plain);
  check_ended_well(averaged);
  CHECK_THAT(plain.out, !ContainsSubstring("their averages"));
  const auto number = [](const std::string& text, const std::string& before) {
    const std::size_t at = text.find(before);
    REQUIRE(at != text.npos);
    return std::stod(text.substr(at + before.size()));
  };
  const double weights = number(averaged.out, "weights "),
               averages = number(averaged.out, "their averages ");
  CHECK(averages > 10);
  CHECK(averages == weights);
  CHECK(std::abs(number(averaged.out, "memory:    about ") -
                 number(plain.out, "memory:    about ") - averages) <= 1);
}
