// Under mpirun: the local steps of several processes are those that each of them computes of all,
// by formulas; their checkpoints go on to the same bits. Exits with 1, and says what differs,
// otherwise.

#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>

#include "tapegrad/autograd/ops.h"
#include "tapegrad/base/random.h"
#include "tapegrad/optim/clip.h"
#include "tapegrad/optim/processes/internal/local_steps_sync.h"

using namespace tapegrad;
using optim::LocalSteps;

namespace {

constexpr double kRate = 0.01;
constexpr std::int64_t kWide = 2 * optim::kSquareChunk + 5;

NamedTensors make_parameters() {
  Rng rng(1);
  NamedTensors parameters;
  for (const auto& [name, shape] : std::vector<std::pair<std::string, Shape>>{
           {"first", {kWide}}, {"matrix", {3, kWide}}, {"small", {1}}}) {
    parameters.emplace_back(name, Tensor::randn(shape, rng).set_requires_grad());
  }
  return parameters;
}

// Each batch has its own numbers.
Tensor loss_of(const NamedTensors& p, int batch) {
  Rng rng(static_cast<std::uint64_t>(100 + batch));
  const Tensor x = Tensor::randn({kWide}, rng);
  return mean(tanh(sum(p[1].second, {0}) * x + p[0].second)) + mean(p[0].second * p[2].second);
}

// One step of rank `rank` of `ranks`, by its own two batches.
void make_step(const NamedTensors& parameters, optim::GradientSync& sync, int step, int ranks,
               int rank, int active) {
  for (int round = 0; round < 2; ++round) {
    sync.round(active, [&](const auto& take) {
      Tape tape;
      const Tensor loss = loss_of(parameters, (2 * step + round) * ranks + rank);
      tape.backward(loss, {.seeds = {Tensor::scalar(0.5)}, .take = take});
    });
  }
  const auto [norm, factor] = sync.measure_clipping(1e-3);
  sync.step(kRate, factor);
  sync.zero_grad();
}

// All ranks in one process: a model and an optimiser each, and the outer step in f64.
class Reference {
 public:
  Reference(int ranks, const optim::GroupRules& rules, const LocalSteps& local) : local_(local) {
    for (int r = 0; r < ranks; ++r) {
      models_.push_back(make_parameters());
      syncs_.push_back(optim::make_gradient_sync(models_.back(), rules));
    }
    for (const auto& [name, t] : make_parameters()) {
      const auto values = t.values<float>();
      anchor_.emplace_back(values.begin(), values.end());
      momentum_.emplace_back(values.size());
    }
  }

  void step(int step) {
    const int ranks = static_cast<int>(models_.size());
    for (int r = 0; r < ranks; ++r) {
      const auto at = static_cast<std::size_t>(r);
      make_step(models_[at], *syncs_[at], step, ranks, r, 1);
    }
    if (++made_ % local_.steps == 0) meet();
  }
  const NamedTensors& weights(int rank) const { return models_[static_cast<std::size_t>(rank)]; }
  const std::vector<std::vector<double>>& anchor() const { return anchor_; }

 private:
  void meet() {
    for (std::size_t p = 0; p < anchor_.size(); ++p) {
      for (std::size_t i = 0; i < anchor_[p].size(); ++i) {
        double g = 0;
        for (const NamedTensors& model : models_)
          g += (anchor_[p][i] - model[p].second.values<float>()[i]) /
               static_cast<double>(models_.size());
        double& b = momentum_[p][i];
        b = local_.momentum * b + g;
        anchor_[p][i] -= local_.learning_rate * (g + local_.momentum * b);
      }
      for (NamedTensors& model : models_) {
        float* to = model[p].second.mutable_data<float>();
        for (const double value : anchor_[p]) *to++ = static_cast<float>(value);
      }
    }
  }

