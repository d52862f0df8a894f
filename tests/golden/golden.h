#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "tapegrad/tests/places.h"

namespace tapegrad::testing {

inline std::filesystem::path golden_file(const std::string& name) {
  return std::filesystem::path(tapegrad::places::kSources) / "tests/golden" / name;
}

inline nlohmann::json golden_json(const std::string& name) {
  std::ifstream file(golden_file(name));
  return nlohmann::json::parse(file);
}

// zlib's CRC-32, by which the JSON files vouch for every byte of a tensor.
template <class T>
uint32_t crc32(std::span<const T> values) {
  static const auto table = [] {
    std::array<uint32_t, 256> entries{};
    for (uint32_t i = 0; i < 256; ++i) {
      entries[i] = i;
      for (int bit = 0; bit < 8; ++bit) {
        entries[i] = (entries[i] >> 1) ^ ((entries[i] & 1U) != 0 ? 0xEDB88320U : 0U);
      }
    }
    return entries;
  }();
  uint32_t crc = 0xFFFFFFFFU;
  for (const std::byte b : std::as_bytes(values)) {
    crc = (crc >> 8) ^ table[(crc ^ static_cast<uint32_t>(b)) & 0xFFU];
  }
  return ~crc;
}

}  // namespace tapegrad::testing
