#include "tapegrad/apps/train/objectives.h"

#include <utility>

#include "tapegrad/apps/train/plan/init_from.h"
#include "tapegrad/run/models/tensor_views.h"

namespace tapegrad::gpt {

std::unique_ptr<const run::DecoderObjective> objective_of(const Plan& plan) {
  if (plan.prefers()) {
    std::optional<run::MemoryOptions::SecondModel> reference;
    if (plan.copies_start()) {
      reference = {.config = plan.model,
                   .params = [weights = weight_plan(plan)] { return start_params(weights); }};
    }
    return run::pair_objective(plan.preference, std::move(reference));
  }
  auto data = plan.is_chat ? run::chat_objective() : run::text_objective();
  if (!plan.models.teacher) return data;
  return run::teacher_objective(std::move(data), plan.teaching, plan.models.teacher,
                                plan.optimizer.precision());
}

std::optional<std::string> fingerprint_of_teacher(const Plan& plan,
                                                  const data::Tokenizer& tokenizer) {
  if (!plan.models.teacher) return std::nullopt;
  const run::OpenedModel& teacher = *plan.models.teacher;
  const std::string& path = plan.teaching.teacher;
  run::check_teacher(teacher, path, tokenizer, tokenizer.vocab_size(), plan.text.block_size);
  run::check_base(teacher);
  const std::string now = run::fingerprint_of(*teacher.weights);
  check(!plan.call.folder.resumes() || now == plan.teaching.base,
        "--teacher {}: its weights have changed since the run began (fingerprint {}, now {}): put "
        "that model back as it was",
        path, plan.teaching.base, now);
  return now;
}

}  // namespace tapegrad::gpt
