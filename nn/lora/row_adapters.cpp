#include "tapegrad/nn/lora/row_adapters.h"

#include <algorithm>
#include <utility>

namespace tapegrad::nn {
namespace {

thread_local const RowAdapters* living = nullptr;

}  // namespace

RowAdapters::RowAdapters(std::vector<Choice> of_rows)
    : of_rows_(std::move(of_rows)), before_(std::exchange(living, this)) {}
RowAdapters::~RowAdapters() { living = before_; }

Tensor with_chosen(const Tensor& x, const Tensor& y, std::span<const Lora> offered) {
  if (living == nullptr || offered.empty()) return y;
  const std::vector<RowAdapters::Choice>& rows = living->of_rows_;
  check(x.rank() >= 2 && x.dim(0) == std::ssize(rows),
        "[row adapters] {} rows choose adapters, and x is {}", rows.size(), x.shape());
  std::vector<Tensor> parts;
  for (auto begin = rows.begin(); begin != rows.end();) {
    const auto end =
        std::find_if(begin, rows.end(), [&](const auto& row) { return row != *begin; });
    const auto of_rows = [&](const Tensor& all) {
      if (end - begin == std::ssize(rows)) return all;
      return slice(all, 0, begin - rows.begin(), end - rows.begin());
    };
    check(!*begin || (**begin >= 0 && **begin < std::ssize(offered)),
          "[row adapters] there is no adapter {} of {}", begin->value_or(0), offered.size());
    const Lora* const lora = *begin ? &offered[static_cast<std::size_t>(**begin)] : nullptr;
    const bool adds = lora != nullptr && lora->exists();
    parts.push_back(adds ? of_rows(y) + (*lora)(of_rows(x)) : of_rows(y));
    begin = end;
  }
  return parts.size() == 1 ? parts.front() : concat(parts, 0);
}

}  // namespace tapegrad::nn
