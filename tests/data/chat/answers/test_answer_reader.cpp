// Answers taken apart into reasoning, content and calls, however they are cut.

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/base/random.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/data/chat/answers/calls_of_all_formats.h"
#include "tapegrad/tests/data/chat/answers/read_answer.h"

using namespace tapegrad;
using namespace tapegrad::data;

namespace {

constexpr ReasoningMarks kThink{.begin = "<think>", .end = "</think>"};
Parts operator+(Parts parts, const Parts& more) {
  parts.insert(parts.end(), more.begin(), more.end());
  return parts;
}

// The text of content before and behind a call.
std::string message(const std::string& format, const std::string& text) {
  return format == "gpt_oss" ? "<|channel|>final<|message|>" + text + "<|end|><|start|>assistant"
                             : text;
}

}  // namespace

TEST_CASE("each format's call is read, and its arguments are the text of JSON", "[answers]") {
  for (const auto& [format, text, arguments] : calls_of_all_formats()) {
    INFO(format << ": " << text);
    CHECK(parts_of_all_cuts(reading_of(format), text) == call(arguments));
    // What a grammar holds is said in other pieces.
    AnswerReading held = reading_of(format);
    held.held = true;
    CHECK(parts_of_all_cuts(held, text) == call(arguments));
  }
}

