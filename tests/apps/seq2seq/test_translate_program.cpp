#include <sys/stat.h>

#include <regex>

#include "tapegrad/tests/apps/tiny_runs.h"
#include "tapegrad/tests/places.h"

namespace fs = std::filesystem;

namespace {

Result translate(const Args& args) {
  return run_program("translate", Args{"--model", reverser().run} + args);
}

void check_translate_error(const Result& r, int code, const std::string& text) {
  check_error_of("translate", r, code, text);
}

// The program's output for `input` on its stdin.
std::string piped(const std::string& input, const std::string& options = "") {
  const TempFolder folder;
  const auto in = folder.put("in", input);
  const std::string command = quoted_program("translate") + " --model " + quoted(reverser().run) +
                              " " + options + " <" + quoted(in) + " >" + quoted(folder / "out");
  CHECK(std::system(command.c_str()) == 0);
  return TempFolder::get(folder / "out");
}

}  // namespace

TEST_CASE("texts are translated from arguments, a file or stdin, a line for a line",
          "[translate]") {
  const TempFolder folder;
  const Result r = translate({"123", "574"});
  INFO(r.err);
  CHECK(r.code == 0);
  CHECK(r.out == "321\n475\n");
  CHECK(translate({"--file", folder.put("in", "123\n574\n")}).out == r.out);
  CHECK(piped("123\n574\n") == r.out);
  CHECK(piped("123\r\n\n574") == "321\n\n475\n");
  CHECK(piped("").empty());
  CHECK(piped("\uFEFF123\n574\n") == r.out);
  CHECK(translate({"--file", folder.put("marked", "\uFEFF123\n574")}).out == r.out);
  CHECK(translate({"--", "123"}).out == "321\n");
}

TEST_CASE("translations depend neither on batches nor on threads", "[translate]") {
  std::string lines;
  for (int i = 100; i < 200; i += 3) lines += std::to_string(i) + "\n";
  for (const std::string search : {"", " --beam 3"}) {
    const std::string together = piped(lines, "--threads 2" + search);
    CHECK(together == piped(lines, "--batch-size 1 --threads 1" + search));
    CHECK(together == piped(lines, "--batch-size 7" + search));
    CHECK(std::count(together.begin(), together.end(), '\n') == 34);
  }
}

TEST_CASE("a text that the model cannot take is named by its place, after those before it",
          "[translate]") {
  const TempFolder folder;
  const fs::path file = folder.put("in", "123\n\n4x7\n574\n");
  const Result unknown = translate({"--file", file});
  check_translate_error(unknown, 1,
                        "error: " + file.string() + ": line 3: [tokenizer] 'x' (U+0078)");
  CHECK(unknown.out == "321\n\n");
  const Result longer = translate({"123", "123456789"});
  check_translate_error(longer, 1,
                        "error: text 2 has 9 tokens, and the model's longest source has 8");
  CHECK(longer.out == "321\n");
  const Result piped_in = Program("translate", {"--model", reverser().run}, ".", file).wait();
  check_translate_error(piped_in, 1, "error: stdin: line 3: [tokenizer] 'x' (U+0078)");
}

TEST_CASE("Ctrl-C ends translate while it waits for a line", "[translate]") {
  const TempFolder folder;
  const fs::path pipe = folder / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  // Open for both, so that the program's stdin neither ends nor waits for somebody to open it.
  const int lines = ::open(pipe.c_str(), O_RDWR | O_CLOEXEC);
  REQUIRE(lines >= 0);
  const int signal = GENERATE(SIGINT, SIGTERM);
  Program program("translate", {"--model", reverser().run, "--batch-size", "1"}, ".", pipe);
  // The second line has no end yet.
  REQUIRE(::write(lines, "123\n57", 6) == 6);
  program.wait_for("321\n");
  program.send(signal);
  REQUIRE(program.ends_within(std::chrono::seconds(60)));
  ::close(lines);
  const Result r = program.wait();
  CHECK(r.code == 130);
  CHECK(r.out == "321\n");
  CHECK(r.err.empty());
}

TEST_CASE("a wide beam makes batches smaller whose size was not given", "[translate]") {
  const Result r = translate({"--beam", "1024", "123"});
  INFO(r.err);
  CHECK(r.code == 0);
  CHECK(r.out == "321\n");
}

