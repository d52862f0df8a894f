// Both training programs with several threads, in this process, where ThreadSanitizer can watch the
// whole of a run.

#include "tapegrad/apps/seq2seq/seq2seq_program.h"
#include "tapegrad/apps/train/train_command.h"
#include "tapegrad/base/parallel.h"
#include "tapegrad/tests/apps/tiny_runs.h"

using namespace tapegrad;

namespace {

void check_threads(int (*train)(const cli::Call&), const CorpusAndRun& files, const Args& args) {
  const auto trained = [&](const std::string& threads) {
    const std::string folder = files.folder / ("with-" + threads);
    const Args all = Args{"program"} + args + Args{"--out-dir", folder, "--threads", threads};
    std::vector<const char*> argv;
    for (const std::string& arg : all) argv.push_back(arg.c_str());
    REQUIRE(train({"program", static_cast<int>(argv.size()), argv.data()}) == 0);
    return TempFolder::get(folder + "/model.safetensors");
  };
  const int before = num_threads();
  const std::string one = trained("1");
  CHECK(trained("2") == one);
  CHECK(trained("4") == one);
  set_num_threads(before);
}

}  // namespace

TEST_CASE("training with any number of threads ends with the same model", "[threads]") {
  // Wide enough for loops and products to be shared out.
  const Args wide = {"--n-embd", "128", "--n-head", "4", "--batch-size", "16", "--dropout", "0.1"};
  SECTION("train-gpt") {
    const CorpusAndRun files("text.txt", tiny_text());
    check_threads(gpt::train, files,
                  tiny_run(files.corpus, files.run, 3) + wide + Args{"--block-size", "64"});
  }
  SECTION("train-seq2seq") {
    const CorpusAndRun files("pairs.tsv", tiny_pairs());
    check_threads(seq2seq::train, files, tiny_pair_run(files.corpus, files.run, 3) + wide);
  }
}
