#include <limits>

#include "tapegrad/optim/lr_schedulers.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/optim/two_tensors.h"

using namespace tapegrad;
using namespace tapegrad::testing;
using optim::CosineAnnealingWarmRestarts;
using optim::ExponentialLR;
using optim::MultiStepLR;
using optim::OneCycleLR;
using optim::ReduceLROnPlateau;
using optim::StepLR;

namespace {

template <class Scheduler>
std::vector<double> first_rates(const Scheduler& rate, std::int64_t n) {
  std::vector<double> rates;
  for (std::int64_t i = 0; i < n; ++i) rates.push_back(rate(i));
  return rates;
}

// The rate before each metric is known, as PyTorch's loops have it.
std::vector<double> rates_of(ReduceLROnPlateau plateau) {
  std::vector<double> rates;
  for (const double metric : {1.0, 0.9, 0.9, 0.89999, 0.91, 0.92, 0.5, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6,
                              0.6, 0.4, 0.5, 0.5, 0.5, 0.5}) {
    rates.push_back(plateau.lr);
    plateau.step(metric);
  }
  return rates;
}

}  // namespace

// torch.optim.lr_scheduler.StepLR(step_size=3, gamma=0.5)
TEST_CASE("StepLR has PyTorch's rates", "[lr-schedulers]") {
  CHECK(differences(first_rates(StepLR{.learning_rate = 0.8, .step_size = 3, .gamma = 0.5}, 10),
                    {0.8, 0.8, 0.8, 0.4, 0.4, 0.4, 0.2, 0.2, 0.2, 0.1}) == "");
  CHECK_THROWS_WITH(StepLR{.step_size = 0}(1), "[StepLR] step_size must be above 0, not 0");
}

// torch.optim.lr_scheduler.MultiStepLR([2, 5, 5, 9], gamma=0.5) and ([7, 3], gamma=0.1)
TEST_CASE("MultiStepLR has PyTorch's rates, milestones in any order, once or twice",
          "[lr-schedulers]") {
  CHECK(differences(
            first_rates(MultiStepLR{.learning_rate = 0.8, .milestones = {9, 5, 2, 5}, .gamma = 0.5},
                        11),
            {0.8, 0.8, 0.4, 0.4, 0.4, 0.1, 0.1, 0.1, 0.1, 0.05, 0.05}) == "");
  CHECK(differences(first_rates(MultiStepLR{.learning_rate = 0.8, .milestones = {7, 3}}, 9),
                    {0.8, 0.8, 0.8, 0.08, 0.08, 0.08, 0.08, 0.008, 0.008}) == "");
  CHECK(MultiStepLR{.learning_rate = 0.8}(100) == 0.8);
  CHECK_THROWS_WITH((MultiStepLR{.milestones = {3, -1}}(1)),
                    "[MultiStepLR] milestones must be at least 0, not -1");
}

// torch.optim.lr_scheduler.ExponentialLR(gamma=0.9)
TEST_CASE("ExponentialLR has PyTorch's rates", "[lr-schedulers]") {
  CHECK(differences(
            first_rates(ExponentialLR{.learning_rate = 0.8, .gamma = 0.9}, 8),
            {0.8, 0.7200000000000001, 0.6480000000000001, 0.5832000000000002, 0.5248800000000001,
             0.47239200000000015, 0.42515280000000016, 0.3826375200000002}) == "");
}

// torch.optim.lr_scheduler.CosineAnnealingWarmRestarts
TEST_CASE("CosineAnnealingWarmRestarts has PyTorch's rates, cycles alike or ever longer",
          "[lr-schedulers]") {
  CHECK(differences(first_rates(CosineAnnealingWarmRestarts{.learning_rate = 0.8, .t_0 = 4}, 10),
                    {0.8, 0.682842712474619, 0.4, 0.11715728752538102, 0.8, 0.682842712474619, 0.4,
                     0.11715728752538102, 0.8, 0.682842712474619}) == "");
  CHECK(differences(first_rates(
                        CosineAnnealingWarmRestarts{
                            .learning_rate = 0.8, .t_0 = 3, .t_mult = 2, .eta_min = 0.1},
                        12),
                    {0.8, 0.625, 0.27500000000000013, 0.8, 0.7531088913245536, 0.625,
                     0.45000000000000007, 0.27500000000000013, 0.14689110867544647, 0.8,
                     0.7880740392011739, 0.7531088913245536}) == "");
}

TEST_CASE("CosineAnnealingWarmRestarts ends for the largest numbers, and refuses small ones",
          "[lr-schedulers]") {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  CHECK(CosineAnnealingWarmRestarts{.learning_rate = 1, .t_0 = 2, .t_mult = most}(2) == 1);
  CHECK(CosineAnnealingWarmRestarts{.learning_rate = 1, .t_0 = 1}(most) == 1);
  const double last = CosineAnnealingWarmRestarts{.learning_rate = 1, .t_0 = 1, .t_mult = 2}(most);
  CHECK((last >= 0 && last <= 1));
  CHECK_THROWS_WITH(CosineAnnealingWarmRestarts{.t_0 = 0}(0),
                    ContainsSubstring("t_0 must be above"));
  CHECK_THROWS_WITH(CosineAnnealingWarmRestarts{.t_mult = 0}(0),
                    ContainsSubstring("t_mult must be at least 1, not 0"));
  CHECK_THROWS_WITH(CosineAnnealingWarmRestarts{}(-1),
                    ContainsSubstring("iteration must be at least 0, not -1"));
}

