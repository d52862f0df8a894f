#include "tapegrad/optim/sgd.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/optim/two_tensors.h"

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
