// Under mpirun: the updates of several processes are those of one, and so are their checkpoints,
// with many small buckets, gradients that come in another order than parameters, and a number of
// batches that the ranks cannot share out evenly; for each optimiser of the list, and for one that
// needs rows or whole matrices. Exits with 1, and says what differs, otherwise.

#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>

#include "tapegrad/autograd/ops.h"
#include "tapegrad/base/random.h"
#include "tapegrad/optim/clip.h"
#include "tapegrad/optim/processes/internal/shared_gradient_sync.h"

using namespace tapegrad;

namespace {

constexpr int kBatches = 7, kSteps = 3;
constexpr std::int64_t kWide = 2 * optim::kSquareChunk + 5;

NamedTensors make_parameters() {
  Rng rng(1);
  NamedTensors parameters;
  const auto add = [&](const std::string& name, const Shape& shape) {
    parameters.emplace_back(name, Tensor::randn(shape, rng).set_requires_grad());
  };
  add("first", {kWide});
  add("matrix", {3, kWide});
  add("tall", {kWide, 3});
  add("unused", {40});
  add("late", {kWide});
  add("small", {1});
  add("twice", {kWide});
  add("c_attn.weight", {12, 4});  // which Muon takes apart
  return parameters;
}

// Uses the first parameters last and the last ones in the middle; each batch has its own numbers.
Tensor loss_of(const NamedTensors& p, int batch) {
  Rng rng(static_cast<std::uint64_t>(100 + batch));
  const Tensor x = Tensor::randn({kWide}, rng);
  const Tensor a = x * p[6].second * p[5].second;
  const Tensor b = sum(p[1].second * (a + p[4].second), {0});
  const Tensor c = sum(p[2].second, {1}) * x;
  const Tensor fused = p[7].second * p[7].second * x.rows(0, 4);
  return mean(tanh(b * p[6].second + p[0].second + c)) + mean(fused);
}

// The parameters after some steps, and the norms of these.
std::vector<double> train(const NamedTensors& parameters, optim::GradientSync& sync, int ranks,
                          int rank) {
  std::vector<double> norms;
  for (int step = 0; step < kSteps; ++step) {
    for (int first = 0; first < kBatches; first += ranks) {
      sync.round(std::min(ranks, kBatches - first), [&](const auto& take) {
        Tape tape;
        const Tensor loss = loss_of(parameters, step * kBatches + first + rank);
        tape.backward(loss, {.seeds = {Tensor::scalar(1.0 / kBatches)}, .take = take});
      });
    }
    const auto [norm, factor] = sync.measure_clipping(1e-3);
    norms.push_back(norm);
    sync.step(0.01, factor);
    sync.zero_grad();
  }
  return norms;
}

// Scales the gradient of each row, or of the whole parameter, by the root of all squares that it
// has had: something that elements by themselves could not do.
class OfRows : public optim::Optimizer {
 public:
  explicit OfRows(optim::ShardGranularity cut) : cut_(cut) {}
  std::string_view name() const override { return "of-rows"; }
  std::string_view title() const override { return "OfRows"; }
  std::vector<optim::StateSpec> keeps(const Shape& shape) const override {
    return {{"squares", cut_ == optim::ShardGranularity::rows ? Shape{shape[0]} : Shape{1}},
            {"mean", shape}};
  }
  optim::ShardGranularity cut(const Shape&) const override { return cut_; }
  void update(optim::UpdatedPart& part, const optim::UpdateFactors& f) const override {
    const std::int64_t rows = part.kept[0].numel(), columns = part.gradient.numel() / rows;
    const float* g = part.gradient.data<float>();
    float *p = part.parameter.mutable_data<float>(), *squares = part.kept[0].mutable_data<float>();
    float* mean = part.kept[1].mutable_data<float>();
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t i = r * columns; i < (r + 1) * columns; ++i) {
        squares[r] += g[i] * g[i];
        mean[i] += 0.5F * (g[i] - mean[i]);
      }
      const float rate = static_cast<float>(f.lr * f.grad_factor) / std::sqrt(squares[r] + 1e-9F);
      for (std::int64_t i = r * columns; i < (r + 1) * columns; ++i) p[i] -= rate * mean[i];
    }
  }

 private:
  optim::ShardGranularity cut_;
};