  LocalSteps local_;
  std::vector<NamedTensors> models_;
  std::vector<std::unique_ptr<optim::GradientSync>> syncs_;
  std::vector<std::vector<double>> anchor_, momentum_;
  std::int64_t made_ = 0;
};

// The largest difference of two lists of values.
template <class A, class B>
double distance(const A& a, const B& b) {
  double most = a.size() == b.size() ? 0 : 1e9;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    most = std::max(most, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  return most;
}

struct Group {
  Processes& processes;
  bool good = true;

  void expect(bool holds, const std::string& what) {
    if (holds) return;
    good = false;
    std::fprintf(stderr, "rank %d: %s\n", processes.rank(), what.c_str());
  }

  std::unique_ptr<optim::GradientSync> make(const NamedTensors& parameters,
                                            const optim::GroupRules& rules, const LocalSteps& local,
                                            optim::CommDType sent = optim::CommDType::f32) const {
    return std::make_unique<optim::LocalStepsSync>(parameters, make_groups(parameters, rules),
                                                   local, &processes, sent,
                                                   3 * optim::kSquareChunk);
  }
  void steps(const NamedTensors& parameters, optim::GradientSync& sync, int from, int to) const {
    for (int step = from; step < to; ++step) {
      make_step(parameters, sync, step, processes.size(), processes.rank(), processes.size());
    }
  }
  // The bytes of tensors, the same in all processes or not.
  bool same_everywhere(const NamedTensors& tensors) const {
    std::string bytes;
    for (const auto& [name, t] : tensors)
      bytes.append(reinterpret_cast<const char*>(t.data<float>()), t.bytes());
    for (const std::string& theirs : processes.all_gather(bytes)) {
      if (theirs != bytes) return false;
    }
    return true;
  }
};

void compare_with_formulas(Group& group, const optim::GroupRules& rules) {
  const LocalSteps local{.steps = 3};
  const NamedTensors parameters = make_parameters();
  const auto sync = group.make(parameters, rules, local);
  Reference reference(group.processes.size(), rules, local);
  for (int step = 0; step < 8; ++step) {
    group.steps(parameters, *sync, step, step + 1);
    reference.step(step);
    const NamedTensors agreed = sync->agreed(parameters);
    const NamedTensors& expected = reference.weights(group.processes.rank());
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      const std::string what = "'" + parameters[p].first + "' after step " + std::to_string(step);
      group.expect(
          distance(parameters[p].second.values<float>(), expected[p].second.values<float>()) < 1e-6,
          what + " differs from the formulas'");
      group.expect(distance(agreed[p].second.values<float>(), reference.anchor()[p]) < 1e-6,
                   what + ": the last meeting's differs from the formulas'");
    }
    group.expect(group.same_everywhere(agreed), "not all processes agree");
    const bool met = step % 3 == 2;
    group.expect(group.same_everywhere(parameters) == met,
                 "weights are one only where processes have met");
  }
}

// The mean of one plain step of each is the step by the mean gradient.
void compare_with_mean_gradients(Group& group) {
  optim::GroupRules rules{.optimizer = optim::optimizer_named("sgd")};
  const NamedTensors local = make_parameters(), shared = make_parameters();
  const auto each = group.make(local, rules, {.steps = 1, .learning_rate = 1, .momentum = 0});
  const auto all = optim::make_gradient_sync(shared, rules, &group.processes);
  const int ranks = group.processes.size(), rank = group.processes.rank();
  for (int step = 0; step < 3; ++step) {
    for (int round = 0; round < 2; ++round) {
      for (const bool own : {true, false}) {
        const NamedTensors& parameters = own ? local : shared;
        (own ? *each : *all).round(ranks, [&](const auto& take) {
          Tape tape;
          const Tensor loss = loss_of(parameters, (2 * step + round) * ranks + rank);
          tape.backward(loss, {.seeds = {Tensor::scalar(own ? 0.5 : 0.5 / ranks)}, .take = take});
        });
      }
    }
    for (optim::GradientSync* sync : {each.get(), all.get()}) {
      static_cast<void>(sync->measure_clipping(0));
      sync->step(1, 1);
      sync->zero_grad();
    }
  }
  for (std::size_t p = 0; p < local.size(); ++p) {
    group.expect(distance(local[p].second.values<float>(), shared[p].second.values<float>()) < 1e-6,
                 "one local step of SGD differs from the mean gradient's");
  }
}

// A run that stops after `stop` steps ends as one that never did.
void compare_resumed(Group& group, int stop) {
  const optim::GroupRules rules;
  const LocalSteps local{.steps = 3};
  const NamedTensors straight = make_parameters(), resumed = make_parameters();
  auto sync = group.make(straight, rules, local);
  group.steps(straight, *sync, 0, stop);
  const std::string path = (std::filesystem::temp_directory_path() / "tapegrad-local-").string() +
                           group.processes.all_gather(std::to_string(::getpid())).front();
  sync->save(path, {}, {});
  const NamedTensors model = sync->agreed(straight);
  group.processes.all_gather("");  // the file is there
  for (std::size_t p = 0; p < model.size(); ++p) {
    Tensor to = resumed[p].second;
    std::memcpy(to.mutable_data<float>(), model[p].second.data<float>(), to.bytes());
  }
  auto after = group.make(resumed, rules, local);
  after->load(*open_safetensors(path));
  group.processes.all_gather("");  // and read
  if (group.processes.rank() == 0) std::filesystem::remove(path);
  group.steps(straight, *sync, stop, 10);
  group.steps(resumed, *after, stop, 10);
  for (std::size_t p = 0; p < straight.size(); ++p) {
    group.expect(
        distance(straight[p].second.values<float>(), resumed[p].second.values<float>()) == 0,
        "resumed after " + std::to_string(stop) + " steps, '" + straight[p].first + "' differs");
  }
}

// bf16 halves the bytes, int8 has a quarter of them and the scales, and everybody still agrees to
// the bit.
void compare_sent(Group& group) {
  const LocalSteps local{.steps = 2};
  std::vector<NamedTensors> models;
  std::vector<std::int64_t> bytes;
  for (const optim::CommDType sent :
       {optim::CommDType::f32, optim::CommDType::bf16, optim::CommDType::int8}) {
    models.push_back(make_parameters());
    const auto sync = group.make(models.back(), {}, local, sent);
    const std::int64_t before = group.processes.traffic().bytes_sent;
    group.steps(models.back(), *sync, 0, 4);
    bytes.push_back(group.processes.traffic().bytes_sent - before);
    group.expect(group.same_everywhere(models.back()), "not all agree by what was sent");
  }
  group.expect(bytes[0] == 2 * bytes[1], "bf16 does not halve the bytes");
  const double scaled = 0.25 * (1 + 4.0 / 128) * static_cast<double>(bytes[0]);
  group.expect(std::abs(static_cast<double>(bytes[2]) / scaled - 1) < 1e-3,
               "int8 has more than a quarter of the bytes and the scales");
  for (std::size_t p = 0; p < models[0].size(); ++p) {
    for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
      const double far =
          distance(models[0][p].second.values<float>(), models[i][p].second.values<float>());
      // A single value of int8 may be exact.
      group.expect((far > 0 || models[0][p].second.numel() == 1) && far < (i == 1 ? 2e-3 : 5e-3),
                   "bf16 or int8 rounds by " + std::to_string(far));
    }
  }
}

