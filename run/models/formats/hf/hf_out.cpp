#include "tapegrad/run/models/formats/hf/hf_out.h"

#include "tapegrad/autograd/ops.h"
#include "tapegrad/run/folder/internal/folder_calls.h"
#include "tapegrad/run/folder/run_checkpoint.h"
#include "tapegrad/run/models/families/internal/family_keys.h"
#include "tapegrad/run/models/families/keys/internal/expressible.h"
#include "tapegrad/run/models/formats/hf/internal/hf_config.h"
#include "tapegrad/run/models/formats/hf/internal/hf_names.h"
#include "tapegrad/run/models/formats/hf/internal/hf_texts.h"
#include "tapegrad/run/models/formats/internal/foreign_parts.h"

namespace tapegrad::run {
namespace {

namespace fs = std::filesystem;

// A model's tensors as the files have them.
std::vector<TensorToMake> tensors_of(const Family& family, const TextModel& model) {
  std::vector<TensorToMake> tensors =
      with_hf_names(family.hf, model.gpt.config, family.tensors(model.params, model.gpt.config));
  if (family.hf.joined != nullptr) tensors = family.hf.joined(std::move(tensors));
  for (TensorToMake& t : tensors) {
    if (ends_in(t.name, family.hf.transposed)) {
      t.shape = {t.shape[1], t.shape[0]};
      t.make = [make = t.make] {
        const TapePause pause;
        return permute(make(), {1, 0});
      };
    }
    if (ends_in(t.name, family.hf.exact)) t.type = &stored_type(DType::f32);
    if (t.name != "lm_head.weight") t.name = std::string(family.hf.prefix) + t.name;
  }
  return tensors;
}

}  // namespace

std::vector<std::string_view> hf_files() {
  std::vector<std::string_view> files = hf_text_files();
  files.insert(files.begin() + 1, kModelFile);
  return files;
}

bool is_hf_type(const StoredType& type) { return !type.safetensors.empty() && !type.torch.empty(); }

void check_hf_config(const nn::DecoderConfig& config) {
  const Family& family = family_of(config);
  const auto free = options_of(family, family.hf.keys, config);
  require_expressible(family.hf.model_class, config, model_with(family, config, free), free);
  require_leading_dense(family.hf.model_class, family.hf.keys, config);
  with_window_base(family.hf.model_class, family, config);
  const nn::MambaSizes mamba = config.mamba_sizes();
  const bool parallel = config.has_some('P');
  // Falcon-H1's class and Nemotron-H's have keys for the sizes of heads, and go by these alone.
  const bool sizes_apart = parallel || key_of(family.hf.keys, kSingleParts) != nullptr;
  check(sizes_apart || config.n_embd % config.n_head == 0,
        "transformers needs n_embd {} to be divisible by n_head {}", config.n_embd, config.n_head);
  const std::int64_t norms = config.mamba.norm_groups;
  check(!parallel || norms == 0 || norms == mamba.groups,
        "transformers norms as many parts as there are mamba_groups, {}, not mamba_norm_groups {}",
        mamba.groups, norms);
  check(sizes_apart || !config.has_some('M') || mamba.channels() % config.n_embd == 0,
        "transformers needs mamba_heads {} times mamba_head_size {} to be a multiple of n_embd {}",
        mamba.heads, mamba.head_size, config.n_embd);
}

bool is_hf_config(const nn::DecoderConfig& config) {
  try {
    check_hf_config(config);
    return true;
  } catch (const Error&) {
    return false;
  }
}

Exported export_hf(const TextModel& model, const fs::path& folder, const StoredType& type) {
  const HfTexts texts(model, model.gpt.config, type.torch);
  texts.require_own_tokenizer();
  require_stored_as(type, model.params);

  make_folder(folder);
  const std::string weights_file = (folder / kModelFile).string();
  const Family& family = family_of(model.gpt.config);
  save_safetensors(weights_file, tensors_of(family, model), type, {{"format", "pt"}});
  texts.write(folder);
  std::vector<std::string_view> written = hf_files();
  std::erase_if(written, [&](std::string_view file) { return !has_entry(folder / file); });
  return {std::move(written),
          "in Python: AutoModelForCausalLM.from_pretrained(\"{0}\"), "
          "AutoTokenizer.from_pretrained(\"{0}\")"};
}

}  // namespace tapegrad::run