using Groups = std::function<optim::ParameterGroups(const NamedTensors&)>;

bool differ(const NamedTensors& a, const NamedTensors& b, const std::string& what) {
  bool differs = a.size() != b.size();
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const auto x = a[i].second.values<float>(), y = b[i].second.values<float>();
    if (a[i].first == b[i].first && std::memcmp(x.data(), y.data(), x.size_bytes()) == 0) continue;
    differs = true;
    std::fprintf(stderr, "%s: '%s' differs\n", what.c_str(), a[i].first.c_str());
  }
  return differs;
}

NamedTensors sorted(const std::string& path) {
  const SafeTensors file = load_safetensors(path);
  return {file.tensors.begin(), file.tensors.end()};
}

// One process and all make the same steps, save the same file, and go on from it alike.
bool equal(const std::string& what, const Groups& groups, Processes& processes) {
  const std::string name = what + " on rank " + std::to_string(processes.rank());
  const NamedTensors alone = make_parameters(), shared = make_parameters();
  const auto own = optim::make_gradient_sync(alone, groups(alone));
  const auto make_shared = [&] {
    return std::make_unique<optim::SharedGradientSync>(
        shared, groups(shared), processes, optim::CommDType::f32, optim::Shard::gradients,
        3 * optim::kSquareChunk);
  };
  auto sync = make_shared();
  const std::string base = (std::filesystem::temp_directory_path() / "tapegrad-ranks-").string() +
                           processes.all_gather(std::to_string(::getpid())).front();
  const std::string one = base + "-one", all = base + "-all";
  bool same = true;
  for (int part = 0; part < 2; ++part) {
    const std::vector<double> norms = train(alone, *own, 1, 0);
    if (train(shared, *sync, processes.size(), processes.rank()) != norms) {
      std::fprintf(stderr, "%s: the norms differ\n", name.c_str());
      same = false;
    }
    same = !differ(alone, shared, name) && same;
    sync->save(all, {}, {});
    if (processes.rank() == 0) {
      own->save(one, {}, {});
      same = !differ(sorted(one), sorted(all), name + ", file") && same;
    }
    processes.all_gather("");  // the file is there
    sync = make_shared();
    sync->load(*open_safetensors(all));
    processes.all_gather("");  // and read
  }
  if (processes.rank() == 0) {
    std::filesystem::remove(one);
    std::filesystem::remove(all);
  }
  return same;
}

}  // namespace

int main() {
  const auto processes = Processes::join();
  optim::GroupRules mixed{.lr_scale = {"matrix=0.5"}, .decay = {"vectors=0.1"}};
  mixed.optimizer = optim::optimizer_named("sgd");
  mixed.settings.set("momentum", 0.9).set("nesterov", 1);
  mixed.optimizer_for = {"*a*=adamw"};
  bool same = equal(
      "mixed", [&](const NamedTensors& p) { return optim::make_groups(p, mixed); }, *processes);
  for (const std::string_view name : optim::names_of(optim::OptimizerId{})) {
    const optim::GroupRules rules{.optimizer = optim::optimizer_named(name)};
    const auto groups = [&](const NamedTensors& p) { return optim::make_groups(p, rules); };
    same = equal(std::string(name), groups, *processes) && same;
  }
  for (const optim::ShardGranularity cut :
       {optim::ShardGranularity::rows, optim::ShardGranularity::whole}) {
    const auto groups = [&](const NamedTensors& p) {
      return optim::make_groups(p, std::make_shared<OfRows>(cut), 0, false);
    };
    same =
        equal(cut == optim::ShardGranularity::rows ? "rows" : "whole", groups, *processes) && same;
  }
  return same ? 0 : 1;
}
