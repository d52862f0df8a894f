#include <cmath>

#include "tapegrad/run/record/time_left.h"
#include "tapegrad/tests/catch.h"

using tapegrad::run::TimeLeft;

namespace {

void add(TimeLeft& left, int steps, double seconds, double between = 0) {
  for (int i = 0; i < steps; ++i) left.add(seconds, between);
}

// True if 100 further steps take so many seconds, but for a share.
bool is_near(const TimeLeft& left, double seconds, double share) {
  return std::abs(left.seconds(100) - seconds) <= share * seconds;
}

}  // namespace

TEST_CASE("steps that take the same time take it from the first one on", "[time_left]") {
  TimeLeft left;
  CHECK(left.seconds(100) == 0);
  for (int i = 0; i < 1000; ++i) {
    left.add(0.5, 0);
    REQUIRE(is_near(left, 50, 1e-12));
  }
  CHECK(left.seconds(0) == 0);
}

TEST_CASE("what lies between steps is spread over all of them", "[time_left]") {
  TimeLeft left;
  add(left, 250, 0.1);
  left.add(0.1, 25.1);  // an evaluation: a tenth of a second for each step so far
  CHECK(is_near(left, 20, 1e-9));
  add(left, 250, 0.1);
  CHECK(left.seconds(100) < 20);
}

TEST_CASE("the latest half minute decides, not the whole run", "[time_left]") {
  TimeLeft left;
  add(left, 10000, 0.1);  // a machine that becomes busy
  add(left, 450, 0.2);    // for a minute and a half: exp(−3) of the weight is old
  CHECK(is_near(left, 20, 0.06));
  CHECK_FALSE(is_near(left, 20, 0.03));
}

TEST_CASE("a machine that stood still is soon forgotten", "[time_left]") {
  TimeLeft left;
  add(left, 1000, 0.1);
  left.add(3600, 0);
  CHECK(is_near(left, 10, 0.05));
  // One that stays ten times as slow is believed.
  add(left, 150, 1);
  CHECK(is_near(left, 100, 0.1));
}
