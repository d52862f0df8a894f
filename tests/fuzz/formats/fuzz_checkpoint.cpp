// A checkpoint of which one file is the input: trainer.json, metrics.jsonl or the optimiser's
// state, as the input's first byte says. What is restored must be saved to the same again.

#include "tapegrad/tests/fuzz/fuzz.h"
#include "tapegrad/tests/run/folder/tiny_checkpoint.h"

using namespace tapegrad;
using Model = testing::CheckpointModel;

namespace {

constexpr std::string_view kFiles[] = {run::kTrainerFile, run::kMetricsFile, run::kOptimizerFile};

// The good files, in the order of kFiles.
const std::vector<std::string>& good_files() {
  static const std::vector<std::string> files = [] {
    run::RunFolder folder =
        run::RunFolder::open({.out_dir = fuzz::folder(), .overwrite = true}, "");
    Model model(folder);
    model.progress.iteration = 2;
    for (int i = 0; i < 2; ++i) {
      Tape tape;
      tape.backward(sum(model.line(Tensor::ones({1, 1}))));
      model.sync->step(0, 1);
    }
    folder.begin({.format = "test", .sections = {}});
    for (std::int64_t i = 0; i < 4; ++i) folder.append_metrics({{"iteration", i}});
    folder.save(model.state());
    std::vector<std::string> texts;
    for (const auto file : kFiles) texts.push_back(read_file(fuzz::folder() / file));
    return texts;
  }();
  return files;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::vector<std::string>& good = good_files();
  const std::size_t broken = data[0] % good.size();
  for (std::size_t i = 0; i < good.size(); ++i) {
    fuzz::put(kFiles[i], i == broken ? fuzz::text_of(data + 1, size - 1) : good[i]);
  }
  fuzz::accepts(fuzz::folder().string(), [] {
    const run::RunFolder folder =
        run::RunFolder::open({.out_dir = fuzz::folder(), .init_from = run::kResume}, "");
    Model model(folder);
    folder.restore(model.state());
    folder.save(model.state());
    Model again(folder);
    folder.restore(again.state());
    if (again.progress.iteration != model.progress.iteration ||
        again.draws.state() != model.draws.state()) {
      fuzz::finding("a saved checkpoint has changed");
    }
  });
  return 0;
}
