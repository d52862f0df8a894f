#include <cmath>

#include "tapegrad/autograd/derivatives.h"
#include "tapegrad/autograd/ops.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/golden/golden.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

// The arguments and functions of golden_derivatives.py.
Tensor matrix() { return Tensor::from<double>({0.5, -0.25, 0.75, 1.5, -1.0, 0.125}, {2, 3}); }
Tensor direction() { return Tensor::from<double>({1.0, 0.5, -0.5, 0.25, -2.0, 1.0}, {2, 3}); }
Tensor vector() { return Tensor::from<double>({0.3, -0.6, 0.9}, {3}); }
Tensor vector_direction() { return Tensor::from<double>({-1.0, 0.5, 2.0}, {3}); }

Tensor by_vector(const Tensor& x, const Tensor& y) {
  return reshape(matmul(x, reshape(y, {3, 1})), {2});
}
Tensor rows_of(const Tensor& x) { return sum(exp(x) * sin(x), {1}); }
Tensor number_of(const Tensor& x) { return sum(tanh(x) * cumsum(x * x, 1)); }
Tensor rows_of_two(Inputs in) { return tanh(by_vector(in[0], in[1])); }
Tensor number_of_two(Inputs in) {
  return sum(tanh(by_vector(in[0], in[1])) * select(in[0], 1, 0)) + sum(pow(in[1], 3));
}

// PyTorch's numbers in a given shape.
void check_golden(const Tensor& t, const nlohmann::json& numbers, const Shape& shape) {
  CHECK(t.shape() == shape);
  const auto expected = numbers.get<std::vector<double>>();
  CHECK(difference(t, Tensor::from(expected, shape), 1e-13, 1e-14) == "");
}

}  // namespace

TEST_CASE("Jacobians and Hessians are PyTorch's", "[derivatives]") {
  const nlohmann::json golden = golden_json("derivatives.json");
  const std::vector<Tensor> two{matrix(), vector()};
  check_golden(jacobian(rows_of, matrix()), golden["jacobian"], {2, 2, 3});
  const Grads of_two = jacobian(rows_of_two, two);
  check_golden(of_two[0], golden["jacobian_of_two"][0], {2, 2, 3});
  check_golden(of_two[1], golden["jacobian_of_two"][1], {2, 3});
  check_golden(hessian(number_of, matrix()), golden["hessian"], {2, 3, 2, 3});
  const std::vector<Grads> second = hessian(number_of_two, two);
  check_golden(second[0][0], golden["hessian_of_two"][0][0], {2, 3, 2, 3});
  check_golden(second[0][1], golden["hessian_of_two"][0][1], {2, 3, 3});
  check_golden(second[1][0], golden["hessian_of_two"][1][0], {3, 2, 3});
  check_golden(second[1][1], golden["hessian_of_two"][1][1], {3, 3});
}

TEST_CASE("products with derivatives are PyTorch's", "[derivatives]") {
  const nlohmann::json golden = golden_json("derivatives.json");
  const std::vector<Tensor> two{matrix(), vector()}, along{direction(), vector_direction()};
  const ValueAndProduct back = vjp(rows_of, matrix(), Tensor::from<double>({0.75, -1.5}, {2}));
  check_golden(back.value, golden["vjp"][0], {2});
  check_golden(back.product, golden["vjp"][1], {2, 3});
  const ValueAndProduct ahead = jvp(rows_of, matrix(), direction());
  check_golden(ahead.value, golden["jvp"][0], {2});
  check_golden(ahead.product, golden["jvp"][1], {2});
  check_golden(jvp(rows_of_two, two, along).product, golden["jvp_of_two"][1], {2});
  const ValueAndProduct second = hvp(number_of, matrix(), direction());
  check_golden(second.value, golden["hvp"][0], {});
  check_golden(second.product, golden["hvp"][1], {2, 3});
  const ValueAndProducts of_two = hvp(number_of_two, two, along);
  check_golden(of_two.products[0], golden["hvp_of_two"][1][0], {2, 3});
  check_golden(of_two.products[1], golden["hvp_of_two"][1][1], {3});
}

TEST_CASE("gradients of each example are PyTorch's", "[derivatives]") {
  const Tensor x = matrix(), y = vector().set_requires_grad();
  const Grads found = per_example_gradients(
      [&](std::int64_t i) { return pow(tanh(sum(select(x, 0, i) * y)), 2); }, 2, {y});
  check_golden(found[0], golden_json("derivatives.json")["per_example"], {2, 3});
  CHECK_FALSE(y.grad().defined());
}

