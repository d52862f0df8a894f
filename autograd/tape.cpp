#include "tapegrad/autograd/tape.h"

#include <algorithm>
#include <iterator>
#include <mutex>

#include "tapegrad/autograd/kernels/elementwise.h"
#include "tapegrad/autograd/ops.h"
#include "tapegrad/autograd/profile.h"

namespace tapegrad {
namespace {

// This thread's live tapes, oldest first; those before `first_active` are paused. Null: ended.
struct LiveTapes {
  std::vector<Tape*> tapes;
  std::size_t first_active = 0;
};
thread_local LiveTapes live;

void drop_ended_tapes() {
  while (live.tapes.size() > live.first_active && live.tapes.back() == nullptr) {
    live.tapes.pop_back();
  }
}

// Guards the grad() of parameters, which threads with tapes of their own may share.
std::mutex grad_mutex;

}  // namespace

Tape::Tape(TapeOptions options) : options_(options) { live.tapes.push_back(this); }

// A tape that ends out of order leaves an empty place, since open pauses count places.
Tape::~Tape() {
  std::replace(live.tapes.begin(), live.tapes.end(), this, static_cast<Tape*>(nullptr));
  drop_ended_tapes();
}

TapePause::TapePause() : paused_before_(live.first_active) {
  live.first_active = live.tapes.size();
}
TapePause::~TapePause() {
  live.first_active = paused_before_;
  drop_ended_tapes();
}

void Tape::watch(const Tensor& t) {
  check(is_float(t.dtype()), "a tensor of {} has no gradient to watch", name_of(t.dtype()));
  leaves_.emplace(t.id(), t);
}

bool Tape::tracks(const Tensor& t) const {
  if (!t.defined()) return false;
  if (t.requires_grad() || results_.count(t.id()) || leaves_.count(t.id())) return true;
  if (!options_.outline) return false;
  return std::any_of(live.tapes.begin(), std::find(live.tapes.begin(), live.tapes.end(), this),
                     [&](const Tape* older) { return older != nullptr && older->tracks(t); });
}

std::shared_ptr<const Step> Tape::cheap_maker(const Tensor& t) const {
  const auto it = cheap_steps_.find(t.id());
  const auto step = it == cheap_steps_.end() ? nullptr : it->second.lock();
  return step != nullptr && step->output_version_ == t.version() ? step : nullptr;
}

std::vector<Tensor> Tape::leaves() const {
  std::vector<Tensor> result;
  for (const auto& [id, leaf] : leaves_) result.push_back(leaf);
  return result;
}

Needs Tape::needs_of(Inputs inputs) const {
  Needs needs(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) needs[i] = tracks(inputs[i]);
  return needs;
}

void Tape::record(const std::shared_ptr<Step>& step, Inputs inputs, const Needs& needs) {
  for (const Tensor& t : inputs) {
    if (tracks(t) && !results_.count(t.id())) leaves_.emplace(t.id(), t);
  }
  for (const Step::Slot& output : step->outputs) results_.insert(output.id);
  if (options_.outline) return;
  steps_.push_back(step);
  needs_.push_back(needs);
  if (step->saved.cheap()) cheap_steps_.emplace(step->outputs.front().id, step);
}

std::size_t Tape::saved_bytes() const {
  std::size_t sum = 0;
  for (const auto& step : steps_) sum += step ? step->saved.bytes() : 0;
  return sum;
}

std::vector<Tape*> Tape::recording() {
  std::vector<Tape*> tapes;
  std::copy_if(live.tapes.begin() + static_cast<std::ptrdiff_t>(live.first_active),
               live.tapes.end(), std::back_inserter(tapes),
               [](const Tape* t) { return t != nullptr && !t->running_ && !t->spent_; });
  return tapes;
}

void Tape::accumulate(Tensor& sum, const Tensor& term) {
  if (!sum.defined()) {
    sum = term;
  } else if (sum.sole_owner() && recording().empty()) {
    add_in_place(sum, term);
  } else {
    sum = add(sum, term);
  }
}

Tape::GradMap Tape::seed(const std::vector<Tensor>& roots, const BackwardOptions& options) const {
  check(!spent_,
        "[backward] this tape has run backward and freed what it had saved; to run it twice, pass "
        "{{.keep = true}} the first time");
  check(options.seeds.empty() || options.seeds.size() == roots.size(),
        "[backward] {} roots but {} seeds", roots.size(), options.seeds.size());
  GradMap grads;
  for (std::size_t i = 0; i < roots.size(); ++i) {
    const Tensor& root = roots[i];
    check(tracks(root),
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

void Tape::run_vjp(const Step& step, const Needs& needs, GradMap& grads,
                   const std::unordered_set<std::uint64_t>& wanted) {
  std::vector<Tensor> dys;
  bool reached = false;
  for (const Step::Slot& output : step.outputs) {
    const auto it = grads.find(output.id);
    dys.push_back(it == grads.end() ? Tensor() : it->second);
    if (it == grads.end()) continue;
    reached = true;
    if (!wanted.count(output.id)) grads.erase(it);
  }
  if (!reached || std::find(needs.begin(), needs.end(), true) == needs.end()) return;

  ProfiledOp profiled(step.name, true);
  profiled.touches(dys);
  const auto sum = step.add ? grads.find(step.inputs[0].id) : grads.end();
  if (sum != grads.end() && recording().empty()) {
    if (!sum->second.sole_owner()) sum->second = sum->second.clone();
    step.add(dys[0], step.saved, sum->second);
    step.saved.forget_made();
    return;
  }
  Grads dxs = step.vjp(dys, step.saved, needs);
  step.saved.forget_made();
  profiled.touches(dxs);
  dys.clear();
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

std::vector<Needs> Tape::needs_on_the_way_to(
    const std::unordered_set<std::uint64_t>& wanted) const {
  std::unordered_set<std::uint64_t> dependent = wanted;
  std::vector<Needs> needs = needs_;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    bool depends = false;
    for (std::size_t k = 0; k < needs[i].size(); ++k) {
      needs[i][k] = needs[i][k] && dependent.count(steps_[i]->inputs[k].id);
      depends = depends || needs[i][k];
    }
    if (!depends) continue;
    for (const Step::Slot& output : steps_[i]->outputs) dependent.insert(output.id);
  }
  return needs;
}

void Tape::walk(GradMap& grads, bool keep, const std::vector<Needs>& needs,
                const std::unordered_set<std::uint64_t>& wanted) {
  struct Running {  // This tape does not record its own backward, and is spent even if that throws.
    Tape& tape;
    bool keep;
    explicit Running(Tape& t, bool k) : tape(t), keep(k) { tape.running_ = true; }
    ~Running() {
      tape.running_ = false;
      tape.spent_ = !keep;
    }
  } running(*this, keep);

  for (std::size_t i = steps_.size(); i-- > 0;) {
    run_vjp(*steps_[i], needs[i], grads, wanted);
    if (!keep) steps_[i].reset();
  }
}

void Tape::backward(const std::vector<Tensor>& roots, const BackwardOptions& options) {
  GradMap grads = seed(roots, options);
  for (const Tensor& root : roots) {
    if (root.requires_grad() && !results_.count(root.id())) leaves_.emplace(root.id(), root);
  }
  walk(grads, options.keep, needs_, {});
  const std::lock_guard lock(grad_mutex);
  for (auto& [id, leaf] : leaves_) {
    const auto it = grads.find(id);
    if (it == grads.end() || !leaf.requires_grad()) continue;
    Tensor gradient = std::exchange(it->second, Tensor());
    Tensor sum = leaf.grad();
    leaf.zero_grad();  // so that the sum is ours alone and can be added to in place
    // A gradient that somebody else can see (a seed, another leaf's) must not be shared by grad().
    if (!sum.defined() && !gradient.sole_owner()) {
      gradient = recording().empty() ? gradient.clone() : gradient * 1.0;
    }
    accumulate(sum, gradient);
    leaf.set_grad(sum);
  }
}

Grads Tape::gradient(const std::vector<Tensor>& roots, const std::vector<Tensor>& wrt,
                     const BackwardOptions& options) {
  std::unordered_set<std::uint64_t> wanted;
  for (const Tensor& t : wrt) {
    check(tracks(t), "[gradient] this tape does not track a tensor of shape {}: watch() it first",
          t.shape());
    wanted.insert(t.id());
  }
  GradMap grads = seed(roots, options);
  walk(grads, options.keep, needs_on_the_way_to(wanted), wanted);
  Grads result;
  for (const Tensor& t : wrt) {
    const auto it = grads.find(t.id());
    result.push_back(it == grads.end() ? Tensor() : it->second);
  }
  return result;
}

}  // namespace tapegrad
