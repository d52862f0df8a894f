// Adapters of PEFT's, whose adapter_config.json is the input, and of llama.cpp's, a GGUF. What is
// accepted must have adapters of linear layers, whose scale is a number, and go out again.

#include "tapegrad/autograd/formats/safetensors.h"
#include "tapegrad/run/models/adapters/adapter.h"
#include "tapegrad/tests/fuzz/fuzz.h"

using namespace tapegrad;

namespace {

nn::DecoderConfig llama() {
  nn::DecoderConfig config;
  config.arch = nn::Architecture::llama;
  config.n_layer = 2, config.n_head = 4, config.n_kv_head = 2, config.n_embd = 16;
  config.n_inner = 40, config.head_size = 6, config.tied = false;
  config.vocab_size = 404, config.block_size = 24;
  return config.with_defaults();
}

void put_tensors() {
  const std::string layer = "base_model.model.model.layers.0.self_attn.q_proj.lora_";
  save_safetensors(
      (fuzz::folder() / run::kPeftModelFile).string(),
      {{layer + "A.weight", Tensor::ones({3, 16})}, {layer + "B.weight", Tensor::ones({24, 3})}});
}

bool opens(const std::filesystem::path& path) {
  return fuzz::accepts(path.string(), [&] {
    const run::Adapter adapter = run::open_adapter(path, llama());
    if (run::adapted_layers(*adapter.tensors).empty()) fuzz::finding("no layer has an adapter");
    if (!(adapter.options.scale() > 0)) fuzz::finding("a scale that cannot be");
    for (const auto& [name, entry] : adapter.tensors->entries()) {
      if (adapter.tensors->read(name).shape() != entry.shape) fuzz::finding("another shape");
    }
    run::write_peft(fuzz::folder() / "out", adapter, llama(), "base");
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const bool once = (put_tensors(), true);
  (void)once;
  const std::string_view all = fuzz::text_of(data, size);
  if (all.starts_with("GGUF")) {
    opens(fuzz::put("adapter.gguf", all));
  } else {
    fuzz::put(run::kPeftConfigFile, all);
    opens(fuzz::folder());
  }
  return 0;
}
