// Under mpirun: processes that share the weights of blocks make the updates and the checkpoints of
// one, hold no more blocks than they compute with, and refuse what cannot be gathered. Exits with
// 1, and says what is wrong, otherwise.

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "tapegrad/autograd/ops.h"
#include "tapegrad/base/memory/dry_run.h"
#include "tapegrad/base/memory/memory.h"
#include "tapegrad/base/random.h"
#include "tapegrad/optim/clip.h"
#include "tapegrad/optim/processes/internal/shared_gradient_sync.h"

using namespace tapegrad;

namespace {

constexpr int kBatches = 7, kSteps = 3;
// Matrices are cut, and a block has several buckets.
constexpr std::int64_t kWidth = 160, kBucket = optim::kSquareChunk;

// A model of blocks: its parameters, and how it computes. Backward asks for no weights of the block
// that adds a bias and does nothing else.
struct Model {
  int blocks;
  bool recomputes = false;
  int adds = -1;
  NamedTensors parameters = {};

  explicit Model(int count, bool recompute = false, int adding = -1)
      : blocks(count), recomputes(recompute), adds(adding) {
    Rng rng(1);
    const auto add = [&](const std::string& name, const Shape& shape) {
      parameters.emplace_back(name, (Tensor::randn(shape, rng) * 0.1).detach().set_requires_grad());
    };
    add("tied.weight", {kWidth, kWidth});
    for (int i = 0; i < count; ++i) {
      const std::string block = "h." + std::to_string(i);
      add(block + ".first.weight", {kWidth, kWidth});
      add(block + ".first.bias", {kWidth});
      add(block + ".unused", {40});
      add(block + ".last.weight", {kWidth, kWidth});
    }
    add("norm.weight", {kWidth});
  }

  const Tensor& of_block(int block, int which) const {
    return parameters[static_cast<std::size_t>(1 + 4 * block + which)].second;
  }
  Tensor forward(int block, const Tensor& x) const {
    if (block == adds) return x + of_block(block, 1);
    const Tensor y = tanh(linear(x, of_block(block, 0), of_block(block, 1)));
    return x + linear(y, of_block(block, 3));
  }
  // Each batch has its own numbers. `after` is called when the blocks have computed.
  template <class After>
  Tensor loss(int batch, const After& after) const {
    Rng rng(static_cast<std::uint64_t>(100 + batch));
    Tensor x = linear(Tensor::randn({6, kWidth}, rng), parameters.front().second);
    for (int i = 0; i < blocks; ++i) {
      const auto run = [this, i](Inputs in, Rng*) { return forward(i, in[0]); };
      x = recomputes ? checkpoint(run, {x}) : forward(i, x);
    }
    after();
    const Tensor y = linear(x * parameters.back().second, parameters.front().second);
    return mean(y * y);
  }
};

struct Ranks {
  Processes& processes;

