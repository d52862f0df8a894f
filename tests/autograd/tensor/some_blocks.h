#pragma once

#include <cstring>
#include <map>
#include <vector>

#include "tapegrad/autograd/tensor/stored_type.h"
#include "tapegrad/base/half.h"
#include "tapegrad/base/random.h"
#include "tapegrad/tests/catch.h"

namespace tapegrad::testing {

// Bytes of n elements of a type that cannot be made of numbers: any, with scales from 0.5 to 1.5 in
// 128ths, which are exact, or those of mxfp4 from 0.5 to 4.
inline std::vector<std::byte> some_blocks(const StoredType& type, std::int64_t n, Rng& rng) {
  const std::map<std::string_view, std::vector<std::size_t>> scales = {
      {"iq4_nl", {0}}, {"mxfp4", {}}, {"q2_k", {80, 82}}, {"q3_k", {108}}, {"iq4_xs", {0}}};
  std::vector<std::byte> bytes(static_cast<std::size_t>(n / type.block * type.block_bytes));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(rng.next32() & 255);
  for (std::size_t at = 0; at < bytes.size(); at += static_cast<std::size_t>(type.block_bytes)) {
    if (type.name == "mxfp4") bytes[at] = static_cast<std::byte>(126 + (rng.next32() & 3));
    for (const std::size_t place : scales.at(type.name)) {
      const f16 scale = to_f16(0.5F + static_cast<float>(rng.next32() & 127) / 128);
      std::memcpy(bytes.data() + at + place, &scale, sizeof scale);
    }
  }
  return bytes;
}

}  // namespace tapegrad::testing
