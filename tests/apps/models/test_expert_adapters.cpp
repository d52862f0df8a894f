// Adapters of the experts of a model.

#include "tapegrad/tests/apps/train/tuned_run.h"

namespace {

const Args kExperts = {"--arch", "llama", "--moe-experts", "4", "--moe-inner", "16"};
const Args kAll = {"--lora-rank", "2", "--lora-alpha", "4", "--lora-target", "all"};

const TinyRun& mixture() {
  static const TinyRun run(10, kExperts);
  return run;
}

double loss_beside(const fs::path& model, const fs::path& adapter, const fs::path& corpus) {
  const Result r =
      run_program("evaluate", {"--model", model, "--adapter", adapter, "--json", corpus});
  check_ended_well(r);
  return nlohmann::json::parse(r.out).at("loss");
}

}  // namespace

TEST_CASE("adapters of experts and routers learn, and merge into the model", "[experts][lora]") {
  const Tuned tuned, threads;
  check_ended_well(tuned.train(12, kAll, mixture().run));
  check_ended_well(threads.train(12, kAll + Args{"--threads", "3"}, mixture().run));
  CHECK(same_model(tuned.run, threads.run));
  const auto now = weights(tuned.run);
  int of_experts = 0, of_routers = 0;
  for (const auto& [name, t] : now) {
    if (!name.ends_with(".lora_B.weight")) continue;
    of_experts += t.shape().rank() == 3;
    of_routers += name.find("mlp.gate.") != std::string::npos;
  }
  CHECK((of_experts > 0 && of_routers > 0));
  const double learnt = loss_of(tuned.run, tuned.corpus);
  CHECK(learnt < loss_of(mixture().run, tuned.corpus));
  const fs::path merged = tuned.folder / "merged";
  check_ended_well(run_program("merge", {"--model", tuned.run, "--out", merged}));
  CHECK(loss_of(merged, tuned.corpus) == Approx(learnt).epsilon(1e-5));
}

TEST_CASE("a run that was begun before experts had adapters goes on without them",
          "[experts][lora]") {
  const Tuned tuned;
  check_ended_well(tuned.train(6, kAll, mixture().run));
  // As an earlier version left it.
  std::size_t left_out = 0;
  for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
    const std::string path = (tuned.run / file).string();
    SafeTensors all = load_safetensors(path);
    left_out += std::erase_if(all.tensors, [](const auto& entry) {
      return entry.first.find(".mlp.") != std::string::npos &&
             entry.first.find(".lora_") != std::string::npos;
    });
    save_safetensors(path, {all.tensors.begin(), all.tensors.end()}, all.metadata);
  }
  CHECK(left_out > 0);
  const double before = loss_of(tuned.run, tuned.corpus);
  check_ended_well(train(resume_run(tuned.run, 12)));
  CHECK(loss_of(tuned.run, tuned.corpus) < before);
  for (const auto& [name, t] : weights(tuned.run)) {
    if (name.find(".mlp.") != std::string::npos) CHECK_THAT(name, !ContainsSubstring(".lora_"));
  }
}

TEST_CASE("adapters beside quantised experts go out to GGUF and come back; PEFT has no such layers",
          "[experts][lora]") {
  const Tuned tuned;
  const fs::path file = tuned.folder / "base.gguf";
  check_ended_well(run_program(
      "export", {"--model", mixture().run, "--format", "gguf", "--dtype", "bf16", "--out", file}));
  const Result r = tuned.train(8, kAll + Args{"--weights", "stored"}, file);
  check_ended_well(r);
  CHECK_THAT(r.out, ContainsSubstring("for which PEFT's files have no layers"));
  const double own = loss_of(tuned.run, tuned.corpus);
  CHECK(own < loss_of(file, tuned.corpus));
  const fs::path out = tuned.folder / "adapter.gguf";
  check_ended_well(
      run_program("export", {"--model", tuned.run, "--format", "gguf-lora", "--out", out}));
  CHECK(loss_beside(file, out, tuned.corpus) == Approx(own).epsilon(1e-6));
  const fs::path merged = tuned.folder / "merged.gguf";
  check_ended_well(run_program("merge", {"--model", tuned.run, "--dtype", "f16", "--out", merged}));
  CHECK(loss_of(merged, tuned.corpus) == Approx(own).epsilon(1e-2));
}
