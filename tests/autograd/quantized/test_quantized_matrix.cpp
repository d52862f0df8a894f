#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <optional>

#include "tapegrad/autograd/check/gradcheck.h"
#include "tapegrad/autograd/ops.h"
#include "tapegrad/autograd/quantized/internal/quantized_products.h"
#include "tapegrad/autograd/quantized/internal/weight_layouts.h"
#include "tapegrad/autograd/quantized/quantized_matrix.h"
#include "tapegrad/autograd/tape.h"
#include "tapegrad/base/half.h"
#include "tapegrad/base/parallel.h"
#include "tapegrad/base/random.h"
#include "tapegrad/tests/autograd/tensor/some_blocks.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;

namespace {

std::vector<const StoredType*> quantized_types() {
  return stored_types_where(
      [](const StoredType& t) { return QuantizedMatrix::can_quantize(t, 512); });
}

// A matrix of this type. Types that cannot be rounded to get bytes at random, with scales that are
// numbers.
StoredTensor stored(const StoredType& type, std::int64_t out, std::int64_t in, Rng& rng) {
  const std::int64_t n = out * in;
  const auto bytes = std::make_shared<std::vector<std::byte>>(
      static_cast<std::size_t>(n / type.block * type.block_bytes));
  if (type.from_f32 != nullptr) {
    const Tensor numbers = Tensor::randn({out, in}, rng);
    REQUIRE(type.from_f32(numbers.data<float>(), n, bytes->data()) == n);
  } else {
    *bytes = testing::some_blocks(type, n, rng);
  }
  const auto read = [bytes](std::uint64_t offset, std::byte* to, std::size_t count) {
    std::memcpy(to, bytes->data() + offset, count);
    return true;
  };
  return {type, {out, in}, read, "W"};
}

// x as the product sees it.
Tensor as_rounded(const Tensor& x, const quantized::WeightLayout& layout) {
  if (!layout.rounds_x) return x;
  const std::int64_t columns = x.dim(0), in = x.dim(1);
  std::vector<quantized::RoundedBlock> blocks(
      static_cast<std::size_t>(x.numel() / quantized::kRounded));
  quantized::round_to_blocks(x.data<float>(), columns, in, blocks.data());
  Tensor rounded = Tensor::empty(x.shape());
  float* to = rounded.mutable_data<float>();
  for (const quantized::RoundedBlock& block : blocks) {
    for (const std::int8_t q : block.q) *to++ = block.scale * static_cast<float>(q);
  }
  return rounded;
}

bool same_bits(const Tensor& a, const Tensor& b) { return bytes_of(a) == bytes_of(b); }

double largest(const Tensor& t) { return max(abs(t)).item(); }

}  // namespace

TEST_CASE("the embedding of a quantised weight takes ids of i64, too") {
  Rng rng(1);
  const StoredType& type = stored_type("q8_0");
  const Weight w(std::make_shared<const QuantizedMatrix>(stored(type, 37, 512, rng), type));
  CHECK(same_bits(embedding(w, Tensor::from<std::int64_t>({36, 0}, {2})),
                  embedding(w, Tensor::from<std::int32_t>({36, 0}, {2}))));
  CHECK_THROWS_AS(embedding(w, Tensor::from<std::int64_t>({std::int64_t{1} << 32}, {1})), Error);
}

TEST_CASE("a quantised matrix has the numbers of the stored one") {
  Rng rng(1);
  CHECK(quantized_types().size() == quantized::layouts().size());
  for (const StoredType* type : quantized_types()) {
    INFO(type->name);
    const StoredTensor from = stored(*type, 37, 512, rng);
    const QuantizedMatrix w(from, *type);
    CHECK(same_bits(w.dequantized(), from.widened(DType::f32)));
    const Tensor some = w.rows(Tensor::from<std::int32_t>({36, 0, 16, 36}, {2, 2}));
    CHECK(some.shape() == Shape{2, 2, 512});
    CHECK(same_bits(some.view({4, 512}).rows(1, 3),
                    concat({w.dequantized().rows(0, 1), w.dequantized().rows(16, 17)}, 0)));
    CHECK_THROWS_AS(w.rows(Tensor::from<std::int32_t>({37}, {1})), Error);
    const double file = static_cast<double>(from.bytes()) * 48 / 37;
    // mxfp4's scales of 8 bits become bf16.
    CHECK(static_cast<double>(w.bytes()) <= (type->name == "mxfp4" ? 1.06 : 1.04) * file);
  }
}

