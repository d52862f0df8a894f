// Runs of several processes: they make what one process makes.

#include "tapegrad/tests/apps/on_processes.h"
#include "tapegrad/tests/apps/tiny_runs.h"

namespace {

const std::string kMpirun = tapegrad::places::kMpirun;

// A corpus, what one process makes of it, and room for other runs.
struct Compared {
  TempFolder folder;
  std::filesystem::path corpus = folder.put("text.txt", tiny_text());
  Args more;

  explicit Compared(const Args& options) : more(options) {
    check_ended_well(train(args("one", 8)));
  }
  Args args(const std::string& run, int iters) const {
    return tiny_run(corpus, folder / run, iters) + Args{"--gradient-accumulation-steps", "4"} +
           more;
  }
  void check_equal(int count) const {
    INFO(count << " processes");
    const std::string run = "of-" + std::to_string(count);
    const Result r = on_processes(count, "train-gpt", args(run, 8));
    check_ended_well(r);
    CHECK(checkpoint_bytes(folder / run) == checkpoint_bytes(folder / "one"));
  }
};

}  // namespace

TEST_CASE("any number of processes makes the bits of one", "[processes]") {
  if (!have_processes()) return;
  const Compared runs({});
  for (const int count : {2, 3, 4}) runs.check_equal(count);
}

TEST_CASE("so it does with passes, torch's generator and dropout of everything", "[processes]") {
  if (!have_processes()) return;
  const Compared runs({"--batches", "epochs", "--rng", "torch", "--ff-dropout", "--tokenizer",
                       "bpe:280", "--weight-decay", "0.2", "--dtype", "bf16"});
  runs.check_equal(3);
}

TEST_CASE("so it does with experts that biases balance", "[processes]") {
  if (!have_processes()) return;
  const Compared runs({"--moe-experts", "4", "--moe-selection-bias", "--moe-bias-rate", "0.125"});
  for (const int count : {2, 3, 4}) runs.check_equal(count);
}

TEST_CASE("so it does with documents that do not see each other", "[processes]") {
  if (!have_processes()) return;
  const Compared runs(
      {"--tokenizer", "bpe:280", "--separator", "\\n", "--isolate-documents", "--window", "5"});
  runs.check_equal(3);
}

TEST_CASE("so it does with conversations, whose batches count differently", "[processes]") {
  if (!have_processes()) return;
  const TempFolder folder;
  std::string lines;
  for (int i = 0; i < 40; ++i) {
    lines += R"({"prompt":"say )" + std::string(static_cast<std::size_t>(1 + i % 9), 'a') +
             R"(","completion":")" + std::string(static_cast<std::size_t>(1 + i % 4), 'b') +
             "\"}\n";
  }
  const std::filesystem::path chats = folder.put("chats.jsonl", lines);
  const auto args = [&](const std::string& run) {
    return tiny_chat_run(chats, folder / run, 8) +
           Args{
               "--gradient-accumulation-steps", "4", "--batch-size", "2", "--tokenizer", "bpe:262"};
  };
  check_ended_well(train(args("one")));
  check_ended_well(on_processes(3, "train-gpt", args("many")));
  CHECK(checkpoint_bytes(folder / "many") == checkpoint_bytes(folder / "one"));
}

TEST_CASE("so it does with pairs of answers, beside a reference", "[processes]") {
  if (!have_processes()) return;
  const TempFolder folder;
  std::string chats, pairs;
  for (int i = 0; i < 40; ++i) {
    const std::string prompt = R"({"prompt":"say )" + std::to_string(i % 9) + "\",";
    chats += prompt + R"("completion":"a"})" + "\n";
    pairs += prompt + R"("chosen":")" + std::string(static_cast<std::size_t>(1 + i % 4), 'b') +
             R"(","rejected":"a"})" + "\n";
  }
  const Args tiny = {"--batch-size",    "2", "--eval-iters", "2", "--max-iters", "6",
                     "--eval-interval", "3", "--no-sample"};
  const Args model = {"--preset", "char-cpu", "--n-layer",    "1",  "--n-head",    "2",
                      "--n-embd", "16",       "--block-size", "64", "--tokenizer", "bpe:262"};
  check_ended_well(
      train(Args{"--chat", folder.put("chats.jsonl", chats), "--out-dir", folder / "start"} + tiny +
            model));
  const auto args = [&](const std::string& run) {
    return Args{"--init-from",
                folder / "start",
                "--preferences",
                folder.put("pairs.jsonl", pairs),
                "--out-dir",
                folder / run,
                "--dropout",
                "0.1",
                "--gradient-accumulation-steps",
                "4"} +
           tiny;
  };
  check_ended_well(train(args("one")));
  for (const int count : {2, 3}) {
    check_ended_well(on_processes(count, "train-gpt", args("many") + Args{"--overwrite"}));
    CHECK(checkpoint_bytes(folder / "many") == checkpoint_bytes(folder / "one"));
  }
}

