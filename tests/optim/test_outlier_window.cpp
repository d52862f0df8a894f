#include <cmath>

#include "tapegrad/base/error.h"
#include "tapegrad/optim/outlier_window.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using optim::OutlierWindow;

namespace {

// A full window of ones and threes: mean 2, standard deviation 1.
OutlierWindow ones_and_threes() {
  OutlierWindow window;
  for (std::size_t i = 0; i < OutlierWindow::kSize; ++i) window.z_score(i % 2 == 0 ? 1 : 3);
  return window;
}

}  // namespace

TEST_CASE("a value's z-score is measured among the last 128, itself included", "[outliers]") {
  OutlierWindow window = ones_and_threes();
  // 63 ones, 64 threes and a 12: the mean is 267/128, the mean of the squares 783/128.
  const double mean = 267.0 / 128, deviation = std::sqrt(783.0 / 128 - mean * mean);
  CHECK(window.z_score(12) == Approx((12 - mean) / deviation).epsilon(1e-12));
  CHECK(window.values().size() == OutlierWindow::kSize);
  CHECK(window.values().back() == 12);
}

TEST_CASE("z-scores stay below the largest possible one, and are no numbers of rounding",
          "[outliers]") {
  OutlierWindow equal;
  for (int i = 0; i < 200; ++i) CHECK(equal.z_score(1e8) == 0);
  CHECK(equal.z_score(1e9) == Approx(std::sqrt(127.0)));
}

TEST_CASE("an outlier window says nothing until it is full", "[outliers]") {
  OutlierWindow window;
  for (std::size_t i = 0; i + 1 < OutlierWindow::kSize; ++i) window.z_score(1);
  CHECK(window.z_score(100) == 0);
  CHECK(window.z_score(100) > 7);
}

TEST_CASE("an outlier window goes on from a checkpoint", "[outliers]") {
  OutlierWindow window = ones_and_threes(), other;
  other.set_values(window.values());
  CHECK(other.z_score(5) == window.z_score(5));
  CHECK(other.values() == window.values());
}

TEST_CASE("an outlier window takes no more than it has room for, and finite values alone",
          "[outliers]") {
  OutlierWindow window;
  CHECK_THROWS_WITH(window.z_score(std::nan("")), ContainsSubstring("finite values, not nan"));
  CHECK_THROWS_AS(window.set_values({1, INFINITY}), Error);
  CHECK_THROWS_AS(window.set_values(std::vector<double>(OutlierWindow::kSize + 1, 1.0)), Error);
  CHECK(window.values().empty());
}
