// Axes, and charts as SVG.

#include <cmath>
#include <limits>

#include "tapegrad/apps/chart/chart_axis.h"
#include "tapegrad/apps/chart/svg_chart.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad::charts;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}

Axis axis_of(bool logarithmic, const std::vector<double>& values) {
  Axis axis{.logarithmic = logarithmic};
  for (const double value : values) axis.add(value);
  return axis;
}

}  // namespace

TEST_CASE("an axis ends at the values that it can show, and shares out the way between",
          "[chart]") {
  const Axis linear = axis_of(false, {-2, 8, kNan, kInf, -kInf});
  CHECK(linear.low == -2);
  CHECK(linear.high == 8);
  CHECK(linear.share(0.5) == 0.25);
  CHECK(linear.share(9) == 1);
  const Axis logarithmic = axis_of(true, {0, -3, 0.01, 100});
  CHECK(logarithmic.low == -2);
  CHECK(logarithmic.high == 2);
  CHECK(logarithmic.share(0.1) == 0.25);
  CHECK(logarithmic.share(0) == 0);
  CHECK(logarithmic.share(kNan) == 0);
  CHECK(axis_of(true, {0, -1, kNan}).empty());
}

TEST_CASE("an axis of one value gets margins, and one of bars ends at powers of ten", "[chart]") {
  Axis one = axis_of(false, {5}), nothing;
  one.widen(1), nothing.widen(1);
  CHECK(one.low == 4);
  CHECK(one.high == 6);
  CHECK(nothing.empty());
  Axis bars = axis_of(true, {0.0003, 1.3});
  bars.widen_to_powers();
  CHECK(bars.low == -4);
  CHECK(bars.high == 1);
  Axis power = axis_of(true, {0.01});  // has a bar, too
  power.widen_to_powers();
  CHECK(power.low == -3);
  CHECK(power.high == -2);
  Axis none{.logarithmic = true};
  none.widen_to_powers();
  CHECK(none.low == -1);
  CHECK(none.high == 0);
}

TEST_CASE("an axis has a few round levels", "[chart]") {
  using Levels = std::vector<double>;
  CHECK(axis_of(false, {-3, 7}).levels(5) == Levels{-2, 0, 2, 4, 6});
  CHECK_FALSE(std::signbit(axis_of(false, {-0.5, 7}).levels(5).front()));
  CHECK(axis_of(false, {0, 3}).levels(6, 1) == Levels{0, 1, 2, 3});
  CHECK(axis_of(true, {0.5, 200}).levels(5) == Levels{1, 10, 100});
  CHECK(axis_of(true, {1e-9, 1e3}).levels(5) == Levels{1e-8, 1e-6, 1e-4, 1e-2, 1, 100});
  CHECK(axis_of(true, {2, 9}).levels(5) == Levels{2, 4, 6, 8});
  // Levels that rounding keeps in place, and ranges that no number has.
  for (const double at : {9007199254740992.0, 1e16, 1e300, 1e-300}) {
    for (const bool logarithmic : {false, true}) {
      Axis narrow = axis_of(logarithmic, {at, std::nextafter(at, 2 * at)});
      narrow.widen(0);
      CHECK(narrow.levels(5).size() <= 7);
    }
  }
}

