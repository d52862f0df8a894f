#include <limits>

#include "tapegrad/base/text/words.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;

TEST_CASE("digits are grouped by thousands, with and without a sign", "[base]") {
  CHECK(grouped(0) == "0");
  CHECK(grouped(999) == "999");
  CHECK(grouped(1000) == "1,000");
  CHECK(grouped(1234567) == "1,234,567");
  CHECK(grouped(-123) == "-123");
  CHECK(grouped(-1234) == "-1,234");
}

TEST_CASE("sizes have the unit in which people read them", "[base]") {
  CHECK(counted(1, "layer") == "1 layer");
  CHECK(counted(0, "layer") == "0 layers");
  CHECK(counted(1200, "layer") == "1,200 layers");
  CHECK(size_text(812) == "812 B");
  CHECK(size_text(64e3) == "64 kB");
  CHECK(size_text(3.2e6) == "3.2 MB");
  CHECK(size_text(412e6) == "412 MB");
  CHECK(size_text(3.1e9) == "3.1 GB");
}

TEST_CASE("durations are rounded to seconds, or to minutes from an hour on", "[base]") {
  CHECK(duration_text(0.4) == "0 s");
  CHECK(duration_text(59.4) == "59 s");
  CHECK(duration_text(59.6) == "1:00 min");
  CHECK(duration_text(185) == "3:05 min");
  CHECK(duration_text(9600) == "2:40 h");
}

TEST_CASE("a loss has four decimals, and near 0 four digits that count", "[base]") {
  CHECK(loss_text(2.18734) == "2.1873");
  CHECK(loss_text(0) == "0.0000");
  CHECK(loss_text(0.001) == "0.0010");
  CHECK(loss_text(0.00041273) == "0.0004127");
  CHECK(loss_text(3.0521e-7) == "3.052e-07");
  CHECK(loss_text(-3.0521e-7) == "-3.052e-07");
  CHECK(loss_text(std::numeric_limits<double>::quiet_NaN()) == "nan");
}

TEST_CASE("a table has text at the left and numbers at the right, without spaces behind them",
          "[base]") {
  CHECK(table_text("lrl", {{"part", "n", "shape"}, {"a", "100", ""}, {"longer", "7", "(2)"}}) ==
        "part      n  shape\n"
        "a       100\n"
        "longer    7  (2)\n");
  CHECK(table_text("lr", {}).empty());
}
