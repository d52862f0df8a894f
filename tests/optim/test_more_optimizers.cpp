#include "tapegrad/optim/optimizers/adagrad.h"
#include "tapegrad/optim/optimizers/adam.h"
#include "tapegrad/optim/optimizers/lion.h"
#include "tapegrad/optim/optimizers/rmsprop.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/optim/two_tensors.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;
using namespace tapegrad::testing;
using optim::Adagrad;
using optim::Adam;
using optim::Lion;
using optim::RMSprop;

namespace {

void make_steps(optim::OptimizerState& optimizer, const TwoTensors& tensors, double lr, int from,
                int to) {
  for (int t = from; t <= to; ++t) {
    optimizer.zero_grad();
    tensors.backward(t);
    optimizer.step(lr);
  }
}

// The values after `steps` steps of an optimiser that OPTIMIZER(parameters, options) makes.
template <class OPTIMIZER, class Options>
std::vector<double> values_after(const Options& options, double lr, int steps = 4) {
  const TwoTensors tensors;
  OPTIMIZER optimizer(tensors.named(), options);
  make_steps(optimizer, tensors, lr, 1, steps);
  return tensors.values();
}

}  // namespace

// torch.optim.Adam(lr=0.1, …), four steps.
TEST_CASE("Adam makes PyTorch's steps, with L2 decay or without", "[more-optimizers]") {
  CHECK(differences(values_after<Adam>(optim::AdamOptions{}, 0.1),
                    {0.656336603632672, -2.3668360733286637, 0.17533116962944648,
                     2.6434758589227534, -0.14644095755209555, -0.5992043236576773}) == "");
  CHECK(differences(
            values_after<Adam>(
                optim::AdamOptions{.beta1 = 0.8, .beta2 = 0.95, .eps = 1e-6, .weight_decay = 0.3},
                0.1),
            {0.6557637242984676, -2.353883776071935, 0.16701572379632795, 2.647593520807902,
             -0.14319173041974675, -0.5990960814793745}) == "");
}

// torch.optim.RMSprop(lr=0.01, …), four steps.
TEST_CASE("RMSprop makes PyTorch's steps, centered, with momentum and decay or without",
          "[more-optimizers]") {
  const auto run = [](const optim::RMSpropOptions& o) { return values_after<RMSprop>(o, 0.01); };
  CHECK(differences(run({}), {0.822760971868462, -2.1969483256976923, 0.34042700089421224,
                              2.8115016162465007, -0.01813690874762606, -0.7156267071673369}) ==
        "");
  CHECK(differences(run({.alpha = 0.9, .weight_decay = 0.3, .momentum = 0.8}),
                    {0.8414254464384361, -2.1462999000036764, 0.3437630877041259, 2.84474000480094,
                     0.053037266236937206, -0.7982409033143872}) == "");
  CHECK(differences(run({.alpha = 0.9, .eps = 1e-3, .momentum = 0.8, .centered = true}),
                    {0.8359950665489495, -2.1632730389252584, 0.34654599844658607,
                     2.835460053196732, 0.03240422179445379, -0.7763824533892622}) == "");
  CHECK(differences(run({.eps = 1e-3, .centered = true}),
                    {0.8220197251270684, -2.198484219471, 0.3412278231755327, 2.810119403911513,
                     -0.018914228698531356, -0.7134549635740014}) == "");
}

TEST_CASE("a variance of RMSprop that rounding takes below 0 counts as 0", "[more-optimizers]") {
  Tensor p = Tensor::full({1}, 1).set_requires_grad();
  RMSprop optimizer({{"p", p}}, {.alpha = 0.5, .centered = true});
  for (int t = 0; t < 200; ++t) {
    p.set_grad(Tensor::full({1}, 0.1 + 0.3 * (t < 3)));
    optimizer.step(1e-12);
    REQUIRE(std::isfinite(p.item()));
  }
}

// torch.optim.Adagrad(lr=0.1, …), four steps.
TEST_CASE("Adagrad makes PyTorch's steps, with decays and an initial sum or without",
          "[more-optimizers]") {
  CHECK(differences(values_after<Adagrad>(optim::AdagradOptions{}, 0.1),
                    {0.8232978879664169, -2.1962385243510183, 0.3408593895181487, 2.812144388708016,
                     -0.01728905450180332, -0.716465295320085}) == "");
  CHECK(differences(values_after<Adagrad>(optim::AdagradOptions{.lr_decay = 0.2,
                                                                .weight_decay = 0.3,
                                                                .initial_accumulator_value = 0.5,
                                                                .eps = 1e-6},
                                          0.1),
                    {0.8348142634361518, -2.1650219878251837, 0.36759437105761633,
                     2.830644065209599, 0.055010819719730666, -0.7733535839423705}) == "");
}

// Chen et al.'s algorithm 2 in PyTorch's float64, with their programs' order; PyTorch has no Lion.
TEST_CASE("Lion makes the steps of its paper's formula", "[more-optimizers]") {
  CHECK(differences(values_after<Lion>(optim::LionOptions{}, 0.1),
                    {0.6, -2.4, 0.1, 2.6, -0.15, -0.6}) == "");
  CHECK(
      differences(values_after<Lion>(
                      optim::LionOptions{.beta1 = 0.5, .beta2 = 0.8, .weight_decay = 0.3}, 0.1, 6),
                  {0.276212021359, -2.222703993428, -0.1402739811055001, 1.9421560312169994,
                   -0.34851698233775, -0.276212021359}) == "");
}