TEST_CASE("an answer has several calls, in several blocks or in one list", "[answers]") {
  for (const auto& [format, text, arguments] : calls_of_all_formats()) {
    INFO(format << ": " << text);
    const bool harmony = format == "gpt_oss";
    const std::string between = harmony ? "<|start|>assistant" : format == "llama3" ? "; " : "\n";
    CHECK(parts_of_all_cuts(reading_of(format), text + between + text) ==
          call(arguments) + call(arguments, 1));
  }
  const std::string two = R"([{"name": "f", "arguments": {}}, {"name":"g","arguments":{"x":[]}}])";
  const Parts calls = call("{}") + call(R"({"x":[]})", 1, "g");
  CHECK(parts_of_all_cuts(reading_of("mistral_list"), "[TOOL_CALLS]" + two) == calls);
  CHECK(parts_of_all_cuts(reading_of("granite3"), "<|tool_call|>" + two) == calls);
  CHECK(
      parts_of_all_cuts(reading_of("lfm2"), "<|tool_call_start|>[f(), g(x=[])]<|tool_call_end|>") ==
      call("{}") + call(R"({"x":[]})", 1, "g"));
  CHECK(parts_of_all_cuts(reading_of("llama3"), R"({"name": "f", "parameters": {}}
{"name":"g","parameters":{"x":[]}})") == calls);
}

TEST_CASE("content before a call keeps its text, but for white space at its end", "[answers]") {
  for (const auto& [format, text, arguments] : calls_of_all_formats()) {
    if (format == "llama3") continue;
    INFO(format << ": " << text);
    const std::string before = message(format, "  I look <it> up. \n\n");
    CHECK(parts_of_all_cuts(reading_of(format), before + text) ==
          Parts{"content   I look <it> up."} + call(arguments));
    CHECK(parts_of(reading_of(format), message(format, " \n") + text) == call(arguments));
  }
  const std::string text = "<tool_call>{\"name\": \"f\"}</tool_call>";
  CHECK(parts_of_all_cuts(reading_of("hermes"), text + "\n\nSo.\n") ==
        call("{}") + Parts{"content So."});
  CHECK(parts_of_all_cuts(reading_of("hermes"), "A\n" + text + "\nB") ==
        Parts{"content A"} + call("{}") + Parts{"content \nB"});
}

TEST_CASE("an answer of Llama 3 that is more than calls is content", "[answers]") {
  const std::string text = R"({"name": "f", "parameters": {}})";
  CHECK(parts_of_all_cuts(reading_of("llama3"), "Here: " + text) == Parts{"content Here: " + text});
  CHECK(parts_of_all_cuts(reading_of("llama3"), "\n" + text + " is it.") ==
        call("{}") + Parts{"content is it."});
}

TEST_CASE("reasoning stands before content and calls, white space around it dropped", "[answers]") {
  for (const auto& [format, text, arguments] : calls_of_all_formats()) {
    if (format == "gpt_oss") continue;
    INFO(format << ": " << text);
    AnswerReading reading = reading_of(format);
    reading.reasoning = kThink;
    CHECK(parts_of_all_cuts(reading, "\n<think>\n I <think> so.\n\n</think>\n\n" + text) ==
          Parts{"reasoning I <think> so."} + call(arguments));
    reading.within_reasoning = true;
    CHECK(parts_of_all_cuts(reading, "\nSo.\n</think>\n\n" + text) ==
          Parts{"reasoning So."} + call(arguments));
    // A call within it is none.
    CHECK(parts_of_all_cuts(reading, text) == Parts{"reasoning " + text});
  }
}

TEST_CASE("reasoning and content without calls keep their text", "[answers]") {
  const AnswerReading reading{.reasoning = kThink};
  AnswerReading within = reading;
  within.within_reasoning = true;
  CHECK(parts_of_all_cuts(reading, "<think>A\n B</think>\n\nC \n D\n") ==
        Parts{"reasoning A\n B", "content C \n D\n"});
  CHECK(parts_of_all_cuts(reading, "<think>\n\n</think>\n\nC") == Parts{"content C"});
  CHECK(parts_of_all_cuts(reading, "<think>A\n") == Parts{"reasoning A\n"});
  CHECK(parts_of_all_cuts(reading, "<think>A</thi") == Parts{"reasoning A</thi"});
  CHECK(parts_of_all_cuts(reading, "<thin") == Parts{"content <thin"});
  CHECK(parts_of_all_cuts(reading, " <<think>A</think>") == Parts{"content  <<think>A</think>"});
  CHECK(parts_of_all_cuts(reading, "B <think>A</think>") == Parts{"content B <think>A</think>"});
  CHECK(parts_of_all_cuts(reading, "<think>A</think><think>B") ==
        Parts{"reasoning A", "content <think>B"});
  CHECK(parts_of_all_cuts(within, "<think>\nA</think>B") == Parts{"reasoning A", "content B"});
  CHECK(parts_of_all_cuts(within, "</think>B") == Parts{"content B"});
  CHECK(parts_of_all_cuts({}, " <think>A</think> <tool_call> \n") ==
        Parts{"content  <think>A</think> <tool_call> \n"});
  CHECK(parts_of_all_cuts(reading, "").empty());
  CHECK(parts_of_all_cuts(reading_of("hermes"), " \n") == Parts{"content  \n"});
}

TEST_CASE("gpt-oss's channels are reasoning, content and calls", "[answers]") {
  const std::string analysis = "<|channel|>analysis<|message|>Need f.<|end|>";
  const std::string final_text = "<|start|>assistant<|channel|>final<|message|>It is 4.";
  const std::string commentary = "<|start|>assistant<|channel|>commentary<|message|>I ask.<|end|>";
  const std::string calls =
      "<|start|>assistant<|channel|>commentary to=functions.f json<|message|>{}";
  AnswerReading reading = reading_of("gpt_oss");
  CHECK(parts_of_all_cuts(reading, analysis + final_text) ==
        Parts{"reasoning Need f.", "content It is 4."});
  CHECK(parts_of_all_cuts(reading, analysis + commentary + calls) ==
        Parts{"reasoning Need f.", "content I ask."} + call("{}"));
  CHECK(parts_of_all_cuts(reading, calls + calls + "<|end|>" + calls + "\n<|call|>") ==
        call("{}") + call("{}", 1) + call("{}", 2));
  CHECK(parts_of_all_cuts(reading, analysis + "<|start|>assistant" + analysis + final_text) ==
        Parts{"reasoning Need f.\nNeed f.", "content It is 4."});
  // Calls are not looked for, or the function is not known: the message is content.
  const std::string unknown = "<|channel|>commentary to=functions.h <|constrain|>json<|message|>{}";
  CHECK(parts_of_all_cuts(reading, unknown + "<|call|>") == Parts{"content " + unknown});
  AnswerReading reasoning_alone;
  reasoning_alone.reasoning = {
      .begin = "<|channel|>analysis<|message|>", .end = "<|end|>", .channels = true};
  CHECK(parts_of_all_cuts(reasoning_alone, analysis + final_text) ==
        Parts{"reasoning Need f.", "content It is 4."});
  CHECK(parts_of_all_cuts(reasoning_alone, calls) == Parts{"content " + calls});
  // Texts without headers, and headers that break off.
  CHECK(parts_of_all_cuts(reading, "It is 4.") == Parts{"content It is 4."});
  CHECK(parts_of_all_cuts(reading, " to be <|x|>\n") == Parts{"content  to be <|x|>\n"});
  CHECK(parts_of_all_cuts(reading, "<|channel|>final<|x|>A") ==
        Parts{"content <|channel|>final<|x|>A"});
  CHECK(parts_of_all_cuts(reading, analysis + "So.") == Parts{"reasoning Need f.", "content So."});
  CHECK(parts_of_all_cuts(reading, analysis + "<|start|>assis") == Parts{"reasoning Need f."});
  CHECK(parts_of_all_cuts(reading, "<|cha") == Parts{"content <|cha"});
}

TEST_CASE("a malformed call is content, as it was written", "[answers]") {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"hermes", "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1}\n</tool_call>"},
      {"hermes", "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 01}}\n</tool_call>"},
      {"hermes", "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": \"a\nb\"}}\n</tool_call>"},
      {"hermes", "<tool_call>\n{\"name\": \"f\", \"arguments\": {x: 1}}\n</tool_call>"},
      {"hermes", "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": True}}\n</tool_call>"},
      {"hermes", "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1,}}\n</tool_call>"},
      {"hermes", "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": \"\\y\"}}\n</tool_call>"},
      {"hermes", "<tool_call>\n{\"name\": \"f\", \"arguments\": \"{}\"}\n</tool_call>"},
      {"hermes", "<tool_call>\n{\"name\": \"f\", \"arguments\": {}, \"why\": 1}\n</tool_call>"},
      {"hermes", "<tool_call>\n{\"name\": \"f\", \"name\": \"g\"}\n</tool_call>"},
      {"hermes", "<tool_call>\n{\"name\": \"h\", \"arguments\": {}}\n</tool_call>"},
      {"hermes", "<tool_call>\n{\"arguments\": {}}\n</tool_call>"},
      {"hermes", "<tool_call>\n{}\n</tool_call>"},
      {"hermes", "<tool_call>\n[]\n</tool_call>"},
      {"hermes", "<tool_call>\n{\"name\": \"f\"}} \n</tool_call>"},
      {"hermes", "<tool_call>\n{\"name\": \"f\"} and\n</tool_call>"},
      {"hermes", "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": \"</tool_call>"},
      {"hermes", "<tool_call>f</tool_call>"},
      {"hermes", "<tool_call>"},
      {"llama3", "{\"name\": \"h\", \"parameters\": {}}"},
      {"llama3", "{\"name\": \"f\", \"parameters\": {}"},
      {"llama3", "<|python_tag|>print(1)"},
      {"mistral", "[TOOL_CALLS]h[ARGS]{}"},
      {"mistral", "[TOOL_CALLS]f[ARG]{}"},
      {"mistral", "[TOOL_CALLS]f[ARGS]{"},
      {"mistral", "[TOOL_CALLS]f[ARGS]" + std::string(200, ' ') + "{}"},
      {"mistral_list", "[TOOL_CALLS][]"},
      {"mistral_list", "[TOOL_CALLS][{\"name\": \"f\"}, {\"name\": \"h\"}]"},
      {"mistral_list", "[TOOL_CALLS][{\"name\": \"f\"}"},
      {"mistral_list", "[TOOL_CALLS][{\"name\": \"f\"},]"},
      {"granite3", "<|tool_call|>[{\"name\": \"f\" \"arguments\": {}}]"},
      {"functiongemma", "<start_function_call>call:h{}<end_function_call>"},
      {"functiongemma", "<start_function_call>call:f{a:x}<end_function_call>"},
      {"functiongemma", "<start_function_call>call:f{a:<escap>x<escape>}<end_function_call>"},
      {"functiongemma", "<start_function_call>cal:f{}<end_function_call>"},
      {"gemma4", "<|tool_call>call:f{a:<|\"|>x}<tool_call|>"},
      {"lfm2", "<|tool_call_start|>[f(1)]<|tool_call_end|>"},
      {"lfm2", "<|tool_call_start|>[f(a=b)]<|tool_call_end|>"},
      {"lfm2", "<|tool_call_start|>[f(a='\\N{DASH}')]<|tool_call_end|>"},
      {"lfm2", "<|tool_call_start|>[f(a='\\U00110000')]<|tool_call_end|>"},
      {"lfm2", "<|tool_call_start|>[f(a=(1))]<|tool_call_end|>"},
      {"lfm2", "<|tool_call_start|>[f(), h()]<|tool_call_end|>"},
      {"lfm2", "<|tool_call_start|>f()<|tool_call_end|>"},
  };
  for (const auto& [format, text] : wrong) {
    INFO(format << ": " << text);
    CHECK(parts_of_all_cuts(reading_of(format), text) == Parts{"content " + text});
    if (format == "llama3") continue;
    CHECK(parts_of(reading_of(format), "A \n" + text + "\n B") ==
          Parts{"content A \n" + text + "\n B"});
  }
  const std::string header = "<|channel|>commentary to=functions.f json<|message|>";
  CHECK(parts_of_all_cuts(reading_of("gpt_oss"), header + "{\"x\": 1<|call|>") ==
        Parts{"content " + header + "{\"x\": 1"});
  CHECK(parts_of_all_cuts(reading_of("gpt_oss"), header + "{} so<|call|>") ==
        Parts{"content " + header + "{} so"});
}

