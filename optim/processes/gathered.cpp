#include "tapegrad/optim/processes/internal/gathered.h"

#include <algorithm>

namespace tapegrad::optim {

KeptPart part_of(const Fragment& f, std::int64_t kept, std::int64_t elements) {
  const std::int64_t begin = kept * f.begin / elements;
  return {begin, kept * f.end / elements - begin};
}

Tensor gather_fragments(Processes* processes, std::vector<Fragment> fragments,
                        std::int64_t elements, std::span<const float> part, const Shape& shape) {
  // Sorted by owner, in the order of the buckets, so that each rank's part is in order.
  std::stable_sort(fragments.begin(), fragments.end(),
                   [](const Fragment& a, const Fragment& b) { return a.owner < b.owner; });
  std::vector<float> parts;
  if (processes != nullptr) {
    std::vector<std::size_t> sizes(static_cast<std::size_t>(processes->size()));
    for (const Fragment& f : fragments) {
      const std::int64_t size = part_of(f, shape.numel(), elements).size;
      sizes[static_cast<std::size_t>(f.owner)] += static_cast<std::size_t>(size) * sizeof(float);
    }
    if (processes->rank() == 0) parts.resize(static_cast<std::size_t>(shape.numel()));
    processes->gather_parts(std::as_bytes(part), std::as_writable_bytes(std::span(parts)), sizes);
    if (processes->rank() != 0) return {};
    part = parts;
  }
  Tensor whole = Tensor::empty(shape);
  float* to = whole.mutable_data<float>();
  const float* from = part.data();
  for (const Fragment& f : fragments) {
    const KeptPart kept = part_of(f, shape.numel(), elements);
    std::copy(from, from + kept.size, to + kept.begin);
    from += kept.size;
  }
  return whole;
}

Tensor gather_ranks(Processes* processes, const Tensor& own) {
  const int ranks = processes == nullptr ? 1 : processes->size();
  const bool leads = processes == nullptr || processes->rank() == 0;
  const auto values = own.values<float>();
  Tensor all = Tensor::empty(own.shape().inserted(0, leads ? ranks : 0));
  const std::span<float> to(all.mutable_data<float>(), static_cast<std::size_t>(all.numel()));
  if (processes == nullptr) {
    std::copy(values.begin(), values.end(), to.begin());
    return all;
  }
  processes->gather_parts(
      std::as_bytes(values), std::as_writable_bytes(to),
      std::vector<std::size_t>(static_cast<std::size_t>(ranks), values.size_bytes()));
  return leads ? all : Tensor();
}

void add_whole(std::vector<TensorToMake>& tensors, const NamedTensors& whole) {
  for (const auto& [name, t] : whole) tensors.push_back({name, t.shape(), [t = t] { return t; }});
}

}  // namespace tapegrad::optim
