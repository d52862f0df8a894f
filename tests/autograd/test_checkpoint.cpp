#include <optional>

#include "tapegrad/base/memory/memory.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

// A small transformer block with dropout, of the kind that is checkpointed.
Tensor block(const Tensor& x, const Tensor& w, const Tensor& norm, Rng* rng) {
  const Tensor h = attention(linear(layer_norm(x, norm), w), 2, {.dropout = 0.2, .rng = rng});
  return x + dropout(gelu(h), 0.3, *rng);
}

}  // namespace

TEST_CASE("a checkpoint gives bit-equal gradients with dropout inside", "[checkpoint]") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    Rng init(2);
    const Tensor x = parameter(init, {2, 6, 8}, dtype), w = parameter(init, {24, 8}, dtype);
    const Tensor norm = parameter(init, {8}, dtype);
    const auto run = [&](bool checkpointed) {
      Rng rng(9);
      Tape tape;
      const auto f = [&](Inputs in, Rng* r) { return block(in[0], w, norm, r); };
      Tensor y = x;
      for (int layer = 0; layer < 2; ++layer) {
        y = checkpointed ? checkpoint(f, {y}, &rng) : block(y, w, norm, &rng);
      }
      const Tensor loss = mean(y * y);
      CHECK(tape.saved_bytes() < (checkpointed ? 20U : 200U) * x.bytes());
      Grads grads = tape.gradient(loss, {x, w, norm});
      grads.push_back(loss);
      grads.push_back(Tensor::scalar(rng.uniform()));  // the stream goes on as without it
      return grads;
    };
    const Grads plain = run(false), again = run(true);
    for (std::size_t i = 0; i < plain.size(); ++i) CHECK(same_bits(plain[i], again[i]));
  }
}

TEST_CASE("a checkpoint accumulates into the parameters that it uses", "[checkpoint]") {
  const Tensor w = vector({2, 3}).set_requires_grad(), x = vector({5, 7});
  Tape tape;
  const Tensor y = checkpoint([&](Inputs in, Rng*) { return in[0] * w * w; }, {x});
  tape.backward(sum(y));
  CHECK(list(w.grad()) == std::vector<double>{20, 42});
}

TEST_CASE("a checkpoint of a function that returns a tensor as it got it", "[checkpoint]") {
  const Tensor w = vector({2, 3}).set_requires_grad(), x = vector({5, 7}).set_requires_grad();
  Rng rng(1);
  SECTION("an input") {
    Tape tape;
    const Tensor y = checkpoint([](Inputs in, Rng* r) { return dropout(in[0], 0, *r); }, {x}, &rng);
    tape.backward(sum(y * y));
    CHECK(list(x.grad()) == std::vector<double>{10, 14});
  }
  SECTION("a parameter from outside") {
    Tape tape;
    const Tensor y = checkpoint([&](Inputs, Rng*) { return w; }, {x});
    tape.backward(sum(y * x));
    CHECK(list(w.grad()) == std::vector<double>{5, 7});
    CHECK(list(x.grad()) == std::vector<double>{2, 3});
  }
  SECTION("something that depends on no parameter") {
    Tape tape;
    const Tensor y = checkpoint([](Inputs, Rng*) { return vector({1, 2}); }, {x});
    tape.backward(sum(y * x));
    CHECK(list(x.grad()) == std::vector<double>{1, 2});
  }
}

TEST_CASE("a checkpoint within a checkpoint, and one input given twice", "[checkpoint]") {
  const Tensor x = vector({2, 3}).set_requires_grad();
  Tape tape;
  const auto inner = [](Inputs in, Rng*) { return in[0] * in[1]; };
  const auto outer = [&](Inputs in, Rng*) { return checkpoint(inner, {in[0], in[0]}) * in[0]; };
  tape.backward(sum(checkpoint(outer, {x})));
  CHECK(list(x.grad()) == std::vector<double>{12, 27});
}

TEST_CASE("a checkpoint notices that an input was changed", "[checkpoint]") {
  Tensor x = vector({2, 3}).set_requires_grad();
  Tape tape;
  const Tensor y = sum(checkpoint([](Inputs in, Rng*) { return in[0] * in[0]; }, {x}));
  x.mutable_data<double>()[0] = 5;
  CHECK_THROWS_WITH(tape.backward(y), ContainsSubstring("[checkpoint]"));
}

