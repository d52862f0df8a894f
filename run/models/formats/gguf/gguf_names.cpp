#include "tapegrad/run/models/formats/gguf/internal/gguf_names.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <string_view>

#include "tapegrad/autograd/ops.h"
#include "tapegrad/run/models/families/internal/family_keys.h"
#include "tapegrad/run/models/families/keys/internal/effective_config.h"

namespace tapegrad::run {
namespace {

std::string numbered(std::string name, int block) {
  const std::size_t at = name.find('#');
  return at == std::string::npos ? name : name.replace(at, 1, std::to_string(block));
}

std::int64_t exchanged_heads(GgufTensorName::Exchanged exchanged, const nn::DecoderConfig& c) {
  if (exchanged == GgufTensorName::Exchanged::no) return 0;
  return exchanged == GgufTensorName::Exchanged::queries ? c.n_head : c.kv_heads();
}

// Names of one tensor of ours are parts of it.
void count_parts(std::vector<GgufName>& names) {
  std::map<std::string_view, std::int64_t> parts;
  for (GgufName& name : names) name.part = parts[name.ours]++;
  for (GgufName& name : names) name.parts = parts.at(name.ours);
}

// Rows and columns that stand where ours do need not move. Of more than a million nobody asks: a
// file that is broken may name any sizes.
void leave_in_place(std::vector<GgufTensorName>& rows, const nn::DecoderConfig& c) {
  constexpr std::int64_t kMost = 1 << 20;
  for (GgufTensorName& row : rows) {
    if (row.place == nullptr || std::ranges::count(rows, row.theirs, &GgufTensorName::theirs) > 1) {
      continue;
    }
    const std::int64_t count = row.count(c);
    std::int64_t i = 0;
    while (i < std::min(count, kMost) && row.place(c, i) == i) ++i;
    if (i == count) row.place = nullptr;
  }
}

// Turns of a pair of channels from one position to the next.
double turns_of_pair(const nn::DecoderConfig& c, std::int64_t pair) {
  const auto size = static_cast<double>(c.channels_per_head());
  return std::pow(c.rope_base, -2 * static_cast<double>(pair) / size) / (2 * std::numbers::pi);
}

}  // namespace

std::vector<GgufName> gguf_names(const Family& family, const nn::DecoderConfig& c) {
  std::vector<GgufTensorName> rows;
  for (const GgufTensorName& row : family.gguf.tensors) {
    const bool is_left_out = !row.without.empty() && has_option(c, row.without);
    const bool has = row.with.empty() || has_option(c, row.with);
    if (has && !is_left_out) rows.push_back(row);
  }
  leave_in_place(rows, c);
  std::vector<GgufName> names;
  const auto is_of_block = [&](std::size_t i) {
    return rows[i].ours.find('#') != std::string::npos;
  };
  for (std::size_t i = 0, end = 0; i < rows.size(); i = end) {
    end = i + 1;
    while (is_of_block(i) && end < rows.size() && is_of_block(end)) ++end;
    for (int block = 0; block < (is_of_block(i) ? c.n_layer : 1); ++block) {
      for (std::size_t j = i; j < end; ++j) {
        if (is_of_block(j) && !has_tensor(c, block, rows[j].ours)) continue;
        GgufName name{rows[j], exchanged_heads(rows[j].exchanged, c)};
        if (name.group_count != nullptr) name.groups = name.group_count(c);
        name.ours = numbered(name.ours, block), name.theirs = numbered(name.theirs, block);
        names.push_back(std::move(name));
      }
    }
  }
  if (!c.tied) names.push_back({{"lm_head.weight", kHeadTable}});
  count_parts(names);
  return names;
}

Tensor with_heads_exchanged(const Tensor& t, std::int64_t heads) {
  const TapePause pause;
  const std::int64_t pairs = t.dim(0) / heads / 2;
  return reshape(permute(t.view({heads, 2, pairs, -1}), {0, 2, 1, 3}), t.shape());
}

StoredTensor with_heads_back(const StoredTensor& stored, std::int64_t heads) {
  if (heads == 0) return stored;
  const std::int64_t count = stored.shape()[0];
  check(count % (2 * heads) == 0, "{} of shape {} cannot be cut into {} heads", stored.label(),
        stored.shape(), heads);
  const std::int64_t pairs = count / heads / 2;
  return stored.rows(count, [pairs](std::int64_t row) {
    const std::int64_t head = row / (2 * pairs), half = row / pairs % 2, pair = row % pairs;
    return (head * pairs + pair) * 2 + half;
  });
}

std::vector<float> rope_divisors(const nn::DecoderConfig& c) {
  const auto positions = static_cast<double>(c.rope_original_positions);
  std::vector<float> divisors;
  for (std::int64_t i = 0; i < c.channels_per_head() / 2; ++i) {
    const double smooth = (positions * turns_of_pair(c, i) - c.rope_low_freq_factor) /
                          (c.rope_high_freq_factor - c.rope_low_freq_factor);
    const double share = std::min(1.0, std::max(0.0, smooth));
    divisors.push_back(static_cast<float>(1 / ((1 - share) / c.rope_factor + share)));
  }
  return divisors;
}

// With t turns of a pair, the share of its own frequency that it keeps is (positions · t - low) /
// (high - low), from 0 to 1: a line, of which the pairs with a share between 0 and 1 are points.
void set_rope_factors(const std::vector<float>& divisors, nn::DecoderConfig& c) {
  const double least = 1 / c.rope_factor;
  std::vector<double> turns, shares;  // both fall
  for (std::size_t i = 0; i < divisors.size(); ++i) {
    turns.push_back(turns_of_pair(c, static_cast<std::int64_t>(i)));
    shares.push_back((1 / static_cast<double>(divisors[i]) - least) / (1 - least));
  }
  constexpr double kNear = 1e-5;
  std::size_t first = 0, end = 0;  // of the points
  while (first < shares.size() && shares[first] > 1 - kNear) ++first;
  for (end = first; end < shares.size() && shares[end] > kNear; ++end) continue;
  if (first == shares.size()) return;  // nothing is scaled
  const auto slope = [&](std::size_t i, std::size_t j, double share_i, double share_j) {
    return (share_i - share_j) / (turns[i] - turns[j]);
  };
  const std::size_t at = std::min(first, shares.size() - 1);
  const double share = end > first ? shares[at] : 0;
  double steep = 1 / turns[at];
  if (end > first + 1) {
    steep = slope(first, end - 1, shares[first], shares[end - 1]);
  } else {  // any line that leaves 1 and 0 to the pairs around the point
    if (first > 0) steep = slope(first - 1, first, 1, share);
    if (end > first && end < shares.size()) steep = std::max(steep, slope(at, end, share, 0));
  }
  // Positions and factors may all be multiplied by one number.
  const auto positions = static_cast<double>(c.rope_original_positions);
  c.rope_low_freq_factor = positions * (turns[at] - share / steep);
  c.rope_high_freq_factor = c.rope_low_freq_factor + positions / steep;
}

}  // namespace tapegrad::run
