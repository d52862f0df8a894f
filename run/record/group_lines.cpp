#include "tapegrad/run/record/internal/group_lines.h"

#include <algorithm>
#include <array>

#include "tapegrad/base/text/internal/name_pattern.h"
#include "tapegrad/base/text/words.h"

namespace tapegrad::run {

std::vector<std::string> group_lines(const NamedTensors& parameters,
                                     const optim::ParameterGroups& groups) {
  constexpr std::size_t columns = 5, shown = 2;
  std::vector<std::array<std::string, columns>> rows;
  std::vector<std::string> names;
  std::array<std::size_t, columns> widths{};
  for (std::size_t g = 0; g < groups.groups.size(); ++g) {
    const optim::ParameterGroup& group = groups.groups[g];
    std::int64_t weights = 0;
    std::vector<std::string> own;
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      if (groups.group_of[p] != g) continue;
      weights += parameters[p].second.numel();
      own.push_back(parameters[p].first);
    }
    rows.push_back({std::string(group.optimizer->name()), fmt::format("lr × {}", group.lr_scale),
                    fmt::format("decay {}", group.weight_decay), counted(std::ssize(own), "tensor"),
                    counted(weights, "weight")});
    names.push_back(first_names(own, shown));
    for (std::size_t c = 0; c < columns; ++c) {
      widths[c] = std::max(widths[c], rows.back()[c].size());
    }
  }
  std::vector<std::string> lines;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::string line;
    for (std::size_t c = 0; c < columns; ++c) {
      line += rows[r][c] + std::string(widths[c] + 2 - rows[r][c].size(), ' ');
    }
    lines.push_back(line + names[r]);
  }
  return lines;
}

}  // namespace tapegrad::run
