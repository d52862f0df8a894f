#include <memory>
#include <optional>

#include "tapegrad/run/train/objectives/internal/decoder_objective.h"

namespace tapegrad::run {
namespace {

// The mean loss over the answers of conversations: other targets are ignored.
class ChatObjective final : public DecoderObjective {
 public:
  std::string_view name() const override { return "chat"; }
  Tensor loss_of_rows(const DecoderModels& models, const nn::TokenRows& inputs,
                      const Tensor& targets, Rng* dropout) const override {
    return models.trained.loss(inputs, targets, dropout, data::kIgnoredTarget, models.routers);
  }
  std::optional<FinalLoss> evaluate_all(const DecoderModels& models, const TextData& data,
                                        const WindowOptions& windows) const override {
    const auto loss = loss_of_conversations(models.trained, data.tokenizer, data.chat->val,
                                            data.chat->loss, windows);
    return loss ? std::optional(final_loss(*loss)) : std::nullopt;
  }
};

}  // namespace

std::unique_ptr<const DecoderObjective> chat_objective() {
  return std::make_unique<ChatObjective>();
}

}  // namespace tapegrad::run
