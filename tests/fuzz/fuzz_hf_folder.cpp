// A model folder of Hugging Face's: config.json, and behind a NUL the index of its files. What is
// accepted must name a model that can be described without its memory, and tensors with a shape.

#include "tapegrad/autograd/tensor/safetensors.h"
#include "tapegrad/run/formats/hf_folder.h"
#include "tapegrad/tests/fuzz/fuzz.h"

using namespace tapegrad;

namespace {

// A file that an index may name, and a tokenizer of one token.
void put_part() {
  fuzz::put("tokenizer.json",
            R"({"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false,)"
            R"( "trim_offsets": true, "use_regex": true},)"
            R"( "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}})");
  save_safetensors((fuzz::folder() / "part.safetensors").string(),
                   {{"transformer.h.0.mlp.c_fc.weight", Tensor::ones({2, 8})},
                    {"wte.weight", Tensor::ones({3, 2})},
                    {"lm_head.weight", Tensor::ones({3, 2})}});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const bool once = (put_part(), true);
  (void)once;
  const std::string_view all = fuzz::text_of(data, size);
  const std::size_t middle = std::min(all.find('\0'), all.size());
  fuzz::put("config.json", all.substr(0, middle));
  fuzz::put("model.safetensors.index.json", middle < all.size() ? all.substr(middle + 1) : "{}");
  if (!run::is_hf_folder(fuzz::folder())) return 0;
  const std::string name = fuzz::folder().string();
  fuzz::accepts(name, [&] {
    const run::ForeignModel model = run::open_hf(fuzz::folder());
    model.config.validate();
    for (const auto& [tensor, entry] : model.weights->entries()) {
      if (model.weights->read(tensor).shape() != entry.shape) {
        fuzz::finding("another shape: " + tensor);
      }
    }
  });
  return 0;
}
