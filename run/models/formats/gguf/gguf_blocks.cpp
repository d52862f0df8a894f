#include "tapegrad/run/models/formats/gguf/internal/gguf_blocks.h"

#include <algorithm>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tapegrad/run/models/formats/gguf/internal/gguf_tokenizer.h"

namespace tapegrad::run {
namespace {

// Behind the name of the architecture and a dot. Heads of keys: a number, or a list with one for
// each block, 0 where it has another mixer in place of attention.
constexpr const char* kKeyHeads = "attention.head_count_kv";
// Blocks with attention: every N-th, or a list that has 0 for them.
constexpr const char *kInterval = "full_attention_interval",
                     *kRecurrent = "attention.recurrent_layers";
// Dense blocks that stand before all with experts.
constexpr const char* kLeadingDenseBlocks = "leading_dense_block_count";
// The width of a dense feed-forward or of an expert, of the one beside experts, and experts of a
// token.
constexpr const char *kInner = "feed_forward_length",
                     *kSharedWidth = "expert_shared_feed_forward_length",
                     *kTopK = "expert_used_count";
// The channels of all heads of a recurrent mixer.
constexpr const char* kChannels = "ssm.inner_size";
// Pairs of channels that turn by a token's place in time, in height, in width, and by none of
// these.
constexpr const char* kSections = "rope.dimension_sections";

std::string prefix_of(const Family& family) { return std::string(family.gguf.architecture) + "."; }

// True if the family has a key of that name, for that option.
bool has_key(const Family& family, std::string_view name, std::string_view option) {
  return std::ranges::any_of(family.gguf.keys, [&](const FamilyKey& key) {
    return key.key == name && key.option == option;
  });
}

std::int64_t whole(const GgufFile& file, const std::string& key, std::int64_t least,
                   std::int64_t most) {
  const auto* const value = find_gguf_value<std::int64_t>(file, key);
  check(value != nullptr || least == 0, "{}: there is no '{}'", file.name(), key);
  const std::int64_t number = value == nullptr ? 0 : *value;
  check(number >= least && number <= most, "{}: {} {} must be {} to {}", file.name(), key, number,
        least, most);
  return number;
}

// A list for blocks must have a number for each.
void check_list_of_blocks(const GgufFile& file, const std::string& key, int n_layer) {
  const auto found = file.keys().find(key);
  if (found == file.keys().end()) return;
  const auto* const numbers = std::get_if<std::vector<std::int64_t>>(&found->second);
  check(numbers != nullptr || std::holds_alternative<std::int64_t>(found->second),
        "{}: {} must be a whole number or a list of such", file.name(), key);
  check(numbers == nullptr || std::ssize(*numbers) == n_layer,
        "{}: {} has {} numbers for {} blocks", file.name(), key,
        numbers == nullptr ? 0 : numbers->size(), n_layer);
}

void read_leading_dense(const GgufFile& file, const std::string& key, nn::DecoderConfig& c) {
  check(file.keys().contains(key), "{}: there is no '{}'", file.name(), key);
  const auto dense = gguf_value<std::int64_t>(file, key, 0);
  check(dense >= 0, "{}: {} must be 0 or more, not {}", file.name(), key, dense);
  c.moe.pattern = leading_dense_pattern(dense, c.n_layer);
}

void read_shared_inner(const GgufFile& file, const std::string& prefix, nn::DecoderConfig& c) {
  constexpr std::int64_t kMost = 1 << 22;
  c.n_inner = whole(file, prefix + kInner, 1, kMost);
  if (!c.moe.exist()) return;
  c.moe.inner = c.n_inner;
  c.moe.shared_inner = whole(file, prefix + kSharedWidth, 0, kMost);
  c.moe.top_k = whole(file, prefix + kTopK, 1, c.moe.experts);
}

// The channels of one of the heads.
std::int64_t read_head_size(const GgufFile& file, const std::string& prefix, std::int64_t heads) {
  const std::string key = prefix + kChannels;
  const std::int64_t channels = whole(file, key, 1, std::int64_t{1} << 32);
  check(heads >= 1 && channels % heads == 0, "{}: {} {} cannot be cut into the {} heads of {}{}",
        file.name(), key, channels, heads, prefix, "ssm.time_step_rank");
  return channels / heads;
}

// A number of each block, of which the file may have one for all.
std::vector<std::int64_t> numbers_of_blocks(const GgufFile& file, const std::string& key,
                                            int n_layer) {
  using Numbers = std::vector<std::int64_t>;
  check_list_of_blocks(file, key, n_layer);
  const GgufValue& value = file.keys().at(key);  // which the family needs
  if (const auto* const list = std::get_if<Numbers>(&value)) return *list;
  return Numbers(static_cast<std::size_t>(n_layer), std::get<std::int64_t>(value));
}

// llama.cpp's nemotron_h: a feed-forward where a block has a width of it, else attention where it
// has heads of keys, and else a Mamba-2.
void read_single_parts(const GgufFile& file, const std::string& prefix, nn::DecoderConfig& c) {
  const auto widths = numbers_of_blocks(file, prefix + kInner, c.n_layer),
             heads = numbers_of_blocks(file, prefix + kKeyHeads, c.n_layer);
  c.mixer_pattern.clear(), c.ff_pattern.clear();
  for (std::size_t i = 0; i < widths.size(); ++i) {
    const bool feeds = widths[i] != 0;
    c.mixer_pattern += feeds ? 'N' : heads[i] != 0 ? 'A' : 'M';
    c.ff_pattern += feeds ? 'F' : 'N';
  }
}

void set_single_parts(const std::string& prefix, const nn::DecoderConfig& c, GgufKeys& keys) {
  std::vector<std::int64_t> widths, heads;
  for (int i = 0; i < c.n_layer; ++i) {
    widths.push_back(c.has_feed_forward(i) ? c.inner() : 0);
    heads.push_back(c.has_attention(i) ? c.kv_heads() : 0);
  }
  keys[prefix + kInner] = widths, keys[prefix + kKeyHeads] = heads;
}

// The N of which every N-th block has attention, and no other: beyond all blocks if none has.
// Nothing: there is no such N.
std::optional<std::int64_t> interval_of_attention(const nn::DecoderConfig& c) {
  int first = 0;
  while (first < c.n_layer && !c.has_attention(first)) ++first;
  for (int i = first; i < c.n_layer; ++i) {
    if (c.has_attention(i) != ((i + 1) % (first + 1) == 0)) return std::nullopt;
  }
  return first + 1;
}

// llama.cpp takes the list where a file has both. Its older versions know the interval alone.
void set_attention(const std::string& prefix, const nn::DecoderConfig& c, GgufKeys& keys) {
  if (const auto interval = interval_of_attention(c)) {
    keys[prefix + kInterval] = *interval;
    return;
  }
  std::vector<std::int64_t> recurrent;
  for (int i = 0; i < c.n_layer; ++i) recurrent.push_back(c.has_attention(i) ? 0 : 1);
  keys[prefix + kRecurrent] = recurrent;
}

// Pairs turn by time, height and width in turns. A text's token has one number for all three, and 0
// for the fourth part, of which no pair may be.
std::vector<std::int64_t> sections_of(const nn::DecoderConfig& c) {
  const std::int64_t pairs = c.turned_channels() / 2;
  return {(pairs + 2) / 3, (pairs + 1) / 3, pairs / 3, 0};
}

void check_sections(const GgufFile& file, const std::string& key, const nn::DecoderConfig& c) {
  using Numbers = std::vector<std::int64_t>;
  const auto* const found = find_gguf_value<Numbers>(file, key);
  if (found == nullptr) return;
  const Numbers least = sections_of(c);
  check(found->size() >= 3 && found->size() <= 4, "{}: {} has {} numbers, not 4", file.name(), key,
        found->size());
  for (std::size_t i = 0; i < 3; ++i) {
    check((*found)[i] >= least[i], "{}: {} leaves some of the {} pairs of channels out",
          file.name(), key, c.turned_channels() / 2);
  }
}

}  // namespace

void read_blocks(const GgufFile& file, const Family& family, nn::DecoderConfig& c) {
  const std::string prefix = prefix_of(family);
  check_list_of_blocks(file, prefix + kKeyHeads, c.n_layer);
  if (has_key(family, kRecurrent, "mixer_pattern")) {
    check_list_of_blocks(file, prefix + kRecurrent, c.n_layer);
  }
  if (has_key(family, kLeadingDenseBlocks, kLeadingDense)) {
    read_leading_dense(file, prefix + kLeadingDenseBlocks, c);
  }
  if (has_key(family, kInner, kSharedInner)) read_shared_inner(file, prefix, c);
  if (has_key(family, kKeyHeads, kSingleParts)) read_single_parts(file, prefix, c);
  if (has_key(family, kChannels, kMambaWidth)) {
    c.mamba.head_size = read_head_size(file, prefix, c.mamba_sizes().heads);
    if (family.mixer == 'P') {  // llama.cpp norms each group of heads by itself
      c.mamba.norm_groups = file.contains("blk.0.ssm_norm.weight") ? c.mamba.groups : 0;
    }
  }
  if (has_key(family, kChannels, kDeltaWidth)) {
    c.delta_value_size = read_head_size(file, prefix, c.delta_sizes().heads);
  }
  if (has_key(family, kSections, "")) check_sections(file, prefix + kSections, c);
}

void set_blocks(const Family& family, const nn::DecoderConfig& c, GgufKeys& keys) {
  const std::string prefix = prefix_of(family);
  if (has_key(family, kLeadingDenseBlocks, kLeadingDense)) {
    keys[prefix + kLeadingDenseBlocks] = std::int64_t{leading_dense_blocks(c).value()};
  }
  if (has_key(family, kKeyHeads, "mixer_pattern") && !c.with_defaults().mixer_pattern.empty()) {
    std::vector<std::int64_t> heads;
    for (int i = 0; i < c.n_layer; ++i) heads.push_back(c.has_attention(i) ? c.kv_heads() : 0);
    keys[prefix + kKeyHeads] = heads;
  }
  if (has_key(family, kInterval, "mixer_pattern")) set_attention(prefix, c, keys);
  if (has_key(family, kInner, kSharedInner)) {
    const bool experts = c.moe.exist();
    keys[prefix + kInner] = experts ? c.expert_inner() : c.inner();
    keys[prefix + kTopK] = experts ? c.moe.top_k : 0;
    if (experts) keys[prefix + kSharedWidth] = c.moe.shared_inner;
  }
  if (has_key(family, kKeyHeads, kSingleParts)) set_single_parts(prefix, c, keys);
  if (has_key(family, kChannels, kMambaWidth))
    keys[prefix + kChannels] = c.mamba_sizes().channels();
  if (has_key(family, kChannels, kDeltaWidth)) {
    const nn::DeltaSizes sizes = c.delta_sizes();
    keys[prefix + kChannels] = sizes.heads * sizes.value_size;
  }
  if (has_key(family, kSections, "")) keys[prefix + kSections] = sections_of(c);
}

}  // namespace tapegrad::run