TEST_CASE("a call behind a malformed one is read", "[answers]") {
  const std::string good = "<tool_call>{\"name\": \"f\"}</tool_call>";
  for (const std::string bad :
       {"<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1}\n</tool_call>", "<tool_call>",
        "<tool_call>{\"name\": \"f\"}",
        "<tool_call>{\"name\": \"f\", \"arguments\": {\"x\": \"1}}\n", "<tool_cal"}) {
    INFO(bad);
    CHECK(parts_of_all_cuts(reading_of("hermes"), bad + good) ==
          Parts{"content " + std::string(bad.substr(0, bad.find_last_not_of('\n') + 1))} +
              call("{}"));
  }
  CHECK(parts_of_all_cuts(reading_of("mistral_list"),
                          "[TOOL_CALLS][TOOL_CALLS][{\"name\": \"f\"}]") ==
        Parts{"content [TOOL_CALLS]"} + call("{}"));
}

TEST_CASE("a call that lacks nothing but the mark behind it is a call at the end", "[answers]") {
  for (const std::string end : {"", "\n", "\n</tool_", "</tool_call>"}) {
    INFO(end);
    CHECK(parts_of_all_cuts(reading_of("hermes"), "<tool_call>\n{\"name\": \"f\"}" + end) ==
          call("{}"));
  }
  CHECK(parts_of(reading_of("lfm2"), "<|tool_call_start|>[f()]") == call("{}"));
}

