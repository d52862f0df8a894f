// The members of Tensor that give a tensor from a tensor: what tapes record of them, where
// gradients end, and what happens to data that they share.

#include <functional>

#include "tapegrad/autograd/ops.h"
#include "tapegrad/autograd/profile.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

using Member = std::function<Tensor(const Tensor&)>;

Tensor twos_that_learn() { return Tensor::full({2, 3}, 2).set_requires_grad(); }

// d sum(w + 2·member(w)) / dw of the first element.
double slope_beside(const Member& member) {
  Tensor w = twos_that_learn();
  Tape tape;
  tape.backward(sum(w * 1.0) + 2.0 * sum(member(w)));
  return w.grad().at(0);
}

}  // namespace

TEST_CASE("gradients flow through clone, to, view and rows as in PyTorch", "[tensor_members]") {
  CHECK(slope_beside([](const Tensor& w) { return w.clone(); }) == 3);
  CHECK(slope_beside([](const Tensor& w) { return w.to(DType::f32); }) == 3);
  CHECK(slope_beside([](const Tensor& w) { return w.to(DType::f64).to(DType::f32); }) == 3);
  CHECK(slope_beside([](const Tensor& w) { return w.view({6}); }) == 3);
  CHECK(slope_beside([](const Tensor& w) { return w.view({2, 3}); }) == 3);
  CHECK(slope_beside([](const Tensor& w) { return w.rows(0, 1); }) == 3);
  CHECK(slope_beside([](const Tensor& w) { return w.rows(1, 2); }) == 1);
  CHECK(slope_beside([](const Tensor& w) { return w[0]; }) == 3);
}

TEST_CASE("a gradient ends at detach and where a TapePause lives", "[tensor_members]") {
  CHECK(slope_beside([](const Tensor& w) { return w.detach(); }) == 1);
  CHECK(slope_beside([](const Tensor& w) { return w.detach().clone(); }) == 1);
  CHECK(slope_beside([](const Tensor& w) {
          const TapePause pause;
          return w.clone() * w.view({2, 3}) * w.rows(0, 2);
        }) == 1);
}

TEST_CASE("the gradient of to() has the dtype of what was converted", "[tensor_members]") {
  Tensor w = Tensor::full({2}, 3, DType::f32).set_requires_grad();
  Tape tape;
  const Tensor wide = w.to(DType::f64);
  CHECK(tape.tracks(wide));
  tape.backward(sum(wide * wide));
  CHECK(w.grad().dtype() == DType::f32);
  CHECK(list(w.grad()) == std::vector<double>{6, 6});
}

TEST_CASE("members of what no tape tracks, and of integers, are not recorded", "[tensor_members]") {
  const Tensor w = twos_that_learn(), constant = Tensor::ones({4, 3});
  const Tape tape;
  for (const Tensor& t : {constant, constant > 0.0, ids({1, 2, 3})}) {
    CHECK_FALSE(tape.tracks(t.clone()));
    CHECK_FALSE(tape.tracks(t.view({-1})));
    CHECK_FALSE(tape.tracks(t.rows(0, 2)));
    CHECK_FALSE(tape.tracks(t.to(DType::f64)));
  }
  CHECK_FALSE(tape.tracks(w.to(DType::i32)));
  CHECK_FALSE(tape.tracks(w.detach()));
  CHECK(tape.size() == 0);
}

TEST_CASE("a checkpoint runs clone, to, view and rows again", "[tensor_members]") {
  const auto f = [](Inputs in, Rng*) {
    const Tensor h = tanh(in[0].rows(0, 2).clone().to(DType::f64)), constant = Tensor::ones({2, 2});
    return sum(h.view({-1}) * h.view({-1}) * constant.to(DType::f64).rows(1, 2).at(0));
  };
  Rng rng(1);
  const Tensor w = parameter(rng, {3, 2}, DType::f32);
  std::vector<Tensor> gradients;
  for (const bool again : {false, true}) {
    Tape tape;
    const Tensor loss = again ? checkpoint(f, {w}) : f(std::array{w}, nullptr);
    gradients.push_back(tape.gradient(loss, {w})[0]);
  }
  CHECK(gradients[0].at(0) != 0);
  CHECK(same_bits(gradients[0], gradients[1]));
}

TEST_CASE("an op in place on a view of what a tape tracks is an error that names the op",
          "[tensor_members]") {
  Tensor w = twos_that_learn();
  Tensor of_parameter = w.rows(0, 1);
  Tape tape;
  const Tensor h = w * 2.0;
  const auto refuses = [](Tensor view) {
    CHECK_THROWS_WITH(view *= 5.0, ContainsSubstring("[*=]") && ContainsSubstring("live tape"));
    CHECK_THROWS_WITH(fill(view, 0), ContainsSubstring("[assign]"));
  };
  refuses(h.rows(0, 1));
  refuses(h.view({6}).rows(0, 3));
  refuses(of_parameter);
  {
    const TapePause pause;
    of_parameter = h.rows(1, 2).view({3});
    of_parameter *= 1.0;  // which is how one says that it is meant
  }
  refuses(of_parameter);
  tape.backward(sum(h));
  CHECK(w.grad().at(0) == 2);
  of_parameter *= 5.0;  // backward is over
}

TEST_CASE("writing to a detached tensor changes its source, and backward finds it where it matters",
          "[tensor_members]") {
  Tensor w = twos_that_learn();
  {
    Tape tape;
    const Tensor h = w * 2.0;
    Tensor same = h.detach();
    same *= 5.0;
    const Tensor loss = sum(h);  // whose gradient needs no h: PyTorch sees 20, and the slope 2
    CHECK(loss.item() == 120);
    tape.backward(loss);
    CHECK(w.grad().at(0) == 2);
  }
  for (const auto& write : std::vector<std::function<void(Tensor)>>{
           [](Tensor h) { h.detach().rows(0, 1).mutable_data<float>()[0] = 1; },
           [](Tensor h) {
             Tensor same = h.detach().view({6});
             same += 1.0;
           }}) {
    Tape tape;
    const Tensor saved = exp(w * 2.0), loss = sum(saved * saved);
    write(saved);
    CHECK_THROWS_WITH(tape.backward(loss), ContainsSubstring("was changed after the op had run"));
  }
}
