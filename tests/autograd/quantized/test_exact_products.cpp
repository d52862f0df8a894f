// Products for training: of x as it is, with some rows of a quantised matrix at a time.

#include <cstring>

#include "tapegrad/autograd/ops.h"
#include "tapegrad/autograd/quantized/internal/quantized_products.h"
#include "tapegrad/autograd/quantized/quantized_matrix.h"
#include "tapegrad/autograd/tape.h"
#include "tapegrad/base/memory/dry_run.h"
#include "tapegrad/base/parallel.h"
#include "tapegrad/base/random.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/autograd/tensor/some_blocks.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using testing::same_bits;

namespace {

std::vector<const StoredType*> all_quantized_types() {
  return stored_types_where(
      [](const StoredType& t) { return QuantizedMatrix::can_quantize(t, 256); });
}

std::shared_ptr<const QuantizedMatrix> quantized_as(const StoredType& type, std::int64_t out,
                                                    std::int64_t in, Rng& rng) {
  if (type.from_f32 == nullptr) {
    const auto bytes = testing::some_blocks(type, out * in, rng);
    const auto read = [&](std::uint64_t offset, std::byte* to, std::size_t count) {
      std::memcpy(to, bytes.data() + offset, count);
      return true;
    };
    return std::make_shared<const QuantizedMatrix>(StoredTensor(type, {out, in}, read, "W"), type);
  }
  const StoredTensor numbers(Tensor::randn({out, in}, rng), "W");
  return std::make_shared<const QuantizedMatrix>(numbers, type);
}

double distance(const Tensor& a, const Tensor& b) {
  return max(abs(a.to(DType::f64) - b.to(DType::f64))).item() / max(abs(b)).item();
}

struct Outcome {
  std::vector<Tensor> y;
  Tensor dx;
};

// The outputs of two layers and the gradient of their x.
template <class Layers>
Outcome outcome_of(const Tensor& from, const Layers& layers) {
  Tensor x = from.clone().set_requires_grad();
  Tape tape;
  Outcome made{layers(x), {}};
  tape.backward(sum(made.y[0] * made.y[0]) + sum(made.y[1] * made.y[1]) * 0.5);
  made.dx = x.grad();
  return made;
}

}  // namespace

TEST_CASE("exact quantised products and their gradients are those of the dequantised matrix") {
  Rng rng(1);
  const int before = num_threads();
  for (const StoredType* type : all_quantized_types()) {
    INFO(type->name);
    // More rows than are dequantised at once, and a rest.
    const auto w = quantized_as(*type, 4111, 256, rng), v = quantized_as(*type, 33, 256, rng);
    const Tensor x = Tensor::randn({2, 9, 256}, rng) * 0.1, bias = Tensor::randn({33}, rng);
    const Outcome plain = outcome_of(x, [&](const Tensor& in) -> std::vector<Tensor> {
      return {linear(in, w->dequantized()), linear(in, v->dequantized(), bias)};
    });
    const auto exact = [&](const Tensor& in) {
      const std::vector<WeightAndBias> two = {{Weight::exactly(w)}, {Weight::exactly(v), bias}};
      return quantized::products(in, two);
    };
    set_num_threads(1);
    const Outcome one = outcome_of(x, exact);
    CHECK(distance(one.y[0], plain.y[0]) < 2e-6);
    CHECK(distance(one.y[1], plain.y[1]) < 2e-6);
    CHECK(distance(one.dx, plain.dx) < 2e-6);
    for (const int threads : {2, 4}) {
      set_num_threads(threads);
      const Outcome many = outcome_of(x, exact);
      CHECK(same_bits(many.y[0], one.y[0]));
      CHECK(same_bits(many.y[1], one.y[1]));
      CHECK(same_bits(many.dx, one.dx));
    }
    set_num_threads(before);
  }
}

TEST_CASE("rows that are kept apart go by the kernels for texts, exact or not, and others do not") {
  Rng rng(2);
  const auto w = quantized_as(stored_type("q8_0"), 40, 256, rng);
  for (const std::int64_t rows : {1, 5}) {
    const Tensor x = Tensor::randn({rows, 256}, rng);
    const Weight exact = Weight::exactly(w);
    CHECK(distance(linear(x, exact), linear(x, w->dequantized())) < 2e-6);
    const BatchInvariant apart;
    CHECK(same_bits(linear(x, exact), linear(x, w)));
  }
}

TEST_CASE(
    "the loss of a quantised head is that of the dequantised one, and its logits never exist") {
  Rng rng(3);
  const auto head = quantized_as(stored_type("q4_0"), 4111, 256, rng);
  Tensor x = (Tensor::randn({450, 256}, rng) * 0.1).set_requires_grad();
  std::vector<std::int32_t> ids(450);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = i % 7 == 0 ? -100 : static_cast<int>(i * 9);
  const Tensor targets = Tensor::from(ids, {450});
  const auto gradient = [&](const auto& loss_of) {
    Tape tape;
    const Tensor loss = loss_of();
    x.zero_grad();
    tape.backward(loss);
    return std::pair(loss.item(), x.grad().clone());
  };
  for (const double cap : {0.0, 3.0}) {
    const auto [loss, dx] = gradient(
        [&] { return linear_cross_entropy(x, Weight::exactly(head), targets, -100, cap); });
    const auto [expected, expected_dx] =
        gradient([&] { return linear_cross_entropy(x, head->dequantized(), targets, -100, cap); });
    CHECK(loss == Approx(expected).epsilon(1e-6));
    CHECK(distance(dx, expected_dx) < 5e-6);
  }
  constexpr std::int64_t kMany = 4000;
  const DryRun dry;
  const Tensor rows = Tensor::zeros({kMany, 256}).set_requires_grad();
  Tape tape;
  tape.backward(
      linear_cross_entropy(rows, Weight::exactly(head), Tensor::zeros({kMany}, DType::i32)));
  CHECK(dry.peak() < std::size_t{kMany} * 4111 * sizeof(float) / 2);
}
