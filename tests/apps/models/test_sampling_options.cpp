// How sample-text chooses, ends and shows texts.

#include <cmath>
#include <nlohmann/json.hpp>

#include "tapegrad/apps/sample/made_text.h"
#include "tapegrad/run/models/model.h"
#include "tapegrad/tests/apps/on_terminal.h"
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

}  // namespace

TEST_CASE("a stop is found wherever the pieces of a text end", "[sampling]") {
  const std::string text = "abcabdabcabx--y";
  const auto shown = [&](const std::vector<std::string>& stops, std::size_t size) {
    sampling::StopText stop(stops);
    std::string result;
    for (std::size_t at = 0; at < text.size() && !stop.stopped(); at += size) {
      result += stop.push(text.substr(at, size));
    }
    return result + stop.flush();
  };
  for (std::size_t size = 1; size <= text.size(); ++size) {
    CHECK(shown({}, size) == text);
    CHECK(shown({"none", "abdx"}, size) == text);
    CHECK(shown({"abcabx"}, size) == "abcabd");
    CHECK(shown({"--y", "--"}, size) == "abcabdabcabx");
    CHECK(shown({"bd", "abd"}, size) == "abc");
    CHECK(shown({"y"}, size) == "abcabdabcabx--");
  }
  // Nothing is held back that cannot begin a stop.
  sampling::StopText stop({"xyz"});
  CHECK(stop.push("abx") == "ab");
  CHECK(stop.push("a") == "xa");
}

TEST_CASE("a text ends before a stop", "[sampling]") {
  const std::string all = sample({"--prompt", "the", "--max-new-tokens", "200"}).out;
  const Result r = sample({"--prompt", "the", "--max-new-tokens", "200", "--stop", "zzz", "e"});
  check_ended_well(r);
  CHECK(r.out == all.substr(0, all.find('e', 3)) + "\n");
  check_error_of("sample-text", sample({"--stop", ""}), 2, "--stop: an empty text");
  CHECK(sample({"-p", "the", "-n", "200", "--stop", "\\n"}).out ==
        all.substr(0, all.find('\n', 3)) + "\n");
}

TEST_CASE("texts and log probabilities are JSON for other programs", "[sampling]") {
  const Args args = {"--prompt", "the", "--max-new-tokens", "12", "--num-samples", "2"};
  const Result plain = sample(args), r = sample(args + Args{"--json", "--logprobs"});
  check_ended_well(r);
  std::istringstream lines(r.out);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const auto json = nlohmann::json::parse(line);
    CHECK(json.at("prompt") == "the");
    CHECK_THAT(plain.out, ContainsSubstring("the" + json.at("text").get<std::string>()));
    std::string text;
    for (const auto& token : json.at("tokens")) {
      text += token.at("text").get<std::string>();
      CHECK(token.at("logprob") < 0);
    }
    CHECK(json.at("tokens").size() == 12);
    CHECK(json.at("text") == text);
  }
  CHECK(count == 2);
  // The likeliest token's log probability does not depend on how it is chosen.
  const auto first = [&](const Args& more) {
    const Result one =
        sample(Args{"--prompt", "the", "--max-new-tokens", "1", "--json", "--logprobs"} + more);
    return nlohmann::json::parse(one.out).at("tokens")[0].at("logprob").get<double>();
  };
  CHECK(first({"--greedy"}) == first({"--top-k", "1", "--temperature", "3"}));
  CHECK(first({"--greedy"}) == first({"--top-p", "0.000001"}));
  CHECK(first({"--greedy"}) == first({"--min-p", "1"}));
  const Result table = sample({"--prompt", "the", "--max-new-tokens", "2", "--logprobs"});
  CHECK_THAT(table.out, ContainsSubstring("\n logprob  token\n"));
}

