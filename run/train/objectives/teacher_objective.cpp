#include <memory>
#include <optional>
#include <utility>

#include "tapegrad/run/train/objectives/internal/decoder_objective.h"

namespace tapegrad::run {
namespace {

// The probabilities of a teacher, beside the targets of a text or of conversations.
class TeacherObjective final : public DecoderObjective {
 public:
  TeacherObjective(std::unique_ptr<const DecoderObjective> data, const TeacherOptions& options,
                   std::shared_ptr<const OpenedModel> teacher, Precision precision)
      : data_(std::move(data)),
        options_(options),
        teacher_(std::move(teacher)),
        precision_(precision) {}

  std::string_view name() const override { return data_->name(); }
  std::vector<HeaderLine> about() const override {
    return {{"teacher", fmt::format("{}, {} of the loss at temperature {:g}", options_.teacher,
                                    options_.weight, options_.temperature)}};
  }
  std::optional<MemoryOptions::SecondModel> second_model() const override {
    return MemoryOptions::SecondModel{teacher_->config,
                                      [teacher = teacher_, precision = precision_] {
                                        return teacher_params(*teacher, precision);
                                      }};
  }
  Tensor loss_of_rows(const DecoderModels& models, const nn::TokenRows& inputs,
                      const Tensor& targets, Rng* dropout) const override {
    return nn::distillation_loss(models.trained, *models.second, inputs, targets,
                                 options_.distillation(), dropout, data::kIgnoredTarget,
                                 models.routers);
  }
  // By the data alone.
  std::optional<Losses> evaluate(const DecoderModels& models,
                                 const EvaluationBatches& batches) const override {
    return data_->evaluate(models, batches);
  }
  std::optional<FinalLoss> evaluate_all(const DecoderModels& models, const TextData& data,
                                        const WindowOptions& windows) const override {
    return data_->evaluate_all(models, data, windows);
  }

 private:
  const std::unique_ptr<const DecoderObjective> data_;
  const TeacherOptions options_;
  const std::shared_ptr<const OpenedModel> teacher_;
  const Precision precision_;
};

}  // namespace

std::unique_ptr<const DecoderObjective> teacher_objective(
    std::unique_ptr<const DecoderObjective> data, const TeacherOptions& options,
    std::shared_ptr<const OpenedModel> teacher, Precision precision) {
  return std::make_unique<TeacherObjective>(std::move(data), options, std::move(teacher),
                                            precision);
}

}  // namespace tapegrad::run
