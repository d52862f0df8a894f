#include "tapegrad/run/models/formats/onnx/onnx_export.h"

#include <algorithm>

#include "tapegrad/data/pairs.h"
#include "tapegrad/data/tokenize/hf/internal/hf_export.h"
#include "tapegrad/run/folder/internal/folder_calls.h"
#include "tapegrad/run/models/families/internal/family.h"
#include "tapegrad/run/models/formats/hf/hf_out.h"
#include "tapegrad/run/models/formats/hf/internal/hf_texts.h"
#include "tapegrad/run/models/formats/internal/foreign_parts.h"
#include "tapegrad/run/models/formats/onnx/internal/decoder_graph.h"
#include "tapegrad/run/models/formats/onnx/internal/encoder_decoder_graphs.h"
#include "tapegrad/run/models/formats/onnx/internal/onnx_layers.h"

namespace tapegrad::run {
namespace {

namespace fs = std::filesystem;

// A type of matrices: what names of files end with, and the name of transformers.js's option.
struct OnnxForm {
  std::string_view type, suffix, dtype;
};
constexpr OnnxForm kForms[] = {
    {"f32", "", "fp32"}, {"f16", "_fp16", "fp16"}, {kOnnxBytes, "_quantized", "q8"}};

// Graphs, as Optimum calls them: of a decoder, and of the halves of an encoder–decoder.
constexpr std::string_view kModelGraph = "model", kEncoderGraph = "encoder_model",
                           kDecoderGraph = "decoder_model_merged";

std::string file_of(std::string_view graph, const OnnxForm& form) {
  return fmt::format("onnx/{}{}.onnx", graph, form.suffix);
}

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

// True if the weights are in a file beside it.
bool write_graph(const fs::path& folder, std::string_view name, const OnnxForm& form,
                 const OnnxGraph& graph) {
  const fs::path path = folder / file_of(name, form);
  make_folder(path.parent_path());
  return write_onnx(path, graph);
}

std::vector<std::string_view> files_in(const fs::path& folder) {
  std::vector<std::string_view> files = onnx_files();
  std::erase_if(files, [&](std::string_view file) { return !has_entry(folder / file); });
  return files;
}

constexpr int kTokenizerDepth = 16;  // of the brackets in a tokenizer.json
// Of data::SpecialTokens, in the order of their ids.
constexpr std::string_view kPairTokens[] = {"<|pair_padding|>", "<|pair_start|>", "<|pair_end|>"};

// With the three special tokens. A source has no token that its text has not.
std::string tokenizer_json_of(const Translator& t) {
  const std::vector<std::string> names(std::begin(kPairTokens), std::end(kPairTokens));
  const std::string text =
      data::hf_json_with_special(t.tokenizer.hf_json(), names, t.special().padding);
  auto json = parse_json<nlohmann::json>(text, kTokenizerDepth);
  json["post_processor"] = nullptr;
  return sorted_json_text(json);
}

// The ids of the special tokens, for both files that name them.
Json generation_json_of(const Translator& t) {
  const data::SpecialTokens special = t.special();
  return {{"bos_token_id", special.start},
          {"decoder_start_token_id", special.start},
          {"eos_token_id", special.end},
          {"pad_token_id", special.padding},
          {"forced_eos_token_id", nullptr}};
}

// No class of transformers has the model's norms. Runtimes take from this file the sizes of the
// caches and how to call the graphs, which are the rest: it names a Bart of these sizes.
Json config_json_of(const Translator& t) {
  const nn::TransformerConfig& c = t.model.config;
  Json json = {{"architectures", Json::array({"BartForConditionalGeneration"})},
               {"model_type", "bart"},
               {"exported_from", kSeq2SeqFormat},
               {"is_encoder_decoder", true},
               {"vocab_size", c.vocab_size},
               {"max_position_embeddings", c.block_size},
               {"d_model", c.n_embd}};
  for (const std::string side : {"encoder", "decoder"}) {
    json[side + "_layers"] = c.n_layer;
    json[side + "_attention_heads"] = c.n_head;
    json[side + "_ffn_dim"] = c.n_hidden;
  }
  json.update(generation_json_of(t));
  return json;
}

Json tokenizer_config_json_of(const Translator& t) {
  const auto& [padding, start, end] = kPairTokens;
  return {{"tokenizer_class", "PreTrainedTokenizerFast"},
          {"model_max_length", t.model.config.block_size},
          {"clean_up_tokenization_spaces", false},
          {"pad_token", padding},
          {"bos_token", start},
          {"eos_token", end}};
}

}  // namespace

std::vector<std::string_view> onnx_files() {
  static const std::vector<std::string> graphs = [] {
    std::vector<std::string> files;
    for (const OnnxForm& form : kForms) {
      for (const std::string_view graph : {kModelGraph, kEncoderGraph, kDecoderGraph}) {
        files.push_back(file_of(graph, form) + std::string(kOnnxData));
        files.push_back(file_of(graph, form));
      }
    }
    return files;
  }();
  std::vector<std::string_view> files(graphs.begin(), graphs.end());
  for (const std::string_view file : hf_text_files()) files.push_back(file);
  return files;
}

bool is_onnx_type(const StoredType& type) { return form_of(type) != nullptr; }

Exported export_onnx(const TextModel& model, const fs::path& folder, const StoredType& type) {
  const OnnxForm& form = *form_of(type);
  HfTexts texts = texts_of(model);
  require_f32(model.params);
  const OnnxGraph graph = decoder_graph(model.gpt, model.params, type);

  const bool has_data_file = write_graph(folder, kModelGraph, form, graph);
  texts.add("transformers.js_config",
            {{"dtype", form.dtype}, {"use_external_data_format", has_data_file}});
  texts.write(folder);
  return {files_in(folder),
          "in JavaScript: env.localModelPath = \"{3}\"; await pipeline(\"text-generation\", "
          "\"{2}\")"};
}

Exported export_onnx_translator(const Translator& t, const fs::path& folder,
                                const StoredType& type) {
  const OnnxForm& form = *form_of(type);
  const std::string tokenizer = tokenizer_json_of(t);
  require_f32(t.params);
  const EncoderDecoderGraphs graphs = encoder_decoder_graphs(t.model, t.params, type);

  const Json outside = {{kEncoderGraph, write_graph(folder, kEncoderGraph, form, graphs.encoder)},
                        {kDecoderGraph, write_graph(folder, kDecoderGraph, form, graphs.decoder)}};
  write_file_atomically(folder / kTokenizerFile, tokenizer);
  write_json(folder / kTokenizerConfigFile, tokenizer_config_json_of(t));
  const std::int64_t most = t.model.config.block_size;
  Json generation = generation_json_of(t);
  generation["max_length"] = most + 1;  // with the start
  write_json(folder / data::kGenerationFile, generation);
  Json config = config_json_of(t);
  config["transformers.js_config"] = {{"dtype", form.dtype}, {"use_external_data_format", outside}};
  write_json(folder / kConfigFile, config);
  return {files_in(folder),
          fmt::format("in JavaScript: env.localModelPath = \"{{3}}\"; const f = await "
                      "pipeline(\"text2text-generation\", \"{{2}}\"); await f(TEXT, "
                      "{{{{max_new_tokens: {}}}}})",
                      most)};
}

}  // namespace tapegrad::run
