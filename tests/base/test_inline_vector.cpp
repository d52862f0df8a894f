#include <memory>
#include <vector>

#include "tapegrad/base/inline_vector.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using List = InlineVector<int, 2>;

TEST_CASE("a short list has its elements in place, a longer one all of them side by side",
          "[inline_vector]") {
  List list;
  CHECK(list.empty());
  for (int i = 1; i <= 5; ++i) {
    list.push_back(i);
    CHECK(list.size() == static_cast<std::size_t>(i));
    CHECK(list[0] == 1);
    CHECK(list.back() == i);
    CHECK(list.end() - list.begin() == i);
  }
  CHECK(std::vector<int>(list.begin(), list.end()) == std::vector{1, 2, 3, 4, 5});
  const List copy = list;
  list[4] = 7;
  CHECK(copy == List{1, 2, 3, 4, 5});
  CHECK_FALSE(copy == list);
  CHECK(List(3, 9) == List{9, 9, 9});
}

TEST_CASE("a list that was moved from is empty", "[inline_vector]") {
  for (const List& made : {List{1, 2}, List{1, 2, 3}}) {
    List from = made;
    List to = std::move(from);
    CHECK(to == made);
    CHECK(from.empty());
    from.push_back(9);
    CHECK(from == List{9});
    to = std::move(from);
    CHECK(to == List{9});
    CHECK(from.empty());
  }
}

TEST_CASE("a list that grows holds no element twice", "[inline_vector]") {
  const auto element = std::make_shared<int>(1);
  InlineVector<std::shared_ptr<int>, 2> list;
  for (int i = 0; i < 3; ++i) list.push_back(element);
  CHECK(element.use_count() == 4);
  list[0] = nullptr;
  CHECK(element.use_count() == 3);
}
