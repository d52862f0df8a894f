#include "tapegrad/autograd/apply.h"

#include <algorithm>
#include <mutex>
#include <set>

#include "tapegrad/autograd/internal/finite.h"
#include "tapegrad/autograd/internal/recomputation.h"
#include "tapegrad/autograd/profile.h"
#include "tapegrad/base/memory/dry_run.h"

namespace tapegrad {
namespace {

struct Names {
  std::mutex mutex;
  std::set<std::string, std::less<>> names;
};
Names& names() {
  static Names all;
  return all;
}

// One op on its way through apply: finds the tapes that want it, runs its forward, and has them
// record it.
class Recording {
 public:
  Recording(std::string_view name, Inputs inputs)
      : name_(name), inputs_(inputs), checkpoint_(live_tapes().running_checkpoint) {
    Needs any;
    live_tapes().for_each_recording([&](TapeRecord& tape) {
      const Needs needs = tape.needs_of(inputs);
      if (std::find(needs.begin(), needs.end(), true) == needs.end()) return;
      if (any.empty()) any = Needs(inputs.size());
      for (std::size_t k = 0; k < needs.size(); ++k) any[k] = any[k] || needs[k];
      checkable_ = checkable_ || tape.options.checkable;
      has_inner_tape_ =
          has_inner_tape_ || (checkpoint_ != nullptr && checkpoint_->is_older_than(&tape));
      tapes_.push_back({&tape, needs});
    });
    if (!any.empty()) step_ = std::make_shared<Step>();
    if (checkpoint_ != nullptr) any = checkpoint_->enter(name, any, inputs);
    saved() = Saved(name, any);
  }

  // Runs `forward` with nothing recorded.
  std::vector<Tensor> run(const ForwardMany& forward) {
    const TapePause pause;
    try {
      return forward(inputs_, saved());
    } catch (const NoAddresses&) {
      throw;
    } catch (const Error& error) {
      const std::string_view text = error.what();
      if (text.substr(0, 1) == "[") throw;
      fail("[{}] {}", name_, text);
    }
  }

  void check_finite(Inputs outputs) const {
    for (const auto& [tape, needs] : tapes_) {
      if (tape->options.check_finite) check_finite_results(*tape, name_, inputs_, outputs);
    }
  }

  void finish(Inputs outputs, ForwardMany forward, VjpMany vjp, OpOptions options) {
    if (step_ != nullptr) fill_slots(outputs);
    if (options.cheap && step_ != nullptr) check_cheap(outputs);
    if (!options.cheap) use_recipes();
    if (checkpoint_ != nullptr)
      checkpoint_->leave(saved(), vjp, has_inner_tape_ ? nullptr : step_.get());
    if (step_ == nullptr) return;
    step_->vjp = std::move(vjp);
    step_->add = std::move(options.add);
    if (checkable_) {
      step_->input_tensors.assign(inputs_.begin(), inputs_.end());
      step_->onnx = std::make_unique<Step::ForOnnx>(
          Step::ForOnnx{std::move(options.onnx),
                        {outputs.begin(), outputs.end()},
                        sum_of_versions(inputs_) + sum_of_versions(outputs)});
    }
    if (checkable_ || options.cheap) step_->forward = std::move(forward);
    const auto recomputation = options.cheap ? recomputation_for(outputs[0]) : nullptr;
    for (const auto& [tape, needs] : tapes_) tape->add(step_, inputs_, needs, recomputation);
  }

 private:
  Saved& saved() { return step_ != nullptr ? step_->saved : saved_; }

  void fill_slots(Inputs outputs) {
    step_->name = name_;
    for (const Tensor& t : inputs_) step_->add_input(t);
    for (const Tensor& t : outputs) {
      for (const Tensor& input : inputs_) {
        check(!t.defined() || !input.defined() || input.id() != t.id(),
              "[{}] the forward returned one of its inputs: return its detach()", name_);
      }
      step_->add_output(t);
    }
  }

