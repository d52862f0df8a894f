#include "tapegrad/apps/train/plan/fast.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "tapegrad/apps/train/plan/facts.h"
#include "tapegrad/apps/train/plan/presets.h"
#include "tapegrad/base/text/words.h"
#include "tapegrad/run/corpus/mixture.h"

namespace tapegrad::gpt {
namespace {

constexpr double kMinutes = 2;
constexpr int kHeadChannels = 32;
constexpr double kUsualBytes = 10e6;  // of a text whose length is not known before it is read
// A model learns most from some work if it sees about so many tokens for each weight of its blocks.
constexpr double kTokensPerWeight = 10;

// A text bears a model of so many weights for each of its bytes, however long it is read: on tiny
// shakespeare, 4 × 96 ends lower than larger ones.
constexpr double kWeightsPerByte = 0.5;

// Of the rate of products: attention, embeddings, norms and Muon take the rest.
constexpr double kShareOfProducts = 0.3;

// A vocabulary, how many bytes of English a token of it has, and how many tokens a model sees.
struct Vocabulary {
  const char* tokenizer;
  double size, bytes;
  std::int64_t block_size;
};
constexpr Vocabulary kCharacters{"char", 100, 1, 256};

// Pieces of words see more of a text at once, and are learnt by heart in fewer epochs.
Vocabulary pieces_for(double bytes) {
  return bytes < 3e6 ? Vocabulary{"bpe:512", 512, 1.9, 128}
                     : Vocabulary{"bpe:4096", 4096, 3.2, 128};
}

struct Size {
  int n_layer, n_embd;
  std::int64_t batch_tokens;

