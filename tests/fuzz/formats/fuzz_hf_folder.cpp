// A model folder of Hugging Face's: config.json, and behind NULs the index of its files and
// tokenizer_config.json. What is accepted must name a model that can be described without its
// memory, and tensors with a shape.

#include "tapegrad/autograd/formats/safetensors.h"
#include "tapegrad/run/models/formats/hf/hf_folder.h"
#include "tapegrad/run/models/formats/internal/settings_meaning.h"
#include "tapegrad/tests/fuzz/fuzz.h"

using namespace tapegrad;

namespace {

// A file that an index may name, and a tokenizer that is accepted.
void put_part() {
  fuzz::put("tokenizer.json", data::Tokenizer::train_bpe("a text", 257).hf_json());
  save_safetensors((fuzz::folder() / "part.safetensors").string(),
                   {{"transformer.h.0.mlp.c_fc.weight", Tensor::ones({2, 8})},
                    {"wte.weight", Tensor::ones({3, 2})},
                    {"lm_head.weight", Tensor::ones({3, 2})}});
}

bool opens(std::string_view config, std::string_view index, std::string_view settings = "{}") {
  fuzz::put("config.json", config);
  fuzz::put("model.safetensors.index.json", index);
  fuzz::put(run::kTokenizerConfigFile, settings);
  if (!run::is_hf_folder(fuzz::folder())) return false;
  return fuzz::accepts(fuzz::folder().string(), [] {
    const run::ForeignModel model = run::open_hf(fuzz::folder());
    model.config.validate();
    for (const auto& [role, token] : run::meaning_of(model.settings, model.tokenizer).roles) {
      if (token < 0 || token >= model.config.vocab_size) fuzz::finding("no token: " + role);
    }
    run::cut_settings(model.settings, 1);
    for (const auto& [tensor, entry] : model.weights->entries()) {
      if (model.weights->read(tensor).shape() != entry.shape) {
        fuzz::finding("another shape: " + tensor);
      }
    }
  });
}

// Inputs that are refused for what they all have in common would find nothing.
void check_accepted() {
  constexpr std::string_view index = R"({"weight_map": {"wte.weight": "part.safetensors"}})";
  constexpr std::string_view gpt2 =
      R"({"model_type":"gpt2","n_layer":1,"n_head":1,"n_embd":2,"vocab_size":300})";
  constexpr std::string_view llama =
      R"({"model_type":"llama","num_hidden_layers":1,"num_attention_heads":1,"hidden_size":2,)"
      R"("intermediate_size":4,"vocab_size":300})";
  if (!opens(gpt2, index) || !opens(llama, index)) fuzz::finding("a good folder is refused");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const bool once = (put_part(), check_accepted(), true);
  (void)once;
  const std::string_view all = fuzz::text_of(data, size);
  const std::size_t middle = std::min(all.find('\0'), all.size());
  const std::string_view rest = middle < all.size() ? all.substr(middle + 1) : "{}";
  const std::size_t end = std::min(rest.find('\0'), rest.size());
  opens(all.substr(0, middle), rest.substr(0, end),
        end < rest.size() ? rest.substr(end + 1) : "{}");
  return 0;
}
