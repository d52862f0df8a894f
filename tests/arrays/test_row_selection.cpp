#include <cmath>
#include <numeric>
#include <vector>

#include "tapegrad/arrays/row_selection.h"
#include "tapegrad/autograd/ops.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/golden/golden.h"

using namespace tapegrad;
using namespace tapegrad::testing;
using arrays::Rows;

namespace {

using Numbers = std::vector<std::int64_t>;

Tensor numbered(std::int64_t rows) {
  return Tensor::arange(0, static_cast<double>(rows), 1, DType::i64);
}

}  // namespace

TEST_CASE("random_split draws PyTorch's rows", "[row_selection]") {
  const nlohmann::json golden = golden_json("row_selection.json");
  for (const auto& split : golden["splits"]) {
    INFO(split.dump());
    const std::int64_t rows = split["rows"];
    const bool shares = split["lengths"][0].is_number_float();
    const Numbers lengths =
        shares ? arrays::split_lengths(rows, split["lengths"]) : split["lengths"].get<Numbers>();
    Rng rng(split["seed"].get<std::uint64_t>());
    const Tensor x = numbered(rows), doubled = stack({x, x * 2}, 1).to(DType::f32);
    const std::vector<Rows> parts = arrays::random_split({x, doubled}, lengths, rng);
    REQUIRE(parts.size() == split["parts"].size());
    for (std::size_t i = 0; i < parts.size(); ++i) {
      CHECK(parts[i][0].to_vector<std::int64_t>() == split["parts"][i].get<Numbers>());
      CHECK(parts[i][1].shape() == Shape{lengths[i], 2});
      for (std::int64_t r = 0; r < lengths[i]; ++r) {
        CHECK(parts[i][1].at({r, 1}) == 2 * parts[i][0].at(r));
      }
    }
  }
}

TEST_CASE("weighted_sample draws PyTorch's rows", "[row_selection]") {
  const nlohmann::json golden = golden_json("row_selection.json");
  const std::vector<double> weights = golden["weights"];
  for (const auto& sample : golden["samples"]) {
    INFO(sample.dump());
    Rng rng(sample["seed"].get<std::uint64_t>());
    const Numbers expected = sample["rows"];
    CHECK(arrays::weighted_sample(weights, std::ssize(expected), rng, sample["replacement"]) ==
          expected);
  }
}

TEST_CASE("a loader with weights draws each epoch by them, and resumes to the row",
          "[row_selection]") {
  const arrays::ArrayLoader::Options options{.batch_size = 3, .weights = {1, 0, 6, 3}};
  arrays::ArrayLoader loader({numbered(4)}, options, Rng(7)), other({numbered(4)}, options, Rng(1));
  std::vector<int> counts(4);
  for (int i = 0; i < 2000; ++i) {
    const Tensor rows = loader.next()[0];
    CHECK(rows.numel() == (i % 2 == 0 ? 3 : 1));
    for (std::int64_t k = 0; k < rows.numel(); ++k) ++counts[static_cast<std::size_t>(rows.at(k))];
  }
  CHECK(counts[1] == 0);
  CHECK(counts[0] == Approx(400).margin(80));
  CHECK(counts[2] == Approx(2400).margin(160));
  loader.next();
  other.set_state(loader.state());
  for (int i = 0; i < 5; ++i) {
    CHECK(other.next()[0].to_vector<std::int64_t>() == loader.next()[0].to_vector<std::int64_t>());
  }
}

TEST_CASE("the selection of rows names what does not fit", "[row_selection]") {
  Rng rng(1);
  const Tensor x = numbered(5);
  const auto sample = [&](const std::vector<double>& weights, std::int64_t n, bool repeat = true) {
    arrays::weighted_sample(weights, n, rng, repeat);
  };
  CHECK_THROWS_WITH(arrays::random_split({x}, {3, 1}, rng),
                    "[random_split] the lengths leave 1 of 5 rows over");
  CHECK_THROWS_WITH(arrays::random_split({x}, {3, 3}, rng), ContainsSubstring("3 does not fit"));
  CHECK_THROWS_WITH(arrays::random_split({x}, {6, -1}, rng), ContainsSubstring("6 does not fit"));
  CHECK_THROWS_WITH(arrays::random_split({x, numbered(4)}, {5}, rng),
                    ContainsSubstring("arrays need as many rows each"));
  CHECK_THROWS_WITH(arrays::random_split({}, {}, rng), ContainsSubstring("there are no arrays"));
  CHECK_THROWS_WITH(arrays::split_lengths(5, {0.5, 0.4}), ContainsSubstring("sum is 0.9"));
  CHECK_THROWS_WITH(arrays::split_lengths(5, {1.5, -0.5}), ContainsSubstring("share of 1.5"));
  CHECK_THROWS_WITH(arrays::split_lengths(5, {NAN}), ContainsSubstring("share of nan"));
  CHECK_THROWS_WITH(arrays::split_lengths(5, {}), ContainsSubstring("sum is 0"));
  CHECK_THROWS_WITH(arrays::rows_at({x}, Numbers{0, 5}), "[rows] there is no row 5: there are 5");
  const Tensor parameter = Tensor::ones({2}).set_requires_grad();
  const Tape tape;
  CHECK_THROWS_WITH(arrays::rows_at({parameter}, Numbers{0}), ContainsSubstring("arrays"));
  CHECK_THROWS_WITH(sample({0, 0}, 1), "[weighted_sample] all 2 weights are 0");
  CHECK_THROWS_WITH(sample({}, 1), "[weighted_sample] all 0 weights are 0");
  CHECK_THROWS_WITH(sample({1, -1}, 1), ContainsSubstring("weight -1 at index 1"));
  CHECK_THROWS_WITH(sample({1e308, 1e308}, 2), ContainsSubstring("sum of the weights is not"));
  CHECK_THROWS_WITH(sample({1, 0, 1}, 3, false), ContainsSubstring("3 rows cannot be drawn of 2"));
  CHECK_THROWS_WITH(sample({1}, 0), ContainsSubstring("0 rows cannot be drawn"));
  CHECK_THROWS_WITH(arrays::ArrayLoader({x}, {.weights = {1, 2}}, Rng(1)),
                    ContainsSubstring("[loader] 2 weights need shuffle, and as many rows"));
  CHECK_THROWS_WITH(
      arrays::ArrayLoader({x}, {.shuffle = false, .weights = {1, 1, 1, 1, 1}}, Rng(1)),
      ContainsSubstring("[loader] 5 weights need shuffle"));
}
