// Runs that start from another model: its weights and tokenizer, frozen parameters, LoRA adapters
// and how they are merged.

#include "tapegrad/apps/train/plan/init_from.h"
#include "tapegrad/tests/apps/train/tuned_run.h"
#include "tapegrad/tests/places.h"

TEST_CASE("a start may tell a part of its model that it has without being told", "[fine-tuning]") {
  const Tuned tuned;
  check_ended_well(tuned.train(1, {"--activation", "gelu", "--positions", "learned"}));
  const Tuned other;
  other.check_refused({"--activation", "relu"}, 2,
                      R"(--activation "relu" does not fit the model in )");
  other.check_refused({"--n-kv-head", "1"}, 2, "which has 2");
}

TEST_CASE("a run starts from the weights, the tokenizer and the shape of another",
          "[fine-tuning]") {
  const Tuned tuned;
  const Result r = tuned.train(0, {"--dropout", "0.2"});
  check_ended_well(r);
  CHECK_THAT(r.out, ContainsSubstring("start:   " + base().run.string() + ", its checkpoint best"));
  CHECK(TempFolder::get(tuned.run / "tokenizer.json") == base().file("tokenizer.json"));
  const auto before = weights(base().run, "model-best.safetensors"), after = weights(tuned.run);
  REQUIRE(before.size() == after.size());
  for (const auto& [name, t] : before) CHECK(same_bits(t, after.at(name)));
  const auto config = config_of(tuned.run);
  CHECK(config["tuning"]["started_from"] == fs::absolute(base().run).string());
  CHECK(config["tuning"]["checkpoint"] == "best");
  CHECK(config["model"]["n_layer"] == 2);
  CHECK(config["model"]["dropout"] == 0.2);
  CHECK(config["data"]["tokenizer"] == "char");
}

TEST_CASE("the weights of the checkpoint that is named are taken", "[fine-tuning]") {
  // Its best weights are not its last ones.
  const TinyRun from(10, {"--learning-rate", "5", "--warmup-iters", "0"});
  for (const std::string checkpoint : {"best", "last"}) {
    const Tuned tuned;
    check_ended_well(tuned.train(0, {"--checkpoint", checkpoint}, from.run));
    const auto taken = weights(tuned.run).at("wte.weight");
    CHECK(same_bits(taken, weights(from.run).at("wte.weight")) == (checkpoint == "last"));
  }
  check_unparsed(Tuned().args(0, {"--checkpoint", "3"}, from.run), 1,
                 "keeps no checkpoint of step 3; it has best, last");
}

TEST_CASE("the head of a tied model has the name that its embedding has", "[fine-tuning]") {
  gpt::Options o;
  o.model.n_layer = 1, o.model.n_head = 2, o.model.n_embd = 16;
  o.model.arch = nn::Architecture::llama, o.model.tied = true;
  o.tuning.freeze = {"wte*"};
  CHECK_THROWS_WITH(gpt::check_patterns(o),
                    ContainsSubstring("there are embed_tokens.weight, ") &&
                        ContainsSubstring("(the head is embed_tokens.weight, too)"));
}

TEST_CASE("options that contradict the model are refused by name", "[fine-tuning]") {
  const Tuned tuned;
  const std::string model = " does not fit the model in " + base().run.string() + ", which has ";
  tuned.check_refused({"--n-layer", "3"}, 2, "--n-layer 3" + model + "2");
  tuned.check_refused({"--no-bias", "--bias"}, 2, "--bias true" + model + "false");
  tuned.check_refused({"--tokenizer", "gpt2"}, 2, "whose tokenizer is char");
  tuned.check_refused({"--freeze", "lm_heat*"}, 2,
                      "--freeze: 'lm_heat*' names no parameter; there are wte.weight");
  tuned.check_refused({"--freeze", "*"}, 2, "no parameter is left to train");
  tuned.check_refused({"--freeze", "wte*,,"}, 2, "--freeze: '' is not a pattern");
  tuned.check_refused({"--lora-alpha", "3"}, 2, "--lora-alpha needs --lora-rank");
  tuned.check_refused(kLora + Args{"--freeze", "wte*"}, 2, "--freeze and --lora-rank exclude");
  tuned.check_refused(kLora + Args{"--lora-alpha", "0"}, 2, "--lora-alpha must be above 0, not 0");
  tuned.check_refused(kLora + Args{"--lora-target", "*c_attm"}, 2,
                      "--lora-target: '*c_attm' names no linear layer that can have an adapter; "
                      "there are h.0.attn.c_attn");
  tuned.check_refused({"--init-from", tuned.folder / "nothing"}, 2, "there is no ");
  tuned.check_refused({"--init-from", tuned.folder.path()}, 1, "there is no model here");
  tuned.check_refused(Args{"--init-from", "scratch"} + kLora, 2,
                      "--lora-rank needs --init-from PATH");
  tuned.check_refused({"--out-dir", base().run, "--overwrite"}, 2,
                      "a new run needs a folder of its own");
  check_unparsed_pairs({"--init-from", base().run}, 2, "--init-from must be scratch or resume");
}

