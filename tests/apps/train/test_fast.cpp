// The preset `fast`: what it goes by, and that what it chooses is a run.

#include "tapegrad/apps/train/plan/facts.h"
#include "tapegrad/apps/train/plan/fast.h"
#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/base/parallel.h"
#include "tapegrad/base/text/words.h"
#include "tapegrad/nn/summary.h"
#include "tapegrad/run/models/formats/export.h"
#include "tapegrad/tests/apps/parsed.h"
#include "tapegrad/tests/apps/tiny_args.h"
#include "tapegrad/tests/apps/tiny_runs.h"

using namespace tapegrad;

namespace {

run::TextOptions corpus_at(std::vector<std::string> paths) { return {.corpus = std::move(paths)}; }

double parameters_of(const gpt::Options& o) {
  nn::DecoderConfig config = o.model;
  config.vocab_size = 512;
  config.ngrams = 1;  // whose tables have the size of the tokenizer
  return static_cast<double>(nn::summary(config).parameters());
}

}  // namespace

TEST_CASE("the length of a text is that of its files", "[fast]") {
  const TempFolder folder;
  const std::string one = folder.put("one.txt", std::string(300, 'a'));
  std::filesystem::create_directories(folder / "many/deep");
  folder.put("many/two.txt", std::string(20, 'b'));
  folder.put("many/deep/three.txt", std::string(4, 'c'));
  CHECK(gpt::text_bytes(corpus_at({one})) == 300);
  CHECK(gpt::text_bytes(corpus_at({one, folder / "many"})) == 324);
  CHECK(gpt::text_bytes(corpus_at({one + ":2"})) == 300);
  std::filesystem::create_directories(folder / "many/.git");
  folder.put("many/.git/objects", std::string(999, 'e'));
  CHECK(gpt::text_bytes(corpus_at({folder / "many"})) == 24);
  const std::string packed = folder.put("packed.gz", std::string(100, 'd'));
  CHECK(gpt::text_bytes(corpus_at({packed})) == 400);
  CHECK(gpt::text_bytes(corpus_at({})) == static_cast<double>(gpt::default_text().contents.size()));
  CHECK_FALSE(gpt::text_bytes(corpus_at({"-"})));
  CHECK_FALSE(gpt::text_bytes(corpus_at({folder / "nothing.txt"})));
}

TEST_CASE("fast: more work makes larger models, and every choice is a valid run", "[fast]") {
  for (const double bytes : {1e3, 1e5, 1e6, 1e7, 1e8, 1e10}) {
    double before = 0;
    for (double operations = 1e9; operations < 1e19; operations *= 4) {
      CAPTURE(bytes, operations);
      gpt::Options o = gpt::fast_options({.bytes = bytes, .operations = operations});
      o.model.vocab_size = 512;
      CHECK_NOTHROW(o.validate());
      CHECK(parameters_of(o) >= before);
      before = parameters_of(o);
    }
  }
}

TEST_CASE("fast: a short text gets a small model, whatever the time", "[fast]") {
  const auto channels = [](double bytes) {
    return gpt::fast_options({.bytes = bytes, .operations = 1e18}).model.n_embd;
  };
  CHECK(channels(1e4) == 64);
  CHECK(channels(1.1e6) == 96);
  CHECK(channels(2e6) == 128);
  CHECK(channels(1e9) == 768);
}

