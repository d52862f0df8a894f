#include "tapegrad/data/loader.h"

#include <algorithm>

#include "tapegrad/base/error.h"
#include "tapegrad/base/text/internal/number_text.h"
#include "tapegrad/data/weights.h"

namespace tapegrad::data {

namespace {

constexpr std::string_view kStateBegin = "window ";

void check_sizes(std::int64_t batch_size, std::int64_t block_size) {
  check(batch_size >= 1, "[loader] batch_size is {}, but must be at least 1", batch_size);
  check(block_size >= 1, "[loader] block_size is {}, but must be at least 1", block_size);
  check(batch_size <= kMaxBatchTokens / block_size,
        "[loader] a batch of {} rows of {} tokens is too large; {} tokens are the most", batch_size,
        block_size, kMaxBatchTokens);
}

Batch empty_batch(std::int64_t B, std::int64_t T) {
  Batch batch{.B = B, .T = T, .inputs = {}, .targets = {}};
  batch.inputs.resize(static_cast<std::size_t>(B * T));
  batch.targets.resize(static_cast<std::size_t>(B * T));
  return batch;
}

// Error unless the tokens contain a window of block_size tokens with a target for each.
void check_length(const TokenSource& tokens, std::int64_t block_size, std::string_view split) {
  check(
      tokens.size() > block_size,
      "[loader] the {} split has {} tokens, but block_size {} needs at least {}: use more text or "
      "a smaller block_size",
      split, tokens.size(), block_size, block_size + 1);
}

// The same of each part of a mixture.
void check_lengths(const TokenSource& tokens, std::int64_t block_size, std::string_view split) {
  check_length(tokens, block_size, split);
  for (const WeightedTokens& part : tokens.mixture()) {
    check(part.size() > block_size,
          "[loader] a part of the {} split's mixture has {} tokens, but block_size {} needs at "
          "least {}",
          split, part.size(), block_size, block_size + 1);
  }
}

// Where the document of each of these tokens begins.
void mark_documents(std::span<const Token> tokens, const DocumentEnd& end,
                    std::span<std::int32_t> starts) {
  std::size_t start = 0;
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    const bool begins =
        end.begins_next ? tokens[t] == end.token : t > 0 && tokens[t - 1] == end.token;
    if (begins) start = t;
    starts[t] = static_cast<std::int32_t>(start);
  }
}

// Makes row `row` of the batch of the tokens from place `begin` on.
void fill_row(Batch& batch, std::int64_t row, const TokenSource& tokens, std::int64_t begin) {
  const auto at = static_cast<std::size_t>(row * batch.T), T = static_cast<std::size_t>(batch.T);
  const std::span<Token> inputs(batch.inputs.data() + at, T), targets(batch.targets.data() + at, T);
  tokens.copy(begin, inputs);
  std::copy(inputs.begin() + 1, inputs.end(), targets.begin());
  tokens.copy(begin + batch.T, targets.last(1));
  if (!tokens.isolated_by()) return;
  batch.document_starts.resize(batch.inputs.size());
  mark_documents(inputs, *tokens.isolated_by(), std::span(batch.document_starts).subspan(at, T));
}

}  // namespace

Loader::Loader(TokenSource tokens, std::int64_t batch_size, std::int64_t block_size, Rng rng,
               std::string_view split)
    : tokens_(std::move(tokens)),
      batch_size_(batch_size),
      block_size_(block_size),
      rng_(std::move(rng)) {
  check_sizes(batch_size, block_size);
  check_lengths(tokens_, block_size, split);
  double sum = 0;
  for (const WeightedTokens& part : tokens_.mixture()) {
    shares_.push_back(sum += part.weight * static_cast<double>(part.size() - block_size));
  }
}

std::int64_t Loader::draw_start() {
  if (shares_.empty()) return rng_.randint(tokens_.size() - block_size_);
  const double place = rng_.uniform_double() * shares_.back();
  const auto found = std::upper_bound(shares_.begin(), shares_.end() - 1, place);
  const auto& part = tokens_.mixture()[static_cast<std::size_t>(found - shares_.begin())];
  return part.begin + rng_.randint(part.size() - block_size_);
}

Batch Loader::next() {
  Batch batch = empty_batch(batch_size_, block_size_);
  for (std::int64_t row = 0; row < batch_size_; ++row) {
    fill_row(batch, row, tokens_, draw_start());
  }
  return batch;
}

void Loader::skip() {
  for (std::int64_t row = 0; row < batch_size_; ++row) draw_start();
}

EpochLoader::EpochLoader(TokenSource tokens, const Options& options, Rng rng,
                         std::string_view split)
    : tokens_(std::move(tokens)), options_(options), rng_(std::move(rng)) {
  check_sizes(options.batch_size, options.block_size);
  check(options.stride >= 1, "[loader] stride is {}, but must be at least 1", options.stride);
  check_lengths(tokens_, options.block_size, split);
  parts_ = tokens_.mixture();
  if (parts_.empty()) parts_ = {{0, tokens_.size(), 1}};
  for (const WeightedTokens& part : parts_) {
    part_windows_.push_back((part.size() - options.block_size - 1) / options.stride + 1);
  }
  check(batches_per_epoch() > 0,
        "[loader] the {} split has {} windows of {} tokens, which do not fill a batch of {}", split,
        windows(), options.block_size, options.batch_size);
}

std::int64_t EpochLoader::windows() const {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    sum += weighted_count(part_windows_[i], parts_[i].weight);
  }
  return sum;
}