TEST_CASE("a quantised matrix that is stored transposed has the numbers of its transpose") {
  Rng rng(7);
  for (const char* name : {"f32", "f16", "bf16", "f64"}) {
    const bool is_f64 = stored_type(name).dtype == DType::f64;
    const Tensor numbers = Tensor::randn({37, 64}, rng);
    const StoredTensor plain =
        is_f64 ? StoredTensor(numbers.to(DType::f64), "W") : stored(stored_type(name), 37, 64, rng);
    const StoredTensor from = plain.transposed();
    for (const char* as : {"f32", "f16", "bf16"}) {
      INFO(name << " as " << as);
      const Tensor packed = QuantizedMatrix(from, stored_type(as)).dequantized();
      CHECK(packed.shape() == Shape{64, 37});
      const StoredTensor widened(from.widened(DType::f32), "W");
      CHECK(same_bits(packed, QuantizedMatrix(widened, stored_type(as)).dequantized()));
    }
  }
  // Of a stack of matrices, each is transposed.
  const Tensor stack = Tensor::randn({3, 70, 37}, rng);
  const StoredTensor turned = StoredTensor(stack, "W").transposed();
  CHECK(turned.shape() == Shape{3, 37, 70});
  CHECK(same_bits(turned.widened(DType::f32), permute(stack, {0, 2, 1})));
  CHECK(same_bits(QuantizedMatrix(turned.part(2), stored_type("f32")).dequantized(),
                  permute(select(stack, 0, 2), {1, 0})));
  CHECK_THROWS_WITH(turned.part(3), ContainsSubstring("has no part 3"));
  const StoredTensor becomes_blocks = stored(stored_type("f16"), 64, 40, rng).transposed();
  const StoredTensor widened(becomes_blocks.widened(DType::f32), "W");
  CHECK(same_bits(QuantizedMatrix(becomes_blocks, stored_type("q8_0")).dequantized(),
                  QuantizedMatrix(widened, stored_type("q8_0")).dequantized()));
  Tensor large = Tensor::ones({64, 37});
  large.mutable_data<float>()[5 * 37 + 3] = 1e6F;
  CHECK_THROWS_WITH(QuantizedMatrix(StoredTensor(large, "W").transposed(), stored_type("f16")),
                    ContainsSubstring("W: element (3, 5), 1000000, does not fit f16"));
}

TEST_CASE("a matrix with a value that is no number is not quantised") {
  Rng rng(8);
  for (const StoredType* type : quantized_types()) {
    const StoredTensor good = stored(*type, 20, 256, rng);
    std::vector<std::byte> bytes(good.bytes());
    REQUIRE(good.read(0, bytes.data(), bytes.size()));
    // Of each place of two bytes in turn, exponents that scales have where they are no numbers.
    int refused = 0;
    for (std::size_t at = 0; at + 1 < static_cast<std::size_t>(type->block_bytes); ++at) {
      std::vector<std::byte> broken = bytes;
      broken[broken.size() / 2 + at] = broken[broken.size() / 2 + at + 1] = std::byte{0xff};
      const auto read = [&](std::uint64_t offset, std::byte* to, std::size_t count) {
        std::memcpy(to, broken.data() + offset, count);
        return true;
      };
      const StoredTensor from(*type, good.shape(), read, "W");
      bool finite = true;
      const Tensor wide = from.widened(DType::f32);
      for (const float x : wide.values<float>()) finite &= std::isfinite(x);
      INFO(type->name << ", byte " << at);
      if (finite) {
        CHECK_NOTHROW(QuantizedMatrix(from, *type));
      } else {
        ++refused;
        CHECK_THROWS_WITH(QuantizedMatrix(from, *type),
                          ContainsSubstring("W: it has values that are not numbers"));
      }
    }
    CHECK(refused > 0);
  }
}

