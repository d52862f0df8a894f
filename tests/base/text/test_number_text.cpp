#include "tapegrad/base/text/internal/number_text.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;

TEST_CASE("a number is the whole text, or none", "[base]") {
  CHECK(number_of<int>("12") == 12);
  CHECK(number_of<std::int64_t>("-3") == -3);
  CHECK(number_of<double>("1e-3") == 1e-3);
  CHECK(number_of<unsigned>("ff", 16) == 255u);
  for (const char* text : {"", " 1", "1 ", "+1", "1x", "x1", "1.5", "0x1"}) {
    INFO(text);
    CHECK_FALSE(number_of<int>(text));
  }
  CHECK_FALSE(number_of<std::uint64_t>("-1"));
}

TEST_CASE("a number that the type cannot hold is none", "[base]") {
  CHECK(number_of<int>("2147483647") == 2147483647);
  CHECK_FALSE(number_of<int>("2147483648"));
  CHECK_FALSE(number_of<std::int64_t>("9223372036854775808"));
  CHECK_FALSE(number_of<double>("1e999"));
}

TEST_CASE("a number is taken off the beginning of a text, which stays if there is none", "[base]") {
  std::string_view text = "42/history";
  CHECK(take_number<int>(text) == 42);
  CHECK(text == "/history");
  CHECK_FALSE(take_number<int>(text));
  CHECK(text == "/history");
}