TEST_CASE("characters that the tokenizer lacks are refused with the text's name", "[fine-tuning]") {
  const Tuned tuned;
  tuned.folder.put("other.txt", other_text() + "a dog \xC3\xA9\n");
  const Result r = tuned.train(1);
  check_error_of("train-gpt", r, 1, "other.txt");
  CHECK_THAT(r.err, ContainsSubstring("U+00E9"));
  CHECK_FALSE(fs::exists(tuned.run));
}

TEST_CASE("frozen parameters keep their bits and have no state", "[fine-tuning]") {
  const Tuned tuned;
  const Result r = tuned.train(3, {"--freeze", "wte*,h.0.*", "ln_f*"});
  check_ended_well(r);
  CHECK_THAT(r.out, ContainsSubstring("trained: ") &&
                        ContainsSubstring(" parameters: all but wte*, h.0.*, ln_f*"));
  const auto state = weights(tuned.run, "optimizer.safetensors");
  const auto before = weights(base().run, "model-best.safetensors");
  for (const auto& [name, t] : weights(tuned.run)) {
    INFO(name);
    const bool frozen =
        name.starts_with("wte") || name.starts_with("h.0.") || name.starts_with("ln_f");
    CHECK(same_bits(t, before.at(name)) == frozen);
    CHECK(state.count("exp_avg." + name) == (frozen ? 0 : 1));
  }
}

TEST_CASE("a tuned run is resumed without the model that it started from, bit for bit",
          "[fine-tuning]") {
  for (const Args& more : {Args{"--freeze", "h.0.*"}, kLora}) {
    const Tuned straight, stopped;
    check_ended_well(straight.train(12, more));
    const TinyRun copy(10);  // equal to the base
    check_ended_well(stopped.train(7, more, copy.run));
    fs::remove_all(copy.run);
    CHECK_FALSE(same_model(straight.run, stopped.run));
    check_ended_well(train(resume_run(stopped.run, 12)));
    CHECK(same_model(straight.run, stopped.run));
    check_unparsed(resume_run(stopped.run, 13) + Args{"--lora-rank", "3"}, 2, "--lora-rank");
    check_unparsed(resume_run(stopped.run, 13) + Args{"--freeze", "wte*"}, 2, "--freeze");
  }
}

TEST_CASE("LoRA trains adapters beside weights that stay", "[fine-tuning]") {
  const Tuned tuned;
  const Result r =
      tuned.train(10, kLora + Args{"--lora-target", "*c_attn,*.mlp.*", "--learning-rate", "0.05"});
  check_ended_well(r);
  CHECK_THAT(r.out, ContainsSubstring("LoRA of rank 2 and alpha 4 at *c_attn, *.mlp.*"));
  const std::string run = tuned.run.string();
  CHECK_THAT(r.out, ContainsSubstring(" merge " + run + " --out " + run + "-merged\n") &&
                        ContainsSubstring(" export " + run + " --format peft --out "));
  const auto before = weights(base().run, "model-best.safetensors");
  std::size_t adapters = 0;
  for (const auto& [name, t] : weights(tuned.run)) {
    INFO(name);
    const auto it = before.find(name);
    adapters += it == before.end() ? 1 : 0;
    CHECK((it == before.end() ? name.find(".lora_") != name.npos : same_bits(t, it->second)));
  }
  CHECK(adapters == 12);
  for (const auto& [name, t] : weights(tuned.run, "optimizer.safetensors")) {
    CHECK(name.find(".lora_") != name.npos);
  }
  CHECK(loss_of(tuned.run, tuned.corpus) < loss_of(base().run, tuned.corpus) - 0.05);
}

