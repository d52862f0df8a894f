#include "tapegrad/apps/seq2seq/seq2seq_data.h"

#include <algorithm>

#include "tapegrad/apps/seq2seq/date_task.h"
#include "tapegrad/autograd/ops.h"
#include "tapegrad/data/tokenize/utf8.h"
#include "tapegrad/run/interrupt.h"

namespace tapegrad::apps {
namespace {

constexpr int64_t date_pairs = 202000, most_held_out = 2000;

// How many tokens and targets of a batch are right, of how many.
struct Score {
  int64_t right_tokens = 0, tokens = 0, right_targets = 0, targets = 0;

  void add(const nn::Transformer& model, const PairTensors& t, const data::SpecialTokens& special) {
    const Tensor best = model.likeliest(t.sources, t.inputs, t.masks);
    const auto found = best.values<int32_t>(), expected = t.labels.values<int32_t>();
    for (size_t i = 0; i < expected.size(); ++i) {
      if (expected[i] == data::kIgnoredLabel) continue;
      ++tokens;
      right_tokens += found[i] == expected[i];
    }
    const auto translations =
        nn::translate(model, t.sources, t.masks.source, translate_options(special));
    const auto T = static_cast<ptrdiff_t>(t.labels.dim(1));
    for (size_t b = 0; b < translations.size(); ++b) {
      const auto row = expected.begin() + static_cast<ptrdiff_t>(b) * T;
      const auto end = std::find(row, row + T, special.end);
      ++targets;
      right_targets +=
          translations[b].complete &&
          std::equal(row, end, translations[b].tokens.begin(), translations[b].tokens.end());
    }
  }
  Accuracy accuracy() const {
    return {static_cast<double>(right_tokens) / static_cast<double>(tokens),
            static_cast<double>(right_targets) / static_cast<double>(targets)};
  }
};

using Rows = std::vector<data::TokenPair>;

// In the order of their sources' lengths, so that little of a batch is padding.
Rows by_length(Rows pairs) {
  std::stable_sort(pairs.begin(), pairs.end(),
                   [](const auto& a, const auto& b) { return a.source.size() < b.source.size(); });
  return pairs;
}

Rows draw_pairs(const Rows& pairs, int64_t count, Rng& rng) {
  Rows drawn;
  for (int64_t i = 0; i < count; ++i) {
    drawn.push_back(pairs[static_cast<size_t>(rng.randint(static_cast<int64_t>(pairs.size())))]);
  }
  return drawn;
}

std::vector<Rows> batches_of(const Rows& pairs, int64_t size) {
  std::vector<Rows> batches;
  for (size_t i = 0; i < pairs.size(); i += static_cast<size_t>(size)) {
    const auto end = std::min(pairs.size(), i + static_cast<size_t>(size));
    batches.emplace_back(pairs.begin() + static_cast<ptrdiff_t>(i),
                         pairs.begin() + static_cast<ptrdiff_t>(end));
  }
  return batches;
}

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

Text own_pairs() { return text_of("dates and times", date_task(date_pairs)); }

PairData read_pairs(const Text& text, const Seq2SeqOptions& o,
                    const std::optional<data::Tokenizer>& tokenizer) {
  const std::vector<data::Pair> pairs = data::parse_pairs(text.contents, text.name);
  const int64_t tenth = std::max<int64_t>(1, static_cast<int64_t>(pairs.size()) / 10);
  const data::PairSplit split =
      data::hold_out(pairs, o.held_out.value_or(std::min(tenth, most_held_out)));
  const data::Tokenizer t = tokenizer ? *tokenizer : make_tokenizer(pairs, split, o.tokenizer);
  return {t, data::SpecialTokens(t.vocab_size()),
          data::encode_pairs(split.train, t, o.block_size, text.name),
          data::encode_pairs(split.held_out, t, o.block_size, text.name)};
}

PairTensors tensors_of(const data::PairBatch& batch, const data::SpecialTokens& special) {
  const auto real = [](const std::vector<data::Token>& tokens, data::Token other) {
    return std::count_if(tokens.begin(), tokens.end(), [=](auto t) { return t != other; });
  };
  PairTensors t{Tensor::from(batch.sources, {batch.B, batch.S}),
                Tensor::from(batch.inputs, {batch.B, batch.T}),
                Tensor::from(batch.labels, {batch.B, batch.T}),
                {},
                real(batch.sources, special.padding) + real(batch.labels, data::kIgnoredLabel)};
  // Targets need no mask: what comes after their ends is hidden by causality, and has no labels.
  t.masks.source = nn::padding_mask(t.sources, special.padding);
  return t;
}

nn::TranslateOptions translate_options(const data::SpecialTokens& special) {
  return {.start = special.start, .end = special.end, .interrupted = interrupted};
}

std::optional<Losses> estimate_losses(const nn::Transformer& model, const PairData& data,
                                      const Seq2SeqOptions& o) {
  // Another stream than that of the training batches, which begins at the seed itself.
  Rng rng(o.seed + 1, Rng::Kind::philox);
  Losses losses;
  Score score;
  for (const bool held_out : {false, true}) {
    double& mean = held_out ? losses.val : losses.train;
    for (int64_t i = 0; i < o.eval_iters; ++i) {
      if (interrupted()) return std::nullopt;
      const Rows rows = draw_pairs(held_out ? data.held_out : data.train, o.batch_size, rng);
      const PairTensors t = tensors_of(data::make_batch(rows, data.special), data.special);
      mean += model.loss(t.sources, t.inputs, t.labels, t.masks).item() /
              static_cast<double>(o.eval_iters);
      if (held_out && std::isfinite(mean)) score.add(model, t, data.special);
    }
  }
  if (interrupted()) return std::nullopt;
  const Accuracy accuracy = score.accuracy();
  losses.val_shares = {{"token_accuracy", accuracy.tokens}, {"exact_match", accuracy.exact}};
  return losses;
}

std::optional<Accuracy> held_out_accuracy(const nn::Transformer& model, const PairData& data,
                                          int64_t batch_size) {
  Score score;
  for (const auto& rows : batches_of(by_length(data.held_out), batch_size)) {
    score.add(model, tensors_of(data::make_batch(rows, data.special), data.special), data.special);
    if (interrupted()) return std::nullopt;
  }
  return score.accuracy();
}

std::vector<std::string> translate_all(const nn::Transformer& model,
                                       const data::Tokenizer& tokenizer,
                                       const std::vector<std::vector<data::Token>>& sources,
                                       nn::TranslateOptions options) {
  const data::SpecialTokens special(tokenizer.vocab_size());
  std::vector<data::TokenPair> pairs;
  for (const auto& source : sources) pairs.push_back({source, {}});
  const PairTensors t = tensors_of(data::make_batch(pairs, special), special);
  std::vector<std::string> texts;
  for (const auto& translation : nn::translate(model, t.sources, t.masks.source, options)) {
    data::Utf8Stream stream;
    std::string text;
    for (const data::Token token : translation.tokens) {
      // Padding and the start have no text; a model that is hardly trained may find them likely.
      if (token < tokenizer.vocab_size()) text += stream.push(tokenizer.token_bytes(token));
    }
    text += stream.flush();
    // One line each, whatever the model makes.
    std::replace(text.begin(), text.end(), '\n', ' ');
    texts.push_back(text);
  }
  return texts;
}

}  // namespace tapegrad::apps
