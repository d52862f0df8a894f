#include "tapegrad/optim/internal/averaged_sync.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/optim/two_tensors.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

constexpr double kDecay = 0.75;

// Parameters, and the object that makes their steps, with averages unless `decay` is 0.
struct Trained {
  TwoTensors tensors;
  std::unique_ptr<optim::GradientSync> sync =
      optim::make_gradient_sync(tensors.named(), optim::GroupRules());

  explicit Trained(double decay = kDecay) {
    if (decay > 0) sync = optim::with_averages(std::move(sync), tensors.named(), {.decay = decay});
  }
  // Steps `from` to `to` − 1, counted from 1.
  void train(int from, int to) {
    for (int t = from; t < to; ++t) {
      sync->round(1, [&](const auto&) { tensors.backward(t); });
      static_cast<void>(sync->measure_clipping(0));
      sync->step(0.1, 1);
      sync->zero_grad();
    }
  }
  std::vector<double> agreed() const {
    TwoTensors shown;
    const NamedTensors all = sync->agreed(tensors.named());
    shown.p = all[0].second, shown.b = all[1].second;
    return shown.values();
  }
  // The parameters become those of a model file, before a sync is made of them.
  void begin_with(const std::vector<double>& values) {
    std::copy_n(values.begin(), 4, tensors.p.mutable_data<double>());
    std::copy_n(values.begin() + 4, 2, tensors.b.mutable_data<double>());
    sync = optim::with_averages(optim::make_gradient_sync(tensors.named(), optim::GroupRules()),
                                tensors.named(), {.decay = kDecay});
  }
};

}  // namespace

TEST_CASE("updates with averages move the weights as those without, and agree on the averages",
          "[averaged_sync]") {
  Trained averaged, plain(0);
  std::vector<double> expected;
  for (int t = 1; t <= 4; ++t) {
    averaged.train(t, t + 1);
    plain.train(t, t + 1);
    const std::vector<double> now = plain.tensors.values();
    CHECK(averaged.tensors.values() == now);
    if (t == 1) expected = now;
    for (std::size_t i = 0; i < now.size(); ++i)
      expected[i] = kDecay * expected[i] + (1 - kDecay) * now[i];
    CHECK(differences(averaged.agreed(), expected) == "");
  }
}

TEST_CASE("averages take the weights' place for an evaluation", "[averaged_sync]") {
  Trained averaged;
  averaged.train(1, 4);
  const std::vector<double> own = averaged.tensors.values(), averages = averaged.agreed();
  REQUIRE(own != averages);
  averaged.sync->swap_agreed();
  CHECK(averaged.tensors.values() == averages);
  CHECK(averaged.agreed() == averages);
  averaged.sync->swap_agreed();
  CHECK(averaged.tensors.values() == own);
  CHECK(averaged.agreed() == averages);
}

TEST_CASE("averages and weights go on from a checkpoint as if nothing had happened",
          "[averaged_sync]") {
  const TempFolder folder;
  const std::string path = (folder / "optimizer.safetensors").string();
  Trained straight, first, second, again;
  straight.train(1, 8);
  first.train(1, 4);
  const bool swapped = GENERATE(false, true);
  if (swapped) first.sync->swap_agreed();  // the file is the same
  first.sync->save(path, {{"more", "words"}}, {});
  second.begin_with(first.agreed());
  second.sync->load(*open_safetensors(path));
  CHECK(second.sync->steps() == 3);
  second.train(4, 8);
  CHECK(second.tensors.values() == straight.tensors.values());
  CHECK(second.agreed() == straight.agreed());
  // Or from the averages, which are the weights then.
  again.begin_with(first.agreed());
  again.sync->load(*open_safetensors(path));
  again.sync->restart();
  CHECK(again.tensors.values() == first.agreed());
  CHECK(again.agreed() == first.agreed());
}

TEST_CASE("files without averages, or with them where there are none, are refused",
          "[averaged_sync]") {
  const TempFolder folder;
  const std::string path = (folder / "optimizer.safetensors").string();
  Trained averaged, plain(0);
  averaged.train(1, 3);
  plain.train(1, 3);
  plain.sync->save(path, {}, {});
  CHECK_THROWS_WITH(averaged.sync->load(*open_safetensors(path)),
                    ContainsSubstring("no averages were saved here"));
  averaged.sync->save(path, {}, {});
  CHECK_THROWS_WITH(
      plain.sync->load(*open_safetensors(path)),
      ContainsSubstring("it has training_weights, which the optimiser does not keep"));
  SafeTensors file = load_safetensors(path);
  file.tensors.erase("training_weights.b");
  CHECK_THROWS_WITH(averaged.sync->load(*memory_source(file.tensors, "file", file.metadata)),
                    ContainsSubstring("file") && ContainsSubstring("training_weights.b"));
  file = load_safetensors(path);
  file.tensors["training_weights.c"] = file.tensors["training_weights.b"];
  CHECK_THROWS_WITH(averaged.sync->load(*memory_source(file.tensors, "file", file.metadata)),
                    ContainsSubstring("file: it has 'training_weights.c', but no parameter"));
}

TEST_CASE("an average that is no number is named", "[averaged_sync]") {
  Trained averaged;
  averaged.train(1, 3);
  CHECK(averaged.sync->broken_tensor().empty());
  averaged.tensors.b.mutable_data<double>()[1] = std::nan("");
  averaged.sync->swap_agreed();
  CHECK(averaged.sync->broken_tensor() == "ema.b");
}