TEST_CASE("JSON tells why a text ended, and has the tokens of what is shown alone", "[sampling]") {
  const TempFolder folder;
  const std::string file = folder.put("prompts", "the\n");
  const bool from_file = GENERATE(false, true);
  const Args prompt = from_file ? Args{"--prompts", file} : Args{"--prompt", "the"};
  const auto made = [&](const Args& more) {
    const Result r = sample(prompt + Args{"-n", "60", "--json", "--logprobs"} + more);
    check_ended_well(r);
    return nlohmann::json::parse(r.out);
  };
  const auto whole = made({});
  CHECK(whole.at("finish_reason") == "length");
  CHECK(whole.at("tokens").size() == 60);
  const std::string text = whole.at("text"), stop = text.substr(20, 3);
  const auto cut = made({"--stop", stop});
  CHECK(cut.at("finish_reason") == "stop");
  CHECK(cut.at("text") == text.substr(0, text.find(stop)));
  CHECK(cut.at("tokens").size() == text.find(stop));  // a token is a character
}

TEST_CASE("the end of a text is told apart from its length", "[sampling]") {
  const data::Tokenizer tokenizer = run::open_model(tiny().run).tokenizer;
  sampling::SampleOptions options{.logprobs = true};
  options.stops = {"he"};
  const std::int32_t t = tokenizer.encode("t")[0], h = tokenizer.encode("h")[0];
  const auto reason = [&](std::optional<nn::TextEnd> end) {
    sampling::TextMaker maker(tokenizer, options);
    for (const std::int32_t token : {t, h}) maker.push({token});
    maker.end(end);
    const sampling::MadeText made = maker.take();
    CHECK(made.text == "th");
    CHECK(made.tokens.size() == 2);
    return made.finish_reason;
  };
  CHECK(reason(nn::TextEnd::length) == "length");
  CHECK(reason(nn::TextEnd::stop_token) == "eos");
  CHECK(reason(nn::TextEnd::no_token) == "stop");
  CHECK(reason(std::nullopt).empty());
}

TEST_CASE("options are as people know them from other programs", "[sampling]") {
  const std::string all = sample({"-p", "the", "-n", "30", "--top-k", "1000"}).out;
  CHECK(sample({"-p", "the", "-n", "30", "--top-k", "0"}).out == all);
  check_error_of("sample-text", sample({"-t", "4"}), 2, "did you mean --threads?");
  check_error_of("sample-text", sample({"--n-predict", "4"}), 2, "did you mean --max-new-tokens?");
  check_error_of("sample-text", sample({"-c", "512"}), 2, "did you mean --context?");
  const Result ema = sample({"--ema", "0.9"});
  CHECK(ema.code == 2);
  CHECK_THAT(ema.err, ContainsSubstring("unknown option --ema") && !ContainsSubstring("--gemm"));
}

TEST_CASE("a prompt may come from stdin", "[sampling]") {
  const TempFolder folder;
  const auto prompt = folder.put("prompt", "the cat");
  const Args args = {"--max-new-tokens", "10"};
  const Result r = sample(args + Args{"--prompt-file", "-"}, prompt);
  check_ended_well(r);
  CHECK(r.out == sample(args + Args{"--prompt", "the cat"}).out);
  check_error_of("sample-text", sample({"--prompt-file", "-"}), 1, "stdin: there is nothing");
  CHECK_THAT(r.err, ContainsSubstring("7 tokens read, ") && ContainsSubstring("; 10 tokens in ") &&
                        ContainsSubstring("the first token after ") && ContainsSubstring(" tok/s"));
}

TEST_CASE("texts that are made side by side are those of a conversation", "[sampling]") {
  const TempFolder folder;
  const auto lines = folder.put("lines", "the cat\nthe cat\non\non\n");
  const Args more = GENERATE(Args{}, Args{"--stop", "e"}, Args{"--stop", "zzz"});
  const Args options = Args{"--max-new-tokens", "12", "--json"} + more;
  const Result talk = sample(Args{"--interactive"} + options, lines);
  const Result texts =
      sample(Args{"--prompt", "the cat", "--prompt", "on", "--num-samples", "2"} + options);
  check_ended_well(texts);
  CHECK(std::count(texts.out.begin(), texts.out.end(), '\n') == 4);
  CHECK(texts.out == talk.out);
}