TEST_CASE("quantised products are those of the dequantised matrix and the rounded x") {
  Rng rng(2);
  const Tensor bias = Tensor::randn({37}, rng);
  for (const StoredType* type : quantized_types()) {
    const quantized::WeightLayout& layout = *quantized::find_layout(type->name);
    for (const std::int64_t in : {256, 1280}) {
      const auto w = std::make_shared<const QuantizedMatrix>(stored(*type, 37, in, rng), *type);
      for (const std::int64_t columns : {1, 2, 3, 7, 8, 29}) {
        INFO(type->name << " (37, " << in << "), " << columns << " columns");
        const Tensor x = Tensor::randn({columns, in}, rng);
        const Tensor y = linear(x, w, bias);
        const Tensor expected = linear(as_rounded(x, layout).to(DType::f64),
                                       w->dequantized().to(DType::f64), bias.to(DType::f64));
        CHECK(largest(y.to(DType::f64) - expected) < 2e-6 * largest(expected));
      }
    }
  }
}

TEST_CASE("a row of a quantised product does not depend on the others, or on threads") {
  Rng rng(3);
  const int before = num_threads();
  for (const StoredType* type : quantized_types()) {
    const auto w = std::make_shared<const QuantizedMatrix>(stored(*type, 203, 512, rng), *type);
    const auto other = std::make_shared<const QuantizedMatrix>(stored(*type, 40, 512, rng), *type);
    const Tensor x = Tensor::randn({45, 512}, rng);
    set_num_threads(1);
    const Tensor all = linear(x, w);
    for (const int threads : {1, 2, 3, 5}) {
      set_num_threads(threads);
      for (const std::int64_t count : {1, 2, 3, 5, 8, 13}) {
        INFO(type->name << ", " << count << " rows, " << threads << " threads");
        const std::vector<WeightAndBias> two = {{w}, {other}};
        const Tensor some = x.rows(20, 20 + count);
        CHECK(same_bits(quantized::products(some, two)[0], all.rows(20, 20 + count)));
        CHECK(same_bits(quantized::products(some, two)[1], linear(some, two[1].weight)));
      }
    }
  }
  set_num_threads(before);
}

TEST_CASE("kernels of all instruction sets give the same bits for blocks") {
  Rng rng(4);
  for (std::size_t i = 0; i < quantized::layouts().size(); ++i) {
    const quantized::WeightLayout& layout = quantized::layouts()[i];
    const StoredTensor from = stored(stored_type(layout.name), 16, 768, rng);
    const Tensor x = Tensor::randn({11, 768}, rng);
    std::vector<std::byte> bytes(from.bytes());
    REQUIRE(from.read(0, bytes.data(), bytes.size()));
    const std::uint8_t* rows[quantized::kRows];
    for (std::size_t r = 0; r < 16; ++r) {
      rows[r] = reinterpret_cast<const std::uint8_t*>(bytes.data()) + r * bytes.size() / 16;
    }
    std::vector<std::uint8_t> panel(static_cast<std::size_t>(layout.panel_bytes(768)));
    layout.pack(rows, 768, panel.data());
    std::vector<quantized::RoundedBlock> rounded(11 * 768 / quantized::kRounded);
    quantized::round_to_blocks(x.data<float>(), 11, 768, rounded.data());
    std::optional<Tensor> first;
    for (const quantized::KernelSet& set : quantized::kernel_sets()) {
      INFO(layout.name << ", " << set.name);
      Tensor y = Tensor::zeros({11, 16});
      set.kernels[i]({.panels = panel.data(),
                      .panel_bytes = layout.panel_bytes(768),
                      .in = 768,
                      .out = 16,
                      .first = 0,
                      .last = 1,
                      .columns = 11,
                      .x = x.data<float>(),
                      .rounded = rounded.data(),
                      .bias = nullptr,
                      .y = y.mutable_data<float>()});
      if (!first) first = y;
      if (layout.rounds_x) CHECK(same_bits(y, *first));
      CHECK(largest(y - *first) < 1e-5 * largest(*first));
    }
  }
}

