#include "tapegrad/apps/sample/speculation.h"

#include <utility>

#include "tapegrad/base/error.h"
#include "tapegrad/run/models/same_tokens.h"

namespace tapegrad::sampling {

void SpeculationOptions::validate(bool kv_cache) const {
  check(!draft || (lookup == 0 && kv_cache), "--draft excludes --lookup, and needs the KV cache");
}

void SpeculationOptions::apply(nn::GenerateOptions& options, const nn::Decoder* model) const {
  options.lookup = lookup;
  options.draft = model;
  options.draft_tokens = draft_tokens;
}

void DraftModel::open(const SpeculationOptions& options, const run::OpenedModel& model,
                      const std::string& path) {
  if (!options.draft) return;
  opened_ = run::open_model(*options.draft);
  const std::string difference =
      run::token_difference({opened_->tokenizer, opened_->config.vocab_size},
                            {model.tokenizer, model.config.vocab_size}, path);
  check(difference.empty(), "--draft {}: {}: both must have the same tokens", *options.draft,
        difference);
}

void DraftModel::load() {
  if (opened_) loaded_.emplace(run::load_quantized(*std::exchange(opened_, {}), run::kStored));
}

}  // namespace tapegrad::sampling
