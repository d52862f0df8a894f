#include "tapegrad/run/models/formats/hf/internal/hf_rotation.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tapegrad/autograd/ops.h"

namespace tapegrad::run {
namespace {

std::string rope_type(const HfConfig& part) {
  return part.get<std::string>("rope_type", part.get<std::string>("type", "default"));
}

// Of families with a base of their own for blocks with the window: rope_parameters have a part for
// each kind of blocks, older files rope_local_base_freq. Returns the part of blocks without it.
HfConfig read_window_base(const HfConfig& file, nn::DecoderConfig& c) {
  c.rope_window_base = file.get("rope_local_base_freq", c.rope_window_base);
  const HfConfig parts = file.part("rope_parameters");
  if (parts.empty()) return parts;
  for (const char* part : {kSlidingLayer, kFullLayer}) {
    check(parts.has_value(part), "{}: rope_parameters: there is no '{}'", file.path(), part);
  }
  const HfConfig sliding = parts.part(kSlidingLayer);
  check(rope_type(sliding) == "default",
        "{}: rotary positions of rope_type '{}' in blocks with a window are not supported, only "
        "default",
        file.path(), rope_type(sliding));
  c.rope_window_base = sliding.get("rope_theta", c.rope_window_base);
  return parts.part(kFullLayer);
}

// transformers 5 has all of it in rope_parameters, 4 has rope_theta beside rope_scaling, whose type
// older files call "type". Where a file has both, transformers 5 takes rope_scaling in place of
// rope_parameters; of families with a part for each kind of blocks, it updates one part with it.
HfConfig rotation_in(const HfConfig& file, nn::DecoderConfig& c) {
  const HfConfig older = file.part("rope_scaling");
  if (c.rope_window_base != 0) {
    check(!older.has("type") || older.has("rope_type"),
          "{}: rope_scaling has a 'type', which versions of transformers read differently: call it "
          "rope_type",
          file.path());
    return read_window_base(file, c).updated_with(older);
  }
  const HfConfig newer = file.part("rope_parameters");
  for (const char* part : {kSlidingLayer, kFullLayer}) {
    check(!newer.has(part), "{}: rope_parameters: '{}' is not supported, only one part for all",
          file.path(), part);
  }
  if (older.empty()) return newer;
  const double base = older.get("rope_theta", c.rope_base), other = newer.get("rope_theta", base);
  check(base == other,
        "{}: rope_scaling counts with a rope_theta of {}, but rope_parameters have {}: keep one of "
        "the two objects",
        file.path(), base, other);
  return older;
}

// The share of a head's channels that turn, of which transformers rounds the number down. The one
// in the object of rotary positions wins.
void read_turned_share(const HfConfig& file, const HfConfig& part, const HfFamily& family,
                       nn::DecoderConfig& c) {
  const std::string key = "partial_rotary_factor";
  const double share = part.get(key, file.get(key, family.turned_share.value_or(1.0)));
  check(share == 1 || (family.turned_share && share > 0 && share < 1),
        "{}: partial_rotary_factor {} is not supported, only {}", file.path(), share,
        family.turned_share ? "above 0 and at most 1" : "1");
  if (share == 1) return;
  const double channels = static_cast<double>(c.channels_per_head()) * share;
  c.rope_channels = static_cast<std::int64_t>(channels);
  check(*c.rope_channels >= 2 && *c.rope_channels % 2 == 0,
        "{}: partial_rotary_factor {} turns {} channels of each head of {}, which must be an even "
        "number",
        file.path(), share, *c.rope_channels, c.channels_per_head());
}

// What YaRN has beside the factor and the original positions, as transformers reads it: 0 and null
// are absent for some keys, and not for others.
void read_yarn(const HfConfig& part, bool by_kind, nn::DecoderConfig& c) {
  const auto unless_zero = [&](const char* key, double absent) {
    const double value = part.get(key, absent);
    return value == 0 ? absent : value;
  };
  c.rope_beta_fast = unless_zero("beta_fast", c.rope_beta_fast);
  c.rope_beta_slow = unless_zero("beta_slow", c.rope_beta_slow);
  if (!by_kind && part.has("truncate")) c.rope_truncate = part.get("truncate", false);
  const double mscale = unless_zero("mscale", 0), of_all = unless_zero("mscale_all_dim", 0);
  const double usual = yarn_attention_factor(c.rope_factor);
  double factor = part.get("attention_factor", usual);
  check(factor > 0, "{}: attention_factor {} must be above 0", part.path(), factor);
  if (!part.has_value("attention_factor") && mscale != 0 && of_all != 0) {
    factor =
        yarn_attention_factor(c.rope_factor, mscale) / yarn_attention_factor(c.rope_factor, of_all);
    check(factor > 0, "{}: mscale {} and mscale_all_dim {} make the attention factor {}",
          part.path(), mscale, of_all, factor);
  }
  c.rope_attention_factor = factor == usual ? 0 : factor;
}

// The kind of scaling that transformers computes for a rope_type.
nn::RopeScalingKind scaling_kind(const HfConfig& file, const std::string& type,
                                 HfFamily::Scalings scalings) {
  using Kind = nn::RopeScalingKind;
  // As far as max_position_embeddings, where texts end here, the dynamic kind turns as the default.
  const bool all = scalings == HfFamily::Scalings::all;
  if (type == "default" || (all && type == "dynamic")) return Kind::none;
  // What Phi-3 called it.
  const bool older = type == "su" || type == "yarn";
  if (scalings == HfFamily::Scalings::longrope && older) return Kind::longrope;
  const auto kind = enum_of<Kind>(type);
  const bool known = kind && *kind != Kind::none &&
                     (all || (scalings == HfFamily::Scalings::longrope && *kind == Kind::longrope));
  check(known, "{}: rotary positions of rope_type '{}' are not supported, only {}", file.path(),
        type,
        all ? "default, dynamic, linear, llama3, longrope and yarn"
        : scalings == HfFamily::Scalings::longrope ? "default and longrope"
                                                   : "default");
  return *kind;
}

// One at the top of the file wins.
void read_original_positions(const HfConfig& file, const HfConfig& part, bool by_kind,
                             const HfFamily& family, nn::DecoderConfig& c) {
  const std::int64_t inside =
      family.original_positions.value_or(part.get(kOriginalPositions, c.block_size));
  c.rope_original_positions = by_kind ? inside : file.get(kOriginalPositions, inside);
  check(c.rope_original_positions > 0, "{}: {} {} must be above 0", file.path(), kOriginalPositions,
        c.rope_original_positions);
}

// The ratio of the positions to those of the first training.
double factor_of_positions(const nn::DecoderConfig& c) {
  return static_cast<double>(c.block_size) / static_cast<double>(c.rope_original_positions);
}

std::string text_of(const std::vector<double>& numbers) {
  return fmt::format("{}", fmt::join(numbers, ","));
}

void read_longrope(const HfConfig& file, const HfConfig& part, nn::DecoderConfig& c) {
  for (const auto& [key, factors] : {std::pair("short_factor", &c.rope_short_factors),
                                     std::pair("long_factor", &c.rope_long_factors)}) {
    *factors = text_of(part.need<std::vector<double>>(key));
  }
  // Attention is not scaled for factors up to 1.
  c.rope_factor = std::max(1.0, part.get("factor", factor_of_positions(c)));
  const double usual = longrope_attention_factor(c.rope_factor, c.rope_original_positions);
  const double factor = part.get("attention_factor", usual);
  check(factor > 0, "{}: attention_factor {} must be above 0", file.path(), factor);
  c.rope_attention_factor = factor == usual ? 0 : factor;
}

// Of families whose queries grow.
void read_query_scale(const HfConfig& part, nn::DecoderConfig& c) {
  c.query_scale_beta = part.need<double>("llama_4_scaling_beta");
  if (c.query_scale_beta != 0)
    c.rope_original_positions = part.get(kOriginalPositions, c.block_size);
}

// The share that rounds down to so many channels.
double share_of(std::int64_t channels, std::int64_t all) {
  const auto of = static_cast<double>(all);
  const double share = static_cast<double>(channels) / of;
  return static_cast<std::int64_t>(of * share) == channels ? share : std::nextafter(share, 1.0);
}

// What YaRN has beside the factor and the original positions.
void set_yarn(const HfFamily& family, const nn::DecoderConfig& c, Json& rope) {
  const nn::DecoderConfig usual;
  const auto set = [&](const char* key, double value, double absent) {
    if (value != absent) rope[key] = value;
  };
  set("beta_fast", c.rope_beta_fast, usual.rope_beta_fast);
  set("beta_slow", c.rope_beta_slow, usual.rope_beta_slow);
  if (!c.rope_truncate) rope["truncate"] = false;
  if (family.scales_queries && c.rope_attention_factor == 1) {  // as llama.cpp's converter wants it
    rope["mscale"] = rope["mscale_all_dim"] = 1.0;
    return;
  }
  set("attention_factor", c.rope_attention_factor, usual.rope_attention_factor);
}

void set_longrope(const nn::DecoderConfig& c, Json& rope) {
  const RopeScaling scaling = *c.scaling();
  rope["short_factor"] = scaling.short_factors;
  rope["long_factor"] = scaling.long_factors;
  if (c.rope_attention_factor != 0) rope["attention_factor"] = c.rope_attention_factor;
}

// transformers 4 takes three keys of Phi-3's, and no more.
Json older_longrope(const nn::DecoderConfig& c, const Json& rope) {
  const bool is_usual =
      c.rope_attention_factor == 0 && c.rope_factor == std::max(1.0, factor_of_positions(c));
  if (!is_usual) return rope;
  return {{"type", "longrope"},
          {"short_factor", rope.at("short_factor")},
          {"long_factor", rope.at("long_factor")}};
}

}  // namespace

void read_rotation(const HfConfig& file, const HfFamily& family, nn::DecoderConfig& c) {
  c.rope_base = file.get("rope_theta", c.rope_base);
  const bool by_kind = c.rope_window_base != 0;
  const HfConfig part = rotation_in(file, c);
  c.rope_base = part.get("rope_theta", c.rope_base);
  if (family.own_rotation != nullptr && part.empty()) return family.own_rotation(c);
  if (family.scales_queries) read_query_scale(part, c);
  read_turned_share(file, part, family, c);
  const nn::RopeScalingKind kind = scaling_kind(file, rope_type(part), family.scalings);
  if (kind == nn::RopeScalingKind::none) return;
  c.rope_scaling = kind;
  const bool is_yarn = kind == nn::RopeScalingKind::yarn;
  if (kind != nn::RopeScalingKind::linear) {
    read_original_positions(file, part, by_kind, family, c);
  }
  if (kind == nn::RopeScalingKind::longrope) return read_longrope(file, part, c);
  if (is_yarn && part.has("factor") && !part.has_value("factor")) {
    c.rope_factor = factor_of_positions(c);
  } else {
    c.rope_factor = part.need<double>("factor");
  }
  if (is_yarn) read_yarn(part, by_kind, c);
  if (kind != nn::RopeScalingKind::llama3) return;
  c.rope_low_freq_factor = part.need<double>("low_freq_factor");
  c.rope_high_freq_factor = part.need<double>("high_freq_factor");
}

void set_rotation(const Family& family, const nn::DecoderConfig& c, Json& json) {
  Json rope = {{"rope_type", "default"}, {"rope_theta", c.rope_base}};
  if (family.hf.turned_share) {
    const double share = share_of(c.turned_channels(), c.channels_per_head());
    rope["partial_rotary_factor"] = json["partial_rotary_factor"] = share;
  }
  if (c.scaling()) {
    rope["rope_type"] = name_of_enum(c.rope_scaling);
    rope["factor"] = c.rope_factor;
    if (c.rope_scaling == nn::RopeScalingKind::llama3) {
      rope["low_freq_factor"] = c.rope_low_freq_factor;
      rope["high_freq_factor"] = c.rope_high_freq_factor;
    }
    if (c.rope_scaling == nn::RopeScalingKind::yarn) set_yarn(family.hf, c, rope);
    if (c.rope_scaling == nn::RopeScalingKind::longrope) set_longrope(c, rope);
    if (c.rope_scaling != nn::RopeScalingKind::linear)
      rope[kOriginalPositions] = c.rope_original_positions;
  }
  if (family.hf.scales_queries) {
    rope["llama_4_scaling_beta"] = c.query_scale_beta;
    rope[kOriginalPositions] = c.rope_original_positions;
  }
  json["rope_parameters"] = rope;
  if (family.model.rope_window_base != 0) {
    const double base = c.rope_window_base != 0 ? c.rope_window_base : c.rope_base;
    json["rope_parameters"] = {{kFullLayer, rope},
                               {kSlidingLayer, {{"rope_type", "default"}, {"rope_theta", base}}}};
    json["rope_local_base_freq"] = base;
  }
  json["rope_theta"] = c.rope_base;  // as transformers 4 spells it
  json["rope_scaling"] = c.scaling() ? rope : Json();
  if (c.rope_scaling == nn::RopeScalingKind::longrope &&
      family.hf.scalings == HfFamily::Scalings::longrope) {
    json["rope_scaling"] = older_longrope(c, rope);
  }
}

}  // namespace tapegrad::run
