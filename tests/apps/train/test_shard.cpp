// Runs with --shard: whatever processes share out, they make what one process makes.

#include "tapegrad/tests/apps/on_processes.h"
#include "tapegrad/tests/apps/tiny_runs.h"

namespace {

constexpr int kSteps = 8;
const Args kParameters = {"--shard", "parameters"};

// A corpus, what one process makes of it, and room for other runs. Blocks come and go only if there
// are more than two, and with five batches, not all processes have one in the last round.
struct Sharded {
  TempFolder folder;
  std::filesystem::path corpus = folder.put("text.txt", tiny_text());
  Args more;
  Result alone;

  explicit Sharded(const Args& options = {})
      : more(Args{"--n-layer", "4", "--gradient-accumulation-steps", "5"} + options),
        alone(train(args("one", kSteps))) {
    check_ended_well(alone);
  }
  Args args(const std::string& run, int iters) const {
    return tiny_run(corpus, folder / run, iters) + more;
  }
  Result check_equal(int count, const Args& how = kParameters) const {
    INFO(count << " processes, " << how.back());
    const std::string run = "of-" + std::to_string(count) + "-" + how.back();
    Result r = on_processes(count, "train-gpt", args(run, kSteps) + how);
    check_ended_well(r);
    CHECK(checkpoint_bytes(folder / run) == checkpoint_bytes(folder / "one"));
    return r;
  }
};

}  // namespace

TEST_CASE("processes make the bits of one, whatever they share out", "[shard][processes]") {
  if (!have_processes()) return;
  const Sharded runs;
  for (const int count : {2, 3, 4}) runs.check_equal(count);
  for (const char* shard : {"moments", "gradients"}) runs.check_equal(2, {"--shard", shard});
}

TEST_CASE("so they do with what is computed again, other optimisers, and experts",
          "[shard][processes]") {
  if (!have_processes()) return;
  Sharded({"--recompute", "--dtype", "bf16", "--optimizer", "muon"}).check_equal(2);
  Sharded({"--moe-experts", "4", "--optimizer", "soap", "--precondition-frequency", "2"})
      .check_equal(2);
  Sharded({"--ngrams", "3", "--ngram-rows", "64", "--residual-scalars"}).check_equal(2);
  Sharded({"--arch", "llama", "--comm-dtype", "f32", "--skip-outliers", "3"}).check_equal(3);
}

TEST_CASE("so they do with adapters beside weights that stay whole", "[shard][processes]") {
  if (!have_processes()) return;
  const TempFolder folder;
  const auto corpus = folder.put("text.txt", tiny_text());
  check_ended_well(train(tiny_run(corpus, folder / "start", 2) + Args{"--n-layer", "4"}));
  for (const Args& way :
       {Args{"--lora-rank", "2", "--lora-target", "all"}, Args{"--freeze", "wte*,h.[01].*"}}) {
    const auto args = [&](const std::string& run) {
      return Args{"--init-from", folder / "start",  "--corpus",    corpus,
                  "--out-dir",   folder / run,      "--max-iters", "6",
                  "--no-sample", "--batch-size",    "4",           "--eval-iters",
                  "2",           "--eval-interval", "3",           "--gradient-accumulation-steps",
                  "3",           "--overwrite"} +
             way;
    };
    check_ended_well(train(args("one")));
    check_ended_well(on_processes(2, "train-gpt", args("two") + kParameters));
    CHECK(checkpoint_bytes(folder / "two") == checkpoint_bytes(folder / "one"));
  }
}

TEST_CASE("an encoder and a decoder share their blocks, too", "[shard][processes]") {
  if (!have_processes()) return;
  const TempFolder folder;
  const auto pairs = folder.put("pairs.tsv", tiny_pairs());
  const auto args = [&](const std::string& run) {
    return tiny_pair_run(pairs, folder / run, 6) +
           Args{"--n-layer", "3", "--gradient-accumulation-steps", "3"};
  };
  check_ended_well(train_pairs(args("one")));
  check_ended_well(on_processes(2, "train-seq2seq", args("two") + kParameters));
  CHECK(checkpoint_bytes(folder / "two") == checkpoint_bytes(folder / "one"));
}

TEST_CASE("a run goes on with other processes that share out something else",
          "[shard][processes]") {
  if (!have_processes()) return;
  const Sharded runs;
  const auto run = runs.folder / "moves";
  check_ended_well(on_processes(3, "train-gpt", runs.args("moves", 2) + kParameters));
  check_ended_well(on_processes(2, "train-gpt", resume_run(run, 4) + Args{"--shard", "gradients"}));
  check_ended_well(on_processes(4, "train-gpt", resume_run(run, 6) + kParameters));
  check_ended_well(train(resume_run(run, kSteps)));
  CHECK(checkpoint_bytes(run) == checkpoint_bytes(runs.folder / "one"));
}

TEST_CASE("samples, layers and evaluations see whole weights", "[shard][processes]") {
  if (!have_processes()) return;
  const Sharded runs({"--sample-interval", "3", "--sample-prompt", "the ", "--layer-stats", "3"});
  const Result r = runs.check_equal(2);
  const auto from = [](const Result& result, const std::string& words) {
    const std::size_t at = result.out.find(words);
    REQUIRE(at != result.out.npos);
    return result.out.substr(at, result.out.find("\niter", at) - at);
  };
  for (const char* words : {"sample at step 3:", "sample at step 6:"})
    CHECK(from(r, words) == from(runs.alone, words));
  CHECK(TempFolder::get(runs.folder / "of-2-parameters" / "layers.jsonl") ==
        TempFolder::get(runs.folder / "one" / "layers.jsonl"));
}

TEST_CASE("--shard refuses what needs all weights in each process", "[shard]") {
  const TempFolder folder;
  const auto corpus = folder.put("text.txt", tiny_text());
  const auto error = [&](const Args& more) {
    return train(tiny_run(corpus, folder / "run", 4) + more).err;
  };
  CHECK_THAT(error(kParameters + Args{"--local-steps", "2"}),
             ContainsSubstring("shard parameters and local_steps exclude each other"));
  CHECK_THAT(error(kParameters + Args{"--ema", "0.9"}),
             ContainsSubstring("shard parameters and ema exclude each other"));
  CHECK_THAT(error({"--shard", "weights"}), ContainsSubstring("moments, gradients, parameters"));
}
