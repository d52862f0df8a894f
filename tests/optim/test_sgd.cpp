#include "tapegrad/optim/optimizers/adamw.h"
#include "tapegrad/optim/optimizers/sgd.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/optim/two_tensors.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;
using namespace tapegrad::testing;
using optim::SGD;
using optim::SGDOptions;

// torch.optim.SGD(lr=0.01, …), four steps.
TEST_CASE("SGD makes PyTorch's steps, with momentum and decay or without", "[sgd]") {
  const auto run = [](const SGDOptions& options) {
    const TwoTensors tensors;
    SGD sgd(tensors.named(), options);
    for (int t = 1; t <= 4; ++t) {
      sgd.zero_grad();
      tensors.backward(t);
      sgd.step(0.01);
    }
    return tensors.values();
  };
  CHECK(differences(run({}), {0.930879704479365, -2.2314219977315988, 0.48469688797587646,
                              2.500900837241679, 0.2114173007268687, -0.9151866791178658}) == "");
  CHECK(differences(run({.momentum = 0.9}),
                    {0.8156982864837293, -2.648517425273668, 0.4582715489628262, 1.631334811783055,
                     0.16317660777455462, -0.8065023257841658}) == "");
  CHECK(differences(run({.momentum = 0.9, .weight_decay = 0.3}),
                    {0.7906106849201959, -2.5872319163582853, 0.445206891125217, 1.564511249406999,
                     0.1572314754667162, -0.7811971548148597}) == "");
}

// torch.optim.SGD(lr=0.01, momentum=0.9, nesterov=True, …), four steps.
TEST_CASE("SGD with Nesterov momentum makes PyTorch's steps", "[sgd]") {
  const auto run = [](double weight_decay) {
    const TwoTensors tensors;
    SGD sgd(tensors.named(), {.momentum = 0.9, .weight_decay = weight_decay, .nesterov = true});
    for (int t = 1; t <= 4; ++t) {
      sgd.zero_grad();
      tensors.backward(t);
      sgd.step(0.01);
    }
    return tensors.values();
  };
  CHECK(differences(run(0), {0.773841009763541, -2.8871445044444313, 0.448033227656593,
                             1.4136671838813684, 0.1371458476679295, -0.7263315501403922}) == "");
  CHECK(differences(run(0.3), {0.7421921472356305, -2.7959827593361424, 0.431022757667588,
                               1.3362106483211642, 0.13007337498971597, -0.6946444249262511}) ==
        "");
}

// The formula of sgd.h in double, for p ← p − lr·…, with a clipped gradient.
TEST_CASE("SGD is its formula, with the factor that clips and the scale of a group", "[sgd]") {
  const bool nesterov = GENERATE(false, true);
  const double momentum = 0.8, decay = 0.25, lr = 0.5, scale = 0.125, factor = 0.3;
  Tensor p = Tensor::full({1}, 2, DType::f64).set_requires_grad();
  optim::GroupRules rules{.optimizer = optim::optimizer_named("sgd"),
                          .weight_decay = decay,
                          .decay_all = true,
                          .lr_scale = {"p=0.125"}};
  rules.settings.set("momentum", momentum).set("nesterov", nesterov ? 1 : 0);
  const NamedTensors named{{"p", p}};
  optim::OptimizerState state(named, optim::make_groups(named, rules));
  double expected = 2, b = 0;
  for (const double gradient : {3.0, -1.0, 0.5}) {
    p.set_grad(Tensor::full({1}, gradient, DType::f64));
    state.step(lr, factor);
    const double g = factor * gradient + decay * expected;
    b = momentum * b + g;
    expected -= lr * scale * (nesterov ? g + momentum * b : b);
    CHECK(differences({p.item()}, {expected}, 1e-15) == "");
  }
  CHECK(differences({state.kept(0)[0].item()}, {b}, 1e-15) == "");
}

TEST_CASE("SGD keeps its momentum in a checkpoint, and nothing without momentum", "[sgd]") {
  const TempFolder folder;
  const std::string path = (folder / "state.safetensors").string();
  const auto train = [](SGD& sgd, const TwoTensors& tensors, int from, int to) {
    for (int t = from; t < to; ++t) {
      sgd.zero_grad();
      tensors.backward(t);
      sgd.step(0.01);
    }
  };
  const SGDOptions options{.momentum = 0.9, .weight_decay = 0.1, .nesterov = true};
  const TwoTensors whole, parts;
  SGD sgd(whole.named(), options);
  train(sgd, whole, 1, 7);
  {
    SGD first(parts.named(), options);
    train(first, parts, 1, 4);
    save_safetensors(path, first.state(), first.metadata());
  }
  CHECK(load_safetensors(path).tensors.count("momentum_buffer.p") == 1);
  SGD second(parts.named(), options);
  second.load_state(*open_safetensors(path));
  CHECK(second.steps() == 3);
  train(second, parts, 4, 7);
  CHECK(same_bits(parts.p, whole.p));
  CHECK(same_bits(parts.b, whole.b));

  NamedTensors more = second.state();
  more.emplace_back("momentum_buffer.nobody", Tensor::zeros({2}));
  save_safetensors(path, more, second.metadata());
  CHECK_THROWS_WITH(
      second.load_state(*open_safetensors(path)),
      ContainsSubstring(path + ": it has 'momentum_buffer.nobody', but no parameter"));
  CHECK(second.steps() == 6);

  CHECK(SGD(whole.named()).state().empty());
  optim::AdamW other(parts.named());
  CHECK_THROWS_WITH(other.load_state(*open_safetensors(path)),
                    ContainsSubstring("the state of the optimiser sgd, and not of adamw"));
}

TEST_CASE("SGD leaves a parameter without a gradient alone", "[sgd]") {
  TwoTensors tensors;
  SGD sgd(tensors.named(), {.momentum = 0.9, .weight_decay = 0.1});
  tensors.backward(1);
  tensors.b.zero_grad();
  sgd.step(0.1);
  CHECK(list(tensors.b) == std::vector<double>{0.25, -1});
}

TEST_CASE("SGD options that mean nothing are errors that name them", "[sgd]") {
  const TwoTensors tensors;
  CHECK_THROWS_WITH(SGD(tensors.named(), {.momentum = -0.1}), ContainsSubstring("momentum"));
  CHECK_THROWS_WITH(SGD(tensors.named(), {.weight_decay = -1}), ContainsSubstring("weight_decay"));
  CHECK_THROWS_WITH(SGD(tensors.named(), {.nesterov = true}), ContainsSubstring("nesterov"));
}
