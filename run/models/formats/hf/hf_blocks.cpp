#include "tapegrad/run/models/formats/hf/internal/hf_blocks.h"

#include <cmath>
#include <string>
#include <vector>

#include "tapegrad/run/models/families/internal/family_keys.h"

namespace tapegrad::run {
namespace {

// Which blocks have the window, as DecoderConfig has it.
std::string window_pattern(const HfConfig& file, HfFamily::Window window,
                           const nn::DecoderConfig& c) {
  const int n_layer = c.n_layer;
  std::string letters;
  const auto types = file.get("layer_types", std::vector<std::string>());
  for (const std::string& type : types) {
    check(type == kSlidingLayer || type == kFullLayer,
          "{}: layer_types: '{}' is not supported, only {} and {}", file.path(), type,
          kSlidingLayer, kFullLayer);
    letters += type == kSlidingLayer ? 'S' : 'L';
  }
  check(types.empty() || std::ssize(types) == n_layer, "{}: layer_types names {} layers of {}",
        file.path(), types.size(), n_layer);
  if (!types.empty()) return letters;
  if (window == HfFamily::Window::by_layer) {
    const auto size = file.get<std::int64_t>("sliding_window_pattern", 0);
    return size == 0 ? c.window_pattern : pattern_with_last('S', 'L', size);
  }
  const auto first = file.get<std::int64_t>("max_window_layers", 28);
  for (int i = 0; i < n_layer; ++i) letters += i >= first ? 'S' : 'L';
  return letters;
}

}  // namespace

void read_window(const HfConfig& file, HfFamily::Window window, nn::DecoderConfig& c) {
  const bool is_null = file.has("sliding_window") && !file.has_value("sliding_window");
  check(!is_null || window != HfFamily::Window::by_layer,
        "{}: sliding_window null is not supported, only a number", file.path());
  const bool slides =
      window == HfFamily::Window::unless_null || window == HfFamily::Window::by_layer ||
      (window == HfFamily::Window::if_asked && file.get("use_sliding_window", false));
  if (!slides || is_null) return;
  c.window = file.get<std::int64_t>("sliding_window",
                                    window == HfFamily::Window::by_layer ? c.window : 4096);
  check(c.window > 0, "{}: sliding_window {} must be 1 or more", file.path(), c.window);
  if (window == HfFamily::Window::unless_null) return;
  c.window_pattern = window_pattern(file, window, c);
}

// transformers before 4.53 knows no layer_types: there, all layers from max_window_layers on slide.
void set_windows(const Family& family, const nn::DecoderConfig& c, Json& json) {
  const bool asked = family.hf.window == HfFamily::Window::if_asked;
  if (asked) json["use_sliding_window"] = c.window > 0;
  if (asked && c.window == 0) return;
  Json types = Json::array();
  int first = c.n_layer;
  for (int i = c.n_layer; i-- > 0;) {
    const bool slides = c.scores_of(i).window > 0;
    if (slides) first = i;
    types.insert(types.begin(), slides ? kSlidingLayer : kFullLayer);
  }
  json["sliding_window"] = c.window == 0 ? c.block_size : c.window;
  if (asked) json["max_window_layers"] = first;
  json["layer_types"] = types;
}

// 1 for each block with rotary positions, 0 for one without.
void read_rotary_blocks(const HfConfig& file, nn::DecoderConfig& c) {
  const auto turned = file.get("no_rope_layers", std::vector<std::int64_t>());
  if (turned.empty()) {
    const auto interval = file.get<std::int64_t>("no_rope_layer_interval", 4);
    check(interval >= 1 && interval <= 4096, "{}: no_rope_layer_interval {} must be 1 to 4096",
          file.path(), interval);
    c.rope_pattern = pattern_with_last('R', 'N', interval);
    return;
  }
  check(std::ssize(turned) == c.n_layer, "{}: no_rope_layers names {} layers of {}", file.path(),
        turned.size(), c.n_layer);
  c.rope_pattern.clear();
  for (const std::int64_t turns : turned) c.rope_pattern += turns != 0 ? 'R' : 'N';
}

void set_rotary_blocks(const nn::DecoderConfig& c, Json& json) {
  Json turned = Json::array();
  for (int i = 0; i < c.n_layer; ++i) turned.push_back(c.turns(i) ? 1 : 0);
  json["no_rope_layers"] = turned;
}

// Every decoder_sparse_step-th block has experts, but for those that mlp_only_layers names.
void read_dense_blocks(const HfConfig& file, nn::DecoderConfig& c) {
  const auto step = file.get<std::int64_t>("decoder_sparse_step", 1);
  check(step >= 1 && step <= 4096, "{}: decoder_sparse_step {} must be 1 to 4096", file.path(),
        step);
  if (!c.moe.exist()) return;
  c.moe.pattern.clear();
  for (int i = 0; i < c.n_layer; ++i) c.moe.pattern += (i + 1) % step == 0 ? 'E' : 'D';
  for (const auto dense : file.get("mlp_only_layers", std::vector<std::int64_t>())) {
    if (dense >= 0 && dense < c.n_layer) c.moe.pattern[static_cast<std::size_t>(dense)] = 'D';
  }
}

void set_dense_blocks(const nn::DecoderConfig& c, Json& json) {
  Json dense = Json::array();
  for (int i = 0; i < c.n_layer; ++i) {
    if (!c.has_experts(i)) dense.push_back(i);
  }
  json["decoder_sparse_step"] = 1;
  json["mlp_only_layers"] = dense;
}

void read_leading_dense(const HfConfig& file, nn::DecoderConfig& c) {
  const auto dense = file.get<std::int64_t>("num_dense_layers", 2);
  check(dense >= 0, "{}: num_dense_layers {} must be 0 or more", file.path(), dense);
  c.moe.pattern = leading_dense_pattern(dense, c.n_layer);
}

void set_leading_dense(const nn::DecoderConfig& c, Json& json) {
  json["num_dense_layers"] = leading_dense_blocks(c).value();
}

namespace {

// The words of layer_types for what stands in place of attention, and for attention.
struct MixerWords {
  const char *other, *attention;
};
MixerWords mixer_words(const Family& family) {
  if (family.mixer == 'M') return {kMambaLayer, kAttentionLayer};
  return {family.mixer == 'C' ? kConvLayer : kLinearLayer, kFullLayer};
}

}  // namespace

void read_mixers(const HfConfig& file, const Family& family, nn::DecoderConfig& c) {
  const auto [other, attention] = mixer_words(family);
  const auto types = file.get("layer_types", std::vector<std::string>());
  check(types.empty() || std::ssize(types) == c.n_layer, "{}: layer_types names {} layers of {}",
        file.path(), types.size(), c.n_layer);
  c.mixer_pattern.clear();
  for (const std::string& type : types) {
    check(type == other || type == attention,
          "{}: layer_types: '{}' is not supported, only {} and {}", file.path(), type, other,
          attention);
    c.mixer_pattern += type == other ? family.mixer : 'A';
  }
  if (!types.empty()) return;
  if (family.mixer == 'M') c.mixer_pattern = "M";
  if (family.mixer == 'D') {
    c.mixer_pattern =
        pattern_with_last('D', 'A', file.get<std::int64_t>("full_attention_interval", 4));
  } else if (family.mixer == 'C' && file.has_value("full_attn_idxs")) {
    c.mixer_pattern.assign(static_cast<std::size_t>(c.n_layer), 'C');
    for (const auto block : file.get("full_attn_idxs", std::vector<std::int64_t>())) {
      if (block >= 0 && block < c.n_layer) c.mixer_pattern[static_cast<std::size_t>(block)] = 'A';
    }
  }
}

// Older versions know LFM2's blocks with attention by their numbers.
void set_mixers(const Family& family, const nn::DecoderConfig& c, Json& json) {
  const MixerWords words = mixer_words(family);
  Json types = Json::array(), attention = Json::array();
  for (int i = 0; i < c.n_layer; ++i) {
    const bool attends = c.has_attention(i);
    types.push_back(attends ? words.attention : words.other);
    if (attends) attention.push_back(i);
  }
  json["layer_types"] = types;
  if (family.mixer == 'C') json["full_attn_idxs"] = attention;
}

void set_adjusted_inner(const nn::DecoderConfig& c, Json& json) {
  json["block_ff_dim"] = c.inner();  // as older files call intermediate_size
  json["block_auto_adjust_ff_dim"] = false;
  json["block_multiple_of"] = 256;
  json["block_ffn_dim_multiplier"] = 1.0;
}

// As transformers rounds: down to whole numbers, then up to a multiple.
void read_adjusted_inner(const HfConfig& file, nn::DecoderConfig& c) {
  if (!file.get("block_auto_adjust_ff_dim", true)) return;
  constexpr double kMost = 1 << 22;
  double width = std::trunc(2 * static_cast<double>(c.inner()) / 3);
  const bool is_null =
      file.has("block_ffn_dim_multiplier") && !file.has_value("block_ffn_dim_multiplier");
  if (!is_null) {
    const auto factor = file.get("block_ffn_dim_multiplier", 1.0);
    const auto multiple = file.get<std::int64_t>("block_multiple_of", 256);
    check(
        factor > 0 && factor <= kMost && multiple >= 1 && multiple <= 1 << 22,
        "{}: block_ffn_dim_multiplier {} and block_multiple_of {} make no width of a feed-forward",
        file.path(), factor, multiple);
    const auto of = static_cast<double>(multiple);
    width = std::ceil(std::trunc(factor * width) / of) * of;
  }
  check(width >= 1 && width <= kMost,
        "{}: block_auto_adjust_ff_dim makes {} channels of intermediate_size {}", file.path(),
        width, c.inner());
  c.n_inner = static_cast<std::int64_t>(width);
}

void read_shared_inner(const HfConfig& file, nn::DecoderConfig& c) {
  const auto width = [&](const char* key, std::int64_t absent) {
    check(!file.has(key) || file.has_value(key), "{}: '{}' must be a number, not null", file.path(),
          key);
    const auto value = file.get<std::int64_t>(key, absent);
    check(value >= 1 && value <= 1 << 22, "{}: {} {} must be 1 to {}", file.path(), key, value,
          1 << 22);
    return value;
  };
  c.n_inner = width("shared_intermediate_size", 1024);
  const std::int64_t of_experts = width("intermediate_size", 11008);
  if (!c.moe.exist()) return;
  c.moe.shared_inner = *c.n_inner;
  c.moe.inner = c.n_inner = of_experts;
}

// Without experts, files of the hub have the same number twice.
void set_shared_inner(const nn::DecoderConfig& c, Json& json) {
  json["intermediate_size"] = c.moe.exist() ? c.expert_inner() : c.inner();
  json["shared_intermediate_size"] = c.moe.exist() ? c.moe.shared_inner : c.inner();
}

}  // namespace tapegrad::run
