// A model in GGUF. What is accepted must have tensors of the shapes that it says, no more bytes of
// them than the file has, and a tokenizer whose ids are those of its text.

#include "tapegrad/autograd/formats/gguf.h"
#include "tapegrad/autograd/tensor/stored_tensor.h"
#include "tapegrad/run/models/formats/gguf/gguf_model.h"
#include "tapegrad/run/models/formats/gguf/internal/gguf_settings.h"
#include "tapegrad/tests/fuzz/fuzz.h"

using namespace tapegrad;

namespace {

// Opens the input as the first of two files of a model, of which the second has no tensors.
void open_as_part(std::string_view bytes) {
  const GgufKeys keys = {{"split.no", std::int64_t{1}},
                         {"split.count", std::int64_t{2}},
                         {"split.tensors.count", std::int64_t{1}}};
  const auto second = fuzz::folder() / "model-00002-of-00002.gguf";
  if (!std::filesystem::exists(second)) write_gguf(second, keys, {});
  const auto path = fuzz::put("model-00001-of-00002.gguf", bytes);
  fuzz::accepts("model-0000", [&] {
    const auto file = open_gguf_parts(path);
    for (const auto& [name, entry] : file->entries()) file->read(name);
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto path = fuzz::put("model.gguf", fuzz::text_of(data, size));
  if (!run::is_gguf_file(path)) return 0;
  open_as_part(fuzz::text_of(data, size));
  fuzz::accepts("model.gguf", [&] {
    const GgufFile file(path);
    std::uint64_t bytes = 0;
    for (const auto& [name, entry] : file.entries()) {
      const Tensor t = file.read(name);
      if (t.shape() != entry.shape) fuzz::finding("another shape: " + name);
      bytes += file.stored(name).bytes();
    }
    if (bytes > size) fuzz::finding("more tensors than bytes");
  });
  fuzz::accepts("model.gguf", [&] {
    const run::ForeignModel model = run::open_gguf(path);
    model.config.validate();
    for (const auto& [name, entry] : model.weights->entries()) {
      if (model.weights->read(name).shape() != entry.shape) fuzz::finding("another shape: " + name);
    }
    const data::Tokenizer& t = model.tokenizer;
    if (t.vocab_size() != model.config.vocab_size) fuzz::finding("tokens and rows differ");
    for (const auto& [role, token] : run::meaning_of(model.settings, t).roles) {
      if (token < 0) fuzz::finding("a token that cannot be");
    }
    write_gguf(fuzz::folder() / "keys.gguf", run::passed_keys(*model.settings.gguf), {});
    const GgufFile kept(fuzz::folder() / "keys.gguf");
    for (const auto& [key, value] : kept.keys()) {
      if (kept.stored_value(key) != model.settings.gguf->stored_value(key)) {
        fuzz::finding("another value: " + key);
      }
    }
    if (t.kind() != "char" && t.decode(t.encode("a b")) != "a b") fuzz::finding("another text");
  });
  return 0;
}
