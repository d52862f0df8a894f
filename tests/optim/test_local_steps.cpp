// Local steps of one process, and what surrounds those of several: these are in
// ranks_local_steps.cpp.

#include <cmath>

#include "tapegrad/optim/gradient_sync.h"
#include "tapegrad/optim/local_steps.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/optim/two_tensors.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;
using namespace tapegrad::testing;
using optim::LocalSteps;

namespace {

constexpr double kRate = 0.1, kDecay = 0.01;  // of the inner steps

optim::GroupRules rules_of(std::string_view optimizer) {
  return {
      .optimizer = optim::optimizer_named(optimizer), .weight_decay = kDecay, .decay_all = true};
}

// Parameters and a buffer, which counts steps, and the object that makes their steps.
struct Locally {
  TwoTensors tensors{DType::f32};
  Tensor count = Tensor::zeros({2});
  std::unique_ptr<optim::GradientSync> sync;

  explicit Locally(const LocalSteps& local, std::string_view optimizer = "adamw") {
    begin(local, optimizer);
  }
  // The object takes the anchor from the tensors.
  void begin(const LocalSteps& local, std::string_view optimizer = "adamw") {
    sync = optim::make_gradient_sync(tensors.named(), rules_of(optimizer), nullptr,
                                     {.local = local}, {{"count", count}});
  }

  // Steps `from` to `to` − 1, counted from 1.
  void train(int from, int to) {
    for (int t = from; t < to; ++t) {
      sync->round(1, [&](const auto&) { tensors.backward(t); });
      static_cast<void>(sync->measure_clipping(0));
      sync->step(kRate, 1);
      sync->zero_grad();
      count += Tensor::ones({2});
    }
  }
  double agreed_count() const { return sync->agreed({{"count", count}})[0].second.at(1); }
  std::vector<double> agreed() const {
    TwoTensors shown;
    const NamedTensors all = sync->agreed(tensors.named());
    shown.p = all[0].second, shown.b = all[1].second;
    return shown.values();
  }
};

// The same by formulas, in f64: AdamW with PyTorch's defaults (Loshchilov and Hutter, 2019), and
// after every H steps the outer step of local_steps.h.
struct ByHand {
  std::vector<double> w = {1, -2, 0.5, 3, 0.25, -1};  // p, then b
  std::vector<double> anchor = w, momentum = std::vector<double>(6), m = momentum, v = momentum;

  std::vector<double> gradient(int t) const {
    std::vector<double> g(6);
    for (std::size_t i = 0; i < 4; ++i) g[i] = 3 * w[i] * w[i] / t;
    for (std::size_t i = 0; i < 2; ++i) g[i] += w[4 + i], g[4 + i] = w[i];
    return g;
  }
  void adamw(int t) {
    const std::vector<double> g = gradient(t);
    for (std::size_t i = 0; i < w.size(); ++i) {
      m[i] = 0.9 * m[i] + 0.1 * g[i];
      v[i] = 0.999 * v[i] + 0.001 * g[i] * g[i];
      const double m_hat = m[i] / (1 - std::pow(0.9, t)), v_hat = v[i] / (1 - std::pow(0.999, t));
      w[i] -= kRate * kDecay * w[i];
      w[i] -= kRate * m_hat / (std::sqrt(v_hat) + 1e-8);
    }
  }
  void meet(const LocalSteps& local) {
    for (std::size_t i = 0; i < w.size(); ++i) {
      const double g = anchor[i] - w[i];
      momentum[i] = local.momentum * momentum[i] + g;
      anchor[i] -= local.learning_rate * (g + local.momentum * momentum[i]);
    }
    w = anchor;
  }
};

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double most = a.size() == b.size() ? 0 : 1e9;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

}  // namespace

TEST_CASE("local steps of AdamW meet by Nesterov's step, as the formulas say", "[local_steps]") {
  const LocalSteps local{.steps = 3};
  Locally locally(local);
  ByHand by_hand;
  for (int t = 1; t < 12; ++t) {
    locally.train(t, t + 1);
    by_hand.adamw(t);
    if (t % 3 == 0) by_hand.meet(local);
    INFO("step " << t);
    CHECK(largest_difference(locally.tensors.values(), by_hand.w) < 1e-6);
    CHECK(largest_difference(locally.agreed(), by_hand.anchor) < 1e-6);
    CHECK(locally.agreed_count() == t - t % 3);
  }
  CHECK(locally.sync->steps() == 11);
}

