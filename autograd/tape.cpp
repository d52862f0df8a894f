#include "tapegrad/autograd/tape.h"

#include <algorithm>
#include <mutex>

#include "tapegrad/autograd/internal/finite.h"
#include "tapegrad/autograd/internal/gradient_map.h"
#include "tapegrad/autograd/internal/recomputation.h"
#include "tapegrad/autograd/kernels/elementwise.h"
#include "tapegrad/autograd/ops.h"
#include "tapegrad/autograd/profile.h"

namespace tapegrad {
namespace {

using Ids = std::unordered_set<std::uint64_t>;

void drop_ended_tapes() {
  LiveTapes& live = live_tapes();
  while (live.tapes.size() > live.first_active && live.tapes.back() == nullptr) {
    live.tapes.pop_back();
  }
}

// Guards the grad() of parameters, which threads with tapes of their own may share.
std::mutex grad_mutex;

// sum += term. The first term is taken as it is; a later one is added in place where nobody could
// notice, that is, if the sum is ours alone and no tape records.
void accumulate(Tensor& sum, const Tensor& term) {
  if (!sum.defined()) {
    sum = term;
  } else if (sum.sole_owner() && !live_tapes().somebody_records()) {
    add_in_place(sum, term);
  } else {
    sum = add(sum, term);
  }
}

// The gradients that backward starts from: the roots'.
GradientMap seed(const TapeRecord& tape, const std::vector<Tensor>& roots,
                 const BackwardOptions& options) {
  check(!tape.running,
        "[backward] this tape is running backward already: what that calls must use another tape");
  check(!tape.spent,
        "[backward] this tape has run backward and freed what it had saved; to run it twice, pass "
        "{{.keep = true}} the first time");
  check(options.seeds.empty() || options.seeds.size() == roots.size(),
        "[backward] {} roots but {} seeds", roots.size(), options.seeds.size());
  GradientMap grads(tape.results);
  for (std::size_t i = 0; i < roots.size(); ++i) {
    const Tensor& root = roots[i];
    check(tape.tracks(root),
          "[backward] the root of shape {} does not depend on any tensor that this tape tracks",
          root.shape());
    Tensor start = i < options.seeds.size() ? options.seeds[i] : Tensor();
    if (!start.defined()) {
      check(root.numel() == 1,
            "[backward] the root has shape {}: only a tensor of one element can do without a seed, "
            "which must have the root's shape",
            root.shape());
      start = Tensor::ones(root.shape(), root.dtype());
    }
    check(start.shape() == root.shape() && start.dtype() == root.dtype(),
          "[backward] the seed is {} {} but the root is {} {}", start.shape(),
          name_of(start.dtype()), root.shape(), name_of(root.dtype()));
    accumulate(grads[root.id()], start);
  }
  return grads;
}

// Adds the gradients that the vjp returns to those of the step's inputs.
void add_gradients(const Step& step, const Needs& needs, Grads& dxs, GradientMap& grads) {
  check(dxs.size() == step.inputs.size(), "[{}] the vjp returned {} gradients for {} inputs",
        step.name, dxs.size(), step.inputs.size());
  for (std::size_t i = 0; i < dxs.size(); ++i) {
    if (!needs[i] || !dxs[i].defined()) continue;
    const Step::Slot& input = step.inputs[i];
    check(dxs[i].shape() == input.shape && dxs[i].dtype() == input.dtype,
          "[{}] the vjp returned a gradient of {} {} for input {}, which is {} {}", step.name,
          dxs[i].shape(), name_of(dxs[i].dtype()), i, input.shape, name_of(input.dtype));
    accumulate(grads[input.id], std::exchange(dxs[i], Tensor()));
  }
}

// Runs the vjp of step i of the tape.
void run_vjp(const TapeRecord& tape, std::size_t i, const Needs& needs, GradientMap& grads,
             const Ids& wanted) {
  const Step& step = *tape.steps[i];
  InlineVector<Tensor, 2> dys;
  bool reached = false;
  for (const Step::Slot& output : step.outputs) {
    Tensor* dy = grads.find(output.id);
    if (dy == nullptr) {
      dys.push_back(Tensor());
      continue;
    }
    reached = true;
    dys.push_back(wanted.count(output.id) ? *dy : std::exchange(*dy, Tensor()));
  }
  if (!reached || std::find(needs.begin(), needs.end(), true) == needs.end()) {
    return step.saved.forget_made();
  }

  ProfiledOp profiled(step.name, true);
  profiled.is_of(step.outputs[0].id);
  profiled.touches(dys);
  Tensor* sum = step.add ? grads.find(step.inputs[0].id) : nullptr;
  if (sum != nullptr && !live_tapes().somebody_records()) {
    if (!sum->sole_owner()) *sum = sum->clone();
    step.add(dys[0], step.saved, *sum);
    step.saved.forget_made();
    if (tape.options.check_finite) check_finite_gradients(tape, i, dys, {sum, 1});
    return;
  }
  Grads dxs = step.vjp(dys, step.saved, needs);
  step.saved.forget_made();
  profiled.touches(dxs);
  if (tape.options.check_finite) check_finite_gradients(tape, i, dys, dxs);
  dys = {};
  add_gradients(step, needs, dxs, grads);
}

// The needs of each step without those that no gradient of `wanted` goes through.
std::vector<Needs> needs_on_the_way_to(const TapeRecord& tape, const Ids& wanted) {
  Ids dependent = wanted;
  std::vector<Needs> needs = tape.needs;
  for (std::size_t i = 0; i < tape.steps.size(); ++i) {
    bool depends = false;
    for (std::size_t k = 0; k < needs[i].size(); ++k) {
      needs[i][k] = needs[i][k] && dependent.count(tape.steps[i]->inputs[k].id);
      depends = depends || needs[i][k];
    }
    if (!depends) continue;
    for (const Step::Slot& output : tape.steps[i]->outputs) dependent.insert(output.id);
  }
  return needs;
}

// Hands out each parameter's gradient once no step that is left to walk adds to it.
class CompleteGradients {
 public:
  CompleteGradients(const TapeRecord& tape, GradientMap& grads, const BackwardOptions& options)
      : tape_(tape), grads_(grads), take_(options.take) {
    if (!take_) return;
    for (std::size_t i = 0; i < tape.steps.size(); ++i) {
      for_parameters(i, [&](const Tensor& parameter) { ++uses_[parameter.id()]; });
    }
  }

