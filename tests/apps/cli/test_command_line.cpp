#include "tapegrad/apps/cli/command_line.h"
#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/run/options/options.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;

namespace {

struct Options {
  std::int64_t n_layer = 4;
  double rate = 0.5;
  bool bias = false;
  std::optional<bool> qkv_bias = {};
  std::optional<std::int64_t> limit = {};
  std::vector<std::string> corpus = {};
  optim::Schedule::Kind schedule = optim::Schedule::Kind::cosine;
  std::vector<std::string> words = {};

  template <class Self, class Table>
  static void describe(Self& o, Table& t) {
    t("n_layer", o.n_layer, "blocks", {.least = 1, .most = 99});
    t("rate", o.rate, "how fast", {.least = 0});
    t("bias", o.bias, "with biases");
    t("qkv_bias", o.qkv_bias, "of Q, K and V");
    t("limit", o.limit, "at most", {.least = 1});
    t("corpus", o.corpus, "texts", {.value = "PATH…"});
    t("schedule", o.schedule, "how the rate decays");
  }
};

Options parsed(std::vector<const char*> args, bool words = false) {
  Options options;
  cli::CommandLine cli("test", "A test.");
  cli.options(options);
  cli.alias("-n", "--n-layer");
  cli.alias("--speed", "--rate");
  if (words) cli.words(options.words, "WORD", "words");
  args.insert(args.begin(), "test");
  cli.parse(static_cast<int>(args.size()), args.data());
  return options;
}

std::string refusal(const std::vector<const char*>& args, bool words = false) {
  try {
    parsed(args, words);
  } catch (const cli::UsageError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("options set the members that they are named after", "[command_line]") {
  const Options o = parsed({"--n-layer", "7", "--rate=0.25", "--bias", "--no-qkv-bias", "--limit",
                            "3", "--corpus", "a", "b", "--schedule", "linear"});
  CHECK(o.n_layer == 7);
  CHECK(o.rate == 0.25);
  CHECK(o.bias);
  CHECK(o.qkv_bias == false);
  CHECK(o.limit == 3);
  CHECK(o.corpus == std::vector<std::string>{"a", "b"});
  CHECK(o.schedule == optim::Schedule::Kind::linear);
  CHECK(parsed({"--n_layer", "5", "--n-layer", "6"}).n_layer == 6);  // the last one counts
  CHECK_FALSE(parsed({"--bias", "--bias=no"}).bias);
  CHECK(parsed({"--no_bias=false"}).bias);
  CHECK(parsed({}).qkv_bias == std::nullopt);
}

TEST_CASE("an empty value is a value, and -h may be one", "[command_line]") {
  CHECK(parsed({"--corpus=", "--bias"}).corpus == std::vector<std::string>{""});
  CHECK(parsed({"--corpus=", "--bias"}).bias);
  CHECK(parsed({"--corpus", "-h"}).corpus == std::vector<std::string>{"-h"});
  CHECK(refusal({"--n-layer", "many", "--help"}) == "");
}

TEST_CASE("words and options may be mixed, and -- ends the options", "[command_line]") {
  const Options o =
      parsed({"one", "--n-layer", "2", "-5", "[a,b]", "--", "--bias", "-h", "[]"}, true);
  CHECK(o.words == std::vector<std::string>{"one", "-5", "[a,b]", "--bias", "-h", "[]"});
  CHECK(o.n_layer == 2);
  CHECK_FALSE(o.bias);
}

TEST_CASE("a config file sets what the command line does not", "[command_line]") {
  const TempFolder folder;
  const std::string file =
      folder.put("options", "# a comment\n[model]\nn_layer = 3\nbias = true\nrate = 0.125\n");
  const Options o = parsed({"--config", file.c_str(), "--rate", "2"});
  CHECK(o.n_layer == 3);
  CHECK(o.bias);
  CHECK(o.rate == 2);
  const std::string bad = folder.put("bad", "n_layr = 3\n");
  CHECK(refusal({"--config", bad.c_str()}) ==
        "--config " + bad + ", line 1: unknown option --n-layr; did you mean --n-layer?");
  CHECK_THAT(refusal({"--config", "/none"}), ContainsSubstring("/none"));
  CHECK_THAT(refusal({"--config", "/dev/zero"}), ContainsSubstring("not a regular file"));
  const std::string several = folder.put("several", "n-layer = [1,2]\n");
  CHECK_THAT(refusal({"--config", several.c_str()}),
             ContainsSubstring("--n-layer needs one value, not 2"));
  const std::string help = folder.put("help", "help = true\n");
  CHECK_THAT(refusal({"--config", help.c_str()}),
             ContainsSubstring("--help stands on the command line only"));
  CHECK(refusal({"--config", ""}) == "--config: the file needs a name");
  const std::string off = folder.put("off", "no-bias = false\ncorpus = [\"a\", \"b\"]\n");
  CHECK(parsed({"--config", off.c_str()}).bias);
  CHECK(parsed({"--config", off.c_str()}).corpus.size() == 2);
}

TEST_CASE("a call that has no meaning says what is wrong", "[command_line]") {
  CHECK(refusal({"--n-layer", "many"}) == "--n-layer: 'many' is not a whole number");
  CHECK(refusal({"--n-layer", "0"}) == "--n-layer: must be from 1 to 99, not 0");
  CHECK(refusal({"--limit=0"}) == "--limit: must be at least 1, not 0");
  CHECK(refusal({"--rate", "inf"}) == "--rate: 'inf' is not a number");
  CHECK(refusal({"--bias=perhaps"}) == "--bias: 'perhaps' is neither true nor false");
  CHECK(refusal({"--qkv-bias=2"}) == "--qkv-bias: '2' is neither true nor false");
  CHECK(refusal({"--schedule", "liner"}) ==
        "--schedule: 'liner' is not one of constant, linear, cosine, wsd, step, multistep, "
        "exponential, cosine_with_restarts, one_cycle; did you mean linear?");
  CHECK(refusal({"--n-layers", "3"}) == "unknown option --n-layers; did you mean --n-layer?");
  CHECK(refusal({"--n-layer"}) == "--n-layer needs a value");
  CHECK(refusal({"--n-layer", "--bias"}) ==
        "--n-layer needs a value (if it is to be '--bias', write --n-layer=--bias)");
  CHECK(refusal({"stray"}) == "unexpected argument 'stray'");
  CHECK(refusal({"--", "--bias"}) == "unexpected argument '--bias'");
  CHECK(refusal({"--n-layer=", "3"}) == "unexpected argument '3'");
  CHECK(refusal({"--n-layer="}) == "--n-layer: '' is not a whole number");
  CHECK(refusal({"--n-layer", "--limit=3"}) ==
        "--n-layer needs a value (if it is to be '--limit=3', write --n-layer=--limit=3)");
  CHECK(refusal({"--help=false"}) == "--help takes no value");
  CHECK(refusal({"-limit", "3"}) == "unknown option -limit; write --limit");
  CHECK(refusal({"-h3"}) == "unknown option -h3; write -h 3");
  CHECK(refusal({"--rope"}) == "--rope is --positions rotary now");
}

TEST_CASE("counts may be written as people write them", "[command_line]") {
  CHECK(parsed({"--limit", "1e3"}).limit == 1000);
  CHECK(parsed({"--limit", "2.5e3"}).limit == 2500);
  CHECK(parsed({"--limit", "10_000"}).limit == 10000);
  CHECK(parsed({"--limit", "1e16"}).limit == 10'000'000'000'000'000);
  CHECK(parsed({"--limit", "120.0e1"}).limit == 1200);
  for (const char* text : {"e5", ".e3", "-e3", "1e", "1e1e1"}) {
    CHECK_THAT(refusal({"--limit", text}), ContainsSubstring("is not a whole number"));
  }
  CHECK(refusal({"--limit", "1.25e1"}) == "--limit: '1.25e1' is not a whole number");
  CHECK(refusal({"--limit", "1e-3"}) == "--limit: '1e-3' is not a whole number");
  CHECK(refusal({"--limit", "5.0"}) == "--limit: '5.0' is not a whole number");
  CHECK(refusal({"--limit", "1.5"}) == "--limit: '1.5' is not a whole number");
  CHECK(refusal({"--limit", "_1"}) == "--limit: '_1' is not a whole number");
  CHECK(refusal({"--limit", "1__0"}) == "--limit: '1__0' is not a whole number");
  CHECK(refusal({"--limit", "1e300"}) == "--limit: 1e300 is too large or too small");
  CHECK(refusal({"--limit", "1e999"}) == "--limit: 1e999 is too large or too small");
  CHECK(refusal({"--limit", "-1e3"}) == "--limit: must be at least 1, not -1000");
}

TEST_CASE("options have other names", "[command_line]") {
  CHECK(parsed({"-n", "7"}).n_layer == 7);
  CHECK(parsed({"--speed", "2"}).rate == 2);
  CHECK(parsed({"--corpus", "a", "-n", "3"}).corpus == std::vector<std::string>{"a"});
  CHECK(refusal({"-k", "3"}, true) == "unknown option -k; as a word, it stands after --");
  CHECK(parsed({"--", "-k"}, true).words == std::vector<std::string>{"-k"});
}
