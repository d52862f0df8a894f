// train-gpt --arch llama, from the outside.

#include "tapegrad/tests/apps/parsed.h"
#include "tapegrad/tests/apps/tiny_runs.h"
#include "tapegrad/tests/golden/golden.h"

namespace {

const Args kLlama = {"--arch", "llama", "--n-head", "4", "--n-kv-head", "2", "--dropout", "0.1"};

}  // namespace

TEST_CASE("a Llama is trained, and a run that is resumed ends with the same bytes", "[llama]") {
  const TempFolder folder;
  const std::string text = folder.put("text.txt", tiny_text());
  const Result whole = train(tiny_run(text, folder / "whole", 10) + kLlama);
  check_ended_well(whole);
  CHECK_THAT(whole.out, ContainsSubstring("model:   llama, "));
  check_ended_well(
      train(tiny_run(text, folder / "parts", 5) + kLlama + Args{"--lr-decay-iters", "10"}));
  check_ended_well(train(resume_run(folder / "parts", 10)));
  check_ended_well(
      train(tiny_run(text, folder / "same", 10) + kLlama + Args{"--lr-decay-iters", "10"}));
  CHECK(TempFolder::get(folder / "parts/model.safetensors") ==
        TempFolder::get(folder / "same/model.safetensors"));
  const Result plan = train(tiny_run(text, folder / "plan", 10) + kLlama + Args{"--plan"});
  check_ended_well(plan);
  CHECK_THAT(plan.out, ContainsSubstring("ms per step"));
  const Result sampled =
      run_program("sample-text", {"--model", folder / "whole", "--max-new-tokens", "40"});
  check_ended_well(sampled);
  CHECK_THAT(run_program("gradient-check", {"--model", folder / "whole"}).out,
             ContainsSubstring("self_attn.k_proj.weight") && ContainsSubstring("all right"));
}

TEST_CASE("a Llama of Hugging Face's is trained further, with LoRA as well, beyond its positions",
          "[llama]") {
  const TempFolder folder;
  const std::string text = folder.put("text.txt", tiny_text());
  const std::string model = tapegrad::testing::golden_file("hf_llama").string();
  const Args more = {"--init-from", model,          "--corpus",     text,          "--max-iters",
                     "4",           "--no-sample",  "--batch-size", "4",           "--eval-iters",
                     "1",           "--block-size", "32",           "--lora-rank", "2"};
  const Result r = train(more + Args{"--out-dir", folder / "run"});
  check_ended_well(r);
  CHECK_THAT(r.out, ContainsSubstring("it sees 32 tokens") && ContainsSubstring("LoRA of rank 2"));
  check_ended_well(
      run_program("merge", {"--model", folder / "run", "--out-dir", folder / "merged"}));
  check_ended_well(run_program("evaluate", {"--model", folder / "merged", text}));
}

TEST_CASE("options without the part that they need are an error that names both", "[llama]") {
  const auto refused = [&](const Args& args, const std::string& message) {
    check_unparsed(tiny_run("text.txt", "run", 2) + args, 2, message);
  };
  refused({"--rope-base", "500"}, "rope_base needs positions rotary");
  refused({"--arch", "llama", "--positions", "none", "--rope-scaling", "llama3"},
          "rope_scaling needs positions rotary");
  refused({"--arch", "bert"}, "--arch");
}
