#include <thread>

#include "tapegrad/autograd/apply.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

using List = std::vector<double>;

// One step, if x is tracked.
Tensor square(const Tensor& x) { return x * x; }

}  // namespace

TEST_CASE("ops are recorded only while a tape lives and only on what it tracks", "[tape]") {
  const Tensor x = vector({2}).set_requires_grad(), constant = vector({3});
  const Tensor before = x * x;
  Tape tape;
  CHECK(tape.size() == 0);
  square(constant);
  square(before);
  CHECK(tape.size() == 0);
  const Tensor y = x * constant;
  square(y);
  CHECK(tape.size() == 2);
  CHECK(tape.tracks(y));
  CHECK_FALSE(tape.tracks(before));
  tape.watch(constant);
  square(constant);
  CHECK(tape.size() == 3);
  CHECK_THROWS_AS(tape.watch(ids({1})), Error);
}

TEST_CASE("a pause stops recording, and ends with an exception too", "[tape]") {
  const Tensor x = vector({2}).set_requires_grad();
  Tape tape;
  {
    const TapePause pause;
    square(x);
    {
      const TapePause again;
      square(x);
    }
    square(x);
    Tape inner;  // younger than the pause
    square(x);
    CHECK(inner.size() == 1);
  }
  CHECK(tape.size() == 0);
  try {
    const TapePause pause;
    throw 1;
  } catch (int) {
  }
  square(x);
  CHECK(tape.size() == 1);
}

TEST_CASE("tapes may end in any order, within a pause too", "[tape]") {
  const Tensor x = vector({2}).set_requires_grad();
  std::optional<Tape> first(std::in_place), second(std::in_place);
  first.reset();
  square(x);
  CHECK(second->size() == 1);
  Tape third;
  {
    const TapePause pause;
    second.reset();
    Tape fourth;
    square(x);
    CHECK(fourth.size() == 1);
  }
  CHECK(third.size() == 0);
  square(x);
  CHECK(third.size() == 1);
}

TEST_CASE("ids and targets that are changed before backward are noticed", "[tape]") {
  Rng rng(5);
  const Tensor w = parameter(rng, {3, 4});
  Tensor ids = Tensor::from<std::int32_t>({0, 1, 2}, {3});
  {
    Tape tape;
    const Tensor y = sum(gather_rows(w, ids));
    ids.mutable_data<std::int32_t>()[0] = 2;
    CHECK_THROWS_WITH(tape.backward(y), ContainsSubstring("[gather_rows]"));
  }
  {
    Tape tape;
    const Tensor y = cross_entropy(w, ids);
    ids.mutable_data<std::int32_t>()[0] = 1000000;
    CHECK_THROWS_WITH(tape.backward(y), ContainsSubstring("[cross_entropy]"));
  }
}

TEST_CASE("a forward that returns its input is an error that names the op", "[tape]") {
  Rng rng(5);
  const Tensor w = parameter(rng, {2});
  const Tape tape;
  CHECK_THROWS_WITH(apply(
                        "test.same", {w}, [](Inputs in, Saved&) { return in[0]; },
                        [](const Tensor& dy, const Saved&, const Needs&) -> Grads { return {dy}; }),
                    ContainsSubstring("[test.same]"));
}

TEST_CASE("parameters do not share a gradient while another tape records", "[tape]") {
  Rng rng(5);
  const Tensor a = parameter(rng, {1}), b = parameter(rng, {1});
  const Tape outer;
  Tape inner;
  inner.backward(sum(a + b));
  Tensor grad = a.grad();
  grad.mutable_data<double>()[0] = 7;
  CHECK(b.grad().item() == 1);
}

TEST_CASE("gradients that nobody asked for are not computed", "[tape]") {
  Rng rng(5);
  const Tensor x = normal(rng, {2}), w = parameter(rng, {2});
  Needs seen;
  Tape tape;
  tape.watch(x);
  const Tensor y = apply(
      "test.product", {x, w}, [](Inputs in, Saved&) { return in[0] * in[1]; },
      [&](const Tensor& dy, const Saved&, const Needs& needs) -> Grads {
        seen = needs;
        return {dy, {}};
      });
  tape.gradient(sum(y), {x});
  CHECK(seen == Needs{true, false});
}

TEST_CASE("a recorded tensor that is changed before backward is an error that names the op",
          "[tape]") {
  Tensor x = vector({2, 3}).set_requires_grad();
  Tensor y = vector({5, 7});
  SECTION("an input") {
    Tape tape;
    const Tensor z = sum(x * y);
    y.mutable_data<double>()[0] = 0;
    CHECK_THROWS_WITH(tape.backward(z), ContainsSubstring("[mul] a tensor of shape (2)") &&
                                            ContainsSubstring("was changed"));
  }
  SECTION("an output, through a view of it") {
    Tape tape;
    const Tensor z = exp(x);
    const Tensor s = sum(z);
    Tensor view = z.view({1, 2});
    view.mutable_data<double>()[1] = 0;
    CHECK_THROWS_WITH(tape.backward(s), ContainsSubstring("[exp]"));
  }
  SECTION("one that its gradient does not need") {
    Tape tape;
    const Tensor z = sum(x + y);
    y.mutable_data<double>()[0] = 0;
    tape.backward(z);
    CHECK(list(x.grad()) == List{1, 1});
  }
  SECTION("after backward") {
    Tape tape;
    tape.backward(sum(x * y));
    x.mutable_data<double>()[0] = 0;
    y.mutable_data<double>()[0] = 0;
    CHECK(list(x.grad()) == List{5, 7});
  }
}

TEST_CASE("recording is per thread", "[tape]") {
  const Tensor x = vector({2}).set_requires_grad();
  Tape tape;
  std::thread([&] { square(x); }).join();
  CHECK(tape.size() == 0);
}

TEST_CASE("ten threads with tapes and parameters of their own", "[tape]") {
  std::vector<std::thread> threads;
  std::vector<Tensor> grads(10);
  for (std::size_t i = 0; i < 10; ++i) {
    threads.emplace_back([&, i] {
      Rng rng(i);
      const Tensor x = parameter(rng, {40, 40});
      for (int k = 0; k < 20; ++k) {
        Tape tape;
        tape.backward(sum(tanh(matmul(x, x))));
      }
      grads[i] = x.grad();
    });
  }
  for (auto& thread : threads) thread.join();
  for (std::size_t i = 0; i < 10; ++i) {
    Rng rng(i);
    const Tensor x = parameter(rng, {40, 40});
    Tape tape;
    tape.backward(sum(tanh(matmul(x, x))));
    CHECK(difference(grads[i], x.grad() * 20.0, 1e-12, 1e-12) == "");
  }
}

TEST_CASE("ten threads that share a parameter add up their gradients", "[tape]") {
  const Tensor x = Tensor::full({10'000}, 0.5, DType::f64).set_requires_grad();
  std::vector<std::thread> threads;
  for (int i = 0; i < 10; ++i) {
    threads.emplace_back([&, i] {
      for (int k = 0; k < 200; ++k) {
        Tape tape;
        tape.backward(sum(x * static_cast<double>(i)));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(list(x.grad()) == List(10'000, 200.0 * 45));
}
