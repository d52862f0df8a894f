// The keys of a config.json for Mamba-2, and for models whose blocks are one part each.

#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/run/models/formats/hf/internal/hf_blocks.h"

namespace tapegrad::run {
namespace {

// Falcon-H1's class norms each group of heads by itself.
void read_mamba_norm(const HfConfig& file, nn::DecoderConfig& c) {
  c.mamba.norm_groups = file.get("mamba_rms_norm", false) ? c.mamba.groups : 0;
  check(c.mamba.norm_groups == 0 || !file.get("mamba_norm_before_gate", true),
        "{}: mamba_norm_before_gate true, or absent, is not supported, only false", file.path());
}

// The steps of a Mamba-2 are not limited here.
void check_step_limit(const HfConfig& file) {
  const std::string limit = file.text("time_step_limit");
  check(limit.empty() || limit == R"([0.0,"Infinity"])" ||
            limit == R"([0.0,{"__float__":"Infinity"}])",
        "{}: time_step_limit {} is not supported, only [0.0, Infinity]", file.path(), limit);
}

}  // namespace

void read_mamba_width(const HfConfig& file, nn::DecoderConfig& c) {
  const bool is_parallel = c.has_some('P');
  const auto expand = file.get<std::int64_t>("mamba_expand", 2);
  check(expand >= 1 && expand <= 1 << 16, "{}: mamba_expand {} must be 1 to {}", file.path(),
        expand, 1 << 16);
  check(c.n_embd >= 1 && c.n_embd <= 1 << 24, "{}: hidden_size {} must be 1 to {}", file.path(),
        c.n_embd, 1 << 24);
  // Falcon-H1 takes 1024 channels where the key is absent, and goes by mamba_expand where it is
  // null.
  const bool is_share = !is_parallel || (file.has("mamba_d_ssm") && !file.has_value("mamba_d_ssm"));
  const std::int64_t width =
                         is_share ? expand * c.n_embd : file.get<std::int64_t>("mamba_d_ssm", 1024),
                     heads = c.mamba_sizes().heads;
  check(heads >= 1 && width >= heads && width % heads == 0,
        "{}: mamba_n_heads {} do not divide {} channels", file.path(), heads, width);
  const bool is_own = file.text("mamba_d_head") == "\"auto\"" || !file.has("mamba_d_head");
  c.mamba.head_size = is_own ? width / heads : file.need<std::int64_t>("mamba_d_head");
  check(c.mamba.head_size == width / heads, "{}: mamba_d_head {} must be {}: {} over {} heads",
        file.path(), c.mamba.head_size, width / heads,
        is_share ? fmt::format("mamba_expand {} times hidden_size {}", expand, c.n_embd)
                 : fmt::format("mamba_d_ssm {}", width),
        heads);
  if (is_parallel) read_mamba_norm(file, c);
  check_step_limit(file);
}

void set_mamba_width(const nn::DecoderConfig& c, Json& json) {
  const nn::MambaSizes sizes = c.mamba_sizes();
  if (c.has_some('P')) {
    json["mamba_d_head"] = sizes.head_size;
    json["mamba_d_ssm"] = sizes.channels();
    json["mamba_expand"] = 2;  // what mamba_d_ssm overrides
    json["mamba_rms_norm"] = c.mamba.norm_groups > 0;
    json["mamba_norm_before_gate"] = false;
  } else if (c.has_some('M')) {
    json["mamba_d_head"] = sizes.head_size;
    json["mamba_expand"] = sizes.channels() / c.n_embd;
  } else {  // transformers wants sizes that fit each other, whether a block has them or not
    json["mamba_n_heads"] = 1;
    json["mamba_d_head"] = 2 * c.n_embd;
    json["mamba_expand"] = 2;
  }
}

namespace {

// Layers that are one part each: the letter of hybrid_override_pattern, the word of
// layers_block_type, and ours in mixer_pattern and ff_pattern.
struct SinglePart {
  char letter;
  std::string_view word;
  char mixer, feed_forward;
};
constexpr SinglePart kParts[] = {
    {'M', "mamba", 'M', 'N'}, {'*', "attention", 'A', 'N'}, {'-', "mlp", 'N', 'F'}};
// The pattern that transformers takes where a file has none.
constexpr const char* kOwnPattern = "ME*-";

const SinglePart& single_part(const HfConfig& file, const char* key, std::string_view named) {
  const auto* const part = std::ranges::find_if(kParts, [&](const SinglePart& p) {
    return named == p.word || named == std::string_view(&p.letter, 1);
  });
  check(part != std::end(kParts),
        "{}: {}: '{}' is not supported, only M (mamba), * (attention) and - (mlp){}", file.path(),
        key, named, named == "E" || named == "moe" ? ": there is no support for its experts" : "");
  return *part;
}

}  // namespace

void read_single_parts(const HfConfig& file, nn::DecoderConfig& c) {
  const char *list = "layers_block_type", *row = "hybrid_override_pattern";
  const bool is_listed = file.has_value(list);
  std::vector<std::string> layers;
  if (is_listed) {
    layers = file.get(list, layers);
  } else {
    for (const char letter : file.get<std::string>(row, kOwnPattern))
      layers.emplace_back(1, letter);
  }
  constexpr std::size_t kMost = 4096;
  check(!layers.empty() && layers.size() <= kMost, "{}: {} must name 1 to {} layers, not {}",
        file.path(), is_listed ? list : row, kMost, layers.size());
  c.n_layer = static_cast<int>(layers.size());
  c.mixer_pattern.clear(), c.ff_pattern.clear();
  for (const std::string& layer : layers) {
    const SinglePart& part = single_part(file, is_listed ? list : row, layer);
    c.mixer_pattern += part.mixer, c.ff_pattern += part.feed_forward;
  }
  check_step_limit(file);
}

// Newer versions of transformers know the list; older ones, and llama.cpp's converter, the row.
void set_single_parts(const nn::DecoderConfig& c, Json& json) {
  Json list = Json::array();
  std::string row;
  for (int i = 0; i < c.n_layer; ++i) {
    const char mixer = c.mixer(i);
    const auto* const part = std::ranges::find(kParts, mixer, &SinglePart::mixer);
    list.push_back(part->word);
    row += part->letter;
  }
  json["layers_block_type"] = list;
  json["hybrid_override_pattern"] = row;
  // transformers takes no null, and a model without a Mamba-2 has no number of its heads.
  if (!c.has_some('M')) json.erase("mamba_num_heads");
}

void read_scale_lists(const HfConfig& file, nn::DecoderConfig& c) {
  const auto numbers = [&](const char* key, std::size_t count) {
    const auto list = file.get(key, std::vector<double>(count, 1));
    check(list.size() == count, "{}: {} has {} numbers, not {}", file.path(), key, list.size(),
          count);
    return list;
  };
  const auto of_mlp = numbers("mlp_multipliers", 2), parts = numbers("ssm_multipliers", 5);
  c.scales.gate = of_mlp[0], c.scales.mlp = of_mlp[1];
  c.scales.mamba_parts =
      parts == std::vector<double>(5, 1) ? "" : fmt::format("{}", fmt::join(parts, ","));
}

void set_scale_lists(const nn::DecoderConfig& c, Json& json) {
  nn::BlockScales parts = c.scales;
  parts.mamba_in = 1;  // which has a key of its own
  json["mlp_multipliers"] = {parts.gate, parts.mlp};
  json["ssm_multipliers"] = parts.of_mamba();
}

}  // namespace tapegrad::run
