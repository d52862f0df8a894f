#include <atomic>

#include "tapegrad/arrays/array_loader.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::testing;
using arrays::ArrayLoader;
using arrays::Rows;

namespace {

// Row i of the inputs is (i, i + 0.5), and of the labels 2·i.
Rows ten_rows() {
  std::vector<float> inputs;
  std::vector<std::int32_t> labels;
  for (int i = 0; i < 10; ++i) {
    inputs.insert(inputs.end(), {static_cast<float>(i), static_cast<float>(i) + 0.5F});
    labels.push_back(2 * i);
  }
  return {Tensor::from(inputs, {10, 2}), Tensor::from(labels, {10})};
}

// Adds noise to the inputs.
Rows with_noise(Rows batch, Rng& rng) {
  float* x = batch[0].mutable_data<float>();
  for (std::int64_t i = 0; i < batch[0].numel(); ++i) x[i] += rng.uniform();
  return batch;
}

// The rows of the next batches, as numbers.
std::vector<std::vector<int>> next_rows(ArrayLoader& loader, int batches) {
  std::vector<std::vector<int>> all;
  for (int b = 0; b < batches; ++b) {
    const Rows batch = loader.next();
    REQUIRE(batch.size() == 2);
    all.emplace_back();
    for (std::int64_t i = 0; i < batch[1].numel(); ++i) {
      const double row = batch[1].at(i) / 2;
      all.back().push_back(static_cast<int>(row));
      CHECK(batch[0].at({i, 0}) == row);
      CHECK(batch[0].at({i, 1}) == row + 0.5);
    }
  }
  return all;
}

}  // namespace

// torch.manual_seed(7); DataLoader(TensorDataset(…), batch_size=4, …), three epochs.
TEST_CASE("batches of arrays are those of PyTorch's DataLoader", "[array-loader]") {
  using Lists = std::vector<std::vector<int>>;
  const bool background = GENERATE(false, true);
  ArrayLoader all(ten_rows(), {.batch_size = 4, .background = background}, Rng(7));
  CHECK(all.batches_per_epoch() == 3);
  CHECK(next_rows(all, 9) == Lists{{3, 2, 7, 8},
                                   {6, 1, 5, 9},
                                   {0, 4},
                                   {1, 3, 5, 2},
                                   {8, 9, 6, 7},
                                   {4, 0},
                                   {9, 2, 7, 1},
                                   {6, 0, 3, 5},
                                   {4, 8}});
  ArrayLoader full(ten_rows(), {.batch_size = 4, .drop_last = true, .background = background},
                   Rng(7));
  CHECK(full.batches_per_epoch() == 2);
  CHECK(next_rows(full, 4) == Lists{{3, 2, 7, 8}, {6, 1, 5, 9}, {1, 3, 5, 2}, {8, 9, 6, 7}});
  ArrayLoader plain(ten_rows(), {.batch_size = 4, .shuffle = false, .background = background},
                    Rng(7));
  CHECK(next_rows(plain, 4) == Lists{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9}, {0, 1, 2, 3}});
}

TEST_CASE("a loader says how many epochs are complete", "[array-loader]") {
  ArrayLoader loader(ten_rows(), {.batch_size = 5, .background = true}, Rng(1));
  std::vector<std::int64_t> epochs{loader.epoch()};
  for (int i = 0; i < 4; ++i) loader.next(), epochs.push_back(loader.epoch());
  CHECK(epochs == std::vector<std::int64_t>{0, 0, 1, 1, 2});
}

TEST_CASE("batches have the same bits with a background thread, and after a resume from any batch",
          "[array-loader]") {
  const bool shuffle = GENERATE(true, false);
  const auto make = [&](bool background, std::uint64_t seed) {
    return std::make_unique<ArrayLoader>(
        ten_rows(),
        ArrayLoader::Options{
            .batch_size = 4, .shuffle = shuffle, .transform = with_noise, .background = background},
        Rng(seed));
  };
  const auto unbroken = make(false, 3);
  std::vector<Rows> expected;
  std::vector<std::string> states{unbroken->state()};
  for (int i = 0; i < 8; ++i) {
    expected.push_back(unbroken->next());
    states.push_back(unbroken->state());
  }
  CHECK_FALSE(same_bits(expected[0][0], expected[3][0]));  // the noise of another epoch
  for (const bool background : {false, true}) {
    for (std::size_t at = 0; at < expected.size(); ++at) {
      INFO(at << (background ? " in the background" : ""));
      const auto resumed = make(background, 99);
      resumed->next();
      resumed->set_state(states[at]);
      CHECK(resumed->state() == states[at]);
      for (std::size_t i = at; i < expected.size(); ++i) {
        const Rows batch = resumed->next();
        CHECK(same_bits(batch[0], expected[i][0]));
        CHECK(same_bits(batch[1], expected[i][1]));
        CHECK(resumed->state() == states[i + 1]);
      }
    }
  }
}