TEST_CASE("translate ends once nobody reads its translations", "[translate]") {
  const TempFolder folder;
  const fs::path pipe = folder / "pipe", code = folder / "code";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const int lines = ::open(pipe.c_str(), O_RDWR | O_CLOEXEC);
  REQUIRE(lines >= 0);
  const std::string program = quoted_program("translate") + " --batch-size 1 --model " +
                              quoted(reverser().run) + " <" + quoted(pipe) + " 2>" +
                              quoted(folder / "err");
  REQUIRE(std::system(("{ " + program + "; echo $? >" + quoted(code) + "; } | true &").c_str()) ==
          0);
  for (int i = 0; i < 1000 && TempFolder::get(code).empty(); ++i) {
    REQUIRE(::write(lines, "123\n", 4) == 4);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  CHECK(TempFolder::get(code) == "141\n");
  ::close(lines);  // which ends the program in any case
  CHECK(TempFolder::get(folder / "err").empty());
}

TEST_CASE("wrong usage of translate has exit code 2", "[translate]") {
  check_translate_error(run_program("translate", {}), 2, "--model is needed");
  check_translate_error(translate({"--beam", "0", "1"}), 2, "--beam: must be at least 1, not 0");
  check_translate_error(translate({"--beam", "5000", "1"}), 2,
                        "beam must be from 1 to 1024, not 5000");
  check_translate_error(translate({"--batch-size", "100000", "1"}), 2,
                        "--batch-size times --beam must be at most 32768, not 100000 x 1");
  check_translate_error(translate({"--batch-size", "64", "--beam", "1024", "1"}), 2,
                        "not 64 x 1024");
  check_translate_error(translate({"--threads", "99999", "1"}), 2, "--threads must be at most");
  check_translate_error(translate({"--file", "x", "1"}), 2, "exclude each other");
  check_translate_error(translate({"--beem", "3"}), 2, "did you mean --beam?");
  check_translate_error(translate({"--file", "/none/at/all"}), 1, "/none/at/all");
  const Result help = run_program("translate", {"--help"});
  CHECK(help.code == 0);
  CHECK_THAT(help.out, ContainsSubstring("Usage: translate [options] [MODEL TEXT…]"));
}

TEST_CASE("translators that are missing, broken or mixed up are refused", "[translate]") {
  check_translate_error(run_program("translate", {"--model", "/none", "1"}), 1,
                        "/none does not exist: a model is a run folder of train-seq2seq");
  const TinyPairRun tiny(1);
  const auto attempt = [&] { return run_program("translate", {"--model", tiny.run, "1"}); };
  SECTION("truncated weights") {
    fs::resize_file(tiny.run / "model.safetensors", 500);
    check_translate_error(attempt(), 1, "model.safetensors");
  }
  SECTION("weights of another model") {
    fs::copy(reverser().run / "model.safetensors", tiny.run, fs::copy_options::overwrite_existing);
    check_translate_error(attempt(), 1, "has shape");
  }
  SECTION("another tokenizer") {
    std::ofstream(tiny.run / "tokenizer.json")
        << R"({"format":"tapegrad-tokenizer","version":1,"kind":"char","vocab_size":2,"characters":"ab"})";
    check_translate_error(attempt(), 1, "has a vocab_size of 14, not 5");
  }
  SECTION("a vocabulary without room for the special tokens") {
    std::string config = tiny.file("config.json");
    std::ofstream(tiny.run / "config.json")
        << std::regex_replace(config, std::regex("\"vocab_size\": [0-9]+"), "\"vocab_size\": 1");
    check_translate_error(attempt(), 1, "tokens, but the model in");
    check_translate_error(attempt(), 1, "has a vocab_size of 1, not 14");
  }
  SECTION("a config with values that no model can have") {
    std::string config = tiny.file("config.json");
    const std::size_t at = config.find("\"n_hidden\": 24");
    REQUIRE(at != std::string::npos);
    std::ofstream(tiny.run / "config.json") << config.replace(at, 14, "\"n_hidden\": -4");
    check_translate_error(attempt(), 1, "'n_hidden' must be from 1 to");
  }
}
