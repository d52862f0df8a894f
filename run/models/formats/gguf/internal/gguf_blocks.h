#pragma once

#include "tapegrad/autograd/formats/gguf.h"
#include "tapegrad/run/models/families/internal/family.h"

namespace tapegrad::run {

// Options of blocks that GGUF has in forms of its own: which of them have attention, which have
// experts, and widths of which one key depends on others.

// Sets those that the family's keys stand for, after all others. Errors, with the file and the key:
// one is missing, out of bounds, or does not fit another.
void read_blocks(const GgufFile& file, const Family& family, nn::DecoderConfig& config);
// The inverse.
void set_blocks(const Family& family, const nn::DecoderConfig& config, GgufKeys& keys);

}  // namespace tapegrad::run