TEST_CASE("a checkpoint keeps its inputs, and in memory nothing else", "[checkpoint]") {
  Rng init(3), rng(9);  // Kind::torch, whose dropout stores its decisions
  const Tensor x = parameter(init, {2, 40, 8}), w = parameter(init, {24, 8});
  const Tensor norm = parameter(init, {8});
  const auto f = [&](Inputs in, Rng* r) { return block(in[0], w, norm, r); };
  const std::size_t before = memory_stats().live;
  Tape tape;
  const Tensor y = checkpoint(f, {x}, &rng);
  CHECK(tape.size() > 4);
  CHECK(tape.saved_bytes() == x.bytes() + w.bytes() + norm.bytes());
  CHECK(memory_stats().live == before + y.bytes());
  tape.gradient(y, {x}, {.seeds = {y}, .keep = true});
  CHECK(memory_stats().live == before + y.bytes());
}

TEST_CASE("a kept tape runs a checkpoint again for every backward", "[checkpoint]") {
  Rng init(4), rng(9);
  const Tensor x = parameter(init, {2, 6, 8}), w = parameter(init, {24, 8});
  const Tensor norm = parameter(init, {8});
  Tape tape;
  const Tensor y =
      sum(checkpoint([&](Inputs in, Rng* r) { return block(in[0], w, norm, r); }, {x}, &rng));
  const Grads once = tape.gradient(y, {x, w, norm}, {.keep = true});
  const Grads twice = tape.gradient(y, {x, w, norm});
  for (std::size_t i = 0; i < once.size(); ++i) CHECK(same_bits(once[i], twice[i]));
}

TEST_CASE("second derivatives go through a checkpoint", "[checkpoint]") {
  Rng init(5);
  const Tensor x = parameter(init, {3, 8}), w = parameter(init, {8, 8});
  const auto f = [&](Inputs in, Rng*) { return gelu(linear(layer_norm(in[0]), w)) * in[0]; };
  const auto second = [&](bool checkpointed) {
    Tape outer;
    Grads first;
    {
      Tape inner;
      first = inner.gradient(sum(checkpointed ? checkpoint(f, {x}) : f(std::vector{x}, nullptr)),
                             {x, w});
    }
    return outer.gradient(sum(first[0] * first[0]) + sum(first[1] * first[1]), {x, w});
  };
  const Grads plain = second(false), again = second(true);
  for (std::size_t i = 0; i < plain.size(); ++i) CHECK(same_bits(plain[i], again[i]));
}

TEST_CASE("a checkpoint of a function with a tape of its own", "[checkpoint]") {
  const Tensor x = vector({2, 3}).set_requires_grad();
  const auto f = [](Inputs in, Rng*) {
    Tape inner;
    return inner.gradient(sum(in[0] * in[0] * in[0]), {in[0]})[0] * in[0];  // 3x³
  };
  Tape tape;
  tape.backward(sum(checkpoint(f, {x})));
  CHECK(list(x.grad()) == std::vector<double>{9 * 4, 9 * 9});
}

TEST_CASE("a checkpoint's function must do the same again", "[checkpoint]") {
  const Tensor x = vector({2, 3}).set_requires_grad();
  int runs = 0;
  const auto run = [&](const CheckpointFunction& f) {
    runs = 0;
    Tape tape;
    tape.backward(sum(checkpoint(f, {x})));
  };
  CHECK_THROWS_WITH(
      run([&](Inputs in, Rng*) { return ++runs == 1 ? exp(tanh(in[0])) : exp(exp(in[0])); }),
      ContainsSubstring(
          "[checkpoint] run again, the function called exp where it had called tanh"));
  CHECK_THROWS_WITH(
      run([&](Inputs in, Rng*) { return ++runs == 1 ? exp(exp(in[0])) : exp(in[0]); }),
      ContainsSubstring("called 1 ops, not 2"));
  CHECK_THROWS_WITH(run([&](Inputs in, Rng*) {
                      Tensor h = in[0] * 2.0;
                      const Tensor y = h * h;
                      h.mutable_data<double>()[0] = 7;
                      return y;
                    }),
                    ContainsSubstring("[checkpoint] a tensor of shape (2)"));
}

TEST_CASE("a checkpoint notices that a parameter it uses was changed", "[checkpoint]") {
  const Tensor x = vector({2, 3}).set_requires_grad();
  Tensor shift = vector({1, 1}).set_requires_grad();  // which no gradient needs by itself
  Tape tape;
  const Tensor y = sum(checkpoint([&](Inputs in, Rng*) { return exp(in[0] + shift); }, {x}));
  shift.mutable_data<double>()[0] = 5;
  CHECK_THROWS_WITH(tape.backward(y), ContainsSubstring("[checkpoint]"));
}

TEST_CASE("a weak handle finds its tensor while it lives, and another takes its id", "[tensor]") {
  std::optional<Tensor> t(vector({1, 2}));
  const std::uint64_t id = t->id();
  CHECK(Tensor::newest_id() >= id);
  const Tensor::Weak weak(*t);
  CHECK(weak.lock().id() == id);
  t.reset();
  CHECK_FALSE(weak.lock().defined());
  CHECK(vector({1, 2}).with_id(id).id() == id);
}