TEST_CASE("the model's own id of a call is kept", "[answers]") {
  const Parts parts = {"call 0 f a1b2c3d4e", "arguments {\"x\": 1}", "end 0"};
  CHECK(parts_of_all_cuts(reading_of("mistral"),
                          "[TOOL_CALLS]f[CALL_ID]a1b2c3d4e[ARGS]{\"x\": 1}") == parts);
  CHECK(parts_of_all_cuts(
            reading_of("mistral_list"),
            R"([TOOL_CALLS][{"name": "f", "arguments": {"x": 1}, "id": "a1b2c3d4e"}])") == parts);
}

TEST_CASE("calls that a grammar holds are said as they come", "[answers]") {
  AnswerReading held = reading_of("hermes");
  held.held = true;
  using Kind = AnswerPart::Kind;
  AnswerReader reader(held);
  CHECK(reader.push("<tool_call>\n{\"name\": \"f\", \"argu").empty());
  CHECK(reader.push("ments\": {\"x\"") ==
        std::vector<AnswerPart>{{.kind = Kind::call_begin, .name = "f"},
                                {.kind = Kind::call_arguments, .text = "{\"x\""}});
  CHECK(reader.push(": \"ä") ==
        std::vector<AnswerPart>{{.kind = Kind::call_arguments, .text = ": \"ä"}});
  CHECK(reader.end().empty());
  // One that the text breaks off has no end; one that has not been said is content.
  const std::string cut = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": ";
  CHECK(parts_of_all_cuts(held, cut) == Parts{"call 0 f", "arguments {\"x\": "});
  CHECK(parts_of_all_cuts(held, "<tool_call>\n{\"name\": ") ==
        Parts{"content <tool_call>\n{\"name\": "});
}

TEST_CASE("no more of a text is kept back than what could be a mark, and white space",
          "[answers]") {
  AnswerReading reading = reading_of("hermes");
  reading.reasoning = kThink;
  const std::string text = "<tool<thi</think><tool_calls>A < B";
  AnswerReader reader(reading);
  std::string said;
  for (std::size_t i = 0; i < text.size(); ++i) {
    for (const AnswerPart& part : reader.push(text.substr(i, 1))) said += part.text;
    std::string_view kept = std::string_view(text).substr(said.size(), i + 1 - said.size());
    INFO("kept: " << kept);
    if (kept.starts_with(' ')) kept.remove_prefix(1);
    const bool mark = std::string_view("<tool_call>").starts_with(kept) ||
                      (said.empty() && std::string_view("<think>").starts_with(kept));
    CHECK(mark);
  }
  // Without calls, white space does not wait.
  AnswerReader plain{AnswerReading{}};
  CHECK(plain.push(" \n") == std::vector<AnswerPart>{{.text = " \n"}});
}

