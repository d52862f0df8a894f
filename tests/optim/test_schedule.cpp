#include <cmath>
#include <limits>
#include <vector>

#include "tapegrad/base/error.h"
#include "tapegrad/base/option_schema.h"
#include "tapegrad/optim/lr_schedulers.h"
#include "tapegrad/optim/schedule.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using optim::Schedule;
using Kind = Schedule::Kind;

namespace {

struct Point {
  std::int64_t iteration;
  double rate;
};

void check_rates(const Schedule& schedule, const std::vector<Point>& points) {
  for (const Point& point : points) {
    INFO("warm-up " << schedule.warmup_iters << ", iteration " << point.iteration);
    CHECK(schedule(point.iteration) == Approx(point.rate).epsilon(1e-13));
  }
}

Schedule schedule(Kind kind, std::int64_t warmup, std::int64_t decay = 2000) {
  return {.kind = kind,
          .learning_rate = 1e-3,
          .min_lr = 1e-4,
          .warmup_iters = warmup,
          .lr_decay_iters = decay};
}

}  // namespace

// The rates are those of nanoGPT's get_lr.
TEST_CASE("the cosine schedule has nanoGPT's rates", "[schedule]") {
  check_rates(schedule(Kind::cosine, 0), {{0, 1e-3},
                                          {1, 0.0009999994448348665},
                                          {99, 0.000994569781899591},
                                          {1050, 0.0005146934069224699},
                                          {1999, 0.00010000055516513342},
                                          {2000, 1e-4},
                                          {2001, 1e-4},
                                          {1000000, 1e-4}});
  check_rates(schedule(Kind::cosine, 100), {{0, 9.900990099009901e-06},
                                            {1, 1.9801980198019803e-05},
                                            {99, 0.0009900990099009901},
                                            {100, 1e-3},
                                            {101, 0.0009999993848585915},
                                            {1050, 0.00055},
                                            {1999, 0.00010000061514140841},
                                            {2000, 1e-4},
                                            {2001, 1e-4}});
}

TEST_CASE("a schedule that begins later has the rates of one that begins at 0", "[schedule]") {
  const Schedule first = schedule(Kind::cosine, 100);
  Schedule later = first;
  later.begin = 70;
  for (const std::int64_t i : {0, 99, 100, 1050, 2000, 2001}) CHECK(later(70 + i) == first(i));
}

TEST_CASE("the linear schedule falls in a straight line", "[schedule]") {
  check_rates(schedule(Kind::linear, 0),
              {{0, 1e-3}, {1, 0.00099955}, {1050, 0.0005275}, {2000, 1e-4}, {2001, 1e-4}});
  check_rates(schedule(Kind::linear, 100), {{0, 9.900990099009901e-06},
                                            {99, 0.0009900990099009901},
                                            {100, 1e-3},
                                            {101, 0.0009995263157894737},
                                            {1999, 0.00010047368421052634},
                                            {2000, 1e-4},
                                            {2001, 1e-4}});
}

TEST_CASE("the constant schedule warms up and stays", "[schedule]") {
  check_rates(schedule(Kind::constant, 100), {{0, 9.900990099009901e-06},
                                              {99, 0.0009900990099009901},
                                              {100, 1e-3},
                                              {2001, 1e-3},
                                              {1000000, 1e-3}});
  check_rates(schedule(Kind::constant, 0, 0), {{0, 1e-3}, {1, 1e-3}});
}

// get_lr_multiplier of nanochat's base_train.py with its warmdown_ratio 0.4, but for the warm-up.
TEST_CASE("the schedule wsd warms up, stays, and falls in a straight line", "[schedule]") {
  check_rates(schedule(Kind::wsd, 100), {{0, 9.900990099009901e-06},
                                         {99, 0.0009900990099009901},
                                         {100, 1e-3},
                                         {1000, 1e-3},
                                         {1200, 1e-3},
                                         {1201, 1e-4 + 9e-4 * 799 / 800},
                                         {1600, 5.5e-4},
                                         {1999, 1e-4 + 9e-4 / 800},
                                         {2000, 1e-4},
                                         {2001, 1e-4}});
  Schedule s = schedule(Kind::wsd, 0);
  s.decay_share = 0.1;
  check_rates(s, {{0, 1e-3}, {1800, 1e-3}, {1900, 5.5e-4}, {2000, 1e-4}});
  s.decay_share = 0;
  check_rates(s, {{0, 1e-3}, {2000, 1e-3}, {2001, 1e-4}});
  s.decay_share = 1;
  check_rates(s, {{0, 1e-3}, {1000, 5.5e-4}, {2000, 1e-4}});
  s.warmup_iters = 1000;  // the decay is what is left
  check_rates(s, {{1000, 1e-3}, {1500, 5.5e-4}, {2000, 1e-4}});
}

TEST_CASE("a decay that ends with the warm-up goes straight to the least rate", "[schedule]") {
  for (const Kind kind : {Kind::cosine, Kind::linear, Kind::wsd}) {
    check_rates(schedule(kind, 10, 10), {{9, 1e-3 * 10 / 11}, {10, 1e-3}, {11, 1e-4}});
    check_rates(schedule(kind, 0, 0), {{0, 1e-3}, {1, 1e-4}});
  }
}