TEST_CASE("a chart draws what can be drawn", "[chart]") {
  CHECK(svg_of({.title = "none", .series = {}}).empty());
  CHECK(svg_of({.title = "none", .series = {{"a", {{1, kNan}, {kNan, 1}}}}}).empty());
  CHECK(svg_of({.title = "none", .series = {{"a", {{1, 0}, {2, -1}}}}, .log_y = true}).empty());
  const std::string one = svg_of({.title = "a < b", .series = {{"a", {{5, 7}}}}});
  CHECK_THAT(one, ContainsSubstring("aria-label=\"a &lt; b\""));
  CHECK_THAT(one, ContainsSubstring("h0\""));
  CHECK(count(one, "nan") + count(one, "inf") == 0);
  const std::string same = svg_of({.title = "t", .series = {{"a", {{0, 3}, {1, 3}}}}});
  CHECK(count(same, "nan") + count(same, "inf") == 0);
  const std::string zeros = svg_of({.title = "t", .series = {{"a", {{0, 0}, {1, 0}}}}});
  CHECK_THAT(zeros, ContainsSubstring(">-0.5<") && ContainsSubstring(">0.5<"));
  const std::string ones =
      svg_of({.title = "t", .series = {{"a", {{0, 1}, {1, 1}}}}, .log_y = true});
  CHECK_THAT(ones, ContainsSubstring(">0.95<") && ContainsSubstring(">1.05<"));
  // Across the whole width, from the top to the bottom.
  const std::string line =
      svg_of({.title = "t", .series = {{"a", {{0, 100}, {10, 1}}}}, .log_y = true});
  CHECK_THAT(line, ContainsSubstring("d=\"M62.0 10.0L706.0 232.0\""));
  CHECK_THAT(line,
             ContainsSubstring(">100<") && ContainsSubstring(">10<") && ContainsSubstring(">1<"));
  for (const double at : {9007199254740992.0, 1e16, 1e300, 1e-300}) {
    const double next = std::nextafter(at, 2 * at);
    for (const bool log_y : {false, true}) {
      const std::string narrow =
          svg_of({.title = "t", .series = {{"a", {{at, at}, {next, next}}}}, .log_y = log_y});
      CHECK(count(narrow, "<text") < 40);
      CHECK(count(narrow, "nan") + count(narrow, "inf") == 0);
    }
  }
  const std::string widest =
      svg_of({.title = "t", .series = {{"a", {{0, 1.7e308}, {1, -1.7e308}, {2, 1}}}}});
  CHECK(count(widest, "nan") + count(widest, "inf") == 0);
  const std::string huge = svg_of({.title = "t", .series = {{"a", {{0, 1e300}, {1e18, -1e300}}}}});
  CHECK(count(huge, "<text") < 40);
}

TEST_CASE("faint curves lie behind the others, and long powers have exponents", "[chart]") {
  const std::string svg = svg_of(
      {.title = "t",
       .series = {{"front", {{0, 1e-6}, {1, 1e-4}}}, {"back", {{0, 1e-5}, {1, 1e-5}}, 13, true}},
       .log_y = true});
  CHECK(svg.find("<title>back") < svg.find("<title>front"));
  CHECK_THAT(svg, ContainsSubstring("class=\"curve curve-1 dash-1 faint\""));
  CHECK_THAT(svg, ContainsSubstring(">10<tspan dy=\"-5\" font-size=\"9\">−5</tspan><"));
  const std::string large =
      svg_of({.title = "t", .series = {{"a", {{0, 1e5}, {1, 2e6}}}}, .log_y = true});
  CHECK_THAT(large, ContainsSubstring(">100000<") && ContainsSubstring(">6</tspan><"));
}

TEST_CASE("a file of bars has one for each value, from the bottom up", "[chart]") {
  const std::string svg =
      svg_file({.title = "a < b",
                .series = {{"one", {{0, 1}, {1, 0}}}, {"two", {{0, 10}, {1, kInf}}}},
                .bars = true,
                .width = 508,
                .height = 264},
               {.subtitle = "s", .x = "x", .y = "y"});
  // 400 across and 100 down are left of the margins: 200 for each x, 0.8 of it for its two bars.
  CHECK_THAT(svg, ContainsSubstring("<rect class=\"bar-0\" x=\"104.0\" y=\"150.0\" width=\"76.0\" "
                                    "height=\"50.0\"><title>one, 0: 1</title>"));
  CHECK_THAT(svg, ContainsSubstring("<rect class=\"bar-1\" x=\"184.0\" y=\"100.0\" width=\"76.0\" "
                                    "height=\"100.0\"><title>two, 0: 10</title>"));
  CHECK(count(svg, "height=\"0.0\"") == 2);  // of 0 and of what is infinite
  CHECK_THAT(svg, ContainsSubstring("<title>a &lt; b</title>") && ContainsSubstring(">one</text>"));
  CHECK(count(svg, "nan") == 0);
}
