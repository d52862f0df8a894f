#include "tapegrad/apps/train/gpt_teacher.h"

#include <memory>

#include "tapegrad/run/models/tensor_views.h"

namespace tapegrad::gpt {

std::optional<std::string> fingerprint_of_teacher(const Plan& o, const data::Tokenizer& tokenizer) {
  if (!o.models.teacher) return std::nullopt;
  const std::string& path = o.teaching.teacher;
  run::check_teacher(*o.models.teacher, path, tokenizer, tokenizer.vocab_size(), o.text.block_size);
  run::check_base(*o.models.teacher);
  const std::string now = run::fingerprint_of(*o.models.teacher->weights);
  check(!o.call.folder.resumes() || now == o.teaching.base,
        "--teacher {}: its weights have changed since the run began (fingerprint {}, now {}): put "
        "that model back as it was",
        path, o.teaching.base, now);
  return now;
}

std::optional<nn::Decoder> teacher_model(const Plan& o) {
  if (!o.models.teacher) return std::nullopt;
  return nn::Decoder(run::teacher_params(*o.models.teacher, o.optimizer.precision()),
                     o.models.teacher->config);
}

void add_teacher_memory(const Plan& o, run::MemoryOptions& memory) {
  if (!o.models.teacher) return;
  memory.second_model = {.config = o.models.teacher->config, .params = [&o] {
                           return run::teacher_params(*o.models.teacher, o.optimizer.precision());
                         }};
  memory.loss = [&o](const nn::Decoder& gpt, const nn::Decoder* teacher, Rng* dropout) {
    const Tensor ids =  // whose values nobody reads in a dry run
        Tensor::empty({o.optimizer.batch_size, o.text.block_size}, DType::i32);
    return nn::distillation_loss(gpt, *teacher, ids, ids, o.teaching.distillation(), dropout);
  };
}

std::function<Tensor(const nn::Decoder&, const nn::TokenRows&, const Tensor&, Rng*)> teacher_trial(
    const Plan& o) {
  if (!o.models.teacher) return {};
  auto teacher = std::make_shared<std::optional<nn::Decoder>>();
  return [teacher, &o](const nn::Decoder& gpt, const nn::TokenRows& inputs, const Tensor& targets,
                       Rng* dropout) {
    if (!*teacher) *teacher = teacher_model(o);
    return nn::distillation_loss(gpt, **teacher, inputs, targets, o.teaching.distillation(),
                                 dropout);
  };
}

}  // namespace tapegrad::gpt
