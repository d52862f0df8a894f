#include "tapegrad/apps/seq2seq/pair_data.h"

#include <algorithm>

#include "tapegrad/apps/seq2seq/date_task.h"

namespace tapegrad::seq2seq {
namespace {

constexpr std::int64_t kDatePairs = 202000, kMostHeldOut = 2000;

// The words of the pairs, for a tokenizer to learn from.
std::string text_of_pairs(const std::vector<data::Pair>& pairs) {
  std::string text;
  for (const data::Pair& pair : pairs) {
    text.append(pair.source).append("\n").append(pair.target).append("\n");
  }
  return text;
}

data::Tokenizer make_tokenizer(const std::vector<data::Pair>& all, const data::PairSplit& split,
                               const std::string& spec) {
  // A character that only held-out pairs have must be in the vocabulary, too.
  return data::make_tokenizer(spec, text_of_pairs(data::bpe_size(spec) ? split.train : all));
}

}  // namespace

run::Text own_pairs() { return run::make_text("dates and times", date_task(kDatePairs)); }

PairData read_pairs(const run::Text& text, const Options& o,
                    const std::optional<data::Tokenizer>& tokenizer) {
  const std::string& name = text.identity.name;
  const std::vector<data::Pair> pairs = data::parse_pairs(text.contents, name);
  const std::int64_t tenth =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(pairs.size()) / 10);
  const std::int64_t held_out = o.text.held_out.value_or(std::min(tenth, kMostHeldOut));
  check(held_out < static_cast<std::int64_t>(pairs.size()),
        "--held-out {}: {} has {} pairs, of which at least one must be left to train on", held_out,
        name, pairs.size());
  const data::PairSplit split = data::hold_out(pairs, held_out);
  const data::Tokenizer t = tokenizer ? *tokenizer : make_tokenizer(pairs, split, o.text.tokenizer);
  const std::int64_t longest = o.model.block_size;
  return {t, data::SpecialTokens(t.vocab_size()), data::encode_pairs(split.train, t, longest, name),
          data::encode_pairs(split.held_out, t, longest, name)};
}

}  // namespace tapegrad::seq2seq
