#include "tapegrad/apps/cli/command_line.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;

namespace {

struct Options {
  std::int64_t batch_size = 12, steps = 1;
  bool bias = true;
  std::string prompt = {}, note = {};
  std::vector<std::string> corpus = {};
  std::string dtype = "f32", schedule = "cosine";

  template <class Self, class Table>
  static void describe(Self& o, Table& t) {
    t("batch_size", o.batch_size, "rows");
    t("steps", o.steps, "steps");
    t("bias", o.bias, "with biases");
    t("prompt", o.prompt, "what to continue");
    t("note", o.note, "a text");
    t("corpus", o.corpus, "texts");
    t("dtype", o.dtype, "a type");
    t("schedule", o.schedule, "a schedule");
  }
};

Options parsed(std::vector<const char*> args) {
  Options options;
  cli::CommandLine cli("test", "A test.");
  cli.options(options);
  args.insert(args.begin(), "test");
  cli.parse(static_cast<int>(args.size()), args.data());
  return options;
}

Options from(const std::string& text) {
  const TempFolder folder;
  const std::string file = folder.put("options", text);
  return parsed({"--config", file.c_str()});
}

// The fault of the text, without "--config FILE".
std::string refusal(const std::string& text) {
  const TempFolder folder;
  const std::string file = folder.put("options", text);
  try {
    parsed({"--config", file.c_str()});
  } catch (const cli::UsageError& error) {
    const std::string begin = "--config " + file + ", ", message = error.what();
    return message.starts_with(begin) ? message.substr(begin.size()) : message;
  }
  return "";
}

}  // namespace

TEST_CASE("lines of a config file are options, comments and headings", "[config_file]") {
  const Options o = from(
      "\xEF\xBB\xBF# a comment\r\n; another\n\n[model]  # a heading\nbatch-size=3\r\n"
      "bias = off\nnote = a b#c # the rest is a comment\nprompt = \"say \\\"#\\\"\\n\"\n"
      "corpus = ['a b', # one\n  \"c\",\n  d e,\n]\n");
  CHECK(o.batch_size == 3);
  CHECK_FALSE(o.bias);
  CHECK(o.note == "a b#c");
  CHECK(o.prompt == "say \"#\"\n");
  CHECK(o.corpus == std::vector<std::string>{"a b", "c", "d e"});
  CHECK(from("corpus = one").corpus == std::vector<std::string>{"one"});
  CHECK(from("steps = 1\nsteps = 2").steps == 2);  // the last one counts, as on the command line
  CHECK(from("").steps == 1);
}

TEST_CASE("a line that is no option is refused with its number", "[config_file]") {
  CHECK(refusal("steps = 2\n[\n") == "line 2: '[' is not a heading such as [model]");
  CHECK(refusal("[]") == "line 1: '[]' is not a heading such as [model]");
  CHECK(refusal("[a] b") == "line 1: '[a] b' is not a heading such as [model]");
  CHECK(refusal("=") == "line 1: '=' is not of the form NAME = VALUE");
  CHECK(refusal("= 3") == "line 1: '= 3' is not of the form NAME = VALUE");
  CHECK(refusal("\n\"") == "line 2: '\"' is not of the form NAME = VALUE");
  CHECK(refusal("steps") == "line 1: 'steps' is not of the form NAME = VALUE");
  CHECK(refusal("steps: 3") == "line 1: 'steps: 3' is not of the form NAME = VALUE");
  CHECK(refusal("steps =") == "line 1: a value is missing");
  CHECK(refusal("steps = # 3") == "line 1: a value is missing");
  CHECK(refusal("steps = [1,2") == "line 1: a list that begins here has no ]");
  CHECK(refusal("corpus = [a\n\n") == "line 1: a list that begins here has no ]");
  CHECK(refusal("steps = [1,2]") == "line 1: --steps needs one value, not 2");
  CHECK(refusal("corpus = []") == "line 1: --corpus needs one value, not 0");
  CHECK(refusal("corpus = [,a]") == "line 1: a value is missing");
  CHECK(refusal("corpus = ['a' 'b']") == "line 1: a comma is missing before ''b']'");
  CHECK(refusal("corpus = [a] b") == "line 1: 'b' follows the value of corpus");
  CHECK(refusal("note = 'a") == "line 1: a text in quotes does not end: 'a");
  CHECK(refusal("note = 'a' + 'b'") == "line 1: '+ 'b'' follows the value of note");
  CHECK_THAT(refusal("note = \"\\x\""), ContainsSubstring("\\x in quotes is none of"));
  CHECK(refusal("\"\"\"\nsteps = 2\n") == "line 1: a text that begins here does not end");
  CHECK(refusal("setps = 3") == "line 1: unknown option --setps; did you mean --steps?");
  CHECK(refusal("steps = 2\nsteps = 9 * x") == "line 2: --steps: '9 * x' is not a whole number");
  CHECK_THAT(refusal(std::string("steps = 2\0", 10)), ContainsSubstring("NUL"));
  CHECK(refusal("no-bias = 3") == "line 1: --no-bias: '3' is neither true nor false");
}

TEST_CASE("a config of nanoGPT is read, and what has no meaning here is named", "[config_file]") {
  const Options o = from(
      "\"\"\"\nTrains a small model.\n\"\"\"\nimport time\nwandb_log = False # override\n"
      "wandb_run_name = 'ft-' + str(time.time())\nbatch_size = 5 * 8\nbias = False\n"
      "dtype = 'bfloat16'\ndecay_lr = False\ncompile = False\nstart = 'Once'\n");
  CHECK(o.batch_size == 40);
  CHECK_FALSE(o.bias);
  CHECK(o.dtype == "bf16");
  CHECK(o.schedule == "constant");
  CHECK(o.prompt == "Once");
  CHECK_THAT(refusal("dtype = 'float16'"),
             ContainsSubstring("line 1: --dtype: there is no float16 here"));
}

TEST_CASE("nanoGPT's options are taken on the command line, too", "[config_file]") {
  const Options o =
      parsed({"--decay_lr=False", "--start=Once", "--dtype=float32", "--compile=False"});
  CHECK(o.schedule == "constant");
  CHECK(o.prompt == "Once");
  CHECK(o.dtype == "f32");
  CHECK_THROWS_WITH(parsed({"--start", "Once"}), ContainsSubstring("--start=VALUE"));
}

TEST_CASE("a run's config.json is a config file", "[config_file]") {
  const Options o = from(
      R"({"format": "tapegrad-gpt", "version": 2, "model": {"batch_size": 7, "bias": false,
          "vocab_size": 65}, "data": {"corpus": ["a", "b"], "note": null}, "text": {"name": "x"}})");
  CHECK(o.batch_size == 7);
  CHECK_FALSE(o.bias);
  CHECK(o.corpus == std::vector<std::string>{"a", "b"});
  const TempFolder folder;
  const auto format = [&](const char* text) {
    const std::string file = folder.put("file", text);
    return cli::read_config_file(file, [](const std::string&) { return false; }).format;
  };
  CHECK(format(R"({"format": "tapegrad-gpt", "version": 1, "model": {}})") == "tapegrad-gpt");
  CHECK(format(R"({"model": {}})").empty());
  CHECK(format("format = 1").empty());
  CHECK_THAT(refusal(R"({"model": {"steps": 1, "steps": 2}})"), ContainsSubstring("there twice"));
  CHECK_THAT(refusal("{\"steps\": 1"), ContainsSubstring("valid JSON"));
  CHECK_THAT(refusal(R"({"model": {"setps": 1}})"), ContainsSubstring("unknown option --setps"));
}