TEST_CASE("text i is the one that its prompt gets alone with the seed that is i further",
          "[sampling]") {
  const Args more = GENERATE(Args{}, Args{"--stop", "e"}, Args{"--batch", "1"});
  const Args options = Args{"--max-new-tokens", "12", "--json"} + more;
  std::string alone;
  for (int i = 0; i < 6; ++i) {
    alone += sample(Args{"--prompt", i < 3 ? "the cat" : "on", "--seed", std::to_string(7 + i)} +
                    options)
                 .out;
  }
  const Args prompts = {"--prompt", "the cat", "--prompt", "on", "--num-samples", "3"};
  CHECK(sample(prompts + options + Args{"--seed", "7"}).out == alone);
}

TEST_CASE("a conversation continues one line after the other", "[sampling]") {
  const TempFolder folder;
  const auto lines = folder.put("lines", "the cat\n\n\xC3\xA9\nthe dog");
  const Result r = sample({"--interactive", "--greedy", "--max-new-tokens", "5"}, lines);
  check_ended_well(r);
  CHECK(std::count(r.out.begin(), r.out.end(), '\n') >= 2);
  CHECK(r.out.rfind("the cat", 0) == 0);
  CHECK_THAT(r.out, ContainsSubstring("\nthe dog"));
  CHECK_THAT(r.err, ContainsSubstring("U+00E9"));  // and the next line is continued all the same
  check_error_of("sample-text", sample({"--interactive", "--prompt", "the"}), 2,
                 "--prompt has no meaning");
}

TEST_CASE("at a terminal, a line can be edited, comes back, and may be a command", "[sampling]") {
  const std::string up = "\x1b[A", left = "\x1b[D", rub_out = "\x7f";
  const auto typed = [](const std::vector<std::string>& keys) {
    return on_terminal(
        "sample-text",
        {"--model", tiny().run, "--interactive", "--greedy", "--max-new-tokens", "5"}, {}, keys);
  };
  const std::string answer =
      sample({"--prompt", "the cat", "--greedy", "--max-new-tokens", "5"}).out;
  const std::string shown = answer.substr(0, answer.find('\n')) + "\r\n";
  const auto answers = [&](const std::string& text) {
    int count = 0;
    for (std::size_t at = 0; (at = text.find(shown, at)) != text.npos; ++at) ++count;
    return count;
  };
  CHECK(answers(typed({"the cat\n", "\x04"})) == 1);
  // Written wrongly and mended, and brought back.
  CHECK(answers(typed({"the c\xC3\xA9" + rub_out + "t" + left + "a\n", up + "\n", "/quit\n"})) ==
        2);
  const std::string all = typed({"/help\n", "\xC3\xA9\n", "/none\n", "/quit\n"});
  CHECK_THAT(all, ContainsSubstring("Ctrl-D"));
  CHECK_THAT(all, ContainsSubstring("U+00E9"));  // and the program goes on
  CHECK_THAT(all, ContainsSubstring("/none: no such command"));
  // Of a byte that is no character, the key after it is not lost.
  CHECK_THAT(typed({"th\xE9\n", "/quit\n"}), ContainsSubstring("U+FFFD"));
  CHECK_THAT(typed({"th\x03"}), !ContainsSubstring("tok/s"));  // Ctrl-C: no answer was begun
}

TEST_CASE("a command of the terminal is a prompt where there is none", "[sampling]") {
  const TempFolder folder;
  const Result r =
      sample({"--interactive", "--max-new-tokens", "5"}, folder.put("lines", "/quit\nthe\n"));
  check_ended_well(r);
  CHECK_THAT(r.err, ContainsSubstring("U+002F"));  // which the model does not know
  CHECK(r.out.rfind("the", 0) == 0);
}
