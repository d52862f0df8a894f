#include "tapegrad/apps/train/gpt_teacher.h"

#include <filesystem>
#include <memory>

#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/base/file.h"
#include "tapegrad/run/models/tensor_views.h"

namespace tapegrad::gpt {

Options with_teacher(Options o) {
  const run::FolderOptions& folder = o.call.folder;
  const bool had_one = !o.teaching.base.empty();
  if (folder.resumes() && had_one == o.teaching.teacher.empty()) {
    cli::usage_error(
        "--teacher: by {}/config.json, the run to resume {} from its beginning; begin a new one",
        folder.out_dir, had_one ? "has learnt from a teacher" : "has had none");
  }
  if (o.teaching.teacher.empty()) return o;
  std::error_code ignored;
  if (!folder.out_dir.empty() &&
      std::filesystem::equivalent(o.teaching.teacher, folder.out_dir, ignored)) {
    cli::usage_error("--teacher and --out-dir are both {}: a run needs a folder of its own",
                     folder.out_dir);
  }
  o.teaching.teacher = absolute_path(o.teaching.teacher).lexically_normal().string();
  o.teacher = std::make_shared<run::OpenedModel>(run::open_model(o.teaching.teacher));
  return o;
}

std::optional<std::string> fingerprint_of_teacher(const Options& o,
                                                  const data::Tokenizer& tokenizer) {
  if (!o.teacher) return std::nullopt;
  const std::string& path = o.teaching.teacher;
  run::check_teacher(*o.teacher, path, tokenizer, tokenizer.vocab_size(), o.text.block_size);
  run::check_base(*o.teacher);
  const std::string now = run::fingerprint_of(*o.teacher->weights);
  check(!o.call.folder.resumes() || now == o.teaching.base,
        "--teacher {}: its weights have changed since the run began (fingerprint {}, now {}): put "
        "that model back as it was",
        path, o.teaching.base, now);
  return now;
}

std::optional<nn::Decoder> teacher_model(const Options& o) {
  if (!o.teacher) return std::nullopt;
  return nn::Decoder(run::teacher_params(*o.teacher, o.optimizer.precision()), o.teacher->config);
}

void add_teacher_memory(const Options& o, run::MemoryOptions& memory) {
  if (!o.teacher) return;
  memory.second_model = {.config = o.teacher->config, .params = [&o] {
                           return run::teacher_params(*o.teacher, o.optimizer.precision());
                         }};
  memory.loss = [&o](const nn::Decoder& gpt, const nn::Decoder* teacher, Rng* dropout) {
    const Tensor ids =  // whose values nobody reads in a dry run
        Tensor::empty({o.optimizer.batch_size, o.text.block_size}, DType::i32);
    return nn::distillation_loss(gpt, *teacher, ids, ids, o.teaching.distillation(), dropout);
  };
}

std::function<Tensor(const nn::Decoder&, const nn::TokenRows&, const Tensor&, Rng*)> teacher_trial(
    const Options& o) {
  if (!o.teacher) return {};
  auto teacher = std::make_shared<std::optional<nn::Decoder>>();
  return [teacher, &o](const nn::Decoder& gpt, const nn::TokenRows& inputs, const Tensor& targets,
                       Rng* dropout) {
    if (!*teacher) *teacher = teacher_model(o);
    return nn::distillation_loss(gpt, **teacher, inputs, targets, o.teaching.distillation(),
                                 dropout);
  };
}

}  // namespace tapegrad::gpt