TEST_CASE("schedules of PyTorch's have their rates behind the warm-up", "[schedule]") {
  constexpr std::int64_t warmup = 4, n = 40;
  const auto check_behind = [&](Schedule s, const auto& rate) {
    s.begin = 100;
    for (std::int64_t i = 0; i < warmup; ++i) {
      CHECK(s(100 + i) == Approx(1e-3 * static_cast<double>(i + 1) / 5).epsilon(1e-13));
    }
    for (std::int64_t i = 0; i < n; ++i) {
      INFO(name_of_enum(s.kind) << ", iteration " << i);
      CHECK(s(100 + warmup + i) == rate(i));
    }
    CHECK_NOTHROW(s.validate());
  };
  Schedule s = schedule(Kind::step, warmup, 0);
  s.step_size = 7, s.gamma = 0.5;
  check_behind(s, optim::StepLR{1e-3, 7, 0.5});
  s.kind = Kind::exponential;
  check_behind(s, optim::ExponentialLR{1e-3, 0.5});
  s.kind = Kind::cosine_with_restarts, s.t_mult = 2;
  check_behind(s, optim::CosineAnnealingWarmRestarts{1e-3, 7, 2, 1e-4});
  s.kind = Kind::multistep, s.milestones = {30, 12};  // of all iterations
  check_behind(s, [](std::int64_t i) {
    return optim::MultiStepLR{1e-3, {12, 30}, 0.5}(i + warmup);
  });
}

TEST_CASE("the schedule one_cycle is PyTorch's, whose way up is the warm-up", "[schedule]") {
  const Schedule s = schedule(Kind::one_cycle, 3, 10);
  const optim::OneCycleLR expected{.max_lr = 1e-3, .total_steps = 10, .pct_start = 0.3};
  for (std::int64_t i = 0; i < 14; ++i) CHECK(s(i) == expected(i));
  CHECK(s(2) == 1e-3);
  CHECK(s(9) == Approx(1e-3 / 25e4));
  CHECK(schedule(Kind::one_cycle, 0, 0)(0) == 1e-3);
}

TEST_CASE("a schedule ends where nothing changes its rate any more", "[schedule]") {
  for (const std::string_view name : optim::kScheduleNames) {
    Schedule s = schedule(*enum_of<Kind>(name), 10, 100);
    s.step_size = 70, s.milestones = {170}, s.gamma = 0.99;
    const bool changes = s(100) != s(101) || s(101) != s(1000);
    INFO(name);
    CHECK(s.ends() == (!changes && s.kind != Kind::constant));
  }
}

TEST_CASE("a schedule that means nothing is an error that names it", "[schedule]") {
  const auto validate = [](auto change) {
    Schedule s = schedule(Kind::cosine, 100);
    change(s);
    s.validate();
  };
  CHECK_NOTHROW(validate([](Schedule&) {}));
  CHECK_THROWS_WITH(validate([](Schedule& s) { s.learning_rate = -1; }),
                    ContainsSubstring("learning_rate"));
  CHECK_THROWS_WITH(validate([](Schedule& s) { s.learning_rate = std::nan(""); }),
                    ContainsSubstring("learning_rate"));
  CHECK_THROWS_WITH(
      validate([](Schedule& s) { s.min_lr = std::numeric_limits<double>::infinity(); }),
      ContainsSubstring("min_lr"));
  CHECK_THROWS_WITH(validate([](Schedule& s) { s.warmup_iters = -1; }),
                    ContainsSubstring("warmup_iters"));
  CHECK_THROWS_WITH(validate([](Schedule& s) { s.lr_decay_iters = 99; }),
                    ContainsSubstring("lr_decay_iters 99") && ContainsSubstring("100"));
  CHECK_THROWS_WITH(validate([](Schedule& s) { s.decay_share = 1.5; }),
                    ContainsSubstring("decay_share must be from 0 to 1, not 1.5"));
  CHECK_THROWS_WITH(validate([](Schedule& s) { s.step_size = 0; }),
                    ContainsSubstring("step_size must be above 0, not 0"));
  CHECK_THROWS_WITH(validate([](Schedule& s) { s.t_mult = 0; }),
                    ContainsSubstring("t_mult must be at least 1, not 0"));
  CHECK_THROWS_WITH(validate([](Schedule& s) {
                      s.milestones = {3, -1};
                    }),
                    ContainsSubstring("milestones must be at least 0, not -1"));
  CHECK_NOTHROW(validate([](Schedule& s) {
    s.kind = Kind::constant;
    s.lr_decay_iters = 0;
  }));
}

TEST_CASE("schedules are known by their names", "[schedule]") {
  CHECK(enum_of<Kind>("constant") == Kind::constant);
  CHECK(enum_of<Kind>("linear") == Kind::linear);
  CHECK(enum_of<Kind>("cosine") == Kind::cosine);
  CHECK(enum_of<Kind>("wsd") == Kind::wsd);
  CHECK(enum_of<Kind>("step") == Kind::step);
  CHECK(enum_of<Kind>("multistep") == Kind::multistep);
  CHECK(enum_of<Kind>("exponential") == Kind::exponential);
  CHECK(enum_of<Kind>("cosine_with_restarts") == Kind::cosine_with_restarts);
  CHECK(enum_of<Kind>("one_cycle") == Kind::one_cycle);
  CHECK_FALSE(enum_of<Kind>("steep"));
}