TEST_CASE("alpha is the rank, and the target attention, unless they are given", "[fine-tuning]") {
  const nn::LoraOptions lora = parsed(Tuned().args(0, {"--lora-rank", "3"})).tuning.adapters();
  CHECK(lora.rank == 3);
  CHECK(lora.alpha == 3);
  CHECK(lora.targets == std::vector<std::string>{"*attn*"});
}

TEST_CASE("adapters are merged by tapegrad merge, and by programs that get the run",
          "[fine-tuning]") {
  const Tuned tuned;
  check_ended_well(tuned.train(10, kLora));
  const fs::path merged = tuned.folder / "models/merged";
  const Result r = run_program("merge", {"--model", tuned.run, "--out", merged});
  check_ended_well(r);
  CHECK_THAT(r.out, ContainsSubstring("tapegrad sample " + merged.string()));
  CHECK(weights(merged).size() == weights(base().run).size());
  CHECK(sample(merged) == sample(tuned.run));
  CHECK(loss_of(merged, tuned.corpus) == loss_of(tuned.run, tuned.corpus));
  // The run itself evaluates with adapters beside the weights.
  const auto final_loss = nlohmann::json::parse([&] {
    const std::string metrics = TempFolder::get(tuned.run / "metrics.jsonl");
    return metrics.substr(metrics.rfind('\n', metrics.size() - 2) + 1);
  }());
  const Result own = run_program("train-gpt", {"--eval-only", "--out-dir", tuned.run});
  check_ended_well(own);
  CHECK_THAT(
      own.out,
      ContainsSubstring(
          fmt::format("{:.4f}", final_loss.at("final_val_loss").get<double>()).substr(0, 4)));
  // Both are models to start from.
  const Tuned a, b;
  check_ended_well(a.train(0, {}, merged));
  check_ended_well(b.train(0, {"--checkpoint", "last"}, tuned.run));
  for (const auto& [name, t] : weights(a.run)) CHECK(same_bits(t, weights(b.run).at(name)));
  check_error_of("merge", run_program("merge", {"--model", tuned.run, "--out-dir", merged}), 1,
                 "already: choose another folder");
  check_error_of("merge",
                 run_program("merge", {"--model", base().run, "--out-dir", tuned.folder / "x"}), 1,
                 "the model has no adapters");
  for (const char* inside : {"merged", "deep/er/merged"}) {
    check_error_of(
        "merge", run_program("merge", {"--model", tuned.run, "--out-dir", tuned.run / inside}), 1,
        tuned.run.filename().string() + ", the folder of a run or a model: choose another place");
    CHECK_FALSE(fs::exists(tuned.run / "deep"));
  }
  check_error_of("merge", run_program("merge", {"--model", tuned.run}), 2, "--out is needed");
}

TEST_CASE("chat and inspect take adapters beside the model that they belong to", "[fine-tuning]") {
  const Tuned tuned;
  check_ended_well(tuned.train(10, kLora));
  const auto out = [](const std::string& program, const Args& args) {
    const Result r = run_program(program, args);
    check_ended_well(r);
    return r.out;
  };
  const Args adapter = {"--adapter", tuned.run}, hi = {"-p", "the cat", "--greedy", "-n", "20"};
  const Args text = {"the cat sat", "--json"};
  CHECK(out("chat", Args{base().run} + adapter + hi) == out("chat", Args{tuned.run} + hi));
  CHECK(out("chat", Args{base().run} + hi) != out("chat", Args{tuned.run} + hi));
  const auto losses = [&](const Args& args) {
    return nlohmann::json::parse(out("inspect", args + text)).at("predictions");
  };
  CHECK(losses(Args{base().run} + adapter) == losses({tuned.run}));
  CHECK(losses({base().run}) != losses({tuned.run}));
}

