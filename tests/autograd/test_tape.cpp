#include "tapegrad/autograd/apply.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

using List = std::vector<double>;

// (a + b) / 2; counts how often its vjp runs.
Tensor middle(const Tensor& a, const Tensor& b, int& visits) {
  return apply(
      "test.middle", {a, b}, [](Inputs in, Saved&) { return (in[0] + in[1]) * 0.5; },
      [&visits](const Tensor& dy, const Saved&, const Needs&) -> Grads {
        ++visits;
        const Tensor half = dy * 0.5;
        return {half, half};
      });
}

// The identity, with a vjp of the caller's.
Tensor with_vjp(const Tensor& x, const Vjp& vjp) {
  return apply(
      "test.with_vjp", {x}, [](Inputs in, Saved&) { return in[0].clone(); }, vjp);
}

}  // namespace

TEST_CASE("a tensor that is used several times gets the sum of its gradients", "[tape]") {
  const Tensor x = vector({2, -3}).set_requires_grad();
  SECTION("as both operands") {
    Tape tape;
    tape.backward(sum(x * x));
    CHECK(list(x.grad()) == List{4, -6});
  }
  SECTION("three times") {
    Tape tape;
    tape.backward(sum(x * x * x + x));
    CHECK(list(x.grad()) == List{13, 28});
  }
  SECTION("through the branches of a diamond") {
    Tape tape;
    const Tensor y = x * 2.0;
    tape.backward(sum(y * x + exp(y * 0.0)));
    CHECK(list(x.grad()) == List{8, -12});
  }
}

