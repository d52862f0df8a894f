#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "tapegrad/autograd/formats/tensor_source.h"

namespace tapegrad {

// The header of a safetensors file, for safetensors.cpp.

inline constexpr std::string_view kMetadataKey = "__metadata__";

struct SafetensorsHeader {
  TensorSource::Entries entries;
  std::map<std::string, std::uint64_t> begins;  // where a tensor's bytes begin in the data
  Metadata metadata;
};

// Parses and checks `text`, the header of a file that has `data_bytes` bytes behind it. Afterwards
// every tensor lies within the data, and no byte belongs to two tensors or to none. Error, naming
// the path, for any other text.
SafetensorsHeader parse_safetensors_header(const std::string& path, const std::string& text,
                                           std::uint64_t data_bytes);

}  // namespace tapegrad
