#include <limits>

#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
using Names = std::vector<std::pair<std::string, Tensor>>;

}  // namespace

TEST_CASE("check_finite names the op, the element and the module that made the first NaN",
          "[check_finite]") {
  Tensor weight = vector({1, -1, 4}).set_requires_grad();
  const Names names = {{"h.0.gate.weight", weight}};
  const Tape tape({.check_finite = true, .names = names});
  const Tensor y = weight * 2.0;
  CHECK_THROWS_WITH(sqrt(y),
                    ContainsSubstring("[sqrt]") && ContainsSubstring("NaN at element 1 of (3)") &&
                        ContainsSubstring("forward") && ContainsSubstring("after module h.0.gate"));
  CHECK_THROWS_WITH(log(weight), ContainsSubstring("in module h.0.gate"));
  CHECK_NOTHROW(exp(y));
}

TEST_CASE("check_finite says if an op was given what is broken already", "[check_finite]") {
  Tensor weight = vector({1, kInf}).set_requires_grad();
  const Names names = {{"wte.weight", weight}};
  const Tape tape({.check_finite = true, .names = names});
  CHECK_THROWS_WITH(weight * 2.0, ContainsSubstring("input 0 (wte.weight)") &&
                                      ContainsSubstring("infinity at element 1") &&
                                      ContainsSubstring("already"));
}

TEST_CASE("check_finite names the op whose backward made the first infinity", "[check_finite]") {
  Tensor weight = vector({4, 0, 1}).set_requires_grad();
  const Names names = {{"ln.weight", weight}};
  Tape tape({.check_finite = true, .names = names});
  const Tensor loss = sum(tanh(sqrt(weight)) * 3.0);
  CHECK_THROWS_WITH(tape.backward(loss), ContainsSubstring("[sqrt]") &&
                                             ContainsSubstring("infinity at element 1 of (3)") &&
                                             ContainsSubstring("backward") &&
                                             ContainsSubstring("(ln.weight)"));
}

TEST_CASE("check_finite lets the infinities of a mask pass, but not what comes of them",
          "[check_finite]") {
  Tensor scores = vector({1, 2, 3}).set_requires_grad();
  const Tensor hidden = vector({0, 0, 1}).to(DType::u8);
  Tape tape({.check_finite = true});
  const Tensor masked = masked_fill(scores, hidden, -kInf);
  CHECK_THROWS_WITH(masked * 2.0,
                    ContainsSubstring("-infinity at element 2") && ContainsSubstring("already"));
  CHECK_NOTHROW(tape.backward(sum(pow(softmax(masked), 2))));
}

TEST_CASE("a tape without check_finite lets NaNs pass, and one with it needs no names",
          "[check_finite]") {
  Tensor x = vector({-1}).set_requires_grad();
  {
    const Tape tape;
    CHECK(std::isnan(log(x).item()));
  }
  const Tape tape({.check_finite = true});
  CHECK_THROWS_WITH(log(x), ContainsSubstring("[log]"));
}

TEST_CASE("check_finite finds one broken element among many, in both precisions",
          "[check_finite]") {
  const DType dtype = GENERATE(DType::f32, DType::f64);
  std::vector<double> values(200'003, 1.0);
  values[GENERATE(0, 65'536, 131'071, 200'002)] = -1;
  Tensor x = vector(values).to(dtype).set_requires_grad();
  const Threads threads(2);
  const Tape tape({.check_finite = true});
  CHECK_THROWS_WITH(log(x), ContainsSubstring("NaN"));
}

TEST_CASE("check_finite does not blame what only copies", "[check_finite]") {
  Tensor leaf = vector({1, 2, kInf, 4}).view({2, 2}).set_requires_grad();
  const Tape tape({.check_finite = true});
  const Tensor rows = leaf.rows(1, 2), copy = leaf.clone(), narrow = leaf.to(DType::f32);
  CHECK_THROWS_WITH(rows * 2.0, ContainsSubstring("[mul]") && ContainsSubstring("already"));
  CHECK_THROWS_WITH(copy * 2.0, ContainsSubstring("[mul]") && ContainsSubstring("already"));
  CHECK_THROWS_WITH(narrow * 2.0, ContainsSubstring("[mul]") && ContainsSubstring("already"));
  Tensor large = vector({1e300}).set_requires_grad();
  CHECK_THROWS_WITH(large.to(DType::f32), ContainsSubstring("[to] the forward made infinity"));
}