TEST_CASE("backward visits each step of a doubling chain once", "[tape]") {
  const Tensor x = Tensor::scalar(1, DType::f64).set_requires_grad();
  int visits = 0;
  Tape tape;
  Tensor y = x;
  for (int i = 0; i < 150'000; ++i) y = middle(y, y, visits);
  tape.backward(y);
  CHECK(visits == 150'000);
  CHECK(x.grad().item() == 1);
}

TEST_CASE("backward takes several roots", "[tape]") {
  const Tensor x = vector({2, 5}).set_requires_grad();
  Tape tape;
  const Tensor a = sum(x * x), b = sum(x * 3.0);
  SECTION("two at once") {
    tape.backward({a, b});
    CHECK(list(x.grad()) == List{7, 13});
  }
  SECTION("the same twice") {
    tape.backward({a, a});
    CHECK(list(x.grad()) == List{8, 20});
  }
  SECTION("one that depends on another") {
    const Tensor c = a * 10.0;
    tape.backward({c, a});
    CHECK(list(x.grad()) == List{44, 110});
  }
  SECTION("each with its seed") {
    tape.backward({a, x * x}, {.seeds = {Tensor::scalar(2, DType::f64), vector({1, 10})}});
    CHECK(list(x.grad()) == List{8 + 4, 20 + 100});
  }
}

TEST_CASE("a parameter that is its own root gets the seed, as a tensor of its own", "[tape]") {
  const Tensor x = vector({2}).set_requires_grad();
  Tensor seed = vector({7});
  Tape tape;
  tape.backward(x, {.seeds = {seed}});
  seed.mutable_data<double>()[0] = 100;
  CHECK(list(x.grad()) == List{7});
}

TEST_CASE("an unused input gets no gradient", "[tape]") {
  const Tensor x = vector({2}).set_requires_grad(), unused = vector({3}).set_requires_grad();
  Tape tape;
  const Tensor y = sum(x * x), other = unused * 2.0;
  const Grads grads = tape.gradient(y, {x, unused}, {.keep = true});
  CHECK(list(grads[0]) == List{4});
  CHECK_FALSE(grads[1].defined());
  tape.backward(y);
  CHECK_FALSE(unused.grad().defined());
}

TEST_CASE("backward says what is wrong with a root or a seed", "[tape]") {
  const Tensor x = vector({2, 3}).set_requires_grad();
  Tape tape;
  const Tensor y = x * 2.0;
  CHECK_THROWS_WITH(tape.backward(vector({1, 2, 3})),
                    ContainsSubstring("[backward] the root of shape (3) does not depend"));
  CHECK_THROWS_WITH(tape.backward(y), ContainsSubstring("[backward] the root has shape (2)"));
  CHECK_THROWS_WITH(tape.backward(y, {.seeds = {vector({1})}}),
                    ContainsSubstring("the seed is (1) f64 but the root is (2) f64"));
  CHECK_THROWS_WITH(tape.backward(y, {.seeds = {Tensor::ones({2})}}),
                    ContainsSubstring("the seed is (2) f32 but the root is (2) f64"));
  CHECK_THROWS_WITH(tape.backward({y, y}, {.seeds = {vector({1, 1})}}),
                    ContainsSubstring("2 roots but 1 seeds"));
  CHECK_THROWS_WITH(tape.gradient(sum(y), {vector({1})}),
                    ContainsSubstring("[gradient] this tape does not track a tensor of shape (1)"));
  // None of these has used the tape up.
  tape.backward(y, {.seeds = {vector({1, 1})}});
  CHECK(list(x.grad()) == List{2, 2});
}

TEST_CASE("a tape runs backward once, or as often as it is kept", "[tape]") {
  Rng rng(1);
  const Tensor x = parameter(rng, {1, 3, 12}), w = parameter(rng, {12});
  Tape tape;
  // Ops that keep statistics of their own beside their inputs.
  const Tensor y = sum(attention(layer_norm(x, w), 2)) +
                   cross_entropy(reshape(x, {3, 12}), ids({1, 2, 3})) + sum(softmax(gelu(x)));
  SECTION("once") {
    tape.backward(y);
    CHECK_THROWS_WITH(tape.backward(y), ContainsSubstring("pass {.keep = true} the first time"));
  }
  SECTION("twice, which doubles the gradients") {
    tape.backward(y, {.keep = true});
    const Tensor once = x.grad().clone(), once_w = w.grad().clone();
    tape.backward(y);
    CHECK(same_bits(x.grad(), once + once));
    CHECK(same_bits(w.grad(), once_w + once_w));
  }
}

TEST_CASE("micro-batches accumulate to the gradient of the whole batch", "[tape]") {
  Rng rng(3);
  const Tensor w = parameter(rng, {4, 6}), x = normal(rng, {12, 6});
  std::vector<std::int32_t> targets(12);
  for (auto& t : targets) t = static_cast<std::int32_t>(rng.randint(4));
  {
    Tape tape;
    tape.backward(cross_entropy(linear(x, w), ids(targets)));
  }
  Tensor v = w.clone();
  v.set_requires_grad();
  for (int k = 0; k < 4; ++k) {
    Tape tape;
    const std::vector<std::int32_t> part(targets.begin() + 3 * k, targets.begin() + 3 * k + 3);
    tape.backward(cross_entropy(linear(x.rows(3 * k, 3 * k + 3), v), ids(part)) / 4.0);
  }
  CHECK(difference(v.grad(), w.grad(), 1e-12, 1e-14) == "");
}

TEST_CASE("an accumulated gradient is not shared with anybody", "[tape]") {
  const Tensor a = vector({1, 2}).set_requires_grad(), b = vector({3, 4}).set_requires_grad();
  for (int i = 1; i <= 2; ++i) {
    const Tensor before = a.grad();
    Tape tape;
    tape.backward(sum(a + b));  // a and b get the very same gradient from the vjp
    if (before.defined())
      CHECK(list(before) == List{9, 1});  // a handle from outside stays as it is
    Tensor grad = a.grad();
    grad.mutable_data<double>()[0] = 9;
    CHECK(list(b.grad()) == List(2, i));
    CHECK(list(a.grad()) == List{9, static_cast<double>(i)});
  }
}

TEST_CASE("an exception inside a vjp leaves the engine usable", "[tape]") {
  const Tensor x = vector({2}).set_requires_grad();
  {
    Tape tape;
    const Tensor y = sum(with_vjp(x * 3.0, [](const Tensor&, const Saved&, const Needs&) -> Grads {
      throw std::runtime_error("boom");
    }));
    CHECK_THROWS_WITH(tape.backward(y), "boom");
    CHECK_THROWS_AS(tape.backward(y), Error);  // half of it is gone
    CHECK_FALSE(x.grad().defined());
  }
  Tape tape;
  tape.backward(sum(x * x));
  CHECK(list(x.grad()) == List{4});
}

TEST_CASE("an exception inside a forward leaves the engine usable", "[tape]") {
  const Tensor x = vector({2}).set_requires_grad();
  Tape tape;
  const Tensor y = x * x;
  CHECK_THROWS_AS(matmul(y, vector({1, 2})), Error);
  CHECK_THROWS_AS(apply(
                      "test.thrower", {y}, [](Inputs, Saved&) -> Tensor { throw 1; }, Vjp()),
                  int);
  tape.backward(sum(y));
  CHECK(list(x.grad()) == List{4});
}

TEST_CASE("a vjp that returns the wrong gradients is an error that names the op", "[tape]") {
  const Tensor x = vector({2, 3}).set_requires_grad();
  const auto run = [&](const Grads& grads) {
    Tape tape;
    tape.backward(
        sum(with_vjp(x, [&](const Tensor&, const Saved&, const Needs&) { return grads; })));
  };
  CHECK_THROWS_WITH(run({vector({1})}),
                    "[test.with_vjp] the vjp returned a gradient of (1) f64 for input "
                    "0, which is (2) f64");
  CHECK_THROWS_WITH(run({Tensor::ones({2})}),
                    ContainsSubstring("[test.with_vjp] the vjp returned a gradient of (2) f32"));
  CHECK_THROWS_WITH(run({vector({1, 1}), vector({1})}),
                    ContainsSubstring("[test.with_vjp] the vjp returned 2 gradients for 1 inputs"));
}

TEST_CASE("two identical backwards are bit-equal, with the inputs' dtypes and shapes", "[tape]") {
  Rng rng(4);
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor x = parameter(rng, {2, 70, 24}, dtype), w = parameter(rng, {24}, dtype);
    const auto run = [&] {
      Tape tape;
      const Tensor y = mean(gelu(attention(layer_norm(x, w), 2)));
      return tape.gradient(y, {x, w});
    };
    const Grads first = run(), again = run();
    CHECK(first[0].shape() == x.shape());
    CHECK(first[0].dtype() == dtype);
    CHECK(same_bits(first[0], again[0]));
    CHECK(same_bits(first[1], again[1]));
  }
}

TEST_CASE("backward hands out each parameter's gradient as soon as no step adds to it", "[tape]") {
  const Tensor first = vector({2, -3}).set_requires_grad();
  const Tensor twice = vector({5, 7}).set_requires_grad();
  const Tensor unused = vector({1, 1}).set_requires_grad();
  std::vector<std::string> events;
  std::vector<Tensor> gradients;
  const auto pass = [&](const std::string& name, const Tensor& x) {
    return apply(
        "test.pass", {x}, [](Inputs in, Saved&) { return in[0].clone(); },
        [&events, name](const Tensor& dy, const Saved&, const Needs&) -> Grads {
          events.push_back(name);
          return {dy};
        });
  };
  Tape tape;
  const Tensor a = pass("early", twice * 1.0) * first;
  const Tensor b = pass("late", a) * twice;
  tape.backward(sum(b), {.take = [&](const Tensor& parameter, const Tensor& gradient) {
                  events.push_back(parameter.id() == first.id() ? "first" : "twice");
                  gradients.push_back(gradient);
                }});
  CHECK(events == std::vector<std::string>{"late", "first", "early", "twice"});
  REQUIRE(gradients.size() == 2);
  CHECK(list(gradients[0]) == List{25, 49});
  CHECK(list(gradients[1]) == List{2 * 2 * 5, 2 * -3 * 7});
  CHECK(!first.grad().defined());
  CHECK(!twice.grad().defined());
}

TEST_CASE("a parameter that is the root itself is handed out, too", "[tape]") {
  const Tensor x = Tensor::scalar(3, DType::f64).set_requires_grad();
  int taken = 0;
  Tape tape;
  const Tensor y = x * 2.0;
  tape.backward({x, y}, {.take = [&](const Tensor&, const Tensor& gradient) {
                  ++taken;
                  CHECK(gradient.item() == 3);
                }});
  CHECK(taken == 1);
}

TEST_CASE("who takes a gradient may watch tensors, and may not run the tape again", "[tape]") {
  const Tensor x = Tensor::scalar(3, DType::f64).set_requires_grad();
  const Tensor y = Tensor::scalar(4, DType::f64).set_requires_grad();
  const Tensor z = Tensor::scalar(5, DType::f64).set_requires_grad();
  Tape tape;
  const Tensor product = z * 2.0;
  int taken = 0;
  const auto take = [&](const Tensor& parameter, const Tensor&) {
    ++taken;
    for (int i = 0; i < 1000; ++i) tape.watch(Tensor::scalar(i, DType::f64));
    if (parameter.id() == z.id()) {
      CHECK_THROWS_WITH(tape.backward(product), ContainsSubstring("is running backward already"));
    }
  };
  tape.backward({x, y, product}, {.keep = true, .take = take});
  CHECK(taken == 3);
}