TEST_CASE("a resumed loader goes on at its row with another batch size", "[array-loader]") {
  ArrayLoader first(ten_rows(), {.batch_size = 4}, Rng(7));
  const auto begin = next_rows(first, 1);
  ArrayLoader second(ten_rows(), {.batch_size = 3}, Rng(1));
  second.set_state(first.state());
  CHECK(next_rows(second, 2) == std::vector<std::vector<int>>{{6, 1, 5}, {9, 0, 4}});
}

TEST_CASE("an error of a transform is thrown by next(), which can be tried again",
          "[array-loader]") {
  const bool background = GENERATE(false, true);
  std::atomic<int> calls{0};
  const auto fails_once = [&](Rows batch, Rng&) {
    check(++calls != 2, "the second batch fails");
    return batch;
  };
  ArrayLoader loader(ten_rows(),
                     {.batch_size = 4, .transform = fails_once, .background = background}, Rng(7));
  CHECK(next_rows(loader, 1)[0] == std::vector<int>{3, 2, 7, 8});
  CHECK_THROWS_WITH(loader.next(), "the second batch fails");
  CHECK(next_rows(loader, 1)[0] == std::vector<int>{6, 1, 5, 9});
}

TEST_CASE("arrays that do not fit together, and states of others, are errors", "[array-loader]") {
  const auto refused = [](const Rows& arrays, const ArrayLoader::Options& options,
                          const std::string& text) {
    CHECK_THROWS_WITH(ArrayLoader(arrays, options, Rng(1)), ContainsSubstring(text));
  };
  const Tensor three = Tensor::zeros({3, 2}), four = Tensor::zeros({4});
  refused({}, {}, "there are no arrays");
  refused({three, four}, {}, "arrays need as many rows each: one is (3, 2), another (4)");
  refused({Tensor::scalar(1)}, {}, "arrays need as many rows each");
  refused({three}, {.batch_size = 0}, "batch_size is 0, but must be at least 1");
  refused({three}, {.batch_size = 4, .drop_last = true}, "3 rows do not fill a batch of 4");
  refused({Tensor::zeros({0, 2})}, {}, "0 rows do not fill a batch");

  ArrayLoader loader(ten_rows(), {.batch_size = 4}, Rng(7)), other({four}, {}, Rng(1));
  loader.next();
  const std::string state = loader.state();
  const auto refuses = [&](const std::string& saved, const std::string& text) {
    CHECK_THROWS_WITH(loader.set_state(saved), ContainsSubstring(text));
    CHECK(loader.state() == state);
  };
  refuses(other.state(), "it is of 4 rows, and there are 10");
  refuses("torch 1 2", "does not begin with 'arrays-1 '");
  refuses("arrays-1 10 9223372036854775807 0 1 1 torch", "row 0 of epoch 9223372036854775807");
  refuses("arrays-1 10 0 4 1 1 torch", "row 4 of epoch 0");
  refuses("arrays-1 10 1 2", "five numbers do not follow");
  refuses("arrays-1 10 1 -2 3 4 x", "five numbers do not follow");
  refuses("arrays-1 10 1 11 3 4 " + Rng(1).state(), "row 11 of 10");
  refuses("arrays-1 10 1 2 3 4 nonsense", "");
}

TEST_CASE("a batch of what a live tape tracks is an error, whatever thread makes it",
          "[array-loader]") {
  const bool background = GENERATE(false, true);
  ArrayLoader loader({Tensor::ones({4}).set_requires_grad()}, {.background = background}, Rng(1));
  loader.next();
  const std::string state = loader.state();
  {
    const Tape tape;
    CHECK_THROWS_WITH(loader.next(), ContainsSubstring("arrays"));
  }
  CHECK(loader.state() == state);
  CHECK(loader.next()[0].shape() == Shape{1});
}
