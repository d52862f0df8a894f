// Pairs of texts: lines with a source, a tab and a target.

#include "tapegrad/data/pairs.h"
#include "tapegrad/tests/fuzz/fuzz.h"

using namespace tapegrad;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  fuzz::accepts("[", [&] {
    const std::vector<data::Pair> pairs = data::parse_pairs(text, "pairs.tsv");
    const data::PairSplit split = data::hold_out(
        pairs, std::max<std::int64_t>(1, static_cast<std::int64_t>(pairs.size()) / 10));
    const auto tokenizer = data::Tokenizer::gpt2();
    const auto encoded = data::encode_pairs(split.train, tokenizer, 64, "pairs.tsv");
    const data::SpecialTokens special(tokenizer.vocab_size());
    data::PairLoader loader(encoded, 4, special, Rng(1));
    const data::PairBatch batch = loader.next();
    if (batch.B != 4 || batch.S > 64 || batch.T > 64) fuzz::finding("a batch of a wrong shape");
  });
  return 0;
}
