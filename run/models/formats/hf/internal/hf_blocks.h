#pragma once

#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/run/models/families/internal/family.h"
#include "tapegrad/run/models/formats/hf/internal/hf_config_file.h"

namespace tapegrad::run {

// What a config.json says of some blocks and not of others, in lists and numbers. Errors as those
// of read_hf_config().

// The window, and which blocks have it: kWindows.
void read_window(const HfConfig& file, HfFamily::Window window, nn::DecoderConfig& config);
void set_windows(const Family& family, const nn::DecoderConfig& config, Json& json);
// Which blocks have rotary positions: kRotaryBlocks.
void read_rotary_blocks(const HfConfig& file, nn::DecoderConfig& config);
void set_rotary_blocks(const nn::DecoderConfig& config, Json& json);
// Which blocks have experts: kDenseBlocks.
void read_dense_blocks(const HfConfig& file, nn::DecoderConfig& config);
void set_dense_blocks(const nn::DecoderConfig& config, Json& json);
// The same, where dense ones stand before all others: kLeadingDense.
void read_leading_dense(const HfConfig& file, nn::DecoderConfig& config);
void set_leading_dense(const nn::DecoderConfig& config, Json& json);
// Which blocks have something in place of attention: kMixers.
void read_mixers(const HfConfig& file, const Family& family, nn::DecoderConfig& config);
void set_mixers(const Family& family, const nn::DecoderConfig& config, Json& json);
// The width of the feed-forward, which LFM2's class makes from other numbers: kAdjustedInner. It is
// written as it is.
void read_adjusted_inner(const HfConfig& file, nn::DecoderConfig& config);
void set_adjusted_inner(const nn::DecoderConfig& config, Json& json);
// The widths of experts and of the feed-forward beside them, which is the only one without experts:
// kSharedInner.
void read_shared_inner(const HfConfig& file, nn::DecoderConfig& config);
void set_shared_inner(const nn::DecoderConfig& config, Json& json);
// The channels of Mamba-2's heads, and what its classes have beside them: kMambaWidth.
void read_mamba_width(const HfConfig& file, nn::DecoderConfig& config);
void set_mamba_width(const nn::DecoderConfig& config, Json& json);
// Which blocks are a mixer alone, and which a feed-forward: kSingleParts. Files also say how many
// blocks there are.
void read_single_parts(const HfConfig& file, nn::DecoderConfig& config);
void set_single_parts(const nn::DecoderConfig& config, Json& json);
// Scales of a feed-forward's gate and output, and of what a Mamba-2 projects: kScaleLists.
void read_scale_lists(const HfConfig& file, nn::DecoderConfig& config);
void set_scale_lists(const nn::DecoderConfig& config, Json& json);

}  // namespace tapegrad::run