  void after_step(std::size_t i) {
    if (!take_) return;
    for_parameters(i, [&](const Tensor& parameter) {
      if (--uses_[parameter.id()] > 0) return;
      Tensor* gradient = grads_.find(parameter.id());
      if (gradient != nullptr) take_(parameter, std::exchange(*gradient, Tensor()));
    });
  }

 private:
  // As often as step i uses each.
  template <class Visit>
  void for_parameters(std::size_t i, const Visit& visit) const {
    const Step& step = *tape_.steps[i];
    for (std::size_t k = 0; k < step.inputs.size(); ++k) {
      if (!tape_.needs[i][k]) continue;
      const auto leaf = tape_.leaves.find(step.inputs[k].id);
      if (leaf != tape_.leaves.end() && leaf->second.requires_grad()) visit(leaf->second);
    }
  }

  const TapeRecord& tape_;
  GradientMap& grads_;
  const decltype(BackwardOptions::take)& take_;
  std::unordered_map<std::uint64_t, std::int64_t> uses_;
};

// Hands out what is left after the walk: gradients of roots that are parameters themselves. `take`
// may do what changes the leaves.
void hand_out(const std::unordered_map<std::uint64_t, Tensor>& leaves, GradientMap& grads,
              const decltype(BackwardOptions::take)& take) {
  std::vector<std::pair<Tensor, Tensor>> left;
  for (const auto& [id, leaf] : leaves) {
    Tensor* gradient = grads.find(id);
    if (gradient != nullptr && leaf.requires_grad())
      left.emplace_back(leaf, std::exchange(*gradient, Tensor()));
  }
  for (auto& [parameter, gradient] : left) take(parameter, std::move(gradient));
}

// Walks the steps in reverse, and calls after_step(i) for each. Gradients of results are dropped
// once used, but for those in `wanted`.
template <class AfterStep>
void walk(TapeRecord& tape, GradientMap& grads, bool keep, const std::vector<Needs>& needs,
          const Ids& wanted, const AfterStep& after_step) {
  struct Running {  // This tape does not record its own backward, and is spent even if that throws.
    TapeRecord& tape;
    bool keep;
    Running(TapeRecord& t, bool k) : tape(t), keep(k) { tape.running = true; }
    ~Running() {
      tape.running = false;
      tape.spent = !keep;
    }
  } running(tape, keep);

  for (std::size_t i = tape.steps.size(); i-- > 0;) {
    std::shared_ptr<Step>& step = tape.steps[i];
    run_vjp(tape, i, needs[i], grads, wanted);
    after_step(i);
    if (keep) continue;
    if (!tape.recomputations.empty()) tape.recomputations.erase(step->outputs[0].id);
    step.reset();
  }
}

}  // namespace

LiveTapes& live_tapes() {
  thread_local LiveTapes live;
  return live;
}

Needs TapeRecord::needs_of(Inputs inputs) const {
  Needs result(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) result[i] = tracks(inputs[i]);
  return result;
}

std::shared_ptr<Recomputation> TapeRecord::recomputation_of(const Tensor& t) const {
  const auto it = recomputations.find(t.id());
  return it != recomputations.end() && it->second->makes(t) ? it->second : nullptr;
}

void TapeRecord::add(const std::shared_ptr<Step>& step, Inputs inputs, const Needs& needed,
                     const std::shared_ptr<Recomputation>& recomputation) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& t = inputs[i];
    if (needed[i] && !results.contains(t.id())) leaves.emplace(t.id(), t);
  }
  for (const Step::Slot& output : step->outputs) {
    if (output.id != 0) results.insert(output.id);
  }
  steps.push_back(step);
  needs.push_back(needed);
  if (recomputation != nullptr) recomputations.emplace(step->outputs[0].id, recomputation);
}

