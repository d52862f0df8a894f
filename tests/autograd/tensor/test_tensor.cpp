#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "tapegrad/autograd/kernels/elementwise.h"
#include "tapegrad/autograd/tensor/tensor.h"
#include "tapegrad/base/memory/memory.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::testing;

using List = std::vector<double>;

TEST_CASE("check throws the formatted text, and only when the rule is broken", "[tensor]") {
  check(true, "never {}", 1);
  CHECK_THROWS_WITH(check(false, "[op] {} is not {}", 1, "two"), "[op] 1 is not two");
  CHECK_THROWS_AS(fail("text"), Error);
}

TEST_CASE("a shape counts its elements and refuses impossible sizes", "[tensor]") {
  CHECK(Shape{}.numel() == 1);
  CHECK(Shape{2, 3}.numel() == 6);
  CHECK(Shape{2, 0, 3}.numel() == 0);
  const std::int64_t huge = std::int64_t{1} << 40;
  CHECK(Shape{huge, huge, 0}.numel() == 0);
  CHECK_THROWS_WITH((Shape{huge, huge}.numel()),
                    ContainsSubstring("more elements than can be counted"));
  CHECK_THROWS_WITH((Shape{2, -1}.numel()), "a shape cannot have the negative size of (2, -1)");
  CHECK_THROWS_WITH((Shape{1, 1, 1, 1, 1, 1, 1, 1, 1}), ContainsSubstring("at most 8 dimensions"));
  CHECK((Shape{2, 3}[-1]) == 3);
  CHECK_THROWS_WITH((Shape{2, 3}[2]), "there is no dimension 2 in a tensor of rank 2");
  CHECK_THROWS_AS((Shape{2, 3}[-3]), Error);
  CHECK(Shape{2, 3}.without(0) == Shape{3});
  CHECK(Shape{2, 3}.without(-1) == Shape{2});
  CHECK(Shape{2, 3}.inserted(2, 5) == Shape{2, 3, 5});
  CHECK(Shape{2, 3}.with(-1, 7).str() == "(2, 7)");
  CHECK_THROWS_AS((Shape{1, 1, 1, 1, 1, 1, 1, 1}.inserted(0, 1)), Error);
}

TEST_CASE("tensors are made from values, and know their element", "[tensor]") {
  CHECK(list(Tensor::full({2, 2}, 3, DType::i32)) == List{3, 3, 3, 3});
  CHECK(list(Tensor::from<float>({1, 2}, {2, 1})) == List{1, 2});
  CHECK_THROWS_WITH(Tensor::from<float>({1, 2}, {3}), "2 values do not fill a tensor of shape (3)");
  CHECK(Tensor::scalar(2.5, DType::f64).item() == 2.5);
  CHECK_THROWS_WITH(Tensor::zeros({2}).item(),
                    "item() needs a tensor of one element, not of shape (2)");
  CHECK_THROWS_WITH(Tensor::zeros({2}).at(2), "there is no element 2 in a tensor of shape (2)");
  CHECK_THROWS_WITH(Tensor::zeros({2}).data<double>(), "expected a tensor of f64, not of f32");
  CHECK_THROWS_WITH(Tensor().shape(), "an undefined tensor was used");
  CHECK_FALSE(Tensor().requires_grad());
  CHECK(list(Tensor::from<double>({1.75, -2.5}, {2}).to(DType::i32)) == List{1, -2});
}

TEST_CASE("a tensor on another owner's memory keeps that owner", "[tensor]") {
  const auto owner = std::make_shared<std::vector<float>>(std::vector<float>{1, 2, 3, 4});
  Tensor x = Tensor::from_blob(owner->data(), {2, 2}, DType::f32, owner);
  CHECK(owner.use_count() == 2);
  CHECK_FALSE(x.sole_owner());  // so that no gradient is added up there
  x.mutable_data<float>()[3] = 40;
  CHECK(*owner == std::vector<float>{1, 2, 3, 40});
  {
    const Tensor row = x.rows(1, 2), copy = row.clone();
    x = Tensor();
    CHECK(owner.use_count() == 2);
    CHECK(list(row) == List{3, 40});
    CHECK(copy.sole_owner());
  }
  CHECK(owner.use_count() == 1);
}

TEST_CASE("memory that cannot be a tensor's is refused", "[tensor]") {
  const auto owner = std::make_shared<std::vector<float>>(4);
  auto* const bytes = reinterpret_cast<std::byte*>(owner->data());
  CHECK_THROWS_WITH(Tensor::from_blob(bytes + 1, {2}, DType::f32, owner),
                    "[from_blob] the address is not a multiple of 4, the size of f32");
  CHECK_THROWS_WITH(Tensor::from_blob(nullptr, {2}, DType::f32, owner),
                    "[from_blob] no memory for a tensor of shape (2)");
  CHECK_THROWS_WITH(Tensor::from_blob(bytes, {2}, DType::f32, nullptr),
                    "[from_blob] memory needs an owner that keeps it valid");
  CHECK(Tensor::from_blob(nullptr, {0, 3}, DType::f32, owner).numel() == 0);
}

