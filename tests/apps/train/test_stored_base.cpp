// Runs that keep adapters alone, beside a model that stays in its own file as it is stored.

#include <regex>

#include "tapegrad/tests/apps/train/tuned_run.h"

namespace {

const Args kStored = {"--weights",    "stored", "--lora-rank",   "2",
                      "--lora-alpha", "4",      "--lora-target", "all"};

// A model in GGUF whose matrices are of bf16.
struct StoredModel {
  TempFolder folder;
  fs::path file = folder / "base.gguf";
  StoredModel() {
    check_ended_well(run_program(
        "export", {"--model", base().run, "--format", "gguf", "--dtype", "bf16", "--out", file}));
  }
};

std::string evaluated(const Args& args) {
  const Result r = run_program("evaluate", args + Args{"--json"});
  check_ended_well(r);
  return nlohmann::json::parse(r.out).at("loss").dump();
}

}  // namespace

TEST_CASE("a run beside a stored model keeps adapters alone, and is resumed to the same bits",
          "[stored-base]") {
  const StoredModel model;
  const Tuned straight, stopped, threads;
  const Result r = straight.train(12, kStored, model.file);
  check_ended_well(r);
  CHECK_THAT(r.out, ContainsSubstring("base:    " + model.file.string() + " stays where it is"));
  for (const auto& [name, t] : weights(straight.run)) {
    CHECK_THAT(name, ContainsSubstring(".lora_"));
  }
  check_ended_well(stopped.train(7, kStored, model.file));
  CHECK_FALSE(same_model(straight.run, stopped.run));
  check_ended_well(train(resume_run(stopped.run, 12)));
  CHECK(same_model(straight.run, stopped.run));
  check_ended_well(threads.train(12, kStored + Args{"--threads", "3"}, model.file));
  CHECK(same_model(straight.run, threads.run));
  // What the adapters have learnt.
  CHECK(loss_of(straight.run, straight.corpus) < loss_of(model.file, straight.corpus));
}

TEST_CASE("a run's adapters go beside its model, wherever that is now, and beside no other",
          "[stored-base]") {
  const StoredModel model;
  const Tuned tuned;
  check_ended_well(tuned.train(8, kStored, model.file));
  const std::string own = sample(tuned.run);
  fs::copy_file(model.file, model.folder / "copy.gguf");
  const auto with_adapter = [&](const fs::path& base) {
    return run_program("sample-text", {"--model", base, "--adapter", tuned.run, "--greedy",
                                       "--max-new-tokens", "30"});
  };
  const Result beside = with_adapter(model.folder / "copy.gguf");
  check_ended_well(beside);
  CHECK(beside.out == own);
  CHECK(beside.out != sample(model.file));
  check_error_of("sample-text", with_adapter(base().run), 1, "these adapters belong to");
  check_error_of("sample-text",
                 run_program("sample-text", {"--model", model.file, "--adapter", base().run}), 1,
                 "has no adapters: it is no run with --lora-rank");
}

TEST_CASE("a run whose model has changed, or is gone, says so and keeps its adapters",
          "[stored-base]") {
  const StoredModel model;
  const Tuned tuned;
  check_ended_well(tuned.train(3, kStored, model.file));
  const std::string adapters = TempFolder::get(tuned.run / "model.safetensors");
  check_ended_well(run_program("export", {"--model", base().run, "--format", "gguf", "--dtype",
                                          "f16", "--out", model.file, "--overwrite"}));
  const std::string changed = "whose weights have changed since the run began";
  check_error_of("train-gpt", train(resume_run(tuned.run, 5)), 1, changed);
  check_error_of("sample-text", run_program("sample-text", {"--model", tuned.run}), 1, changed);
  fs::remove(model.file);
  check_error_of("train-gpt", train(resume_run(tuned.run, 5)), 1, "cannot be opened");
  check_error_of("sample-text", run_program("sample-text", {"--model", tuned.run}), 1,
                 model.file.string());
  CHECK(TempFolder::get(tuned.run / "model.safetensors") == adapters);
}

