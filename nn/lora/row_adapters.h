#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tapegrad/nn/lora/lora.h"

namespace tapegrad::nn {

// While one lives, the linear layers of its thread add to each row of x (B, …, in) what the adapter
// adds that the row chooses, by its number among those of Params::offer(): texts with different
// adapters share one product with the model's own weights (Chen et al., "Punica: Multi-Tenant LoRA
// Serving", 2023, section 4). Each row gets the bits that it gets alone, as far as linear() gives
// it these: see BatchInvariant in ops.h.
//
//   const RowAdapters chosen({0, 1, std::nullopt});  // of a batch of three
//   model.last_logits(ids, caches);
//
// It must not outlive the one that lived before it. Rows of one adapter that are side by side share
// its products, too.
class RowAdapters {
 public:
  using Choice = std::optional<std::int64_t>;  // none: the model's own weights alone

  explicit RowAdapters(std::vector<Choice> of_rows);
  ~RowAdapters();
  RowAdapters(const RowAdapters&) = delete;
  RowAdapters& operator=(const RowAdapters&) = delete;

 private:
  friend Tensor with_chosen(const Tensor& x, const Tensor& y, std::span<const Lora> offered);
  std::vector<Choice> of_rows_;
  const RowAdapters* before_;
};

// y (B, …, out) with what rows of x (B, …, in) choose of a layer's adapters, of which some may not
// exist. For layers. Error if x has not as many rows as there are choices.
Tensor with_chosen(const Tensor& x, const Tensor& y, std::span<const Lora> offered);

}  // namespace tapegrad::nn