TEST_CASE("data that was released is asked for where it is needed", "[tensor]") {
  Tensor x = vector({1, 2, 3, 4});
  const Tensor rows = x.view({2, 2}).rows(1, 2);
  const auto version = x.version();
  const std::size_t before = memory_stats().live;
  int asked = 0;
  const auto bring = [&]() -> void* {
    ++asked;
    x.restore_data();
    const List values{5, 6, 7, 8};
    std::copy(values.begin(), values.end(), const_cast<double*>(x.data<double>()));
    return nullptr;
  };
  x.release_data(bring);
  CHECK(memory_stats().live < before);
  CHECK(rows.shape() == Shape{1, 2});
  CHECK(asked == 0);
  CHECK(list(rows) == List{7, 8});  // a view asks for the data that it shares
  CHECK(list(x) == List{5, 6, 7, 8});
  CHECK(asked == 1);
  CHECK(x.version() == version);

  x.release_data([]() -> void* { fail("it is far away"); });
  CHECK_THROWS_WITH(rows.at(0), "it is far away");
  List elsewhere{9, 10, 11, 12};
  x.release_data([&]() -> void* { return elsewhere.data(); });
  CHECK(list(rows) == List{11, 12});
  x.restore_data();
  x.mutable_data<double>()[3] = 1;
  CHECK(rows.at(1) == 1);

  Tensor none = Tensor::zeros({0});
  none.release_data([]() -> void* { fail("nobody asks"); });
  CHECK(list(none.to(DType::f64)).empty());
  Tensor part = x.rows(1, 3);
  CHECK_THROWS_WITH(part.release_data({}),
                    "[release_data] the tensor has a part of its memory alone");
  const auto owner = std::make_shared<List>(2);
  Tensor borrowed = Tensor::from_blob(owner->data(), {2}, DType::f64, owner);
  CHECK_THROWS_WITH(borrowed.release_data({}), "[release_data] the memory is of another owner");
}

TEST_CASE("views share the data, and a clone does not", "[tensor]") {
  Tensor x = vector({1, 2, 3, 4, 5, 6});
  const Tensor view = x.view({3, -1}), rows = view.rows(1, 3), copy = view.clone();
  const Tensor part = rows.clone();
  CHECK(rows.shape() == Shape{2, 2});
  CHECK(rows.id() != x.id());
  const auto version = x.version();
  x.mutable_data<double>()[2] = 30;
  CHECK(view.version() == version + 1);
  CHECK(list(view) == List{1, 2, 30, 4, 5, 6});
  CHECK(list(rows) == List{30, 4, 5, 6});
  CHECK(list(rows.rows(1, 2)) == List{5, 6});
  CHECK(list(copy) == List{1, 2, 3, 4, 5, 6});
  CHECK(list(part) == List{3, 4, 5, 6});
  CHECK_FALSE(x.sole_owner());
  CHECK(copy.sole_owner());
  CHECK_THROWS_WITH(x.view({4, 2}), "[reshape] (6) has 6 elements, (4, 2) has 8");
  CHECK_THROWS_WITH(view.rows(2, 4), "rows 2 to 4 do not exist in (3, 2)");
  CHECK_THROWS_WITH(Tensor::scalar(1).rows(0, 1), "a scalar has no rows");
  CHECK(Tensor::zeros({0, 4}).view({2, 0}).shape() == Shape{2, 0});
}

TEST_CASE("a gradient has its tensor's shape and dtype", "[tensor]") {
  Tensor x = vector({1, 2}).set_requires_grad();
  CHECK_FALSE(x.grad().defined());
  CHECK_THROWS_WITH(x.set_grad(vector({1})), ContainsSubstring("(1) f64 for (2) f64"));
  CHECK_THROWS_WITH(x.set_grad(Tensor::zeros({2})), ContainsSubstring("(2) f32 for (2) f64"));
  x.set_grad(vector({3, 4}));
  CHECK(list(x.grad()) == List{3, 4});
  x.set_grad({});
  CHECK_FALSE(x.grad().defined());
  CHECK_THROWS_WITH(ids({1}).set_requires_grad(), "a tensor of i32 cannot have a gradient");
}

TEST_CASE("add_in_place wants equal shapes", "[tensor]") {
  Tensor x = vector({1, 2});
  add_in_place(x, vector({10, 20}));
  CHECK(list(x) == List{11, 22});
  CHECK_THROWS_WITH(add_in_place(x, vector({1})), ContainsSubstring("[add_in_place] (1) f64"));
}
