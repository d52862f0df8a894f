#include "tapegrad/autograd/tensor/write_floats.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tapegrad/base/half.h"

namespace tapegrad {
namespace {

template <class Stored, class Convert>
void write_converted(FileWriter& file, std::span<const float> values, Convert convert) {
  constexpr std::size_t kPiece = std::size_t{1} << 15;
  std::vector<Stored> piece;
  while (!values.empty()) {
    piece.resize(std::min(kPiece, values.size()));
    std::transform(values.begin(), values.begin() + std::ssize(piece), piece.begin(), convert);
    file.write({reinterpret_cast<const char*>(piece.data()), piece.size() * sizeof(Stored)});
    values = values.subspan(piece.size());
  }
}

}  // namespace

void write_floats(FileWriter& file, const Tensor& t, std::string_view stored) {
  const std::span<const float> values = t.values<float>();
  if (stored == "F32") {
    file.write({reinterpret_cast<const char*>(values.data()), t.bytes()});
  } else if (stored == "F16") {
    write_converted<f16>(file, values, to_f16);
  } else {
    check(stored == "BF16", "[file] floats cannot be stored as {}", stored);
    write_converted<bf16>(file, values, to_bf16);
  }
}

void check_fits(std::string_view name, const Tensor& t, std::string_view stored) {
  if (stored == "F32") return;
  const bool is_f16 = stored == "F16";
  for (const float x : t.values<float>()) {
    const float there = is_f16 ? to_float(to_f16(x)) : to_float(to_bf16(x));
    check(std::isfinite(there) || !std::isfinite(x),
          "'{}' has the value {}, which is too large for {}", name, x, stored);
  }
}

}  // namespace tapegrad
