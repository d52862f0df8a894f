#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tapegrad/autograd/formats/safetensors.h"
#include "tapegrad/run/models/families/internal/family.h"

namespace tapegrad::run {

// The tensor of ours that a tensor of a file is, or the part of it that one expert has. Their name
// is without the prefix.
struct HfPlace {
  std::string ours;
  std::optional<std::int64_t> expert = {};
};
HfPlace place_of(const HfFamily& family, const nn::DecoderConfig& config,
                 const std::string& theirs);
// The tensors of ours that are rows of one of theirs, by their names; empty for others.
struct HfRowsPlace {
  std::string ours;
  const HfRows* rows;
};
std::vector<HfRowsPlace> rows_of(const HfFamily& family, const std::string& theirs);
// What files call a tensor of ours of which no expert has a part. Without the prefix. Error if it
// is rows of theirs.
std::string hf_name(const HfFamily& family, const std::string& ours);

// A model's tensors as files have them, without the prefix.
std::vector<TensorToMake> with_hf_names(const HfFamily& family, const nn::DecoderConfig& config,
                                        std::vector<TensorToMake> tensors);

}  // namespace tapegrad::run