  void check_cheap(Inputs outputs) const {
    const auto& kept = step_->saved.kept();
    bool all_kept = outputs.size() == 1 && kept.size() >= inputs_.size();
    for (std::size_t i = 0; all_kept && i < inputs_.size(); ++i) {
      const Tensor &a = kept[i].tensor, &b = inputs_[i];
      all_kept = a.defined() == b.defined() && (!a.defined() || a.id() == b.id());
    }
    check(all_kept, "[{}] a cheap op must have one output and keep its inputs first, in order",
          name_);
  }

  // Keeps a recomputation, not the data, for each tensor that is the output of a cheap step.
  void use_recipes() {
    for (Saved::Kept& kept : saved().kept()) {
      for (const auto& [tape, needs] : tapes_) {
        if (!kept.tensor.defined() || kept.recomputation != nullptr) break;
        kept.recomputation = tape->recomputation_of(kept.tensor);
        if (kept.recomputation != nullptr) kept.tensor = Tensor();
      }
    }
  }

  // Reads the inputs from what the step itself keeps.
  std::shared_ptr<Recomputation> recomputation_for(const Tensor& output) const {
    const auto recomputation =
        std::make_shared<Recomputation>(name_, std::shared_ptr<Saved>(step_, &step_->saved),
                                        inputs_.size(), [forward = step_->forward](Inputs in) {
                                          Saved unused;
                                          return forward(in, unused);
                                        });
    recomputation->add(output);
    return recomputation;
  }

  std::string_view name_;
  Inputs inputs_;
  RunningCheckpoint* checkpoint_;
  bool checkable_ = false, has_inner_tape_ = false;
  InlineVector<std::pair<TapeRecord*, Needs>, 2> tapes_;
  std::shared_ptr<Step> step_;  // null: no tape wants it
  Saved saved_;                 // if there is no step
};

}  // namespace

const Tensor& Saved::operator[](std::size_t i) const {
  check(i < kept_.size(), "[{}] the vjp reads tensor {} of {} that were kept", op_, i,
        kept_.size());
  const Kept& kept = kept_[i];
  if (kept.recomputation != nullptr) return kept.recomputation->result(kept.place);
  if (kept.tensor.defined() && kept.tensor.version() != kept.version) {
    fail(
        "[{}] a tensor of shape {} that its gradient needs was changed after the op had run; clone "
        "it before changing it",
        op_, kept.tensor.shape());
  }
  return kept.tensor;
}

void Saved::forget_made() const {
  for (const Kept& kept : kept_) {
    if (kept.recomputation != nullptr) kept.recomputation->forget(kept.place);
  }
}

void note_op(std::string_view name) {
  // Names are literals, so that their addresses tell them apart.
  thread_local std::unordered_set<const char*> noted;
  if (!noted.insert(name.data()).second) return;
  const std::lock_guard lock(names().mutex);
  names().names.emplace(name);
}

std::vector<std::string> ops_that_ran() {
  const std::lock_guard lock(names().mutex);
  return {names().names.begin(), names().names.end()};
}

bool is_checkable() {
  bool some = false;
  live_tapes().for_each_recording(
      [&](const TapeRecord& tape) { some = some || tape.options.checkable; });
  return some;
}

std::vector<Tensor> apply_many(std::string_view name, Inputs inputs, ForwardMany forward,
                               VjpMany vjp, OpOptions options) {
  note_op(name);
  ProfiledOp profiled(name, false);
  Recording recording(name, inputs);
  std::vector<Tensor> outputs = recording.run(forward);
  profiled.made(inputs, outputs);
  recording.check_finite(outputs);
  recording.finish(outputs, std::move(forward), std::move(vjp), std::move(options));
  return outputs;
}

Tensor apply(std::string_view name, std::initializer_list<Tensor> inputs, Forward forward, Vjp vjp,
             OpOptions options) {
  return apply_many(name, Inputs(inputs.begin(), inputs.size()), std::move(forward.many),
                    std::move(vjp.many), std::move(options))[0];
}

}  // namespace tapegrad
