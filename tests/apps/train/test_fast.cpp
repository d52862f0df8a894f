// The preset `fast`: what it goes by, and that what it chooses is a run.

#include "tapegrad/apps/gpt/fast.h"

#include "tapegrad/apps/gpt/gpt_facts.h"
#include "tapegrad/base/text/words.h"
#include "tapegrad/nn/summary.h"
#include "tapegrad/tests/apps/parsed.h"
#include "tapegrad/tests/apps/tiny_args.h"

using namespace tapegrad;

namespace {

run::TextOptions corpus_at(std::vector<std::string> paths) {
  return {.corpus = std::move(paths)};
}

double parameters_of(const gpt::Options& o) {
  nn::DecoderConfig config = o.model;
  config.vocab_size = 512;
  config.ngrams = 1;  // whose tables have the size of the tokenizer
  return static_cast<double>(nn::summary(config).parameters());
}

}  // namespace

TEST_CASE("the length of a text is that of its files", "[fast]") {
  const TempFolder folder;
  const std::string one = folder.put("one.txt", std::string(300, 'a'));
  std::filesystem::create_directories(folder / "many/deep");
  folder.put("many/two.txt", std::string(20, 'b'));
  folder.put("many/deep/three.txt", std::string(4, 'c'));
  CHECK(gpt::text_bytes(corpus_at({one})) == 300);
  CHECK(gpt::text_bytes(corpus_at({one, folder / "many"})) == 324);
  CHECK(gpt::text_bytes(corpus_at({one + ":2"})) == 300);
  const std::string packed = folder.put("packed.gz", std::string(100, 'd'));
  CHECK(gpt::text_bytes(corpus_at({packed})) == 400);
  CHECK(gpt::text_bytes(corpus_at({})) ==
        static_cast<double>(gpt::default_text().contents.size()));
  CHECK_FALSE(gpt::text_bytes(corpus_at({"-"})));
  CHECK_FALSE(gpt::text_bytes(corpus_at({folder / "nothing.txt"})));
}

TEST_CASE("fast: more work makes larger models, and every choice is a valid run", "[fast]") {
  for (const double bytes : {1e3, 1e5, 1e6, 1e7, 1e8, 1e10}) {
    double before = 0;
    for (double flops = 1e9; flops < 1e19; flops *= 4) {
      CAPTURE(bytes, flops);
      gpt::Options o = gpt::fast_options({.bytes = bytes, .flops = flops});
      o.model.vocab_size = 512;
      CHECK_NOTHROW(o.validate());
      CHECK(parameters_of(o) >= before);
      before = parameters_of(o);
    }
  }
}
