#include "tapegrad/autograd/internal/recomputation.h"

#include <algorithm>

#include "tapegrad/autograd/ops.h"

namespace tapegrad {

std::size_t Recomputation::add(const Tensor& t) {
  results_.push_back({Tensor::Weak(t), t.id(), t.version()});
  return results_.size() - 1;
}

bool Recomputation::makes(const Tensor& t) const {
  return results_[0].id == t.id() && results_[0].version == t.version();
}

bool Recomputation::Result::find() {
  if (!made.defined()) made = original.lock();
  if (made.defined() && made.version() != version) made = Tensor();
  return made.defined();
}

const Tensor& Recomputation::result(std::size_t place) {
  Result& result = results_[place];
  if (!result.find()) make();
  return result.made;
}

void Recomputation::make() {
  const TapePause pause;
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < from_->size(); ++i) inputs.push_back((*from_)[i]);
  const std::vector<Tensor> again = function_(Inputs(inputs).first(count_));
  check(again.size() == results_.size(), "[{}] run again, the function did something else", name_);
  for (std::size_t i = 0; i < again.size(); ++i) {
    Result& result = results_[i];
    check(again[i].version() == result.version,
          "[{}] a tensor of shape {} that its gradient needs was changed after it was made", name_,
          again[i].shape());
    if (!result.find()) result.made = again[i].with_id(result.id);
  }
}

RunningCheckpoint::RunningCheckpoint(std::shared_ptr<CheckpointLog> log,
                                     std::shared_ptr<Recomputation> recomputation)
    : log_(std::move(log)),
      recomputation_(std::move(recomputation)),
      tapes_before_(live_tapes().tapes.size()),
      newest_before_(Tensor::newest_id()) {
  live_tapes().running_checkpoint = this;
}

Needs RunningCheckpoint::enter(std::string_view name, const Needs& needs, Inputs inputs) {
  ++next_;
  if (recomputation_ == nullptr) {
    check(next_ <= log_->size() && (*log_)[next_ - 1].name == name,
          "[checkpoint] run again, the function called {} where it had called {}", name,
          next_ <= log_->size() ? (*log_)[next_ - 1].name : "nothing");
    return (*log_)[next_ - 1].needs;
  }
  log_->push_back({name, needs});
  for (const Tensor& t : inputs) {
    const bool outside = !needs.empty() && t.defined() && t.id() <= newest_before_;
    if (outside && noted_.insert(t.id()).second) recomputation_->from().keep(t);
  }
  return needs;
}

void RunningCheckpoint::leave(Saved& saved, VjpMany& vjp, const Step* step) {
  CheckpointOp& op = (*log_)[next_ - 1];
  if (recomputation_ == nullptr) {
    for (const std::size_t i : op.remade) made_.push_back(saved.kept()[i].tensor);
    if (op.hands_over_vjp) op.vjp = vjp;
    return;
  }
  if (step == nullptr) return;
  for (std::size_t i = 0; i < saved.size(); ++i) {
    Saved::Kept& kept = saved.kept()[i];
    if (!kept.tensor.defined() || kept.tensor.id() <= newest_before_) continue;
    kept.place = recomputation_->add(kept.tensor);
    kept.recomputation = recomputation_;
    kept.tensor = Tensor();
    op.remade.push_back(i);
  }
  op.hands_over_vjp = true;
  vjp = [recomputation = recomputation_, log = log_, i = next_ - 1](Inputs dys, const Saved& kept,
                                                                    const Needs& needs) {
    CheckpointOp& again = (*log)[i];
    if (!again.vjp) recomputation->make();
    const VjpMany run = std::exchange(again.vjp, nullptr);
    return run(dys, kept, needs);
  };
}

std::vector<Tensor> RunningCheckpoint::take_made() {
  check(next_ == log_->size(), "[checkpoint] run again, the function called {} ops, not {}", next_,
        log_->size());
  return std::move(made_);
}

bool RunningCheckpoint::is_older_than(const TapeRecord* tape) const {
  const auto& tapes = live_tapes().tapes;
  const auto first =
      tapes.begin() + static_cast<std::ptrdiff_t>(std::min(tapes_before_, tapes.size()));
  return std::find(first, tapes.end(), tape) != tapes.end();
}

}  // namespace tapegrad