TEST_CASE("derivatives that do not exist are 0, and tensors from elsewhere are constants",
          "[derivatives]") {
  const Tensor x = vector();
  const auto constant = [](const Tensor&) { return Tensor::ones({2}, DType::f64); };
  CHECK(same_bits(jacobian(constant, x), Tensor::zeros({2, 3}, DType::f64)));
  CHECK(same_bits(jvp(constant, x, x).product, Tensor::zeros({2}, DType::f64)));
  const auto itself = [](const Tensor& t) { return t; };
  CHECK(same_bits(jacobian(itself, x), Tensor::eye(3, DType::f64)));
  CHECK(same_bits(jvp(itself, x, x).product, x));
  const auto linear = [](const Tensor& t) { return sum(t); };
  CHECK(same_bits(hessian(linear, x), Tensor::zeros({3, 3}, DType::f64)));
  CHECK(same_bits(hvp(linear, x, x).product, Tensor::zeros({3}, DType::f64)));
  // Of x·x, where one x is the argument and the other one is not.
  const auto half = [&](const Tensor& t) { return sum(t * x); };
  CHECK(same_bits(vjp(half, x).product, x));
  const Grads both = jacobian([](Inputs in) { return sum(in[0] * in[1]); }, {x, x});
  CHECK(same_bits(both[0], x));
  CHECK(same_bits(both[1], x));
  const auto empty = [](const Tensor& t) { return slice(t, 0, 0, 0); };
  CHECK(jacobian(empty, x).shape() == Shape{0, 3});
}

TEST_CASE("a live tape differentiates a Jacobian", "[derivatives]") {
  const Tensor w = Tensor::scalar(3, DType::f64).set_requires_grad();
  const Tensor x = vector().set_requires_grad();
  Tape tape;
  // J is the diagonal of 3·w·x²; the sum of its squares is 9·w²·Σx⁴.
  const Tensor j = jacobian([&](const Tensor& t) { return w * t * t * t; }, x);
  tape.backward(sum(j * j));
  double fourth = 0;
  for (std::int64_t i = 0; i < 3; ++i) {
    fourth += std::pow(x.at(i), 4);
    CHECK(x.grad().at(i) == Approx(36 * 9 * std::pow(x.at(i), 3)));
  }
  CHECK(w.grad().item() == Approx(18 * 3 * fourth));
}

TEST_CASE("derivatives of functions name what does not fit", "[derivatives]") {
  const Tensor x = vector(), ids = Tensor::from<std::int32_t>({1, 2}, {2});
  const auto square = [](const Tensor& t) { return t * t; };
  CHECK_THROWS_WITH(hessian(square, x), "[hessian] f must return one number, not a tensor of (3)");
  CHECK_THROWS_WITH(hvp(square, x, x), "[hvp] f must return one number, not a tensor of (3)");
  CHECK_THROWS_WITH(hvp(number_of, x, matrix()), "[hvp] v is (2, 3) f64, but must be (3) f64");
  CHECK_THROWS_WITH(jvp(square, x, x.to(DType::f32)), ContainsSubstring("[jvp] v is (3)"));
  CHECK_THROWS_WITH(vjp(square, x),
                    ContainsSubstring("[vjp] f returns a tensor of (3), so that v"));
  CHECK_THROWS_WITH(vjp(square, x, matrix()), ContainsSubstring("[vjp] v is (2, 3)"));
  CHECK_THROWS_WITH(hvp(number_of_two, {matrix(), x}, {matrix()}),
                    "[hvp] 1 tensors v for 2 arguments");
  CHECK_THROWS_WITH(jacobian(square, ids), ContainsSubstring("has no derivative"));
  CHECK_THROWS_WITH(jacobian([](const Tensor& t) { return argmax(t, 0); }, x),
                    ContainsSubstring("[jacobian] a result of"));
  const auto row = [&](std::int64_t) { return x; };
  CHECK_THROWS_WITH(per_example_gradients(row, 2, {x}), ContainsSubstring("must be one number"));
  CHECK_THROWS_WITH(per_example_gradients(row, 0, {x}), ContainsSubstring("there are 0 examples"));
}