TEST_CASE("a merge that fails can be made again", "[fine-tuning]") {
  const Tuned tuned;
  check_ended_well(tuned.train(1, kLora));
  const fs::path merged = tuned.folder / "merged", err = tuned.folder / "err";
  // The tokenizer has less than two kilobytes, the weights have more.
  const std::string command = "ulimit -f 4; " + quoted_program("merge") + " --model " +
                              quoted(tuned.run) + " --out-dir " + quoted(merged) + " 2>" +
                              quoted(err);
  CHECK(std::system(command.c_str()) != 0);
  CHECK_THAT(TempFolder::get(err), ContainsSubstring("File too large"));
  check_ended_well(run_program("merge", {"--model", tuned.run, "--out-dir", merged}));
  CHECK(sample(merged) == sample(tuned.run));
}

TEST_CASE("a folder of a stranger's is read with care", "[fine-tuning]") {
  const Tuned source;
  check_ended_well(source.train(2, kLora));
  const std::string config = TempFolder::get(source.run / "config.json");
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = config;
    REQUIRE(text.find(from) != text.npos);
    text.replace(text.find(from), from.size(), to);
    std::ofstream(source.run / "config.json") << text;
    return run_program("sample-text", {"--model", source.run});
  };
  check_error_of("sample-text", with("\"lora_rank\": 2", "\"lora_rank\": 3"), 1,
                 "are not of rank 3");
  check_error_of("sample-text", with("\"lora_rank\": 2", "\"lora_rank\": null"), 1,
                 "the model has no place for 8 of its tensors: h.0.attn.c_attn.lora_A.weight");
  check_error_of("sample-text", with("\"lora_rank\": 2", "\"lora_rank\": 1e300"), 1, "'lora_rank'");
  check_error_of("sample-text", with("\"lora_alpha\": 4.0", "\"lora_alpha\": -1"), 1, "lora_alpha");
  check_error_of("sample-text", with("\"lora_target\": []", "\"lora_target\": [\"\\u001b[2J\"]"), 1,
                 "is not a pattern");
  std::ofstream(source.run / "config.json") << config;
  fs::rename(source.run / "model.safetensors", source.folder / "elsewhere");
  fs::create_symlink(source.folder / "elsewhere", source.run / "model.safetensors");
  const Tuned tuned;
  check_error_of("train-gpt", tuned.train(1, {"--checkpoint", "last"}, source.run), 1, "link");
}

TEST_CASE("--plan and --summary know the model to start from, and what is trained",
          "[fine-tuning]") {
  const Tuned tuned;
  const TinyRun from(0, {"--n-embd", "64"});
  const Result summary = tuned.train(1, {"--summary"});
  check_ended_well(summary);
  CHECK_THAT(summary.out, ContainsSubstring("h.1"));
  const Result all = tuned.train(1, {"--plan"}, from.run);
  const Result lora = tuned.train(1, kLora + Args{"--plan"}, from.run);
  check_ended_well(all);
  check_ended_well(lora);
  CHECK_FALSE(fs::exists(tuned.run));
  // Of a model for whose weights the optimiser needs a megabyte, adapters alone need much less.
  CHECK_THAT(lora.out, ContainsSubstring("optimiser 0,"));
  CHECK_THAT(all.out, ContainsSubstring("optimiser 1,"));
}

TEST_CASE("the config.json of any run is a config file", "[fine-tuning]") {
  const Tuned a, b;
  check_ended_well(::train({"--config", base().run / "config.json", "--corpus", base().corpus,
                            "--out-dir", a.run, "--no-sample"}));
  CHECK(same_model(a.run, base().run));
  check_ended_well(b.train(2, kLora));
  const Tuned again;
  check_ended_well(::train({"--config", b.run / "config.json", "--init-from", base().run,
                            "--corpus", b.corpus, "--out-dir", again.run, "--no-sample"}));
  CHECK(same_model(again.run, b.run));
  // It says what it cannot be without.
  const std::string file = b.run / "config.json";
  check_unparsed({"--config", file, "--out-dir", b.folder / "x"}, 2,
                 "--config " + file +
                     ": its checkpoint needs --init-from PATH: a run folder, or a model "
                     "of another program, such as " +
                     fs::absolute(base().run).string());
  const auto lines = b.folder.put("lines", "lora_rank = 2\n");
  check_unparsed({"--config", lines, "--out-dir", b.folder / "x"}, 2,
                 "--config " + lines.string() + ": its lora-rank needs --init-from PATH");
}