TEST_CASE("so it does with other optimisers and groups of parameters", "[processes]") {
  if (!have_processes()) return;
  const Compared runs({"--optimizer", "sgd", "--momentum", "0.9", "--nesterov", "--optimizer-for",
                       "wte*=adamw", "--lr-scale", "h.1.*=0.5", "--decay", "vectors=0.01"});
  runs.check_equal(4);
  const std::filesystem::path run = runs.folder / "moves";
  check_ended_well(on_processes(3, "train-gpt", runs.args("moves", 3)));
  check_ended_well(on_processes(2, "train-gpt", resume_run(run, 6)));
  check_ended_well(train(resume_run(run, 8)));
  CHECK(checkpoint_bytes(run) == checkpoint_bytes(runs.folder / "one"));
}

TEST_CASE("an encoder and decoder train on several processes, too", "[processes]") {
  if (!have_processes()) return;
  const TempFolder folder;
  const std::filesystem::path pairs = folder.put("pairs.tsv", tiny_pairs());
  const auto args = [&](const std::string& run) {
    return tiny_pair_run(pairs, folder / run, 6) + Args{"--gradient-accumulation-steps", "2"};
  };
  check_ended_well(train_pairs(args("one")));
  check_ended_well(on_processes(2, "train-seq2seq", args("two")));
  CHECK(checkpoint_bytes(folder / "two") == checkpoint_bytes(folder / "one"));
}

TEST_CASE("a run goes on with another number of processes, to the same bits", "[processes]") {
  if (!have_processes()) return;
  const Compared runs({"--skip-outliers", "3"});
  const std::filesystem::path run = runs.folder / "moves";
  check_ended_well(on_processes(4, "train-gpt", runs.args("moves", 3)));
  check_ended_well(on_processes(2, "train-gpt", resume_run(run, 5)));
  check_ended_well(on_processes(3, "train-gpt", resume_run(run, 7)));
  check_ended_well(train(resume_run(run, 8)));
  CHECK(checkpoint_bytes(run) == checkpoint_bytes(runs.folder / "one"));
}

TEST_CASE("what is printed and kept is rank 0's, once", "[processes]") {
  if (!have_processes()) return;
  const Compared runs({});
  const Result r = on_processes(2, "train-gpt", runs.args("two", 8));
  check_ended_well(r);
  CHECK(r.out.find("iter 3:") == r.out.rfind("iter 3:"));
  CHECK_THAT(r.out, ContainsSubstring("iter 3:"));
  const auto lines = [](const std::string& text) {
    return std::count(text.begin(), text.end(), '\n');
  };
  const std::string sessions = TempFolder::get(runs.folder / "two" / "sessions.jsonl");
  CHECK(lines(sessions) == 2);
  CHECK_THAT(sessions, ContainsSubstring("\"command\":\"mpirun -n 2 train-gpt "));
  CHECK(lines(TempFolder::get(runs.folder / "two" / "metrics.jsonl")) ==
        lines(TempFolder::get(runs.folder / "one" / "metrics.jsonl")));
}

TEST_CASE("layers have the numbers of one process", "[processes]") {
  if (!have_processes()) return;
  const Compared runs({"--layer-stats", "3"});
  const std::string one = TempFolder::get(runs.folder / "one" / "layers.jsonl");
  CHECK(std::count(one.begin(), one.end(), '\n') == 3);  // steps 0, 3 and 6
  runs.check_equal(3);
  CHECK(TempFolder::get(runs.folder / "of-3" / "layers.jsonl") == one);
}

