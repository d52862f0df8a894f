#include "tapegrad/run/models/formats/onnx/onnx_export.h"

#include <algorithm>

#include "tapegrad/run/folder/internal/folder_calls.h"
#include "tapegrad/run/models/families/internal/family.h"
#include "tapegrad/run/models/formats/hf/hf_out.h"
#include "tapegrad/run/models/formats/hf/internal/hf_texts.h"
#include "tapegrad/run/models/formats/internal/foreign_parts.h"
#include "tapegrad/run/models/formats/onnx/internal/decoder_graph.h"
#include "tapegrad/run/models/formats/onnx/internal/onnx_layers.h"

namespace tapegrad::run {
namespace {

namespace fs = std::filesystem;

// The file that transformers.js opens for one of its types, and that of weights beside it.
struct OnnxForm {
  std::string_view type, file, data_file;
  std::string_view name;  // of its option `dtype`
};
constexpr OnnxForm kForms[] = {
    {"f32", "onnx/model.onnx", "onnx/model.onnx_data", "fp32"},
    {"f16", "onnx/model_fp16.onnx", "onnx/model_fp16.onnx_data", "fp16"},
    {kOnnxBytes, "onnx/model_quantized.onnx", "onnx/model_quantized.onnx_data", "q8"},
};

const OnnxForm* form_of(const StoredType& type) {
  const auto* form = std::find_if(std::begin(kForms), std::end(kForms),
                                  [&](const OnnxForm& f) { return f.type == type.name; });
  return form == std::end(kForms) ? nullptr : form;
}

// A Llama whose cache has a model's sizes.
nn::DecoderConfig llama_with_cache_of(const nn::DecoderConfig& c) {
  // transformers wants a number that its heads divide.
  const bool divides = c.n_embd % c.n_head == 0;
  return {.arch = nn::Architecture::llama,
          .vocab_size = c.vocab_size,
          .block_size = c.block_size,
          .n_layer = c.n_layer,
          .n_head = c.n_head,
          .n_embd = divides ? c.n_embd : c.n_head * c.channels_per_head(),
          .tied = c.tied,
          .n_inner = c.inner(),
          .n_kv_head = c.kv_heads(),
          .head_size = c.channels_per_head()};
}

// Runtimes make a cache of the sizes in config.json, and the graph is the rest. So that file names
// a Llama of these sizes where no class of transformers computes the model; where AutoTokenizer
// would make the family's own tokenizer, and not the model's; and for a StableLM whose heads share
// keys, for which transformers.js would make a cache of other sizes.
HfTexts texts_of(const TextModel& model) {
  const nn::DecoderConfig& c = model.gpt.config;
  const std::string_view dtype = stored_type(DType::f32).torch;
  const bool is_stablelm = family_of(c).name == "stablelm" && c.kv_heads() != c.n_head;
  if (!is_stablelm && is_hf_config(c)) {
    HfTexts texts(model, c, dtype);
    if (texts.has_own_tokenizer()) return texts;
  }
  return {model, llama_with_cache_of(c), dtype};
}

}  // namespace

std::vector<std::string_view> onnx_files() {
  std::vector<std::string_view> files;
  for (const OnnxForm& form : kForms) {
    files.push_back(form.data_file);
    files.push_back(form.file);
  }
  for (const std::string_view file : hf_text_files()) files.push_back(file);
  return files;
}

bool is_onnx_type(const StoredType& type) { return form_of(type) != nullptr; }

Exported export_onnx(const TextModel& model, const fs::path& folder, const StoredType& type) {
  const OnnxForm& form = *form_of(type);
  HfTexts texts = texts_of(model);
  require_f32(model.params);
  const OnnxGraph graph = decoder_graph(model.gpt, model.params, type);

  make_folder(folder / fs::path(form.file).parent_path());
  const bool has_data_file = write_onnx(folder / form.file, graph);
  check(has_entry(folder / form.data_file) == has_data_file,
        "[onnx] weights beside a graph are not where {} is", form.data_file);
  texts.add("transformers.js_config",
            {{"dtype", form.name}, {"use_external_data_format", has_data_file}});
  texts.write(folder);
  std::vector<std::string_view> written = onnx_files();
  std::erase_if(written, [&](std::string_view file) { return !has_entry(folder / file); });
  return {std::move(written),
          "in JavaScript: env.localModelPath = \"{3}\"; await pipeline(\"text-generation\", "
          "\"{2}\")"};
}

}  // namespace tapegrad::run