std::int64_t EpochLoader::start_of(std::int64_t window) const {
  std::size_t part = 0;
  for (; window >= part_windows_[part]; ++part) window -= part_windows_[part];
  return parts_[part].begin + window * options_.stride;
}

std::int64_t EpochLoader::batches_per_epoch() const {
  const std::int64_t full = windows() / options_.batch_size;
  return options_.drop_last || windows() % options_.batch_size == 0 ? full : full + 1;
}

void EpochLoader::begin_epoch(std::uint64_t seed) {
  seed_ = seed;
  next_ = 0;
  begun_ = true;
  Rng rng(seed);
  order_.clear();
  if (!tokens_.mixture().empty()) {
    order_.reserve(static_cast<std::size_t>(windows()));
    std::int64_t first = 0;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      add_weighted(first, part_windows_[i], parts_[i].weight, rng, order_);
      first += part_windows_[i];
    }
  }
  if (!options_.shuffle) return;
  std::vector<std::int64_t> shuffled = rng.randperm(windows());
  if (!order_.empty()) {
    for (std::int64_t& place : shuffled) place = order_[static_cast<std::size_t>(place)];
  }
  order_ = std::move(shuffled);
}

std::int64_t EpochLoader::begin_batch() {
  if (!begun_ || at_end()) {
    rng_.next64();
    begin_epoch(options_.shuffle ? rng_.next64() & INT64_MAX : 0);
  }
  return std::min(options_.batch_size, windows() - next_);
}

void EpochLoader::skip() { next_ += begin_batch(); }

Batch EpochLoader::next() {
  Batch batch = empty_batch(begin_batch(), options_.block_size);
  for (std::int64_t row = 0; row < batch.B; ++row, ++next_) {
    const std::int64_t window = order_.empty() ? next_ : order_[static_cast<std::size_t>(next_)];
    fill_row(batch, row, tokens_, start_of(window));
  }
  return batch;
}

bool EpochLoader::at_end() const {
  return windows() - next_ < (options_.drop_last ? options_.batch_size : 1);
}

bool EpochLoader::ended_epoch(std::int64_t batches) const {
  // Either this epoch is complete, or it began within these batches, after a complete one.
  return begun_ && (at_end() || next_ < batches * options_.batch_size);
}

std::string EpochLoader::state() const {
  return fmt::format("{}{} {} {}", kStateBegin, begun_ ? next_ : -1, seed_, rng_.state());
}

void EpochLoader::set_state(std::string_view saved) {
  std::string_view rest = saved;
  const auto expect = [&](bool right) {
    check(right, "[loader] saved state: '{}' does not begin with '{}', a number and a seed",
          saved.substr(0, 20), kStateBegin);
  };
  const auto behind_space = [&] {
    expect(rest.starts_with(' '));
    rest.remove_prefix(1);
  };
  expect(rest.starts_with(kStateBegin));
  rest.remove_prefix(kStateBegin.size());
  const auto window = take_number<std::int64_t>(rest);
  expect(window.has_value());
  behind_space();
  const auto seed = take_number<std::uint64_t>(rest);
  expect(seed.has_value());
  behind_space();
  const std::int64_t next = *window;
  check(next >= -1 && next <= windows(),
        "[loader] saved state: window {} of an epoch of {} windows", next, windows());
  Rng rng(0);
  rng.set_state(rest);
  begun_ = false;
  if (next >= 0) begin_epoch(*seed);
  next_ = std::max<std::int64_t>(next, 0);
  seed_ = *seed;
  rng_ = rng;
}

SequentialBatches::SequentialBatches(TokenSource tokens, std::int64_t batch_size,
                                     std::int64_t block_size, std::optional<std::int64_t> stride,
                                     std::string_view split)
    : tokens_(std::move(tokens)),
      batch_size_(batch_size),
      length_(stride && *stride < block_size ? block_size - 1 : block_size),
      step_(stride.value_or(block_size)) {
  check_sizes(batch_size, block_size);
  check(tokens_.size() > 1,
        "[loader] the {} split has {} tokens, but needs at least 2: use more text", split,
        tokens_.size());
  check(!stride || (block_size > 1 && *stride >= 1 && *stride <= block_size),
        "[loader] stride is {}, but must be from 1 to block_size, and block_size {} at least 2",
        stride.value_or(0), block_size);
  const std::int64_t targets = tokens_.size() - 1;
  full_ = targets < length_ ? 0 : (targets - length_) / step_ + 1;
  // The last full window may leave some targets.
  const bool all = full_ > 0 && (full_ - 1) * step_ + length_ == targets;
  rest_ = all ? 0 : std::max<std::int64_t>(targets - full_ * step_, 0);
}

std::int64_t SequentialBatches::size() const {
  return (full_ + batch_size_ - 1) / batch_size_ + (rest_ > 0 ? 1 : 0);
}

Batch SequentialBatches::operator[](std::int64_t i) const {
  const std::int64_t first = i * batch_size_;
  const bool is_rest = first >= full_;
  Batch batch =
      is_rest ? empty_batch(1, rest_) : empty_batch(std::min(batch_size_, full_ - first), length_);
  for (std::int64_t row = 0; row < batch.B; ++row) {
    const std::int64_t window = is_rest ? full_ : first + row;
    fill_row(batch, row, tokens_, window * step_);
    const std::int64_t seen = window == 0 ? 0 : std::max<std::int64_t>(length_ - step_, 0);
    std::fill_n(batch.targets.begin() + row * batch.T, seen, kIgnoredTarget);
  }
  return batch;
}

}  // namespace tapegrad::data