TEST_CASE("gradients may travel as bf16, which changes little", "[processes]") {
  if (!have_processes()) return;
  const Compared runs({});
  const Result r = on_processes(2, "train-gpt", runs.args("two", 8) + Args{"--comm-dtype", "bf16"});
  check_ended_well(r);
  CHECK(checkpoint_bytes(runs.folder / "two") != checkpoint_bytes(runs.folder / "one"));
  const auto last_loss = [&](const std::string& run) {
    const std::string text = TempFolder::get(runs.folder / run / "metrics.jsonl");
    const std::size_t at = text.rfind("\"val_loss\":") + 11;
    return std::stod(text.substr(at));
  };
  CHECK_THAT(last_loss("two"), Catch::Matchers::WithinAbs(last_loss("one"), 0.01));
}

TEST_CASE("each process has a batch of a step at least", "[processes]") {
  if (!have_processes()) return;
  const TempFolder folder;
  const std::filesystem::path corpus = folder.put("text.txt", tiny_text());
  const Args args = tiny_run(corpus, folder / "run", 2);
  SECTION("which is the default") {
    const Result r = on_processes(2, "train-gpt", args);
    check_ended_well(r);
    CHECK_THAT(r.out, ContainsSubstring("2 of 128 tokens"));
    CHECK_THAT(on_processes(4, "train-gpt", resume_run(folder / "run", 4)).err,
               ContainsSubstring("--gradient-accumulation-steps 2: a step has fewer forward passes "
                                 "than there are processes, 4: the run can be resumed by fewer"));
  }
  SECTION("and what is given must be enough") {
    const Result r =
        on_processes(2, "train-gpt", args + Args{"--gradient-accumulation-steps", "1"});
    CHECK(r.code != 0);
    CHECK_THAT(r.err, ContainsSubstring("fewer forward passes than there are processes, 2"));
  }
  SECTION("stdin cannot be shared") {
    Args from_stdin = args;
    from_stdin[1] = "-";
    CHECK_THAT(on_processes(2, "train-gpt", from_stdin).err,
               ContainsSubstring("goes to one process alone"));
  }
}

TEST_CASE("processes of other arguments do not train with others", "[processes]") {
  if (!have_processes()) return;
  const TinyRun tiny(2);
  const std::string program = std::filesystem::path(tapegrad::places::kPrograms) / "train-gpt";
  const Args some = {"-n", "1", program, "--threads", "1"};
  const Args batches = {"--gradient-accumulation-steps", "2"};
  static_cast<void>(on_processes(1, "train-gpt", {"--version"}));  // sets the environment
  const auto error_beside = [&](const Args& other, const Args& both) {
    const Args own = tiny_run(tiny.corpus, tiny.folder / "new", 4);
    Program two(kMpirun, some + own + both + Args{":"} + some + other + both);
    if (!two.ends_within(std::chrono::seconds(60))) {
      two.send(SIGTERM);  // mpirun then ends both
      static_cast<void>(two.ends_within(std::chrono::seconds(10)));
      throw std::runtime_error("it goes on");
    }
    const Result r = two.wait();
    INFO(r.out << r.err);
    CHECK(r.code != 0);
    CHECK_FALSE(std::filesystem::exists(tiny.folder / "new"));
    return r.err;
  };
  CHECK_THAT(error_beside(resume_run(tiny.run, 4), batches),
             ContainsSubstring("--init-from must be the same in all processes, and is not: a new "
                               "run in rank 0 on ") &&
                 ContainsSubstring("resume in rank 1 on "));
  CHECK_THAT(error_beside(tiny_run(tiny.corpus, tiny.folder / "other", 4), batches),
             ContainsSubstring("--out-dir must be the same in all processes, and is not: ") &&
                 ContainsSubstring("/other in rank 1 on "));
  CHECK_THAT(
      error_beside({"--help"}, {}),
      ContainsSubstring("rank 1 on ") &&
          ContainsSubstring(" waits for it: all processes must be given the same arguments"));
}
