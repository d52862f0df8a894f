#pragma once

#include <cstdint>
#include <cstring>

#include "tapegrad/autograd/quantized/internal/store_sums.h"

namespace tapegrad::quantized {
namespace {

// Layouts whose elements stand one by one. x stays as it is. V is a struct of lanes: see
// vector_plain.h.

// The elements of one column, sixteen of `Bytes` each, behind those of the column before. An
// element is no number if all bits of its exponent are set.
template <class Bits, Bits exponent>
struct Columns {
  static constexpr int Bytes = sizeof(Bits);
  static bool all_finite(const std::uint8_t* stored, std::int64_t n) {
    bool odd = false;  // no branch, so that compilers vectorise the loop
    for (std::int64_t i = 0; i < n; ++i) {
      Bits x;
      std::memcpy(&x, stored + i * Bytes, sizeof x);
      odd |= (x & exponent) == exponent;
    }
    return !odd;
  }
  static constexpr bool kRoundsX = false;
  static constexpr std::int64_t kElements = 1;
  static constexpr int kColumnBytes = Bytes * static_cast<int>(kRows);
  static constexpr std::int64_t panel_bytes(std::int64_t in) { return in * kColumnBytes; }
  static void pack_column(const std::uint8_t* elements, std::int64_t rows, std::int64_t column,
                          std::uint8_t* panel) {
    std::uint8_t* const to = panel + column * kColumnBytes;
    if (rows == kRows) {
      std::memcpy(to, elements, kColumnBytes);
    } else {
      std::memcpy(to, elements, static_cast<std::size_t>(rows * Bytes));
      std::memset(to + rows * Bytes, 0, static_cast<std::size_t>((kRows - rows) * Bytes));
    }
  }
  static void pack(const std::uint8_t* const (&rows)[kRows], std::int64_t in, std::uint8_t* panel) {
    for (std::int64_t i = 0; i < in; ++i) {
      for (std::int64_t r = 0; r < kRows; ++r, panel += Bytes) {
        if (rows[r] != nullptr) std::memcpy(panel, rows[r] + i * Bytes, Bytes);
        if (rows[r] == nullptr) std::memset(panel, 0, Bytes);
      }
    }
  }
};

template <class V>
struct F32 : Columns<std::uint32_t, 0x7f800000> {
  static constexpr const char* kName = "f32";
  static typename V::F column(const std::uint8_t* from) {
    return V::load(reinterpret_cast<const float*>(from));
  }
};
template <class V>
struct BF16 : Columns<std::uint16_t, 0x7f80> {
  static constexpr const char* kName = "bf16";
  static typename V::F column(const std::uint8_t* from) { return V::bf16s(from); }
};
template <class V>
struct F16 : Columns<std::uint16_t, 0x7c00> {
  static constexpr const char* kName = "f16";
  static typename V::F column(const std::uint8_t* from) { return V::f16s(from); }
};

// Products of P panels and N columns of x, added up in parts so that roundings do not grow with the
// length of a row.
template <class V, class Layout, int P, int N>
void multiply_floats(const Product& p, std::int64_t panel, std::int64_t column) {
  using F = typename V::F;
  constexpr std::int64_t kPart = 128;
  F totals[P][N];
  for (auto& row : totals) {
    for (F& total : row) total = V::set(0);
  }
  const std::uint8_t* from = p.panels + panel * p.panel_bytes;
  const float* x = p.x + column * p.in;
  for (std::int64_t begin = 0; begin < p.in; begin += kPart) {
    const std::int64_t end = begin + kPart < p.in ? begin + kPart : p.in;
    F sums[P][N];
    for (auto& row : sums) {
      for (F& sum : row) sum = V::set(0);
    }
    for (std::int64_t i = begin; i < end; ++i) {
      F w[P];
      for (int k = 0; k < P; ++k) {
        const std::uint8_t* elements = from + k * p.panel_bytes + i * Layout::kColumnBytes;
        prefetch(elements + kFloatsAhead, 1);
        w[k] = Layout::column(elements);
      }
      for (int j = 0; j < N; ++j) {
        const F factor = V::set(x[j * p.in + i]);
        for (int k = 0; k < P; ++k) sums[k][j] = V::fma(w[k], factor, sums[k][j]);
      }
    }
    for (int k = 0; k < P; ++k) {
      for (int j = 0; j < N; ++j) totals[k][j] = V::add(totals[k][j], sums[k][j]);
    }
  }
  for (int k = 0; k < P; ++k) {
    for (int j = 0; j < N; ++j) put<V>(p, panel + k, column + j, totals[k][j]);
  }
}

}  // namespace
}  // namespace tapegrad::quantized