TEST_CASE("arguments are nested as deep as they can be taken back", "[answers]") {
  const auto nested = [](int depth) {
    const std::string open(static_cast<std::size_t>(depth - 1), '[');
    return "{\"x\":" + open + std::string(open.size(), ']') + "}";
  };
  const std::string begin = "[TOOL_CALLS]f[ARGS]";
  const std::string deepest = nested(kMostArgumentDepth), deeper = nested(kMostArgumentDepth + 1);
  CHECK(parts_of(reading_of("mistral"), begin + deepest) == call(deepest));
  CHECK_NOTHROW(parse_json<Json>(deepest, kMostArgumentDepth));
  CHECK(parts_of(reading_of("mistral"), begin + deeper) == Parts{"content " + begin + deeper});
}

// Each would take hours if what is read were read again.
TEST_CASE("long answers are read in a time linear in their length", "[answers]") {
  constexpr int kTimes = 200'000;
  const auto many = [](std::string_view text) {
    std::string all;
    for (int i = 0; i < kTimes; ++i) all += text;
    return all;
  };
  for (const std::string piece :
       {"<tool_call>", "<tool_call>{\"", "<", " ", "<tool_call>{\"name\":\"f\"}</tool_call",
        "<tool_call>{\"name\":\"f\",\"arguments\":{\"<tool_call>{\":"}) {
    INFO(piece);
    const std::string text = many(piece);
    const Parts parts = parts_of(reading_of("hermes"), text);
    std::size_t bytes = 0;
    for (const std::string& part : parts) bytes += part.size();
    CHECK(bytes >= text.size() / 2);
  }
  const std::string start = "<tool_call>{\"name\":\"f\",\"arguments\":{\"x\":\"";
  const std::string text = start + many("<tool_call>");
  CHECK(parts_of(reading_of("hermes"), text) == Parts{"content " + text});
  const std::string gemma = "<start_function_call>call:f{a:<escape>";
  CHECK(parts_of(reading_of("functiongemma"), many(gemma)).size() == 1);
}

TEST_CASE("random answers have the same parts however they are cut", "[answers]") {
  const std::vector<std::string> pieces = {"<tool_call>",
                                           "</tool_call>",
                                           "{\"name\": \"f\", \"arguments\": {",
                                           "\"x\": 1",
                                           "}",
                                           "}}",
                                           "\"",
                                           " ",
                                           "\n",
                                           "<think>",
                                           "</think>",
                                           "text",
                                           "<",
                                           "ä",
                                           "[TOOL_CALLS]",
                                           "[ARGS]",
                                           "f",
                                           "[{",
                                           "}]",
                                           "<start_function_call>",
                                           "call:f{",
                                           "a:<escape>",
                                           "<escape>",
                                           "}<end_function_call>",
                                           "<|tool_call_start|>[f(",
                                           "a='",
                                           "')]",
                                           "<|tool_call_end|>",
                                           "<|channel|>",
                                           "final",
                                           "analysis",
                                           "commentary to=functions.f",
                                           "<|message|>",
                                           "<|end|>",
                                           "<|start|>assistant",
                                           "<|call|>",
                                           "<|python_tag|>",
                                           ";",
                                           "\\",
                                           "{}"};
  Rng rng(1);
  const auto below = [&rng](std::size_t n) { return static_cast<std::size_t>(rng.next32()) % n; };
  for (int i = 0; i < 4000; ++i) {
    const CallFormat& format = call_formats()[below(call_formats().size())];
    AnswerReading reading = reading_of(format.name);
    if (below(2) == 0) reading.reasoning = kThink;
    if (below(4) == 0) reading.calls = nullptr;
    reading.within_reasoning = below(4) == 0;
    reading.held = below(4) == 0;
    std::string text;
    for (std::size_t n = below(14); n > 0; --n) text += pieces[below(pieces.size())];
    const Parts whole = parts_of(reading, text);
    std::vector<std::size_t> cuts, all;
    for (std::size_t at = 0; at < text.size(); ++at) {
      all.push_back(at);
      if (below(4) == 0) cuts.push_back(at);
    }
    INFO(format.name << ": " << text);
    REQUIRE(parts_of(reading, text, cuts) == whole);
    REQUIRE(parts_of(reading, text, all) == whole);
  }
}
