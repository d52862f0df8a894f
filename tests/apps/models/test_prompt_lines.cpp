// sample-text with many prompts from a file, with guesses, and beyond the block.

#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "tapegrad/apps/sample/prompt_lines.h"
#include "tapegrad/tests/apps/tiny_runs.h"

using namespace tapegrad;

namespace {

const TinyRun& tiny() {
  static const TinyRun run(60);
  return run;
}

Result sample(const Args& args, const std::filesystem::path& input = "/dev/null") {
  return Program("sample-text", Args{"--model", tiny().run} + args, ".", input).wait();
}

std::vector<nlohmann::json> json_lines(const std::string& text) {
  std::vector<nlohmann::json> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

// Of a text that arrives in pieces of so many bytes.
std::vector<sampling::PromptLine> prompts_of(const std::string& text, std::size_t piece) {
  const auto read = [&, at = std::size_t{0}](char* to, std::size_t most) mutable {
    const std::size_t count = text.copy(to, std::min(most, piece), at);
    at += count;
    return count;
  };
  sampling::PromptReader reader("p.txt", read);
  std::vector<sampling::PromptLine> prompts;
  while (auto prompt = reader.next()) prompts.push_back(std::move(*prompt));
  return prompts;
}

void check_refused(const std::string& text, const std::string& message) {
  CHECK_THROWS_WITH(prompts_of(text, 5), ContainsSubstring(message));
}

}  // namespace

TEST_CASE("each line of a file of prompts is a text or a JSON object", "[prompts]") {
  const std::size_t piece = GENERATE(1, 2, 7, 1000);
  const auto prompts = prompts_of(
      "\xEF\xBB\xBFone\r\n{\"prompt\": \"two\\nlines\", \"id\": \"x\", \"seed\": "
      "18446744073709551615, \"max_new_tokens\": 7}\n {three}\n{\"id\": 4.5, \"prompt\": "
      "\"four\"}",
      piece);
  REQUIRE(prompts.size() == 4);
  CHECK(prompts[0].prompt == "one");
  CHECK_FALSE(prompts[0].id);
  CHECK(prompts[1].prompt == "two\nlines");
  CHECK(prompts[1].id == Json("x"));
  CHECK(prompts[1].seed == 18446744073709551615U);
  CHECK(prompts[1].max_new_tokens == 7);
  CHECK(prompts[2].prompt == " {three}");
  CHECK(prompts[3].id == Json(4.5));
  CHECK(prompts[3].where == "p.txt, line 4");
}

TEST_CASE("a reader of prompts has input once a whole line or the end is there", "[prompts]") {
  std::string there;
  bool ended = false;
  sampling::PromptReader reader(
      "p.txt",
      [&](char* to, std::size_t most) {
        const std::size_t count = there.copy(to, std::min<std::size_t>(most, 2));
        REQUIRE((count > 0 || ended));  // otherwise it would wait
        there.erase(0, count);
        return count;
      },
      [&] { return ended || !there.empty(); });
  CHECK_FALSE(reader.has_input());
  there = "one\ntw";
  CHECK(reader.has_input());
  CHECK(reader.next()->prompt == "one");
  CHECK_FALSE(reader.has_input());
  there = "o\nthree";
  CHECK(reader.has_input());
  CHECK(reader.next()->prompt == "two");
  CHECK_FALSE(reader.has_input());
  CHECK(there.empty());
  ended = true;
  CHECK(reader.has_input());
  CHECK(reader.next()->prompt == "three");
  CHECK(reader.has_input());
  CHECK_FALSE(reader.next());
}

TEST_CASE("a line that is no prompt is refused with its number", "[prompts]") {
  check_refused("", "p.txt: there is no prompt");
  check_refused("a\n\nb\n", "p.txt, line 2: there is nothing to continue");
  check_refused("a\n{\"prompt\": \"\"}\n", "p.txt, line 2: there is nothing to continue");
  check_refused("a\nb\n{x}\n", "p.txt, line 3: a line that begins with { must be a JSON object");
  check_refused("{\"text\": \"a\"}", "p.txt, line 1: 'prompt' is missing");
  check_refused("{\"prompt\": 3}", "p.txt, line 1: 'prompt' must be a text");
  check_refused("{\"prompt\": \"a\", \"top_k\": 3}", "line 1: 'top_k' is none of 'prompt', 'id'");
  check_refused("{\"prompt\": \"a\", \"prompt\": \"b\"}", "'prompt' is there twice");
  check_refused("{\"prompt\": \"a\", \"id\": [1]}", "line 1: 'id' must be a text or a number");
  check_refused("{\"prompt\": \"a\", \"seed\": -1}", "line 1: 'seed' must be a whole number");
  check_refused("{\"prompt\": \"a\", \"max_new_tokens\": -1}", "must be from 0 to 1000000000");
}

TEST_CASE("prompts of a file become what they become alone, in the file's order", "[prompts]") {
  const TempFolder folder;
  const auto file = folder.put("prompts.jsonl",
                               "the cat\n{\"prompt\": \"the\", \"id\": 7, \"max_new_tokens\": 90}\n"
                               "on\n{\"prompt\": \"a\", \"id\": \"last\", \"seed\": 3}\n");
  const Args more = GENERATE(Args{}, Args{"--stop", "e"}, Args{"--lookup", "6", "--batch", "2"},
                             Args{"--context", "shift", "--threads", "1"});
  const Args options = Args{"--max-new-tokens", "40", "--logprobs"} + more;
  const Args json = options + Args{"--json", "--num-samples", "2"};
  const Result r = sample(json + Args{"--prompts", file, "--seed", "50"});
  check_ended_well(r);
  const auto lines = json_lines(r.out);
  REQUIRE(lines.size() == 8);
  const std::vector<Args> alone = {
      {"--prompt", "the cat", "--seed", "50"},
      {"--prompt", "the", "--seed", "52", "--max-new-tokens", "90"},
      {"--prompt", "on", "--seed", "54"},
      {"--prompt", "a", "--seed", "3"},
  };
  for (std::size_t i = 0; i < 4; ++i) {
    const auto expected = json_lines(sample(json + alone[i]).out);
    for (std::size_t k = 0; k < 2; ++k) {
      const auto& line = lines[2 * i + k];
      for (const char* member : {"prompt", "text", "tokens"}) {
        CHECK(line.at(member) == expected[k].at(member));
      }
      CHECK(line.contains("id") == (i % 2 == 1));
    }
  }
  CHECK(lines[2].at("id") == 7);
  CHECK(lines[7].at("id") == "last");
  const Result from_stdin = sample(json + Args{"--prompts", "-", "--seed", "50"}, file);
  CHECK(from_stdin.out == r.out);
  // As text, in the form of several --prompt.
  const Result text = sample(options + Args{"--prompts", file, "--seed", "50"});
  CHECK(text.out.rfind("--- prompt 1 ---\n" + sample(options + alone[0]).out, 0) == 0);
  CHECK_THAT(text.out, ContainsSubstring("\n--- prompt 4 ---\n" + sample(options + alone[3]).out));
  CHECK_THAT(text.err, ContainsSubstring(" tok/s"));
}

TEST_CASE("a file of prompts that cannot be continued is an error", "[prompts]") {
  const TempFolder folder;
  const auto check_message = [&](const std::string& text, const std::string& message) {
    check_error_of("sample-text", sample({"--prompts", folder.put("p", text)}), 1, message);
  };
  check_message("the\n\n", "p, line 2: there is nothing to continue");
  check_message("the\n\xC3\xA9\n", "p, line 2: ");
  check_message("the\n\xC3\xA9\n", "U+00E9");
  check_error_of("sample-text", sample({"--prompts", folder / "none"}), 1, "none");
  check_error_of("sample-text", sample({"--prompts", "-"}), 1, "stdin: there is no prompt");
  check_error_of("sample-text", sample({"--prompts", "p", "--prompt", "a"}), 2, "excludes");
  check_error_of("sample-text", sample({"--prompts", "p", "--interactive"}), 2, "excludes");
  check_error_of("sample-text", sample({"--prompts", "p", "-"}), 2, "excludes");
}

TEST_CASE("prompts are continued while others are still to come", "[prompts]") {
  const Result r = run_program(
      "/bin/sh", {"-c", "yes the | \"$0\" \"$1\" --prompts - -n 1 --json | head -n 3000 | wc -l",
                  std::filesystem::path(places::kPrograms) / "sample", tiny().run});
  check_ended_well(r);
  CHECK_THAT(r.out, ContainsSubstring("3000"));
}

TEST_CASE("a prompt is answered before the next one has been written", "[prompts]") {
  const TempFolder folder;
  const std::string first = "the\n{\"prompt\": \"on", second = "\", \"id\": 2}\n";
  const Args form = GENERATE(Args{}, Args{"--json"});
  const Args args = form + Args{"--max-new-tokens", "20", "--num-samples", "2"};
  const Result whole = sample(args + Args{"--prompts", folder.put("p", first + second)});
  check_ended_well(whole);
  const std::string answer =
      form.empty() ? "--- prompt 1, sample 2 ---" : json_lines(whole.out)[1].at("text").dump();
  const auto pipe = folder / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  // Open for both, so that opening it waits for nobody.
  const int prompts = ::open(pipe.c_str(), O_RDWR | O_CLOEXEC);
  REQUIRE(prompts >= 0);
  const auto write = [&](const std::string& text) {
    REQUIRE(::write(prompts, text.data(), text.size()) == std::ssize(text));
  };
  Program program("sample-text", Args{"--model", tiny().run, "--prompts", "-"} + args, ".", pipe);
  write(first);
  program.wait_for(answer);  // while half of the next line is there
  write(second);
  ::close(prompts);
  const Result r = program.wait();
  check_ended_well(r);
  CHECK(r.out == whole.out);
}

TEST_CASE("a single prompt of stdin has no heading", "[prompts]") {
  const TempFolder folder;
  const auto file = folder.put("p", "the\n");
  const Args args = {"--max-new-tokens", "5", "--prompts"};
  const Result r = sample(args + Args{"-"}, file);
  check_ended_well(r);
  CHECK(r.out == sample(args + Args{file}).out);
  CHECK_THAT(r.out, !ContainsSubstring("---"));
}

TEST_CASE("prompts of stdin are continued up to a line that is none", "[prompts]") {
  const TempFolder folder;
  const Args args = {"--prompts", "-", "--max-new-tokens", "5"};
  const Result good = sample(args, folder.put("good", "the\non\n"));
  const Result bad = sample(args, folder.put("bad", "the\non\n\na\n"));
  CHECK(bad.code == 1);
  CHECK(bad.out == good.out);
  CHECK_THAT(bad.err, ContainsSubstring("stdin, line 3: there is nothing to continue"));
  CHECK_THAT(bad.err, ContainsSubstring(" tok/s"));
  // Whether a line follows the first one is known before that one is due.
  const std::string long_line((std::size_t{16} << 20) + 1, 'x');
  const Result too_long = sample(args, folder.put("long", "the\n" + long_line));
  CHECK(too_long.code == 1);
  CHECK_THAT(too_long.out, ContainsSubstring("the"));
  CHECK_THAT(too_long.err, ContainsSubstring("stdin, line 2: it has more than"));
}

TEST_CASE("texts with guesses are those without them", "[prompts]") {
  const Args args = {"--prompt", "the cat the cat the", "--max-new-tokens",
                     "60",       "--num-samples",       "3",
                     "--json",   "--logprobs"};
  for (const Args& how : {Args{}, Args{"--greedy"}, Args{"--stop", "at"}, Args{"--temp", "0.3"},
                          Args{"--context", "shift"}}) {
    const Result with = sample(args + how + Args{"--lookup", "8"});
    check_ended_well(with);
    CHECK(with.out == sample(args + how).out);
  }
  check_error_of("sample-text", sample({"--lookup", "4", "--no-kv-cache"}), 2, "KV cache");
  check_error_of("sample-text", sample({"--lookup", "65"}), 2,
                 "--lookup: must be from 0 to 64, not 65");
}

TEST_CASE("texts with a draft are those without it", "[prompts]") {
  static const TinyRun small(5, {"--n-layer", "1", "--n-embd", "16", "--block-size", "8"});
  const Args args = {"--prompt", "the cat", "--max-new-tokens", "30",        "--num-samples",
                     "3",        "--json",  "--logprobs",       "--context", "shift"};
  for (const std::filesystem::path& draft : {small.run, tiny().run}) {
    for (const Args& how : {Args{}, Args{"--greedy"}, Args{"--draft-tokens", "7"}}) {
      const Result with = sample(args + how + Args{"--draft", draft});
      check_ended_well(with);
      CHECK(with.out == sample(args + how).out);
    }
  }
  check_error_of("sample-text", sample({"--draft", small.run, "--lookup", "4"}), 2,
                 "--draft excludes --lookup");
  check_error_of("sample-text", sample({"--draft", small.run, "--no-kv-cache"}), 2, "KV cache");
  check_error_of("sample-text", sample({"--draft", "nowhere"}), 1, "nowhere");
  CorpusAndRun other("other.txt", replaced(tiny_text(), "c", "C"));
  check_ended_well(train(tiny_run(other.corpus, other.run, 1)));
  const Result refused = sample({"--draft", other.run});
  check_error_of("sample-text", refused, 1, "--draft " + other.run.string() + ": ");
  CHECK_THAT(refused.err, ContainsSubstring("in " + tiny().run.string()));
  CHECK_THAT(refused.err, ContainsSubstring("both must have the same tokens"));
}

TEST_CASE("a text beyond the block says what it costs, and how it costs less", "[prompts]") {
  const std::string note = "reads all of them again for each token; --context shift does so less";
  const Args args = {"--prompt", "the", "--max-new-tokens", "200"};
  const Result exact = sample(args), shift = sample(args + Args{"--context", "shift"});
  CHECK_THAT(exact.err, ContainsSubstring(note));
  check_ended_well(shift);
  CHECK_THAT(shift.err, !ContainsSubstring(note));
  CHECK(shift.out.size() == exact.out.size());
  CHECK(shift.out.substr(0, 20) == exact.out.substr(0, 20));
  CHECK(shift.out != exact.out);
  CHECK_THAT(sample({"--prompt", "the", "--max-new-tokens", "5"}).err, !ContainsSubstring(note));
  check_error_of("sample-text", sample({"--context", "slide"}), 2, "exact");
}
