#include "tapegrad/data/packed_batches.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "tapegrad/base/error.h"
#include "tapegrad/base/text/internal/number_text.h"
#include "tapegrad/data/weights.h"

namespace tapegrad::data {
namespace {

constexpr std::string_view kPackedState = "packed row ";

std::uint64_t seed_of(Rng& rng) { return rng.next64() & INT64_MAX; }

// Of conversation i.
std::int64_t places_of(const ChatSet& set, std::int64_t i) { return set.length(i) - 1; }

}  // namespace

PackedBatches::PackedBatches(std::shared_ptr<const ChatSet> set, const Options& options, Rng rng)
    : set_(std::move(set)), options_(options), rng_(std::move(rng)) {
  check(options.batch_size >= 1 && options.block_size >= 1,
        "[packing] batches of {} rows of {} tokens: both numbers must be at least 1",
        options.batch_size, options.block_size);
  check(options.batch_size <= kMaxBatchTokens / options.block_size,
        "[packing] a batch of {} rows of {} tokens is too large; {} tokens are the most",
        options.batch_size, options.block_size, kMaxBatchTokens);
  check(!set_->empty(), "[packing] there is no conversation");
  for (std::int64_t i = 0; i < set_->size(); ++i) {
    check(places_of(*set_, i) <= options.block_size,
          "[packing] a conversation of {} tokens is longer than a row of {}", set_->length(i),
          options.block_size);
    check(set_->counted(i, options.loss) > 0,
          "[packing] no token of a conversation counts as a target");
  }
  Rng trial(0);
  check(!conversations_of_pass(trial).empty(),
        "[packing] the weights leave no conversation to an epoch");
}

std::vector<std::int64_t> PackedBatches::conversations_of_pass(Rng& rng) const {
  std::vector<std::int64_t> chosen;
  std::int64_t first = 0;
  for (const ChatSet::File& file : set_->files) {
    add_weighted(first, file.conversations, file.weight, rng, chosen);
    first += file.conversations;
  }
  return chosen;
}

void PackedBatches::begin_epoch(std::uint64_t seed) {
  seed_ = seed;
  next_ = 0;
  begun_ = true;
  Rng rng(seed);
  std::vector<std::int64_t> chosen = conversations_of_pass(rng);
  const auto shuffled = [&](std::size_t count) {
    if (options_.shuffle) return rng.randperm(static_cast<std::int64_t>(count));
    std::vector<std::int64_t> order(count);
    std::iota(order.begin(), order.end(), 0);
    return order;
  };
  std::vector<std::int64_t> items;
  for (const std::int64_t i : shuffled(chosen.size())) {
    items.push_back(chosen[static_cast<std::size_t>(i)]);
  }
  const auto places = [&](std::int64_t item) { return places_of(*set_, item); };
  std::stable_sort(items.begin(), items.end(),
                   [&](std::int64_t a, std::int64_t b) { return places(a) > places(b); });
  std::vector<std::vector<std::int64_t>> rows;
  std::set<std::pair<std::int64_t, std::size_t>> room;  // of each row that has some, and the row
  for (const std::int64_t item : items) {
    const std::int64_t needed = places(item);
    const auto fit = room.lower_bound({needed, 0});
    const std::int64_t left = (fit == room.end() ? options_.block_size : fit->first) - needed;
    const std::size_t row = fit == room.end() ? rows.size() : fit->second;
    if (fit == room.end()) {
      rows.emplace_back();
    } else {
      room.erase(fit);
    }
    rows[row].push_back(item);
    if (left > 0) room.insert({left, row});
  }
  packed_.clear();
  row_ends_.clear();
  for (const std::int64_t row : shuffled(rows.size())) {
    const auto& conversations = rows[static_cast<std::size_t>(row)];
    packed_.insert(packed_.end(), conversations.begin(), conversations.end());
    row_ends_.push_back(std::ssize(packed_));
  }
  seed_behind_ = seed_of(rng);
}

std::int64_t PackedBatches::next_row() {
  if (next_ >= rows()) begin_epoch(seed_behind_);
  return next_++;
}

void PackedBatches::fill(Batch& batch, std::int64_t b, std::int64_t row) const {
  const std::int64_t begin = b * batch.T;
  std::int64_t at = 0;
  std::vector<Token> tokens;
  const std::int64_t first = row == 0 ? 0 : row_ends_[static_cast<std::size_t>(row - 1)];
  for (std::int64_t i = first; i < row_ends_[static_cast<std::size_t>(row)]; ++i) {
    const std::int64_t chat = packed_[static_cast<std::size_t>(i)];
    const std::int64_t length = set_->length(chat), count = length - 1, place = begin + at;
    tokens.resize(static_cast<std::size_t>(length));
    set_->copy(chat, tokens);
    std::copy_n(tokens.begin(), count, batch.inputs.begin() + place);
    each_counted(length, set_->answers(chat), options_.loss,
                 [&](std::int64_t from, std::int64_t to) {
                   std::copy(tokens.begin() + from, tokens.begin() + to,
                             batch.targets.begin() + place + from - 1);
                 });
    std::fill_n(batch.document_starts.begin() + place, count, static_cast<std::int32_t>(at));
    if (const std::int64_t second = set_->second(chat); second > 0) {
      std::fill_n(batch.document_starts.begin() + place + second, count - second,
                  static_cast<std::int32_t>(at + second));
    }
    at += count;
  }
  std::fill_n(batch.document_starts.begin() + begin + at, batch.T - at,
              static_cast<std::int32_t>(at));
}

std::int64_t PackedBatches::begin_batch() {
  const bool ended = !options_.shuffle && next_ >= rows();
  if (!begun_ || ended) begin_epoch(begun_ ? seed_behind_ : seed_of(rng_));
  return options_.shuffle ? options_.batch_size : std::min(options_.batch_size, rows() - next_);
}

Batch PackedBatches::next() {
  Batch batch{.B = begin_batch(), .T = options_.block_size, .inputs = {}, .targets = {}};
  const auto size = static_cast<std::size_t>(batch.B * batch.T);
  batch.inputs.assign(size, 0);
  batch.targets.assign(size, kIgnoredTarget);
  batch.document_starts.assign(size, 0);
  for (std::int64_t b = 0; b < batch.B; ++b) {
    const std::int64_t row = next_row();  // before fill() reads the epoch that it may begin
    fill(batch, b, row);
  }
  return batch;
}

void PackedBatches::skip() {
  for (std::int64_t b = begin_batch(); b > 0; --b) next_row();
}

std::int64_t PackedBatches::counted_in(std::int64_t row) const {
  const std::int64_t first = row == 0 ? 0 : row_ends_[static_cast<std::size_t>(row - 1)];
  const std::int64_t end = row_ends_[static_cast<std::size_t>(row)];
  if (set_->pairs) return end - first;
  std::int64_t count = 0;
  for (std::int64_t i = first; i < end; ++i) {
    count += set_->counted(packed_[static_cast<std::size_t>(i)], options_.loss);
  }
  return count;
}

std::vector<std::int64_t> PackedBatches::counted(std::int64_t batches) const {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(batches));
  const bool within_pass = begun_ && next_ + batches * options_.batch_size <= rows();
  if (within_pass) {
    for (std::int64_t i = 0; i < batches * options_.batch_size; ++i) {
      counts[static_cast<std::size_t>(i / options_.batch_size)] += counted_in(next_ + i);
    }
    return counts;
  }
  PackedBatches ahead = *this;
  for (std::int64_t& count : counts) {
    for (std::int64_t b = ahead.begin_batch(); b > 0; --b) {
      const std::int64_t row = ahead.next_row();
      count += ahead.counted_in(row);
    }
  }
  return counts;
}