TEST_CASE("Lion leaves a weight without gradients where it is, and decays cautiously if told",
          "[more-optimizers]") {
  Tensor p = Tensor::from<double>({2, -2, 2}, {3}).set_requires_grad();
  optim::GroupRules rules{.optimizer = optim::optimizer_named("lion"),
                          .weight_decay = 0.5,
                          .decay_all = true,
                          .cautious_decay = true};
  const NamedTensors named{{"p", p}};
  optim::OptimizerState state(named, optim::make_groups(named, rules));
  p.set_grad(Tensor::from<double>({3, 3, 0}, {3}));
  state.step(0.1);
  CHECK(differences(list(p), {2 * 0.95 - 0.1, -2 - 0.1, 2 * 0.95}) == "");
}

TEST_CASE("Adam, NAdam, RMSprop, Adagrad and Lion go on from a checkpoint with the same bits",
          "[more-optimizers]") {
  const char* const name = GENERATE("adam", "nadam", "rmsprop", "adagrad", "lion");
  const TempFolder folder;
  const std::string path = (folder / "state.safetensors").string();
  optim::GroupRules rules{.optimizer = optim::optimizer_named(name), .weight_decay = 0.1};
  rules.settings.set("rmsprop_momentum", 0.5).set("rmsprop_centered", 1);
  rules.settings.set("adagrad_lr_decay", 0.1);
  const auto make = [&](const TwoTensors& tensors) {
    return optim::OptimizerState(tensors.named(), optim::make_groups(tensors.named(), rules));
  };
  const TwoTensors whole(DType::f32), parts(DType::f32);
  optim::OptimizerState unbroken = make(whole), first = make(parts);
  make_steps(unbroken, whole, 0.01, 1, 6);
  make_steps(first, parts, 0.01, 1, 3);
  save_safetensors(path, first.state(), first.metadata());
  optim::OptimizerState second = make(parts);
  second.load_state(*open_safetensors(path));
  CHECK(second.steps() == 3);
  make_steps(second, parts, 0.01, 4, 6);
  CHECK(same_bits(parts.p, whole.p));
  CHECK(same_bits(parts.b, whole.b));
}

TEST_CASE("a factor that clips multiplies the gradients of every optimiser", "[more-optimizers]") {
  const char* const name = GENERATE("adam", "nadam", "rmsprop", "adagrad", "lion");
  const auto run = [&](double gradient, double factor) {
    Tensor p = Tensor::from<double>({2, 1}, {2}).set_requires_grad();
    const NamedTensors named{{"p", p}};
    optim::GroupRules rules{
        .optimizer = optim::optimizer_named(name), .weight_decay = 0.1, .decay_all = true};
    optim::OptimizerState state(named, optim::make_groups(named, rules));
    for (int t = 1; t <= 3; ++t) {
      p.set_grad(Tensor::from<double>({gradient, t == 2 ? -gradient : gradient / 4}, {2}));
      state.step(0.1, factor);
    }
    return list(p);
  };
  CHECK(run(4, 0.25) == run(1, 1));
}

TEST_CASE("options of these optimisers that mean nothing are errors that name them",
          "[more-optimizers]") {
  const NamedTensors named = TwoTensors().named();
  CHECK_THROWS_WITH(Adam(named, {.beta1 = 1}), ContainsSubstring("[AdamOptions] beta1"));
  CHECK_THROWS_WITH(Adam(named, {.eps = 0}), ContainsSubstring("eps must be above 0, not 0"));
  CHECK_THROWS_WITH(Adam(named, {.eps = 1e-60}), ContainsSubstring("eps must be above 0"));
  CHECK_THROWS_WITH(Adam(named, {.weight_decay = -1}), ContainsSubstring("weight_decay"));
  CHECK_THROWS_WITH(RMSprop(named, {.alpha = -0.1}), ContainsSubstring("[RMSpropOptions] alpha"));
  CHECK_THROWS_WITH(RMSprop(named, {.momentum = 1}),
                    ContainsSubstring("[RMSpropOptions] momentum"));
  CHECK_THROWS_WITH(Adagrad(named, {.lr_decay = -1}),
                    ContainsSubstring("[AdagradOptions] lr_decay"));
  CHECK_THROWS_WITH(Adagrad(named, {.eps = 0}), ContainsSubstring("eps must be above 0"));
  CHECK_THROWS_WITH(Lion(named, {.beta2 = 1}), ContainsSubstring("[LionOptions] beta2"));
}

TEST_CASE("a gradient that is no number shows in Lion's weights", "[more-optimizers]") {
  const TwoTensors tensors;
  Lion lion(tensors.named());
  Tensor b = tensors.b;
  b.mutable_data<double>()[0] = std::nan("");
  tensors.backward(1);
  lion.step(0.1);
  CHECK(std::isnan(tensors.values()[0]));  // p[0] is multiplied by b
}