void copy_values(const NamedTensors& from, const NamedTensors& to) {
  for (std::size_t p = 0; p < from.size(); ++p) {
    Tensor t = to[p].second;
    std::memcpy(t.mutable_data<float>(), from[p].second.data<float>(), t.bytes());
  }
}

// Groups of two members, which share each step, have the bits and the checkpoints of as many
// processes by themselves. All members of one number are such processes, too.
void compare_groups(Group& all, const optim::GroupRules& rules, optim::CommDType sent) {
  constexpr int members = 2;
  const int rank = all.processes.rank(), own = rank / members, member = rank % members;
  const int groups = all.processes.size() / members;
  std::vector<int> likes;
  for (int g = 0; g < groups; ++g) likes.push_back(g * members + member);
  const auto part = all.processes.part(likes);
  const Group alone{*part};
  const NamedTensors plain = make_parameters(), shared = make_parameters(),
                     resumed = make_parameters();
  const auto each = alone.make(plain, rules, {.steps = 3}, sent);
  const auto make_grouped = [&](const NamedTensors& parameters) {
    optim::LocalSteps local{.steps = 3};
    local.groups = groups;
    return std::make_unique<optim::LocalStepsSync>(parameters, make_groups(parameters, rules),
                                                   local, &all.processes, sent,
                                                   3 * optim::kSquareChunk);
  };
  const auto step_of = [&](const NamedTensors& parameters, optim::GradientSync& sync, int step) {
    sync.round(all.processes.size(), [&](const auto& take) {
      Tape tape;
      const Tensor loss = loss_of(parameters, (2 * step + member) * groups + own);
      tape.backward(loss, {.seeds = {Tensor::scalar(0.5)}, .take = take});
    });
    const auto [norm, factor] = sync.measure_clipping(1e-3);
    sync.step(kRate, factor);
    sync.zero_grad();
  };
  const auto expect_equal = [&](const NamedTensors& a, const NamedTensors& b, int step) {
    for (std::size_t p = 0; p < a.size(); ++p) {
      all.expect(distance(a[p].second.values<float>(), b[p].second.values<float>()) == 0,
                 "groups: '" + a[p].first + "' differs after step " + std::to_string(step));
    }
  };
  std::unique_ptr<optim::GradientSync> grouped = make_grouped(shared), after;
  for (int step = 0; step < 8; ++step) {
    make_step(plain, *each, step, groups, own, groups);
    step_of(shared, *grouped, step);
    if (after) step_of(resumed, *after, step);
    expect_equal(shared, plain, step);
    if (after) expect_equal(resumed, plain, step);
    expect_equal(grouped->agreed(shared), each->agreed(plain), step);
    if (step != 3) continue;  // between two meetings
    const std::string path =
        (std::filesystem::temp_directory_path() / "tapegrad-groups-").string() +
        all.processes.all_gather(std::to_string(::getpid())).front();
    grouped->save(path, {}, {});
    each->save(path + "-" + std::to_string(member), {}, {});
    all.processes.all_gather("");  // the files are there
    const auto bytes = [](const std::string& name) {
      std::ifstream file(name, std::ios::binary);
      return std::string{std::istreambuf_iterator<char>(file), {}};
    };
    all.expect(bytes(path) == bytes(path + "-0"), "groups have another checkpoint");
    copy_values(grouped->agreed(shared), resumed);
    after = make_grouped(resumed);
    after->load(*open_safetensors(path + "-1"));
    all.processes.all_gather("");  // and read
    if (own == 0) std::filesystem::remove(path + "-" + std::to_string(member));
    if (rank == 0) std::filesystem::remove(path);
  }
}

}  // namespace

int main() {
  const auto processes = Processes::join();
  Group group{*processes};
  for (const std::string_view name : {"adamw", "sgd", "muon"}) {
    compare_with_formulas(group, {.optimizer = optim::optimizer_named(name)});
  }
  compare_with_mean_gradients(group);
  for (const int stop : {6, 7}) compare_resumed(group, stop);
  compare_sent(group);
  if (processes->size() % 2 == 0) {
    for (const std::string_view name : {"adamw", "muon"}) {
      compare_groups(group, {.optimizer = optim::optimizer_named(name)}, optim::CommDType::f32);
    }
    compare_groups(group, {}, optim::CommDType::int8);
  }
  return group.good ? 0 : 1;
}