std::int64_t PackedBatches::batches_per_epoch() const {
  if (begun_) return (rows() + options_.batch_size - 1) / options_.batch_size;
  PackedBatches first = *this;
  first.begin_epoch(0);
  return first.batches_per_epoch();
}

bool PackedBatches::ended_epoch(std::int64_t batches) const {
  return begun_ && (next_ >= rows() || next_ < batches * options_.batch_size);
}

std::string PackedBatches::state() const {
  return fmt::format("{}{} {} {}", kPackedState, begun_ ? next_ : -1, seed_, rng_.state());
}

void PackedBatches::set_state(std::string_view saved) {
  std::string_view rest = saved;
  const auto expect = [&](bool right) {
    check(right, "[packing] saved state: '{}' does not begin with '{}', a number and a seed",
          saved.substr(0, 20), kPackedState);
  };
  const auto behind_space = [&] {
    expect(rest.starts_with(' '));
    rest.remove_prefix(1);
  };
  expect(rest.starts_with(kPackedState));
  rest.remove_prefix(kPackedState.size());
  const auto row = take_number<std::int64_t>(rest);
  expect(row.has_value());
  behind_space();
  const auto seed = take_number<std::uint64_t>(rest);
  expect(seed.has_value());
  behind_space();
  Rng rng(0);
  rng.set_state(rest);
  PackedBatches changed = *this;
  const bool same_epoch = begun_ && *row >= 0 && *seed == seed_;
  if (!same_epoch) changed.begun_ = false;
  if (!same_epoch && *row >= 0) changed.begin_epoch(*seed);
  check(*row >= -1 && *row <= changed.rows(),
        "[packing] saved state: row {} of an epoch of {} rows", *row, changed.rows());
  changed.next_ = std::max<std::int64_t>(*row, 0);
  changed.seed_ = *seed;
  changed.rng_ = rng;
  *this = std::move(changed);
}

}  // namespace tapegrad::data
