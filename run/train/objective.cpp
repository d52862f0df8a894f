#include "tapegrad/run/train/objective.h"

#include "tapegrad/base/memory/dry_run.h"

namespace tapegrad::run {

void Objective::skip_batch() {
  const DryRun dry(DryRun::Draws::made);
  loss();
}

std::vector<std::int64_t> Objective::counted(std::int64_t) const { return {}; }

std::vector<std::string> Objective::metrics() const { return {}; }

std::vector<std::int64_t> Objective::take_counts() { return {}; }

void Objective::end_step(std::span<const std::int64_t>, bool) {}

namespace {

class FunctionObjective final : public Objective {
 public:
  FunctionObjective(std::function<Loss()> loss, std::function<std::optional<Losses>()> evaluate)
      : loss_(std::move(loss)), evaluate_(std::move(evaluate)) {}
  Loss loss() override { return loss_(); }
  std::optional<Losses> evaluate() override { return evaluate_(); }

 private:
  const std::function<Loss()> loss_;
  const std::function<std::optional<Losses>()> evaluate_;
};

}  // namespace

std::shared_ptr<Objective> objective_of(std::function<Loss()> loss,
                                        std::function<std::optional<Losses>()> evaluate) {
  return std::make_shared<FunctionObjective>(std::move(loss), std::move(evaluate));
}

}  // namespace tapegrad::run
