// nanoGPT's files: a checkpoint, which is a zip archive, or a pickle. The pickle is read as a
// vocabulary, and as that of a checkpoint with a storage. No tensor may have more elements than the
// file, and nothing may be called.

#include "tapegrad/autograd/formats/pickle_writer.h"
#include "tapegrad/autograd/formats/torch_file.h"
#include "tapegrad/run/models/formats/nanogpt.h"
#include "tapegrad/tests/fuzz/fuzz.h"

using namespace tapegrad;

namespace {

// A vocabulary for the checkpoints.
void put_letters() {
  PickleWriter w;
  w.begin_dict();
  w.text("itos");
  w.begin_dict();
  w.integer(0);
  w.text("a");
  w.integer(1);
  w.text("b");
  w.end_dict();
  w.end_dict();
  fuzz::put("meta.pkl", w.take());
}

void read_checkpoint(const std::filesystem::path& path, std::size_t size) {
  static const bool once = (put_letters(), true);
  (void)once;
  if (!run::is_nanogpt_checkpoint(path)) return;
  fuzz::accepts(path.filename().string(), [&] {
    const run::ForeignModel model = run::open_nanogpt(path);
    model.config.validate();
    for (const auto& [name, entry] : model.weights->entries()) {
      const Tensor t = model.weights->read(name);
      if (t.shape() != entry.shape) fuzz::finding("another shape: " + name);
      if (static_cast<std::size_t>(t.numel()) > size) fuzz::finding("more elements than bytes");
    }
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  if (text.starts_with("PK")) {
    read_checkpoint(fuzz::put("ckpt.pt", text), size);
    return 0;
  }
  const auto meta = fuzz::put("characters", text);
  fuzz::accepts("characters", [&] { run::read_nanogpt_meta(meta); });
  const std::string storage(256, '\1');
  const ZipFile files[] = {{"a/data.pkl", text}, {"a/data/0", storage}};
  write_stored_zip(fuzz::folder() / "made.pt", files);
  read_checkpoint(fuzz::folder() / "made.pt", size + storage.size());
  return 0;
}