TEST_CASE("without momentum, the outer step goes a part of the way", "[local_steps]") {
  Locally half({.steps = 2, .learning_rate = 0.5, .momentum = 0}, "sgd");
  Locally far({.steps = 100}, "sgd");
  const std::vector<double> begin = half.tensors.values();
  half.train(1, 3);
  far.train(1, 3);
  std::vector<double> middle = far.tensors.values();
  for (std::size_t i = 0; i < middle.size(); ++i) middle[i] = (begin[i] + middle[i]) / 2;
  CHECK(differences(half.tensors.values(), middle, 1e-6) == "");
  CHECK(far.agreed() == begin);
}

TEST_CASE("local steps go on from a file as if nothing had happened", "[local_steps]") {
  const int stop = GENERATE(3, 5);  // at a meeting, and between two
  const TempFolder folder;
  const std::string path = (folder / "optimizer.safetensors").string();
  const LocalSteps local{.steps = 3};
  Locally straight(local);
  straight.train(1, stop + 1);
  straight.sync->save(path, {{"more", "words"}}, {});
  CHECK(load_safetensors(path).metadata.at("more") == "words");
  for (const char* name : {"local_weights.p", "local_buffers.count"}) {
    CHECK(load_safetensors(path).tensors.contains(name) == (stop == 5));
  }

  Locally resumed(local);
  const NamedTensors model = straight.sync->agreed(straight.tensors.named());
  resumed.count += Tensor::full({2}, straight.agreed_count());
  for (std::size_t i = 0; i < model.size(); ++i) {
    const auto from = model[i].second.values<float>();
    Tensor to = resumed.tensors.named()[i].second;
    std::copy(from.begin(), from.end(), to.mutable_data<float>());
  }
  resumed.begin(local);
  resumed.sync->load(*open_safetensors(path));
  CHECK(resumed.tensors.values() == straight.tensors.values());
  CHECK(resumed.count.at(1) == stop);
  CHECK(resumed.agreed_count() == 3);
  straight.train(stop + 1, 12);
  resumed.train(stop + 1, 12);
  CHECK(resumed.tensors.values() == straight.tensors.values());
  CHECK(resumed.agreed() == straight.agreed());
  CHECK(resumed.agreed_count() == 9);
}

TEST_CASE("local steps may begin again from the last meeting", "[local_steps]") {
  Locally locally({.steps = 3});
  locally.train(1, 5);
  const std::vector<double> anchor = locally.agreed();
  CHECK(locally.tensors.values() != anchor);
  locally.sync->restart();
  CHECK(locally.tensors.values() == anchor);
  CHECK(locally.count.at(1) == 3);
  locally.train(5, 7);
  CHECK(locally.agreed() == anchor);  // two steps
  locally.train(7, 8);
  CHECK(locally.agreed() != anchor);
}

TEST_CASE("files of other local steps are refused by what differs", "[local_steps]") {
  const TempFolder folder;
  const std::string path = (folder / "optimizer.safetensors").string();
  Locally three({.steps = 3});
  three.train(1, 5);
  three.sync->save(path, {}, {});
  const SafeTensors file = load_safetensors(path);
  const auto with = [&](const std::string& key, const std::string& value) {
    Metadata metadata = file.metadata;
    metadata[key] = value;
    return memory_source(file.tensors, "file", metadata);
  };
  CHECK_THROWS_WITH(three.sync->load(*with("local_steps.ranks", "4")),
                    ContainsSubstring("file: it has the weights and moments of 4 processes, which "
                                      "made local steps: mpirun -n 4 must go on"));
  CHECK_THROWS_WITH(three.sync->load(*with("local_steps.made", "3")),
                    ContainsSubstring("file: local_steps.made is 3, not below 3"));
  CHECK_THROWS_WITH(three.sync->load(*with("local_steps.made", "-1")),
                    ContainsSubstring("local_steps.made is '-1'"));
  CHECK_THROWS_WITH(three.sync->load(*with("local_steps.made", "0")),
                    ContainsSubstring("local_buffers, which the optimiser does not keep"));
  CHECK_THROWS_WITH(Locally({.steps = 4}).sync->load(*open_safetensors(path)),
                    ContainsSubstring("its processes meet every 3 steps, and not every 4"));
  const auto plain = optim::make_gradient_sync(three.tensors.named(), rules_of("adamw"));
  CHECK_THROWS_WITH(plain->load(*open_safetensors(path)),
                    ContainsSubstring("which the optimiser does not keep with these options"));
  plain->save(path, {}, {});
  CHECK_THROWS_WITH(three.sync->load(*open_safetensors(path)),
                    ContainsSubstring("has made no local steps so far"));
  CHECK_THROWS_WITH(Locally({.steps = 0}), ContainsSubstring("must be 1 or more"));
}