// torch.optim.lr_scheduler.OneCycleLR
TEST_CASE("OneCycleLR has PyTorch's rates, with two phases or three", "[lr-schedulers]") {
  const std::vector<double> usual{0.040000000000000036,
                                  0.52,
                                  1.0,
                                  0.9504846320134737,
                                  0.8117456539497631,
                                  0.6112620219362893,
                                  0.38874197806371075,
                                  0.18825834605023697,
                                  0.049519367986526286,
                                  4e-06};
  const OneCycleLR ten{.max_lr = 1, .total_steps = 10};
  CHECK(differences(first_rates(ten, 10), usual, 1e-10) == "");
  CHECK(ten(11) == ten(9));
  CHECK(differences(
            first_rates(OneCycleLR{.max_lr = 2,
                                   .total_steps = 12,
                                   .pct_start = 0.4,
                                   .anneal = OneCycleLR::Anneal::linear,
                                   .div_factor = 10,
                                   .final_div_factor = 100},
                        12),
            {0.2, 0.6736842105263157, 1.1473684210526314, 1.621052631578947, 1.9445000000000001,
             1.6670000000000003, 1.3895000000000002, 1.112, 0.8345000000000002, 0.5569999999999999,
             0.2795000000000001, 0.0020000000000000018}) == "");
  CHECK(differences(
            first_rates(
                OneCycleLR{.max_lr = 2, .total_steps = 12, .pct_start = 0.4, .three_phase = true},
                12),
            {0.08000000000000007, 0.38980969123928855, 1.1192761716534387, 1.7975748890205376,
             1.9869068512666137, 1.5650702317975305, 0.8043339323448337, 0.19570519884177112,
             0.07729915928725663, 0.05094942495092307, 0.01590102508337528, 8e-06},
            1e-10) == "");
  CHECK(differences(
            first_rates(OneCycleLR{.max_lr = 2, .total_steps = 5, .pct_start = 0.0001}, 5),
            {1.809165473479043, 1.309199039956575, 0.6911077688941065, 0.19102717847265596, 8e-06},
            1e-10) == "");
}

TEST_CASE("OneCycleLR that peaks at once, and options of it that mean nothing", "[lr-schedulers]") {
  CHECK(OneCycleLR{.max_lr = 2, .total_steps = 4, .pct_start = 0.25}(0) == 2);
  CHECK_THROWS_WITH(OneCycleLR{.total_steps = 0}(0),
                    ContainsSubstring("total_steps must be above"));
  CHECK_THROWS_WITH(OneCycleLR{.pct_start = 1.5}(0), ContainsSubstring("pct_start must be from 0"));
  CHECK_THROWS_WITH(OneCycleLR{.div_factor = 0}(0), ContainsSubstring("div_factor"));
}

// torch.optim.lr_scheduler.ReduceLROnPlateau
TEST_CASE("ReduceLROnPlateau has PyTorch's rates", "[lr-schedulers]") {
  CHECK(rates_of({.lr = 0.8, .factor = 0.5, .patience = 2}) ==
        std::vector<double>{0.8, 0.8, 0.8, 0.8, 0.8, 0.4, 0.4, 0.4, 0.4, 0.4, 0.2, 0.2, 0.2, 0.1,
                            0.1, 0.1, 0.1, 0.1, 0.05});
  CHECK(rates_of({.lr = 0.8,
                  .factor = 0.5,
                  .patience = 1,
                  .threshold = 0.02,
                  .absolute = true,
                  .cooldown = 2,
                  .min_lr = 0.15}) == std::vector<double>{0.8, 0.8, 0.8, 0.8, 0.4, 0.4, 0.4, 0.4,
                                                          0.4, 0.2, 0.2, 0.2, 0.2, 0.15, 0.15, 0.15,
                                                          0.15, 0.15, 0.15});
  std::vector<double> falling;
  for (int i = 0; i < 19; ++i) falling.push_back(0.8 * std::pow(0.1, i < 3 ? 0 : (i - 1) / 2));
  falling.back() = falling[17];
  CHECK(differences(rates_of({.lr = 0.8, .patience = 1, .threshold = 0.1, .maximize = true}),
                    falling, 1e-8) == "");
}

TEST_CASE("ReduceLROnPlateau takes NaN for no improvement, and refuses a factor of 1",
          "[lr-schedulers]") {
  ReduceLROnPlateau plateau{.lr = 0.5, .factor = 0.5, .patience = 1};
  const double nan = std::numeric_limits<double>::quiet_NaN();
  plateau.step(nan);
  CHECK(plateau.step(nan) == 0.25);
  CHECK(plateau.step(1) == 0.25);
  CHECK(plateau.best == 1);
  plateau.factor = 1;
  CHECK_THROWS_WITH(plateau.step(1), ContainsSubstring("factor must be between 0 and 1, not 1"));
}
