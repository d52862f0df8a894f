// The length that a model is made for, and the length that it is trained on.

#include "tapegrad/tests/apps/train/tuned_run.h"
#include "tapegrad/tests/golden/golden.h"

TEST_CASE("the first positions of any model are those of a shorter one", "[fine-tuning]") {
  const TinyRun llama(2, {"--arch", "llama", "--positions", "learned"});
  const Tuned shorter;
  check_ended_well(shorter.train(1, {"--block-size", "8"}, llama.run));
  CHECK(weights(shorter.run).at("embed_positions.weight").shape() == Shape{8, 16});
}

TEST_CASE("a model without positions may get longer sequences", "[fine-tuning]") {
  const TinyRun from(2, {"--positions", "none", "--block-size", "8"});
  const Tuned longer;
  check_ended_well(longer.train(1, {"--block-size", "16"}, from.run));
}

TEST_CASE("a shorter block keeps the first positions, a longer one is refused", "[fine-tuning]") {
  const Tuned tuned;
  const Result cut = tuned.train(3, {"--block-size", "8", "--freeze", "wpe*"});
  check_ended_well(cut);
  CHECK_THAT(cut.out, ContainsSubstring("the model keeps the first 8 of its 16 learned positions"));
  const Tensor all = weights(base().run, "model-best.safetensors").at("wpe.weight");
  CHECK(same_bits(weights(tuned.run).at("wpe.weight"), slice(all, 0, 0, 8)));
  CHECK(config_of(tuned.run)["model"]["block_size"] == 8);
  const Tuned longer;
  longer.check_refused({"--block-size", "32"}, 2,
                       "--block-size 32 is more than the 16 positions of the model in");
}

TEST_CASE("with rope, which has no weights for positions, a longer block is possible",
          "[fine-tuning]") {
  const TinyRun from(2, {"--positions", "rotary", "--block-size", "8"});
  const Tuned tuned;
  check_ended_well(tuned.train(1, {"--block-size", "16"}, from.run));
  CHECK(config_of(tuned.run)["model"]["block_size"] == 16);
}

TEST_CASE("a model keeps the length that it was made for, whatever a run is trained on",
          "[fine-tuning]") {
  const TinyRun from(2, {"--arch", "llama", "--block-size", "32"});
  const Tuned tuned, resumed;
  const Args less = kLora + Args{"--block-size", "8"};
  const Result r = tuned.train(6, less, from.run);
  check_ended_well(r);
  CHECK_THAT(r.out, ContainsSubstring("it sees 32 tokens at once, in training 8") &&
                        ContainsSubstring("6 of 32 tokens"));  // 4 sequences of 8
  CHECK(config_of(tuned.run)["model"]["block_size"] == 32);
  CHECK(config_of(tuned.run)["data"]["block_size"] == 8);
  check_ended_well(resumed.train(4, less, from.run));
  check_unparsed(resume_run(resumed.run, 6) + Args{"--block-size", "16"}, 2,
                 "--block-size 16 does not fit the run to resume, which has 8");
  check_ended_well(train(resume_run(resumed.run, 6) + Args{"--block-size", "8"}));
  CHECK(same_model(tuned.run, resumed.run));
  // A run that begins with this one goes on as it was trained.
  const gpt::Options next = parsed(Tuned().args(1, kLora, tuned.run));
  CHECK(next.model.block_size == 32);
  CHECK(next.text.block_size == 8);
  // What is made of it sees 32 tokens; it is measured as it was trained, unless asked for more.
  const fs::path out = tuned.folder / "out";
  check_ended_well(run_program("export", {"--model", tuned.run, "--format", "hf", "--out", out}));
  CHECK(config_of(out)["max_position_embeddings"] == 32);
  const auto evaluated = [&](const Args& more) {
    const Result e = run_program("evaluate", Args{"--model", tuned.run, tuned.corpus} + more);
    check_ended_well(e);
    return e.out;
  };
  CHECK(nlohmann::json::parse(evaluated({"--json"})).at("block_size") == 8);
  CHECK(nlohmann::json::parse(evaluated({"--json", "--block-size", "32"})).at("block_size") == 32);
  check_ended_well(train({"--eval-only", "--out-dir", tuned.run}));
}

TEST_CASE("sequences to train on are at most 1,024 tokens long unless more are asked for",
          "[fine-tuning]") {
  const TempFolder folder;
  fs::copy(testing::golden_file("hf_llama"), folder / "model");
  nlohmann::json config = config_of(folder / "model");
  config["max_position_embeddings"] = 32768;
  folder.put("model/config.json", config.dump());
  std::string text;
  for (int i = 0; i < 20; ++i) text += other_text();
  const std::string corpus = folder.put("text.txt", text);
  check_ended_well(train({"--init-from", folder / "model", "--corpus", corpus, "--out-dir",
                          folder / "run", "--max-iters", "0", "--batch-size", "1", "--eval-iters",
                          "1", "--lora-rank", "2"}));  // with samples
  CHECK(config_of(folder / "run")["model"]["block_size"] == 32768);
  CHECK(config_of(folder / "run")["data"]["block_size"] == 1024);
}