  std::unique_ptr<optim::GradientSync> share(const Model& model, const optim::GroupRules& rules,
                                             optim::Shard shard) const {
    const auto groups = optim::make_groups(model.parameters, rules);
    return std::make_unique<optim::SharedGradientSync>(model.parameters, groups, processes,
                                                       optim::CommDType::f32, shard, kBucket);
  }
};

// The norms of some steps of so many ranks.
template <class After>
std::vector<double> train(const Model& model, optim::GradientSync& sync, int ranks, int rank,
                          const After& after) {
  std::vector<double> norms;
  for (int step = 0; step < kSteps; ++step) {
    for (int first = 0; first < kBatches; first += ranks) {
      sync.round(std::min(ranks, kBatches - first), [&](const auto& take) {
        Tape tape;
        const Tensor loss = model.loss(step * kBatches + first + rank, after);
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

void nothing() {}

bool complain(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  return false;
}

bool same(const NamedTensors& a, const NamedTensors& b, const std::string& what) {
  if (a.size() != b.size()) return complain(what + ": not as many tensors");
  bool all = true;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto x = a[i].second.values<float>(), y = b[i].second.values<float>();
    const bool equal = a[i].first == b[i].first && x.size() == y.size() &&
                       std::memcmp(x.data(), y.data(), x.size_bytes()) == 0;
    if (!equal) all = complain(what + ": '" + a[i].first + "' differs");
  }
  return all;
}

NamedTensors sorted(const std::string& path) {
  const SafeTensors file = load_safetensors(path);
  return {file.tensors.begin(), file.tensors.end()};
}

// One process and all make the same steps and the same file, and go on from it with another kind of
// sharing.
bool equals_one_process(const Ranks& ranks, int blocks, bool recomputes, std::string_view optimizer,
                        int adds = -1) {
  Processes& p = ranks.processes;
  const optim::GroupRules rules{.optimizer = optim::optimizer_named(optimizer)};
  const std::string what = fmt::format("{} blocks, recompute {}, {}, block {} adds, rank {}",
                                       blocks, recomputes, optimizer, adds, p.rank());
  const Model alone(blocks, recomputes, adds), shared(blocks, recomputes, adds);
  const auto own = optim::make_gradient_sync(alone.parameters, rules);
  const std::string base = (std::filesystem::temp_directory_path() / "tapegrad-shards-").string() +
                           p.all_gather(std::to_string(::getpid())).front();
  const std::string one = base + "-one", all = base + "-all";
  bool good = true;
  for (const optim::Shard shard :
       {optim::Shard::parameters, optim::Shard::gradients, optim::Shard::parameters}) {
    const auto sync = ranks.share(shared, rules, shard);
    if (std::filesystem::exists(all)) sync->load(*open_safetensors(all));
    p.all_gather("");  // all have read it
    if (train(shared, *sync, p.size(), p.rank(), nothing) != train(alone, *own, 1, 0, nothing))
      good = complain(what + ": the norms differ");
    sync->gather_parameters();
    good = same(alone.parameters, shared.parameters, what) && good;
    sync->save(all, {}, {});
    if (p.rank() == 0) {
      own->save(one, {}, {});
      good = same(sorted(one), sorted(all), what + ", file") && good;
    }
    p.all_gather("");  // the file is there
  }
  if (p.rank() == 0) {
    std::filesystem::remove(one);
    std::filesystem::remove(all);
  }
  return good;
}

// What is live behind the last block, and between two steps.
struct Held {
  double in_pass = 0, between = 0;
};

Held held_by(const Ranks& ranks, optim::Shard shard, int blocks) {
  const auto before = static_cast<double>(memory_stats().live);
  const Model model(blocks);
  const auto sync = ranks.share(model, {.optimizer = optim::optimizer_named("sgd")}, shard);
  const auto live = [&] { return static_cast<double>(memory_stats().live) - before; };
  Held held;
  train(model, *sync, ranks.processes.size(), ranks.processes.rank(),
        [&] { held.in_pass = std::max(held.in_pass, live()); });
  held.between = live();
  return held;
}

// Beside others, a rank has its share, and of many blocks three at once.
bool holds_few_blocks(const Ranks& ranks) {
  constexpr int blocks = 24;
  constexpr double block = 4 * (2 * kWidth * kWidth + kWidth + 40);
  const double part = 1.0 / ranks.processes.size();
  const Held whole = held_by(ranks, optim::Shard::gradients, blocks);
  const Held parts = held_by(ranks, optim::Shard::parameters, blocks);
  const double others = 4 * (kWidth * kWidth + kWidth);
  // Shares are even but for pieces that are not cut; transfers of gradients end when they do.
  const double slack = 2 * block;
  const double saved = (1 - part) * blocks * block - part * others;
  bool good = true;
  if (whole.between - parts.between < saved + others - slack)
    good = complain(fmt::format("between steps, {} less than {} are held, and not {}",
                                whole.between - parts.between, whole.between, saved + others));
  if (whole.in_pass - parts.in_pass < saved - 3 * block - slack)
    good = complain(fmt::format("in a pass, {} less than {} are held, and not {}",
                                whole.in_pass - parts.in_pass, whole.in_pass, saved - 3 * block));
  return good;
}

// The error of a function, which must have one with this text.
template <class Work>
bool fails(const Work& work, const std::string& text) {
  try {
    work();
  } catch (const Error& error) {
    if (std::string(error.what()).find(text) != std::string::npos) return true;
    return complain(std::string("another error: ") + error.what());
  }
  return complain("no error: " + text);
}

bool refuses(const Ranks& ranks) {
  Processes& p = ranks.processes;
  const optim::GroupRules rules{.optimizer = optim::optimizer_named("sgd")};
  const Model model(4);
  bool good = true;
  {
    const auto sync = ranks.share(model, rules, optim::Shard::parameters);
    train(model, *sync, p.size(), p.rank(), nothing);
    const auto first = [&] { return model.of_block(0, 0).at(0); };
    good = fails(first, "'h.0.first.weight' is not here: with --shard parameters") && good;
    {
      const DryRun dry;  // as where a rank passes over a batch
      static_cast<void>(model.loss(0, nothing));
    }
    sync->gather_parameters();
    static_cast<void>(first());
    // Blocks in another order, and all of them twice.
    const auto round = [&](const auto& work) {
      return [&, work] { sync->round(p.size(), [&](const auto&) { work(); }); };
    };
    good = fails(round([&] {
                   model.forward(2, Tensor::ones({6, kWidth}));
                 }),
                 "'h.2.first.") &&
           good;
  }
  // Without the object, the memory is that of any parameter again.
  Tensor any = model.of_block(3, 0);
  any.mutable_data<float>()[0] = 1;
  if (any.at(0) != 1) good = complain("a parameter has no memory");
  return good;
}

}  // namespace

int main() {
  const auto processes = Processes::join();
  const Ranks ranks{*processes};
  bool good = true;
  for (const int blocks : {0, 1, 2, 3, 5}) {
    for (const bool recomputes : {false, true})
      good = equals_one_process(ranks, blocks, recomputes, "adamw") && good;
  }
  for (const int adds : {0, 2, 3, 5})
    good = equals_one_process(ranks, 6, false, "adamw", adds) && good;
  for (const std::string_view optimizer : optim::names_of(optim::OptimizerId{}))
    good = equals_one_process(ranks, 4, false, optimizer) && good;
  good = holds_few_blocks(ranks) && good;
  good = refuses(ranks) && good;
  return good ? 0 : 1;
}
