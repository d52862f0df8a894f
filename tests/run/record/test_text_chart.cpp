// The chart of a terminal.

#include <cmath>

#include "tapegrad/run/record/text_chart.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad::run;

namespace {

using Lines = std::vector<std::string>;

std::size_t characters(const std::string& text) {
  std::size_t n = 0;
  for (const char c : text) n += (c & 0xc0) != 0x80;
  return n;
}

}  // namespace

TEST_CASE("a chart has its ranges, a line of dots and marks", "[chart]") {
  // 22 columns and 3 rows of characters of dots: a straight line down.
  const Lines lines = text_chart({{0, 4}, {100, 1}}, {{100, 4}}, "c", 24, 4);
  CHECK(lines == Lines{"4 ⠉⠓⠒⠦⠤⣄⣀⡀             o", "         ⠉⠉⠓⠒⠦⠤⣄⣀⡀", "1                ⠉⠉⠓⠒⠦⠤⣄",
                       "  0        c         100"});
}

TEST_CASE("a chart of one point, of equal ones and of none", "[chart]") {
  CHECK(text_chart({}, {}, "", 80, 10).empty());
  CHECK(text_chart({{0, std::nan("")}}, {{1, INFINITY}}, "", 80, 10).empty());
  const Lines one = text_chart({{5, 2}}, {}, "", 30, 5);
  REQUIRE(one.size() == 5);
  CHECK(one[0] == "2");
  const Lines level = text_chart({{0, 2}, {9, 2}}, {}, "", 30, 4);
  REQUIRE(level.size() == 4);
  CHECK(characters(level[1]) == 30);
}

TEST_CASE("a chart keeps to its room, and needs some", "[chart]") {
  std::vector<ChartPoint> points;
  for (int i = 0; i < 5000; ++i) points.push_back({i * 1e6, 3 + std::sin(i * 0.1) * (i % 7)});
  for (const int width : {0, 10, 23, 24, 33, 80, 100}) {
    for (const int height : {-1, 0, 3, 4, 10}) {
      const Lines lines = text_chart(points, points, "loss", width, height);
      CHECK(lines.size() == static_cast<std::size_t>(width < 24 || height < 4 ? 0 : height));
      for (const std::string& line : lines)
        CHECK(characters(line) <= static_cast<std::size_t>(width));
    }
  }
}

TEST_CASE("the losses of a long run have the memory of a short one", "[chart]") {
  LossChart chart;
  CHECK(chart.draw(80, 10).empty());
  for (int i = 0; i < 100'000; ++i) chart.add(i, 5 - i * 4e-5);
  chart.add(100'000, std::nan(""));
  chart.add_val(99'999, 1);
  const Lines lines = chart.draw(80, 10);
  REQUIRE(lines.size() == 10);
  CHECK(lines.front().rfind("4.99", 0) == 0);  // the mean of the first steps
  CHECK(lines[8].rfind("    1 ", 0) == 0);
  CHECK(lines[8].back() == 'o');
  CHECK(lines.back().find("loss of steps, o val loss") != std::string::npos);
  CHECK(lines.back().substr(lines.back().size() - 5) == "99999");
}
