// How an op is run and recorded: see tape.h.

#include <algorithm>

#include "tapegrad/autograd/profile.h"
#include "tapegrad/autograd/tape.h"

namespace tapegrad {
namespace {

Step::Slot slot_of(const Tensor& t) {
  return t.defined() ? Step::Slot{t.id(), t.shape(), t.dtype()} : Step::Slot{};
}

}  // namespace

const Tensor& Saved::operator[](std::size_t i) const {
  const Kept& kept = kept_.at(i);
  if (kept.maker != nullptr) {
    if (!kept.tensor.defined()) kept.tensor = kept.maker->output_again();
    return kept.tensor;
  }
  if (kept.tensor.defined() && kept.tensor.version() != kept.version) {
    fail(
        "[{}] a tensor of shape {} that its gradient needs was changed after the op had run; clone "
        "it before changing it",
        op_, kept.tensor.shape());
  }
  return kept.tensor;
}

std::size_t Saved::bytes() const {
  std::size_t sum = 0;
  for (const Kept& kept : kept_) sum += kept.tensor.defined() ? kept.tensor.bytes() : 0;
  return sum;
}

void Saved::forget_made() const {
  for (const Kept& kept : kept_) {
    if (kept.maker != nullptr) kept.tensor = Tensor();
  }
}

Tensor Step::output_again() const {
  if (auto alive = output_.lock()) {
    Tensor output(std::move(alive));
    if (output.version() == output_version_) return output;
  }
  const TapePause pause;
  std::vector<Tensor> again;
  for (std::size_t i = 0; i < inputs.size(); ++i) again.push_back(saved[i]);
  Saved unused;
  Tensor output = forward(again, unused).front();
  output.impl_->id = outputs.front().id;
  return output;
}

// Runs one op for apply: finds the tapes that want it, runs its forward, and has them record it.
class Recorder {
 public:
  Recorder(std::string_view name, Inputs inputs) : name_(name), inputs_(inputs) {
    Needs any(inputs.size());
    for (Tape* tape : Tape::recording()) {
      Needs needs = tape->needs_of(inputs);
      if (std::find(needs.begin(), needs.end(), true) == needs.end()) continue;
      for (std::size_t k = 0; k < needs.size(); ++k) any[k] = any[k] || needs[k];
      checkable_ |= tape->options_.checkable;
      wanting_.push_back({tape, std::move(needs)});
    }
    if (!wanting_.empty()) {
      step_ = std::make_shared<Step>();
      step_->name = name;
      step_->saved = Saved(name, std::move(any));
    }
  }

  // Runs `forward` with nothing recorded.
  template <class F>
  auto run(const F& forward) {
    const TapePause pause;
    Saved unused;
    try {
      return forward(inputs_, step_ ? step_->saved : unused);
    } catch (const Error& error) {
      const std::string_view text = error.what();
      if (text.substr(0, 1) == "[") throw;
      fail("[{}] {}", name_, text);
    }
  }

  bool recording() const { return step_ != nullptr; }
  void set_add(AddVjp add) { step_->add = std::move(add); }

  template <class MakeForward>
  void record(std::span<const Tensor> outputs, VjpMany vjp, const MakeForward& make_forward,
              std::size_t implicit = 0) {
    for (const Tensor& t : inputs_) step_->inputs.push_back(slot_of(t));
    for (const Tensor& t : outputs) {
      for (const Tensor& input : inputs_) {
        check(!t.defined() || !input.defined() || input.id() != t.id(),
              "[{}] the forward returned one of its inputs: return its alias()", name_);
      }
      step_->outputs.push_back(slot_of(t));
    }
    step_->implicit = implicit;
    step_->vjp = std::move(vjp);
    if (checkable_) step_->input_tensors.assign(inputs_.begin(), inputs_.end());
    if (checkable_ || step_->saved.cheap()) step_->forward = make_forward();
    step_->saved.cheap() ? note_output(outputs) : keep_makers();
    for (const auto& [tape, needs] : wanting_) tape->record(step_, inputs_, needs);
  }

 private:
  void note_output(std::span<const Tensor> outputs) {
    const auto& kept = step_->saved.kept_;
    bool all_kept = outputs.size() == 1 && kept.size() >= inputs_.size();
    for (std::size_t i = 0; all_kept && i < inputs_.size(); ++i) {
      const Tensor &a = kept[i].tensor, &b = inputs_[i];
      all_kept = a.defined() == b.defined() && (!a.defined() || a.id() == b.id());
    }
    check(all_kept, "[{}] a cheap op must have one output and keep its inputs first, in order",
          name_);
    step_->output_ = outputs.front().impl_;
    step_->output_version_ = outputs.front().version();
  }

  // Of the outputs of cheap steps, the way to make them is kept. A cheap step itself keeps its
  // inputs as they are: making its output never takes more than one op.
  void keep_makers() {
    for (Saved::Kept& kept : step_->saved.kept_) {
      for (const auto& [tape, needs] : wanting_) {
        if (!kept.tensor.defined() || kept.maker) break;
        kept.maker = tape->cheap_maker(kept.tensor);
        if (kept.maker) kept.tensor = Tensor();
      }
    }
  }

  std::string_view name_;
  Inputs inputs_;
  std::shared_ptr<Step> step_;
  bool checkable_ = false;
  std::vector<std::pair<Tape*, Needs>> wanting_;
};

std::vector<Tensor> apply_many(std::string_view name, Inputs inputs, const ForwardMany& forward,
                               const VjpMany& vjp, std::size_t implicit) {
  ProfiledOp profiled(name, false);
  Recorder recorder(name, inputs);
  const std::vector<Tensor> outputs = recorder.run(forward);
  profiled.touches(inputs);
  profiled.touches(outputs);
  if (recorder.recording())
    recorder.record(
        outputs, vjp, [&] { return forward; }, implicit);
  return outputs;
}

Tensor apply(std::string_view name, std::initializer_list<Tensor> list, const Forward& forward,
             const Vjp& vjp, const AddVjp& add) {
  ProfiledOp profiled(name, false);
  const Inputs inputs(list.begin(), list.size());
  Recorder recorder(name, inputs);
  const Tensor output = recorder.run(forward);
  profiled.touches(inputs);
  profiled.touches({&output, 1});
  if (recorder.recording()) {
    const auto vjp_many = [vjp](Inputs dys, const Saved& saved, const Needs& needs) {
      return vjp(dys[0], saved, needs);
    };
    recorder.record({&output, 1}, vjp_many, [&]() -> ForwardMany {
      return [forward](Inputs in, Saved& saved) { return std::vector{forward(in, saved)}; };
    });
    recorder.set_add(add);
  }
  return output;
}

}  // namespace tapegrad
