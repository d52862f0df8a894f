#pragma once

#include <string>

#include "tapegrad/run/models/families/internal/family.h"

namespace tapegrad::run {

// What GGUF's architectures with other mixers than attention in some blocks have in common.

// Their value of attention.head_count_kv, a number for all blocks or a list with one for each, as
// ours. Error if it has two numbers other than 0.
Value key_heads_of_blocks(const Value& theirs);
// The same for feed_forward_length, 0 where a block has no feed-forward.
Value widths_of_blocks(const Value& theirs);
// The same as a mixer_pattern: `mixer` where a block has no heads of keys. Empty of a number.
std::string mixers_of_heads(const Value& theirs, char mixer);
template <char kMixer>
Value mixers_of_blocks(const Value& theirs) {
  return mixers_of_heads(theirs, kMixer);
}
// Keys of such a list, for a family whose mixer has the letter of `mixers`.
void take_heads_of_blocks(GgufFamily& family, Value (*mixers)(const Value& theirs));

// A kernel of convolutions that sees one position, which llama.cpp does not compute: see
// GgufFamily::obstacle.
std::string conv_kernel_obstacle(const nn::DecoderConfig& config);

// The keys and tensors of a Mamba-2.
void take_mamba(GgufFamily& family);

// A name before the last norm's, beside those of blocks.
void add_name(GgufFamily& family, GgufTensorName name);

}  // namespace tapegrad::run