  // Blocks of attention and feed-forward have 12·C² weights.
  double weights() const { return 12.0 * n_layer * n_embd * n_embd; }
  // That so many operations are good for: 6 for each weight, of the head, too.
  double tokens(double operations, double vocab_size) const {
    return operations / (6 * (weights() + vocab_size * n_embd));
  }
};
// Larger batches for larger models, since an update of Muon costs 5·C/B of a step of B tokens.
constexpr Size kSizes[] = {{4, 64, 1536},  {4, 96, 1536},  {4, 128, 1536},
                           {4, 192, 1536}, {4, 256, 2048}, {6, 256, 3072},
                           {6, 384, 4096}, {8, 512, 8192}, {12, 768, 16384}};

// The size whose tokens for each weight are nearest to what is best, by ratio, of those that the
// text bears.
const Size& size_for(const Budget& budget, double vocab_size) {
  const auto too_large = [&](const Size& s) {
    return s.weights() > kWeightsPerByte * budget.bytes;
  };
  const auto distance = [&](const Size& s) {
    const double tokens = s.tokens(budget.operations, vocab_size);
    return std::abs(std::log(tokens / (kTokensPerWeight * s.weights())));
  };
  const auto first = std::begin(kSizes);
  const auto end = std::find_if(first + 1, std::end(kSizes), too_large);
  return *std::min_element(first, end,
                           [&](const Size& a, const Size& b) { return distance(a) < distance(b); });
}

// What a run learns: the tokens of a vocabulary, with a model of some size.
struct Choice {
  Vocabulary vocabulary;
  Size size;
  double tokens, epochs;
};

Choice choice_of(const Vocabulary& vocabulary, const Budget& budget) {
  const Size& size = size_for(budget, vocabulary.size);
  const double tokens = size.tokens(budget.operations, vocabulary.size);
  return {vocabulary, size, tokens, tokens * vocabulary.bytes / budget.bytes};
}

Choice choice_for(const Budget& budget) {
  constexpr double most_epochs = 2.5;       // over pieces
  constexpr double bytes_of_a_piece = 100;  // of a shorter text there may not be so many pieces
  const Choice pieces = choice_of(pieces_for(budget.bytes), budget);
  const bool long_enough = budget.bytes >= bytes_of_a_piece * pieces.vocabulary.size;
  return long_enough && pieces.epochs <= most_epochs ? pieces : choice_of(kCharacters, budget);
}

double dropout_for(double epochs) { return epochs < 7 ? 0 : 0.1; }

double bytes_of_file(const std::filesystem::path& path) {
  std::error_code failed;
  const auto size = std::filesystem::file_size(path, failed);
  if (failed) return 0;
  const std::string end = path.extension().string();
  const double packed = end == ".gz" || end == ".zst" ? 4 : 1;
  return packed * static_cast<double>(size);
}

double bytes_of_path(const std::filesystem::path& path) {
  constexpr int most_files = 100'000;  // what more would hold changes no choice
  std::error_code failed;
  if (!std::filesystem::is_directory(path, failed)) return bytes_of_file(path);
  double bytes = 0;
  std::filesystem::recursive_directory_iterator it(path, failed), end;
  for (int files = 0; !failed && it != end && files < most_files; ++files, it.increment(failed)) {
    std::error_code unknown;
    if (it->path().filename().string().starts_with('.')) {  // read_corpus leaves them out
      it.disable_recursion_pending();
      continue;
    }
    if (it->is_regular_file(unknown)) bytes += bytes_of_file(it->path());
  }
  return bytes;
}

}  // namespace

double fast_rate(int n_embd) { return n_embd <= 128 ? 6e-3 : 3e-3; }

std::optional<int> fast_heads(int n_embd) {
  return n_embd % kHeadChannels == 0 ? std::optional(n_embd / kHeadChannels) : std::nullopt;
}

std::optional<double> text_bytes(const run::TextOptions& text) {
  const run::CorpusSource source = text.source();
  if (source.reads_stdin()) return std::nullopt;
  if (source.paths.empty()) return static_cast<double>(default_text().contents.size());
  double bytes = 0;
  for (const std::string& path : source.paths) {
    const bool whole = !source.weighted && !source.is_chat;
    bytes += bytes_of_path(whole ? path : run::weighted_file(path).path);
  }
  if (source.is_data) bytes *= 2;  // tokens of two bytes stand for about four
  return bytes > 0 ? std::optional(bytes) : std::nullopt;
}

Options fast_options(const Budget& budget) {
  const auto [vocabulary, size, tokens, epochs] = choice_for(budget);
  Options o;
  o.text.tokenizer = vocabulary.tokenizer;
  nn::DecoderConfig& m = o.model;
  m.n_layer = size.n_layer, m.n_embd = size.n_embd, m.n_head = size.n_embd / kHeadChannels;
  m.dropout = dropout_for(epochs);
  o.text.block_size = m.block_size = vocabulary.block_size;
  budget.destination == Destination::tapegrad ? set_fast_parts(o) : set_exportable_parts(o);
  o.optimizer.batch_size = size.batch_tokens / vocabulary.block_size;
  o.optimizer.dtype = run::TrainDtype::automatic;
  o.call.max_minutes = kMinutes;
  return o;
}

cli::SizedPreset<Options> sized_by_budget(const Options& asked, const cli::ProductRate& rate_of) {
  check(!asked.call.folder.starts_from_model(),
        "--preset fast is for new models, whose size it chooses; --init-from has one: leave "
        "--preset out");
  const std::optional<double> known = text_bytes(asked.text);
  const double minutes = asked.call.max_minutes.value_or(kMinutes);
  const double rate = asked.extras.gflops ? *asked.extras.gflops * 1e9 : rate_of(kFastProduct);
  const Budget budget{.bytes = known.value_or(kUsualBytes),
                      .operations = kShareOfProducts * 60 * minutes * rate,
                      .destination = asked.extras.destination};
  Options o = fast_options(budget);
  // Conversations need a tokenizer with special tokens.
  if (asked.text.learns_chat() && o.text.tokenizer == "char") o.text.tokenizer = "bpe:512";
  const std::string note = fmt::format(
      "fast, for {} of text{} and {} at {:.0f} GFLOP/s", size_text(budget.bytes),
      known ? "" : " (a guess: it is not read yet)", duration_text(60 * minutes), rate * 1e-9);
  return {std::move(o), note};
}

}  // namespace tapegrad::gpt
