#include <algorithm>
#include <string>
#include <vector>

#include "tapegrad/optim/ema.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/optim/two_tensors.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;
using namespace tapegrad::testing;
using optim::EMA;

namespace {

Tensor first_weights(DType dtype = DType::f64) {
  return Tensor::from<double>({1, -2, 0.5, 3}, {2, 2}).to(dtype).set_requires_grad();
}

// The weights after step t.
void change(Tensor w, int t) {
  std::vector<double> values;
  for (int k = 0; k < 4; ++k)
    values.push_back(((37 * k * k + 101 * k * t + 13 * t) % 29 - 14) / 16.0);
  const Tensor now = Tensor::from<double>(values, {2, 2}).to(w.dtype());
  dispatch(w.dtype(), [&](auto zero) {
    using T = decltype(zero);
    std::copy_n(now.data<T>(), 4, w.mutable_data<T>());
  });
}

std::vector<double> averages_of(const EMA& ema) { return list(ema.state()[0].second); }

}  // namespace

// torch.optim.swa_utils.AveragedModel with get_ema_multi_avg_fn(decay), 20 updates.
TEST_CASE("EMA has PyTorch's averages, in f64 and f32", "[ema]") {
  const auto [decay, expected] = GENERATE(table<double, std::vector<double>>(
      {{0.9, {0.04545054493406316, -0.0809557274676078, 0.05152261260626986, 0.035447050913286385}},
       {0.3, {0.5805607169462293, 0.640446420762984, 0.05086297253139293, -0.045964177454414924}},
       {0.999,
        {-0.0603948522994189, -0.4912014044826829, 0.06182023507522723, -0.18328079510577708}}}));
  const DType dtype = GENERATE(DType::f64, DType::f32);
  const Tensor w = first_weights(dtype);
  EMA ema({{"w", w}}, {.decay = decay});
  CHECK(averages_of(ema) == list(w));
  for (int t = 1; t <= 20; ++t) {
    change(w, t);
    ema.update();
  }
  CHECK(ema.updates() == 20);
  CHECK(differences(averages_of(ema), expected, dtype == DType::f64 ? 1e-13 : 2e-6) == "");
}

// AveragedModel with get_swa_multi_avg_fn, of the same updates. There, the share of an update is an
// f32: in f64, the exact mean differs from its eighth digit on.
TEST_CASE("the mean of all updates is PyTorch's SWA", "[ema]") {
  const DType dtype = GENERATE(DType::f64, DType::f32);
  const Tensor w = first_weights(dtype);
  EMA ema({{"w", w}}, {.mean = true});
  for (int t = 1; t <= 20; ++t) {
    change(w, t);
    ema.update();
  }
  CHECK(differences(
            averages_of(ema),
            {0.04374999943388066, -0.05624999720411713, 0.02812499650366405, 0.025000001554077934},
            dtype == DType::f64 ? 2e-7 : 2e-6) == "");
  if (dtype == DType::f64) {
    CHECK(differences(averages_of(ema), {0.04375, -0.05625, 0.028125, 0.025}, 1e-13) == "");
  }
}

TEST_CASE("averages begin with the update that is their start, and are the weights until then",
          "[ema]") {
  const bool mean = GENERATE(true, false);
  const Tensor w = first_weights();
  EMA late({{"w", w}}, {.decay = 0.75, .mean = mean, .start = 4});
  std::vector<Tensor> counted;
  for (int t = 1; t <= 6; ++t) {
    change(w, t);
    late.update();
    if (t <= 4) CHECK(averages_of(late) == list(w));
    if (t >= 4) counted.push_back(w.detach().clone());
  }
  REQUIRE(counted.size() == 3);
  std::vector<double> expected;
  for (std::int64_t k = 0; k < 4; ++k) {
    const double a = counted[0].at(k), b = counted[1].at(k), c = counted[2].at(k);
    expected.push_back(mean ? (a + b + c) / 3 : 0.5625 * a + 0.1875 * b + 0.25 * c);
  }
  CHECK(differences(averages_of(late), expected, 1e-13) == "");
}

TEST_CASE("weights and averages change places, or the weights become the averages", "[ema]") {
  const Tensor w = first_weights();
  EMA ema({{"w", w}}, {.decay = 0.5});
  ema.update();
  change(w, 1);
  ema.update();
  const std::vector<double> weights = list(w), averages = averages_of(ema);
  REQUIRE(weights != averages);
  ema.swap();
  CHECK((list(w) == averages && averages_of(ema) == weights));
  ema.swap();
  CHECK((list(w) == weights && averages_of(ema) == averages));
  ema.copy_to_parameters();
  CHECK((list(w) == averages && averages_of(ema) == averages));
  CHECK(w.requires_grad());
}

TEST_CASE("EMA goes on from a checkpoint with the same bits", "[ema]") {
  const TempFolder folder;
  const std::string path = (folder / "ema.safetensors").string();
  const Tensor w = first_weights(DType::f32);
  EMA whole({{"w", w}}), first({{"w", w}});
  const auto train = [&](EMA& ema, int from, int to) {
    for (int t = from; t <= to; ++t) {
      change(w, t);
      ema.update();
    }
  };
  train(whole, 1, 6);
  train(first, 1, 3);
  save_safetensors(path, first.state(), first.metadata());
  EMA second({{"w", w}});
  second.load_state(*open_safetensors(path));
  CHECK(second.updates() == 3);
  train(second, 4, 6);
  CHECK(same_bits(second.state()[0].second, whole.state()[0].second));
}

TEST_CASE("files that are no averages of these weights, and decays that mean nothing, are errors",
          "[ema]") {
  const TempFolder folder;
  const std::string path = (folder / "ema.safetensors").string();
  const Tensor w = first_weights();
  EMA ema({{"w", w}});
  const auto load = [&](const NamedTensors& tensors, const Metadata& metadata) {
    save_safetensors(path, tensors, metadata);
    ema.load_state(*open_safetensors(path));
  };
  CHECK_THROWS_WITH(load(ema.state(), {}), ContainsSubstring("no averages were saved here"));
  CHECK_THROWS_WITH(load(ema.state(), {{"ema.updates", "-3"}}),
                    ContainsSubstring("ema.updates is '-3', not a number from 0"));
  CHECK_THROWS_WITH(load({{"ema.v", w}}, ema.metadata()), ContainsSubstring("ema.w"));
  CHECK_THROWS_WITH(load({{"ema.w", Tensor::zeros({4}, DType::f64)}}, ema.metadata()),
                    ContainsSubstring("but the model needs"));
  CHECK(averages_of(ema) == list(w));
  CHECK_THROWS_WITH(EMA({{"w", w}}, {.decay = 1.5}),
                    ContainsSubstring("[EMAOptions] decay must be from 0 to 1, not 1.5"));
  CHECK_THROWS_WITH(EMA({{"w", w}}, {.start = 0}),
                    ContainsSubstring("[EMAOptions] start must be at least 1, not 0"));
}