TEST_CASE("the gradient through a quantised matrix is that of the dequantised one") {
  Rng rng(5);
  for (const StoredType* type : quantized_types()) {
    INFO(type->name);
    const auto w = std::make_shared<const QuantizedMatrix>(stored(*type, 20, 256, rng), *type);
    Tensor x = Tensor::randn({2, 3, 256}, rng).set_requires_grad();
    Tensor bias = Tensor::randn({20}, rng).set_requires_grad();
    const Tensor weights = Tensor::randn({2, 3, 20}, rng);
    const auto gradients = [&](const auto& product) {
      Tape tape;
      return tape.gradient(sum(product() * weights), {x, bias});
    };
    const Grads packed = gradients([&] { return linear(x, w, bias); });
    const Grads plain = gradients([&] { return linear(x, w->dequantized(), bias); });
    CHECK(largest(packed[0] - plain[0]) < 1e-5 * largest(plain[0]));
    CHECK(same_bits(packed[1], plain[1]));
  }
}

TEST_CASE("an x that is not finite gives no numbers") {
  Rng rng(6);
  for (const StoredType* type : quantized_types()) {
    const auto w = std::make_shared<const QuantizedMatrix>(stored(*type, 16, 256, rng), *type);
    for (const float odd : {NAN, INFINITY}) {
      INFO(type->name << ", " << odd);
      Tensor x = Tensor::randn({2, 256}, rng);
      x.mutable_data<float>()[100] = odd;
      const Tensor y = linear(x, w);
      CHECK(!std::isfinite(y.at({0, 3})));
      CHECK(std::isfinite(y.at({1, 3})));
    }
  }
}

TEST_CASE("weights that are no numbers are refused, whatever their type") {
  Rng rng(8);
  for (const StoredType* type : quantized_types()) {
    INFO(type->name);
    const StoredTensor from = stored(*type, 20, 256, rng);
    std::vector<std::byte> bytes(from.bytes());
    REQUIRE(from.read(0, bytes.data(), bytes.size()));
    // Some two bytes of each type are a half, or the upper half of a number: all bits set is NaN.
    const std::map<std::string_view, std::size_t> places = {
        {"q6_k", 208}, {"q2_k", 80}, {"q3_k", 108}};
    const auto place = places.find(type->name);
    const std::size_t at = place != places.end() ? place->second : type->block > 1 ? 0 : 2;
    bytes[at] = bytes[at + 1] = std::byte{0xFF};
    const auto read = [&](std::uint64_t offset, std::byte* to, std::size_t count) {
      std::memcpy(to, bytes.data() + offset, count);
      return true;
    };
    const StoredTensor broken(*type, {20, 256}, read, "FILE: tensor 'x'");
    CHECK_THROWS_WITH(QuantizedMatrix(broken, *type),
                      "FILE: tensor 'x': it has values that are not numbers: the file is broken");
  }
}

TEST_CASE("what cannot be quantised says why") {
  Rng rng(7);
  const auto message = [](const StoredTensor& from, const char* as) -> std::string {
    try {
      const QuantizedMatrix packed(from, stored_type(as));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const StoredTensor odd(Tensor::randn({3, 40}, rng), "FILE: tensor 'x'");
  CHECK(message(odd, "q8_0") ==
        "FILE: tensor 'x': rows of 40 elements cannot be quantised as q8_0");
  CHECK(message(odd, "i32") == "FILE: tensor 'x': rows of 40 elements cannot be quantised as i32");
  CHECK(message(StoredTensor(Tensor::zeros({3}), "FILE: tensor 'x'"), "f32") ==
        "FILE: tensor 'x' of shape (3) is no matrix");
  Tensor large = Tensor::zeros({20, 64});
  large.mutable_data<float>()[64 * 18 + 5] = 1e30F;
  CHECK(message(StoredTensor(large, "FILE: tensor 'x'"), "q8_0") ==
        "FILE: tensor 'x': element (18, 5), 1e+30, does not fit q8_0");
}