Tape::Tape(TapeOptions options) : record_(std::make_unique<TapeRecord>()) {
  record_->options = options;
  live_tapes().tapes.push_back(record_.get());
}

// A tape that ends out of order leaves an empty place, since open pauses count places.
Tape::~Tape() {
  auto& tapes = live_tapes().tapes;
  std::replace(tapes.begin(), tapes.end(), record_.get(), static_cast<TapeRecord*>(nullptr));
  drop_ended_tapes();
}

TapePause::TapePause()
    : paused_before_(live_tapes().first_active),
      checkpoint_before_(live_tapes().running_checkpoint) {
  live_tapes().first_active = live_tapes().tapes.size();
  live_tapes().running_checkpoint = nullptr;
}
TapePause::~TapePause() {
  live_tapes().first_active = paused_before_;
  live_tapes().running_checkpoint = checkpoint_before_;
  drop_ended_tapes();
}

void Tape::watch(const Tensor& t) {
  check(is_float(t.dtype()), "a tensor of {} has no gradient to watch", name_of(t.dtype()));
  record_->leaves.emplace(t.id(), t);
}

bool Tape::tracks(const Tensor& t) const { return record_->tracks(t); }

std::size_t Tape::size() const { return record_->steps.size(); }

std::size_t Tape::saved_bytes() const {
  Ids counted;
  std::size_t sum = 0;
  for (const auto& step : record_->steps) {
    if (step == nullptr) continue;
    for_each_held(*step, [&](const Tensor& t) {
      if (counted.insert(t.id()).second) sum += t.bytes();
    });
  }
  return sum;
}

void Tape::backward(const std::vector<Tensor>& roots, const BackwardOptions& options) {
  auto& leaves = record_->leaves;
  GradientMap grads = seed(*record_, roots, options);
  for (const Tensor& root : roots) {
    if (root.requires_grad() && !record_->results.contains(root.id()))
      leaves.emplace(root.id(), root);
  }
  CompleteGradients complete(*record_, grads, options);
  walk(*record_, grads, options.keep, record_->needs, {},
       [&](std::size_t i) { complete.after_step(i); });
  if (options.take) return hand_out(leaves, grads, options.take);
  const std::lock_guard lock(grad_mutex);
  for (auto& [id, leaf] : leaves) {
    Tensor* found = grads.find(id);
    if (found == nullptr || !leaf.requires_grad()) continue;
    Tensor gradient = std::exchange(*found, Tensor());
    Tensor sum = leaf.grad();
    leaf.zero_grad();  // so that the sum is ours alone and can be added to in place
    // A gradient that somebody else can see (a seed, another leaf's) must not be shared by grad().
    if (!sum.defined() && !gradient.sole_owner()) {
      gradient = gradient.clone();
    }
    accumulate(sum, gradient);
    leaf.set_grad(sum);
  }
}

Grads Tape::gradient(const std::vector<Tensor>& roots, const std::vector<Tensor>& wrt,
                     const BackwardOptions& options) {
  Ids wanted;
  for (const Tensor& t : wrt) {
    check(tracks(t), "[gradient] this tape does not track a tensor of shape {}: watch() it first",
          t.shape());
    wanted.insert(t.id());
  }
  GradientMap grads = seed(*record_, roots, options);
  walk(*record_, grads, options.keep, needs_on_the_way_to(*record_, wanted), wanted,
       [](std::size_t) {});
  Grads result;
  for (const Tensor& t : wrt) {
    const Tensor* found = grads.find(t.id());
    result.push_back(found == nullptr ? Tensor() : *found);
  }
  return result;
}

}  // namespace tapegrad