TEST_CASE("fast: a short text is read in characters, and not more often than it bears", "[fast]") {
  const gpt::Options brief = gpt::fast_options({.bytes = 1e8, .operations = 1e13});
  const gpt::Options often = gpt::fast_options({.bytes = 1e6, .operations = 2e13});
  const gpt::Options most = gpt::fast_options({.bytes = 1e5, .operations = 2e13});
  const gpt::Options once = gpt::fast_options({.bytes = 6e3, .operations = 1e9});
  CHECK(brief.text.tokenizer == "bpe:4096");
  CHECK(once.text.tokenizer == "char");
  CHECK(often.text.tokenizer == "char");
  CHECK(most.text.tokenizer == "char");
  CHECK(brief.model.dropout == 0);
  CHECK(most.model.dropout == 0.1);
  // The steps follow when the text is read.
  const auto most_iters = [](const std::string& preset, gpt::TextFacts text) {
    const Args args = {"--preset", preset, "--batch-size", "3", "--block-size", "100"};
    return gpt::resolve(parsed_call(args).arguments, {.text = text}).most_iters;
  };
  CHECK(most_iters("fast", {.vocab_size = 31, .train_tokens = 90'000}) == 6000);
  CHECK_FALSE(most_iters("fast", {.vocab_size = 31}));
  CHECK_FALSE(most_iters("char-cpu", {.vocab_size = 31, .train_tokens = 90'000}));
}

TEST_CASE("--preset fast goes by the text and the minutes, and arguments replace what it chooses",
          "[fast]") {
  const TempFolder folder;
  const std::string text = folder.put("text.txt", std::string(2'000'000, 'a'));
  const auto with_rate = [&](double rate, Args args) {
    args.insert(args.begin(), {"--preset", "fast", text});
    std::vector<const char*> argv = {"train-gpt"};
    for (const std::string& arg : args) argv.push_back(arg.c_str());
    const cli::Call call{"train-gpt", static_cast<int>(argv.size()), argv.data()};
    return cli::parse(gpt::training(), call, 1, [=](const Product&) { return rate; }).value().plan;
  };
  const gpt::Plan slow = with_rate(1e9, {"--max-minutes", "1"});
  const gpt::Options night = with_rate(1e12, {"--max-minutes", "480"});
  CHECK(slow.model.n_embd < night.model.n_embd);
  CHECK(slow.call.max_minutes == 1);
  CHECK(slow.text.preset == "fast");
  CHECK_THAT(slow.preset_note, ContainsSubstring("for 2.0 MB of text and 1:00 min at 1 GFLOP/s"));
  CHECK(with_rate(1e9, {}).call.max_minutes == 2);
  check_unparsed({"--preset", "fast", text, "--max-iters", "7"}, 2,
                 "--preset fast goes by --max-minutes, and not by --max-iters");
  const gpt::Options own =
      with_rate(1e12, {"--n-embd", "96", "--n-head", "3", "--learning-rate", "1e-3"});
  CHECK(own.model.n_embd == 96);
  CHECK(own.optimizer.learning_rate == 1e-3);
  check_unparsed({"--preset", "fast", text, "--init-from", folder / "run"}, 2,
                 "--preset fast is for new models");
  const gpt::Options wide = with_rate(1e9, {"--n-embd", "256"});
  CHECK(wide.model.n_head == 8);
  CHECK(wide.optimizer.learning_rate == 3e-3);
}

TEST_CASE("a config file of one's own that names the preset is sized, whatever else it has",
          "[fast]") {
  const TempFolder folder;
  const std::string own =
      folder.put("own.json", R"({"mine": {"preset": "fast", "gflops": 1, "decay_share": 0.5}})");
  const gpt::Plan plan = parsed({"--config", own});
  CHECK_THAT(plan.preset_note, ContainsSubstring("at 1 GFLOP/s"));
  CHECK(plan.optimizer.decay_share == 0.5);
}

TEST_CASE("a run of --preset fast says what it went by, goes on, and its config makes it again",
          "[fast]") {
  const TempFolder folder;
  std::string words;
  for (int i = 0; i < 400; ++i) words += fmt::format("line {} of a text\n", i % 7);
  const std::string text = folder.put("text.txt", words), run = folder / "run";
  // The text ends the run, and not the time: how fast the machine is does not matter.
  const Result r = train({"--preset", "fast", text, "--n-layer", "1", "--n-embd", "32",
                          "--eval-iters", "1", "--no-sample", "--out-dir", run});
  check_ended_well(r);
  CHECK_THAT(r.out, ContainsSubstring("recipe:  fast, for "));
  // What the model cannot do is said before it is trained, and at the end.
  const std::string obstacle = "as hf: GPT2LMHeadModel cannot express a model with ";
  const std::string remedy = "; --preset fast --for gguf takes parts that can be exported\n";
  const std::size_t header = r.out.find("\nexport:  not " + obstacle);
  CHECK(header < r.out.find("\nThe run is in "));
  CHECK(r.out.rfind("\nThis model cannot be exported " + obstacle) < r.out.size());
  CHECK(r.out.ends_with(remedy));
  const Json made = read_json_object(run + "/config.json");
  const double passes = 20 * 0.9 * static_cast<double>(words.size()) / 1536;
  CHECK(made["optimizer"]["max_iters"].get<double>() == Approx(passes).margin(1));
  const Result more =
      train({"--init-from", "resume", "--out-dir", run, "--max-iters", "100000", "--plan"});
  CHECK_THAT(more.out, !ContainsSubstring("recipe:"));
  const Result again = train({"--config", run + "/config.json", "--max-iters", "1", "--no-sample",
                              "--out-dir", folder / "again"});
  check_ended_well(again);
  CHECK_THAT(again.out, !ContainsSubstring("recipe:"));
  CHECK(read_json_object(folder / "again/config.json")["model"] == made["model"]);
  // However the file is named.
  const std::string link = folder / "link.json";
  std::filesystem::create_symlink(run + "/config.json", link);
  const gpt::Plan linked = parsed({"--config", link, "--max-iters", "1"});
  CHECK(linked.model.n_embd == 32);
  CHECK(linked.preset_note.empty());
  check_ended_well(Program("train-gpt", {"--config", "-", "--max-iters", "1", "--summary"}, ".",
                           run + "/config.json")
                       .wait());
}

TEST_CASE("a model of --preset fast --for hf or gguf can be exported as either", "[fast]") {
  const TempFolder folder;
  const std::string text = folder.put("text.txt", tiny_text());
  for (const std::string format : {"hf", "gguf"}) {
    const std::string run = folder / format;
    const Result r = train({"--preset", "fast", "--for", format, text, "--n-layer", "1", "--n-embd",
                            "32", "--eval-iters", "1", "--no-sample", "--out-dir", run});
    check_ended_well(r);
    CHECK_THAT(r.out, !ContainsSubstring("export"));
    for (const std::string to : {"hf", "gguf"}) {
      check_ended_well(run_program("export", {run, "--format", to, "-o", run + "-as-" + to}));
    }
  }
  // Each size, too.
  for (const double operations : {1e11, 1e13, 1e15, 1e17}) {
    gpt::Budget budget{.bytes = 1e9, .operations = operations};
    CHECK_FALSE(run::export_obstacle(gpt::fast_options(budget).model).empty());
    budget.destination = gpt::Destination::gguf;
    const gpt::Options o = gpt::fast_options(budget);
    CHECK_NOTHROW(o.validate());
    CHECK(run::export_obstacle(o.model).empty());
  }
  check_unparsed({text, "--for", "gguf"}, 2, "--for is for --preset fast");
}

TEST_CASE("a file of one's own that names the preset lets it choose", "[fast]") {
  const TempFolder folder;
  const std::string text = folder.put("text.txt", std::string(2'000'000, 'a'));
  const std::string file =
      folder.put("own.ini", "preset = fast\nwarmup_iters = 9\ngflops = 1000\nmax_minutes = 480\n");
  CHECK(
      parsed({"--config", file, text}).model.n_embd ==
      parsed({"--preset", "fast", text, "--gflops", "1000", "--max-minutes", "480"}).model.n_embd);
}

TEST_CASE("--gflops stands for the machine's rate", "[fast]") {
  const TempFolder folder;
  const std::string text = folder.put("text.txt", std::string(2'000'000, 'a'));
  const gpt::Plan slow = parsed({"--preset", "fast", text, "--gflops", "1"});
  const gpt::Options rapid =
      parsed({"--preset", "fast", text, "--gflops", "1000", "--max-minutes", "480"});
  CHECK(slow.model.n_embd < rapid.model.n_embd);
  CHECK_THAT(slow.preset_note, ContainsSubstring("2:00 min at 1 GFLOP/s"));
  const int threads = num_threads();  // of a sweep that only reads the options of its runs
  set_num_threads(3);
  parsed({"--preset", "fast", text, "--gflops", "1", "--threads", "1"});
  CHECK(num_threads() == 3);
  set_num_threads(threads);
  check_unparsed({text, "--gflops", "1"}, 2, "--gflops is for --preset fast");
  check_unparsed({"--preset", "fast", text, "--gflops", "0"}, 2, "--gflops");
}

TEST_CASE("the runs of a sweep of --preset fast have one size, also when it goes on", "[fast]") {
  const TempFolder folder;
  std::string words;
  for (int i = 0; i < 200; ++i) words += fmt::format("line {} of a text\n", i % 7);
  const std::string text = folder.put("text.txt", words), out = folder / "sweep";
  const Args args = {"sweep", "--preset", "fast",     "--vary", "n-layer=1,2",  "--out-dir", out,
                     "--",    text,       "--n-embd", "32",     "--eval-iters", "1"};
  check_ended_well(run_program("tapegrad", args));
  const Json sweep = read_json_object(out + "/sweep.json");
  const double gflops = sweep["asked"]["gflops"].get<double>();
  CHECK(gflops > 0);
  for (const char* run : {"/001/", "/002/"}) {
    CHECK_THAT(read_file(out + run + "output.txt"),
               ContainsSubstring(fmt::format("at {:.0f} GFLOP/s", gflops)));
    CHECK(read_json_object(out + run + "config.json")["data"]["preset"] == "fast");
  }
  const Result again = run_program("tapegrad", args);  // whatever the rate is now
  check_ended_well(again);
  CHECK_THAT(again.out, ContainsSubstring(fmt::format("--gflops {}", gflops)));
  const std::string own = folder.put("own.ini", "preset = fast\n");
  check_error_of("tapegrad sweep",
                 run_program("tapegrad", {"sweep", "--vary", "learning-rate=1e-3,2e-3", "--", text,
                                          "--config", own}),
                 2, "is measured once for all runs");
  check_error_of("tapegrad sweep",
                 run_program("tapegrad", {"sweep", "--preset", "fast", "--search", "halving",
                                          "--vary", "learning-rate=1e-3,2e-3", "--", text}),
                 2, "goes by --max-minutes");
}