TEST_CASE("adapters of a run go out beside it, and come back to the same losses", "[stored-base]") {
  const StoredModel model;
  const Tuned tuned;
  check_ended_well(tuned.train(8, kStored, model.file));
  const Args text = {"--model", model.file, tuned.corpus};
  const std::string own = evaluated({"--model", tuned.run, tuned.corpus});
  CHECK(evaluated(text) != own);
  CHECK(evaluated(text + Args{"--adapter", tuned.run}) == own);  // PEFT's files are there
  CHECK(evaluated(text + Args{"--adapter", tuned.run / "adapter.gguf"}) == own);
  for (const std::string format : {"peft", "gguf-lora"}) {
    const fs::path out = tuned.folder / format;
    check_ended_well(
        run_program("export", {"--model", tuned.run, "--format", format, "--out", out}));
    CHECK(evaluated(text + Args{"--adapter", out}) == own);
    // A run that begins with them.
    const Tuned more;
    check_ended_well(more.train(0, {"--weights", "stored", "--adapter", out}, model.file));
    CHECK(weights(more.run).at("h.0.attn.c_attn.lora_B.weight").shape() ==
          weights(tuned.run).at("h.0.attn.c_attn.lora_B.weight").shape());
    for (const auto& [name, t] : weights(tuned.run)) {
      CHECK(same_bits(t, weights(more.run).at(name)));
    }
  }
}

TEST_CASE("adapters are merged into a file whose weights are rounded, and the error is told",
          "[stored-base]") {
  const StoredModel model;
  const Tuned tuned;
  check_ended_well(tuned.train(8, kStored, model.file));
  const fs::path merged = tuned.folder / "merged.gguf";
  const Result r = run_program("merge", {"--model", tuned.run, "--dtype", "f16", "--out", merged});
  check_ended_well(r);
  CHECK_THAT(r.out, ContainsSubstring("rounding to f16 changes the weights by 0.000"));
  CHECK(loss_of(merged, tuned.corpus) == Approx(loss_of(tuned.run, tuned.corpus)).epsilon(1e-3));
  // Rows that the blocks of q4_k do not fill are rounded, too.
  const fs::path narrow = tuned.folder / "narrow.gguf";
  const Result q4_k =
      run_program("merge", {"--model", tuned.run, "--dtype", "q4_k", "--out", narrow});
  check_ended_well(q4_k);
  CHECK_THAT(q4_k.out, ContainsSubstring("and adapted ones by") &&
                           ContainsSubstring("no multiple of 256, and are not q4_k: "));
  check_error_of("merge", run_program("merge", {"--model", tuned.run, "--out", merged}), 1,
                 "exists already");
  check_error_of("merge", run_program("merge", {"--model", tuned.run, "--dtype", "f16"}), 2,
                 "--out is needed");
}

TEST_CASE("options of quantised weights that make no sense are refused by name", "[stored-base]") {
  const Tuned tuned;
  tuned.check_refused({"--weights", "stored"}, 2, "--weights needs --lora-rank");
  tuned.check_refused(kLora + Args{"--weights", "q9"}, 2, "weights cannot be kept as 'q9'");
  tuned.check_refused(kLora + Args{"--adapter", tuned.folder / "none"}, 1, "there are no adapters");
  tuned.check_refused(Args{"--init-from", "scratch", "--weights", "stored"} + kLora, 2,
                      "needs --init-from PATH");
}

TEST_CASE("rsLoRA counts adapters by the root of their rank", "[stored-base]") {
  const Tuned plain, stabilised;
  const Args four = {"--lora-rank", "4", "--lora-alpha", "4"};
  check_ended_well(plain.train(3, four + Args{"--lora-alpha", "8"}));
  check_ended_well(stabilised.train(3, four + Args{"--lora-scaling", "rslora"}));
  CHECK(same_model(plain.run, stabilised.run));  // 8 / 4 = 4 / √4
}

TEST_CASE("the memory of a run beside a stored model is planned within 3 %",
          "[stored-base][plan]") {
  const StoredModel model;
  const Tuned tuned;
  const Result r = tuned.train(1, kStored + Args{"--plan", "--batch-size", "64"}, model.file);
  check_ended_well(r);
  std::smatch found;
  const auto number = [&](const std::string& pattern) {
    REQUIRE(std::regex_search(r.out, found, std::regex(pattern)));
    return std::stod(found[1]);
  };
  CHECK(number("about ([0-9.]+) MB at once") ==
        Approx(number("([0-9.]+) MB of tensors at once")).margin(1).epsilon(0.03));
  CHECK_FALSE(fs::exists(tuned.run));
}

TEST_CASE("--recompute auto says what it has decided, and why", "[stored-base][plan]") {
  const Tuned tuned;
  const Result r = tuned.train(1, {"--recompute", "auto", "--verbose"});
  check_ended_well(r);
  CHECK_THAT(r.out, ContainsSubstring("recompute: off: without it, a step takes "));
}
