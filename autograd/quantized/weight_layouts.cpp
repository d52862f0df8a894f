#include "tapegrad/autograd/quantized/internal/weight_layouts.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <vector>

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include "tapegrad/autograd/quantized/internal/kernels.h"
#include "tapegrad/autograd/quantized/kernels/internal/vector_plain.h"
#include "tapegrad/base/parallel.h"

namespace tapegrad::quantized {
namespace {

template <class Layout>
std::int64_t panel_bytes(std::int64_t in) {
  if constexpr (Layout::kRoundsX) {
    return bytes_of_panel<Layout>(in);
  } else {
    return Layout::panel_bytes(in);
  }
}

// Columns go to rows in small squares, which stay in the processor's cache.
template <class Layout>
void unpack_columns(const std::uint8_t* panel, std::int64_t in, std::int64_t first,
                    std::int64_t last, float* to) {
  for (std::int64_t begin = 0; begin < in; begin += kRows) {
    const std::int64_t count = std::min(kRows, in - begin);
    Plain::F columns[kRows];
    for (std::int64_t i = 0; i < count; ++i) {
      columns[i] = Layout::column(panel + (begin + i) * Layout::kColumnBytes);
    }
    for (std::int64_t r = first; r < last; ++r) {
      float* const row = to + (r - first) * in + begin;
      for (std::int64_t i = 0; i < count; ++i) row[i] = columns[i].lane[r];
    }
  }
}

template <class Layout>
void unpack(const std::uint8_t* panel, std::int64_t in, std::int64_t first, std::int64_t last,
            float* to) {
  if constexpr (Layout::kRoundsX) {
    RowsOfBlocks<Plain, Layout>{first, last}.unpack(panel, in, to);
  } else {
    unpack_columns<Layout>(panel, in, first, last, to);
  }
}

template <class Layout>
bool all_finite(const std::uint8_t* stored, std::int64_t elements) {
  if constexpr (Layout::kRoundsX) {
    return all_finite_blocks<Layout>(stored, elements);
  } else {
    return Layout::all_finite(stored, elements);
  }
}

template <class Layout>
constexpr auto pack_column() -> decltype(WeightLayout::pack_column) {
  if constexpr (Layout::kRoundsX) {
    return nullptr;
  } else {
    return Layout::pack_column;
  }
}

template <class... Layouts>
constexpr std::array<WeightLayout, sizeof...(Layouts)> rows_of(LayoutList<Layouts...>) {
  return {WeightLayout{Layouts::kName, Layouts::kElements, Layouts::kRoundsX, panel_bytes<Layouts>,
                       all_finite<Layouts>, Layouts::pack, pack_column<Layouts>(),
                       unpack<Layouts>}...};
}
constexpr auto kLayouts = rows_of(AllLayouts<Plain>{});

std::vector<KernelSet> found_sets() {
  std::vector<KernelSet> sets = {{"plain", kPlainKernels}};
#if defined(__x86_64__)
  // All that these files are compiled for. F16C, which clang 14 does not know here, is older than
  // AVX2.
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return sets;
  sets.push_back({"avx2", kAvx2Kernels});
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vnni")) {
    sets.push_back({"avx512", kAvx512Kernels});
  }
#elif defined(__aarch64__)
  if ((::getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0) sets.push_back({"neon", kNeonKernels});
#endif
  return sets;
}

// Whole numbers of the bits alone, which compilers vectorise. Halves go to the even number, by
// adding a float whose last bit stands for 1.
RoundedBlock rounded(const float* x) {
  constexpr float kShift = 0x1.8p23F;
  std::uint32_t most = 0;
  for (std::int64_t i = 0; i < kRounded; ++i) {
    most = std::max(most, std::bit_cast<std::uint32_t>(x[i]) & 0x7fffffffU);
  }
  RoundedBlock block;
  const float largest = std::bit_cast<float>(most);
  block.scale = largest / 127.0F;
  const float inverse = largest > 0x1p-100F ? 127.0F / largest : 0.0F;
  const bool finite = most < 0x7f800000U;
  if (!finite) block.scale = NAN;
  for (std::int64_t half = 0; half < 2; ++half) {
    std::int32_t sum = 0;
    for (std::int64_t i = half * 16; i < half * 16 + 16; ++i) {
      const float shifted = (finite ? x[i] : 0.0F) * inverse + kShift;
      const std::int32_t q = static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(shifted) -
                                                       std::bit_cast<std::uint32_t>(kShift));
      block.q[i] = static_cast<std::int8_t>(q);
      sum += q;
    }
    block.sums[half] = sum;
  }
  block.sum = block.scale * static_cast<float>(block.sums[0] + block.sums[1]);
  return block;
}

}  // namespace

std::span<const WeightLayout> layouts() { return kLayouts; }

const WeightLayout* find_layout(std::string_view name) {
  const auto found = std::find_if(kLayouts.begin(), kLayouts.end(),
                                  [&](const WeightLayout& layout) { return layout.name == name; });
  return found == kLayouts.end() ? nullptr : &*found;
}

std::span<const KernelSet> kernel_sets() {
  static const std::vector<KernelSet> sets = found_sets();
  return sets;
}

Multiply kernel_of(const WeightLayout& layout) {
  return kernel_sets().back().kernels[&layout - kLayouts.data()];
}

void round_to_blocks(const float* x, std::int64_t columns, std::int64_t in, RoundedBlock* to) {
  parallel_for(columns * (in / kRounded), 1024, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) to[i] = rounded(x + i * kRounded);
  });
}

}  // namespace tapegrad::quantized
