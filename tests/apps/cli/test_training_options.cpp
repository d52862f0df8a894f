// The arguments of a training program that resumes a run.

#include "tapegrad/apps/cli/training/call_arguments.h"
#include "tapegrad/run/corpus/text_data.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;

namespace {

struct Model {
  std::int64_t depth = 2;
  double late = 1;

  template <class Self, class Table>
  static void describe(Self& m, Table& t) {
    t("depth", m.depth, "", {.least = 1});
    t("late", m.late, "", {.newer = true});
  }
};

struct Options {
  cli::CallOptions call;
  run::TextOptions text;
  Model model;
  run::OptimizerOptions optimizer;
  run::EvaluationOptions evaluation;

  void validate() const { check_rules(*this); }
  template <class Self>
  static auto texts(Self& o) {
    return std::vector<std::pair<const char*, decltype(&o.text.corpus)>>{
        {"--corpus", &o.text.corpus}};
  }
  template <class Self, class Table>
  static void describe(Self& o, Table& t) {
    t.section("call", "Run", Lasting::call, o.call);
    t.section("data", "Text", Lasting::model, o.text);
    t.section("model", "Model", Lasting::model, o.model);
    t.section("optimizer", "Optimisation", Lasting::run, o.optimizer);
    t.section("evaluation", "Evaluation", Lasting::run, o.evaluation);
  }
};

const std::vector<cli::Preset<Options>>& list() {
  static const std::vector<cli::Preset<Options>> presets = [] {
    Options deep;
    deep.model.depth = 5, deep.model.late = 3;
    return std::vector<cli::Preset<Options>>{{"deep", "", deep}};
  }();
  return presets;
}

struct Facts {
  std::optional<Precision> faster = {};
};

Options resolve(const cli::Arguments<Options>& arguments, const Facts&) {
  Options plan = arguments.options;
  cli::resolve_shared(plan, arguments);
  return plan;
}

const cli::TrainingProgram<Options, Facts> kProgram{
    .summary = "A test.",
    .format = "test",
    .presets = list(),
    .describe = [](cli::CommandLine&) {},
    .resolve = resolve,
    .check_patterns = [](const Options&) {},
    .product = [](const Options&) { return Product{}; }};

std::optional<Options> parsed(std::vector<const char*> args, int ranks = 1) {
  args.insert(args.begin(), "test");
  const auto call =
      cli::parse(kProgram, {"test", static_cast<int>(args.size()), args.data()}, ranks);
  return call ? std::optional(call->plan) : std::nullopt;
}

// The options of a call that resumes a run whose config.json lacks `late`.
std::optional<Options> resumed(std::vector<const char*> more) {
  const TempFolder folder;
  const Options defaults;
  run::Config config = run::config_of(defaults, "test");
  for (run::Section& section : config.sections) {
    std::erase_if(section.values, [](const auto& value) { return value.first == "late"; });
  }
  run::write_config(folder / "config.json", config);
  const std::string path = folder / "";
  more.insert(more.begin(), {"--init-from", "resume", "--out-dir", path.c_str()});
  return parsed(more);
}

}  // namespace

TEST_CASE("a run that lacks a newer option has the option's default", "[training_options]") {
  const auto options = resumed({"--max-iters", "7"});
  REQUIRE(options.has_value());
  CHECK(options->model.depth == 2);
  CHECK(options->model.late == 1);
  CHECK(options->optimizer.max_iters == 7);
}

TEST_CASE("a program asks only about options that it has", "[training_options]") {
  const char* const argv[] = {"test", "--depth", "3"};
  const cli::GivenOptions given = cli::parse(kProgram, {"test", 3, argv}).value().arguments.given;
  CHECK(given.has("--depth"));
  CHECK_FALSE(given.has("--late"));
  CHECK(given.file_of("--late").empty());
  CHECK_THROWS_WITH(given.has("--dept"), ContainsSubstring("there is no option --dept"));
  CHECK_THROWS_WITH(given.has_value("--dept"), ContainsSubstring("--dept"));
  CHECK_THROWS_WITH(given.file_of("--dept"), ContainsSubstring("--dept"));
}

TEST_CASE("what a model consists of cannot change on resume, newer options included",
          "[training_options]") {
  CHECK_THROWS_WITH(resumed({"--depth", "3"}),
                    ContainsSubstring("--depth 3 does not fit the run to resume, which has 2"));
  CHECK_THROWS_WITH(resumed({"--late", "2"}),
                    ContainsSubstring("--late 2.0 does not fit the run to resume, which has 1.0"));
}

TEST_CASE("a config of nanoGPT is one without --config; other words are texts",
          "[training_options]") {
  const TempFolder folder;
  const auto options = [&](const std::vector<std::string>& more) {
    std::vector<const char*> args;
    for (const std::string& arg : more) args.push_back(arg.c_str());
    return parsed(args).value();
  };
  const std::string config = folder.put("small.py", "import time\ndataset = 'x'\ndepth = 7\n");
  const std::string text = folder.put("text.txt", "a"), own = folder.put("own.py", "def f(): 0\n");
  const Options given = options({"--device=cpu", config, text});
  CHECK(given.model.depth == 7);
  CHECK(given.text.corpus == std::vector{text});
  CHECK(options({own}).text.corpus == std::vector{own});
  CHECK(options({"--corpus", config}).text.corpus == std::vector{config});
  CHECK(options({"--corpus", own, config}).text.corpus == std::vector{own, config});
  CHECK(options({text, config}).text.corpus == std::vector{text, config});
  const std::string empty = folder.put("__init__.py", "");
  CHECK(options({empty, text}).text.corpus == std::vector{empty, text});
  CHECK(options({text, own}).text.corpus == std::vector{text, own});
  CHECK_THROWS_WITH(
      options({text, "runs/mine"}),
      ContainsSubstring("runs/mine: there is no such file or folder, and every path is "
                        "text to learn: --out-dir runs/mine keeps the run there"));
  folder.put("config.json", "{}");
  CHECK(options({text, folder / "."}).text.corpus == std::vector<std::string>{text, folder / "."});
  folder.put("metrics.jsonl", "");
  CHECK_THROWS_WITH(options({text, folder / "."}), ContainsSubstring("it is a folder of a run"));
}

TEST_CASE("a preset that there is not is an error", "[training_options]") {
  CHECK_THROWS_WITH(cli::preset_of(kProgram, "flat"),
                    ContainsSubstring("there is no preset 'flat'"));
}

TEST_CASE("the batches of a step are rounded up to the processes, unless they are given",
          "[training_options]") {
  const auto batches = [](const std::vector<const char*>& args, int ranks) {
    return parsed(args, ranks).value().optimizer.gradient_accumulation_steps;
  };
  CHECK(batches({}, 1) == 1);
  CHECK(batches({}, 3) == 3);
  CHECK(batches({"--gradient-accumulation-steps", "4"}, 3) == 4);
  CHECK_THROWS_WITH(batches({"--gradient-accumulation-steps", "2"}, 3),
                    ContainsSubstring("a step has fewer forward passes than there are processes"));
}
