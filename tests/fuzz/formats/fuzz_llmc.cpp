// A model of llm.c's, and behind the bytes of a length the tokenizer beside it: u16, model,
// tokenizer. What is accepted must have tensors with their shapes, and a tokenizer that decodes.

#include <cstring>

#include "tapegrad/run/models/formats/llmc.h"
#include "tapegrad/tests/fuzz/fuzz.h"

using namespace tapegrad;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::uint16_t length = 0;
  if (size < sizeof length) return 0;
  std::memcpy(&length, data, sizeof length);
  const std::string_view all = fuzz::text_of(data, size).substr(sizeof length);
  const std::size_t middle = std::min<std::size_t>(length, all.size());
  const auto path = fuzz::put("gpt2_124M.bin", all.substr(0, middle));
  const auto tokenizer = fuzz::put("gpt2_tokenizer.bin", all.substr(middle));
  if (!run::is_llmc_file(path)) return 0;
  fuzz::accepts(fuzz::folder().string(), [&] {
    const run::ForeignModel model = run::open_llmc(path);
    model.config.validate();
    std::size_t bytes = 0;
    for (const auto& [tensor, entry] : model.weights->entries()) {
      const Tensor t = model.weights->read(tensor);
      if (t.shape() != entry.shape) fuzz::finding("another shape: " + tensor);
      bytes += t.bytes();
    }
    // BF16 becomes floats of twice its size.
    if (bytes > 2 * size) fuzz::finding("more weights than bytes");
    if (model.tokenizer.vocab_size() != model.config.vocab_size)
      fuzz::finding("another vocabulary");
    model.tokenizer.decode(model.tokenizer.encode(model.tokenizer.token_bytes(0)));
  });
  return 0;
}
