// Calls that are none.

#include <cstddef>
#include <string>

#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/data/chat/answers/calls_of_all_formats.h"
#include "tapegrad/tests/data/chat/answers/read_answer.h"

using namespace tapegrad;
using namespace tapegrad::data;

TEST_CASE("what spoils a call is in some part, whether calls are held or not", "[answers]") {
  const Parts parts = {"call 0 f", "arguments {}", "end 0", "content , {\"name\":\"zzz\"}]"};
  AnswerReading held = reading_of("mistral_list");
  held.held = true;
  CHECK(parts_of_all_cuts(held, R"([TOOL_CALLS][{"name":"f","arguments":{}}, {"name":"zzz"}])") ==
        parts);
  for (const auto& [format, text, arguments] : calls_of_all_formats()) {
    for (std::size_t at = 0; at <= text.size(); ++at) {
      std::string spoiled = text;
      spoiled.insert(at, "^");
      for (const bool is_held : {false, true}) {
        AnswerReading reading = reading_of(format);
        reading.held = is_held;
        const Parts said = parts_of(reading, spoiled);
        std::string all;
        for (const std::string& part : said) all += part;
        INFO(format << ": " << spoiled << "\n" << all);
        // A header is no text, and a "type" says nothing of the call.
        const bool header = format == "gpt_oss" && at < text.find("<|message|>");
        CHECK((header || said == call(arguments) || all.find('^') != std::string::npos));
      }
    }
  }
}

TEST_CASE("a call behind one that is spoiled is read", "[answers]") {
  CHECK(parts_of_all_cuts(reading_of("mistral"), R"([TOOL_CALLS]f[TOOL_CALLS]g{"a":1})") ==
        Parts{"content [TOOL_CALLS]f", "call 0 g", "arguments {\"a\":1}", "end 0"});
  CHECK(parts_of_all_cuts(reading_of("mistral"),
                          R"([TOOL_CALLS]f[CALL_ID]abc[TOOL_CALLS]g[ARGS]{"a":1})") ==
        Parts{"content [TOOL_CALLS]f[CALL_ID]abc", "call 0 g", "arguments {\"a\":1}", "end 0"});
  CHECK(parts_of_all_cuts(reading_of("mistral"), "[TOOL_CALLS]f[AR{}") ==
        Parts{"content [TOOL_CALLS]f[AR{}"});
}
