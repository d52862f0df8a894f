// Adapters of llama.cpp's: github.com/ggml-org/llama.cpp, convert_lora_to_gguf.py and
// src/llama-adapter.cpp. A scale of alpha / rank is all that it knows.

#include <algorithm>
#include <cmath>
#include <map>

#include "tapegrad/autograd/formats/gguf.h"
#include "tapegrad/run/models/adapters/adapter.h"
#include "tapegrad/run/models/families/internal/family.h"
#include "tapegrad/run/models/formats/gguf/internal/gguf_names.h"
#include "tapegrad/run/models/formats/gguf/internal/gguf_tokenizer.h"

namespace tapegrad::run {
namespace {

constexpr const char *kAdapterType = "adapter.type", *kAdapterAlpha = "adapter.lora.alpha";

// Error for a model whose scales llama.cpp's files have in the weights: what is beside a weight
// would have to be multiplied, too.
const Family& family_for_adapters(const nn::DecoderConfig& config) {
  const Family& family = gguf_family_of(config);
  check(family.gguf.fold == nullptr ||
            (config.scales == nn::BlockScales() && config.logit_scale == 1),
        "GGUF's {} has the scales of blocks and logits in its weights, and no adapters beside "
        "them: merge the adapter",
        family.gguf.architecture);
  return family;
}

}  // namespace

Adapter open_gguf_adapter(const std::filesystem::path& path, const nn::DecoderConfig& config) {
  const auto file = open_gguf_parts(path);
  const auto type = gguf_value<std::string>(*file, "general.type", "model");
  check(type == "adapter", "{}: general.type is '{}', not adapter", file->name(), type);
  const auto kind = gguf_value<std::string>(*file, kAdapterType, "none");
  check(kind == "lora", "{}: {} '{}' is not supported, only lora", file->name(), kAdapterType,
        kind);
  const Family& family = family_for_adapters(config);
  const auto architecture = gguf_value<std::string>(*file, "general.architecture", "none");
  check(architecture == family.gguf.architecture,
        "{}: these adapters are for the architecture '{}', and the model's is '{}'", file->name(),
        architecture, family.gguf.architecture);

  std::map<std::string, GgufName> by_theirs;
  for (GgufName& name : gguf_names(family, config)) {
    if (name.theirs.ends_with(".weight")) by_theirs.emplace(name.theirs, std::move(name));
  }
  std::map<std::string, AdapterPlace> places;
  for (const auto& [tensor, entry] : file->entries()) {
    const bool is_a = tensor.ends_with(".lora_a");
    const auto layer =
        by_theirs.find(tensor.substr(0, tensor.size() - std::min<std::size_t>(tensor.size(), 7)));
    check((is_a || tensor.ends_with(".lora_b")) && layer != by_theirs.end(),
          "{}: '{}' is no adapter of a layer of the model", file->name(), tensor);
    std::string ours = layer->second.ours;
    ours.resize(ours.size() - std::string_view("weight").size());
    check(layer->second.is_whole(),
          "{}: '{}' is not supported: GGUF's {} has '{}' in other parts or rows than the model",
          file->name(), tensor, architecture, ours.substr(0, ours.size() - 1));
    places.emplace(ours + (is_a ? "lora_A.weight" : "lora_B.weight"),
                   AdapterPlace{tensor, is_a ? 0 : layer->second.exchanged_heads});
  }
  const auto alpha = gguf_value(*file, kAdapterAlpha, 0.0);
  check(std::isfinite(alpha) && alpha >= 0, "{}: {} cannot be {}", file->name(), kAdapterAlpha,
        alpha);
  const auto options_of = [alpha](const std::string&, std::int64_t rank) {
    const double scales_by_one = static_cast<double>(rank);
    return nn::LoraOptions{.rank = rank, .alpha = alpha == 0 ? scales_by_one : alpha};
  };
  return adapter_of(file, std::move(places), options_of, config.n_layer);
}

void write_gguf_adapter(const std::filesystem::path& path, const Adapter& adapter,
                        const nn::DecoderConfig& config) {
  const Family& family = family_for_adapters(config);
  const double alpha = adapter.options.scale() * static_cast<double>(adapter.options.rank);
  const GgufKeys keys = {{"general.architecture", std::string(family.gguf.architecture)},
                         {"general.type", std::string("adapter")},
                         {kAdapterType, std::string("lora")},
                         {kAdapterAlpha, alpha}};
  std::map<std::string, GgufName> by_ours;
  for (GgufName& name : gguf_names(family, config)) by_ours.emplace(name.ours, std::move(name));
  std::vector<GgufTensor> tensors;
  const auto add = [&](const std::string& ours, const std::string& theirs, std::int64_t heads) {
    tensors.push_back({theirs, &stored_type(DType::f32), adapter.tensors->at(ours).shape,
                       [&adapter, ours, heads] {
                         const Tensor t = adapter.tensors->read(ours, DType::f32);
                         return heads > 0 ? with_heads_exchanged(t, heads) : t;
                       }});
  };
  for (const std::string& layer : adapted_layers(*adapter.tensors)) {
    const auto name = by_ours.find(layer + ".weight");
    check(name != by_ours.end(), "GGUF's {} has no layer for the adapter of '{}'",
          family.gguf.architecture, layer);
    check(name->second.is_whole(), "GGUF's {} has '{}' in other parts: merge its adapter",
          family.gguf.architecture, layer);
    add(layer + ".lora_A.weight", name->second.theirs + ".lora_a", 0);
    add(layer + ".lora_B.weight", name->second.theirs + ".lora_b", name->second.exchanged_heads);
  }
  write_gguf(path, keys, tensors);
}

}  // namespace tapegrad::run
