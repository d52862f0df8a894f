#include "tapegrad/run/models/formats/hf/internal/hf_names.h"

#include <string_view>
#include <utility>

#include "tapegrad/autograd/ops.h"
#include "tapegrad/base/text/internal/number_text.h"

namespace tapegrad::run {
namespace {

// The numbers in a name, in place of '#' and '@' in a pattern.
struct Numbers {
  std::string_view block, expert;
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::optional<Numbers> numbers_in(std::string_view name, std::string_view pattern) {
  Numbers numbers;
  for (const char c : pattern) {
    if (c != '#' && c != '@') {
      if (name.empty() || name.front() != c) return std::nullopt;
      name.remove_prefix(1);
      continue;
    }
    std::size_t digits = 0;
    while (digits < name.size() && is_digit(name[digits])) ++digits;
    if (digits == 0) return std::nullopt;
    (c == '#' ? numbers.block : numbers.expert) = name.substr(0, digits);
    name.remove_prefix(digits);
  }
  return name.empty() ? std::optional(numbers) : std::nullopt;
}

std::string with_numbers(std::string_view pattern, const Numbers& numbers) {
  std::string name;
  for (const char c : pattern) {
    if (c == '#') {
      name += numbers.block;
    } else if (c == '@') {
      name += numbers.expert;
    } else {
      name += c;
    }
  }
  return name;
}

bool is_of_experts(const HfTensorName& row) { return row.theirs.find('@') != row.theirs.npos; }

// The row of a family's table for a tensor of ours, or null, and the numbers in its name.
std::pair<const HfTensorName*, Numbers> row_of(const HfFamily& family, std::string_view ours) {
  for (const HfTensorName& row : family.names) {
    if (const auto numbers = numbers_in(ours, row.ours)) return {&row, *numbers};
  }
  return {};
}

Tensor part_of(const Tensor& stack, std::int64_t i) {
  const TapePause pause;
  return select(stack, 0, i);
}

}  // namespace

HfPlace place_of(const HfFamily& family, const std::string& theirs) {
  for (const HfTensorName& row : family.names) {
    const auto numbers = numbers_in(theirs, row.theirs);
    if (!numbers) continue;
    HfPlace place{with_numbers(row.ours, *numbers)};
    if (is_of_experts(row)) place.expert = tapegrad::number_of<std::int64_t>(numbers->expert);
    if (is_of_experts(row) && !place.expert) return {theirs};  // a number without end
    return place;
  }
  return {theirs};
}

std::string hf_name(const HfFamily& family, const std::string& ours) {
  const auto [row, numbers] = row_of(family, ours);
  return row == nullptr ? ours : with_numbers(row->theirs, numbers);
}

std::vector<TensorToMake> with_hf_names(const HfFamily& family, std::vector<TensorToMake> tensors) {
  std::vector<TensorToMake> named;
  for (TensorToMake& t : tensors) {
    const auto [found, numbers] = row_of(family, t.name);
    if (found == nullptr || !is_of_experts(*found)) {
      t.name = hf_name(family, t.name);
      named.push_back(std::move(t));
    } else {
      for (std::int64_t i = 0; i < t.shape[0]; ++i) {
        const std::string expert = std::to_string(i);
        named.push_back({with_numbers(found->theirs, {numbers.block, expert}), t.shape.without(0),
                         [make = t.make, i] { return part_of(make(), i); }});
      }
    }
  }
  return named;
}

}  // namespace tapegrad::run
