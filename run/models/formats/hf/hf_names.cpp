#include "tapegrad/run/models/formats/hf/internal/hf_names.h"

#include <algorithm>
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

// True if the row is for a tensor with these numbers. A row for some blocks alone is not
// for blocks behind the model's.
bool is_of(const HfTensorName& row, const nn::DecoderConfig& config, const Numbers& numbers) {
  if (row.of == nullptr) return true;
  if (numbers.block.empty()) return row.of(config, 0);
  const auto block = tapegrad::number_of<std::int64_t>(numbers.block);
  return block && *block < config.n_layer && row.of(config, static_cast<int>(*block));
}

Tensor part_of(const Tensor& stack, std::int64_t i) {
  const TapePause pause;
  return select(stack, 0, i);
}

}  // namespace

HfPlace place_of(const HfFamily& family, const nn::DecoderConfig& config,
                 const std::string& theirs) {
  for (const HfTensorName& row : family.names) {
    const auto numbers = numbers_in(theirs, row.theirs);
    if (!numbers || !is_of(row, config, *numbers)) continue;
    HfPlace place{with_numbers(row.ours, *numbers)};
    if (is_of_experts(row)) place.expert = tapegrad::number_of<std::int64_t>(numbers->expert);
    if (is_of_experts(row) && !place.expert) return {theirs};  // a number without end
    return place;
  }
  return {theirs};
}

std::vector<HfRowsPlace> rows_of(const HfFamily& family, const std::string& theirs) {
  std::vector<HfRowsPlace> places;
  for (const HfRows& rows : family.rows) {
    const auto numbers = numbers_in(theirs, rows.theirs);
    if (numbers) places.push_back({with_numbers(rows.ours, *numbers), &rows});
  }
  return places;
}

std::string hf_name(const HfFamily& family, const std::string& ours) {
  for (const HfRows& rows : family.rows) {
    check(!numbers_in(ours, rows.ours), "'{}' is a part of {} in files of {}", ours, rows.theirs,
          family.model_class);
  }
  const auto [row, numbers] = row_of(family, ours);
  return row == nullptr ? ours : with_numbers(row->theirs, numbers);
}

namespace {

// One of theirs, of all of ours that are rows of it.
TensorToMake joined(const std::string& theirs, const std::vector<HfRowsPlace>& places,
                    const nn::DecoderConfig& config, const std::vector<TensorToMake>& tensors) {
  std::vector<std::function<Tensor()>> parts;
  std::vector<std::int32_t> places_of_rows;
  Shape shape;
  for (const HfRowsPlace& place : places) {
    const auto part = std::ranges::find(tensors, place.ours, &TensorToMake::name);
    check(part != tensors.end(), "there is no tensor '{}'", place.ours);
    for (std::int64_t i = 0; i < part->shape[0]; ++i) {
      places_of_rows.push_back(static_cast<std::int32_t>(place.rows->place(config, i)));
    }
    shape = part->shape.with(0, std::ssize(places_of_rows));
    parts.push_back(part->make);
  }
  std::vector<std::int32_t> rows(places_of_rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows.at(static_cast<std::size_t>(places_of_rows[i])) = static_cast<std::int32_t>(i);
  }
  return {theirs, shape, [parts, rows] {
            const TapePause pause;
            std::vector<Tensor> made;
            for (const auto& make : parts) made.push_back(make());
            return gather_rows(concat(made, 0), Tensor::from(rows, {std::ssize(rows)}));
          }};
}

}  // namespace

std::vector<TensorToMake> with_hf_names(const HfFamily& family, const nn::DecoderConfig& config,
                                        std::vector<TensorToMake> tensors) {
  const std::vector<TensorToMake> all = tensors;
  std::vector<TensorToMake> named;
  for (TensorToMake& t : tensors) {
    const auto rows = std::ranges::find_if(
        family.rows, [&](const HfRows& r) { return numbers_in(t.name, r.ours).has_value(); });
    if (rows != family.rows.end()) {
      const std::string theirs = with_numbers(rows->theirs, *numbers_in(t.name, rows->ours));
      const std::vector<HfRowsPlace> places = rows_of(family, theirs);
      if (places.front().ours == t.name) named.push_back(joined(theirs, places, config, all));
      continue;
    }
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
