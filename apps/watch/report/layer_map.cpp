#include "tapegrad/apps/watch/report/layer_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tapegrad/apps/chart/chart_axis.h"
#include "tapegrad/base/text/internal/markup.h"
#include "tapegrad/base/text/words.h"

namespace tapegrad::watch {
namespace {

constexpr std::size_t kMostColumns = 120;
constexpr int kLevels = 16;
constexpr double kMostPowers = 8;  // smaller values look like the smallest that is shown

// From 1, the faintest, to kLevels; 0 for what cannot be shown.
int level_of(double value, const charts::Axis& scale) {
  if (!scale.shows(value)) return 0;
  return 1 + std::min(static_cast<int>(scale.share(value) * kLevels), kLevels - 1);
}

// Records of all that there are, evenly: columns of the map.
std::vector<std::size_t> columns_of(std::size_t records) {
  std::vector<std::size_t> columns;
  const std::size_t count = std::min(records, kMostColumns);
  for (std::size_t k = 0; k < count; ++k) {
    columns.push_back(count == 1 ? 0 : k * (records - 1) / (count - 1));
  }
  return columns;
}

charts::Axis scale_of(const History& history, std::size_t what) {
  charts::Axis scale{.logarithmic = true};
  for (std::size_t i = 0; i < history.layers().size(); ++i) {
    for (const float value : history.layers()[i].values[what]) scale.add(value);
  }
  scale.low = std::max(scale.low, scale.high - kMostPowers);
  if (scale.low == scale.high) scale.low -= std::log10(2);
  return scale;
}

// A path for each level: cells of a row that stand side by side are one line.
std::string cells(const History& history, std::size_t what, const charts::Axis& scale) {
  const std::vector<std::size_t> columns = columns_of(history.layers().size());
  const std::size_t rows = history.layer_names().size();
  std::vector<std::string> paths(kLevels + 1);
  for (std::size_t row = 0; row < rows; ++row) {
    const auto level_at = [&](std::size_t column) {
      const auto& values = history.layers()[columns[column]].values[what];
      return row < values.size() ? level_of(values[row], scale) : 0;
    };
    for (std::size_t begin = 0, end = 0; begin < columns.size(); begin = end) {
      const int level = level_at(begin);
      for (end = begin + 1; end < columns.size() && level_at(end) == level;) ++end;
      paths[static_cast<std::size_t>(level)] += fmt::format("M{} {}.5h{}", begin, row, end - begin);
    }
  }
  std::string text;
  for (int level = 1; level <= kLevels; ++level) {
    const std::string& path = paths[static_cast<std::size_t>(level)];
    if (path.empty()) continue;
    text += fmt::format("<path stroke-opacity=\"{:.2f}\" d=\"{}\"/>\n",
                        static_cast<double>(level) / kLevels, path);
  }
  return fmt::format(
      "<svg viewBox=\"0 0 {} {}\" preserveAspectRatio=\"none\" aria-hidden=\"true\">\n{}</svg>\n",
      columns.size(), rows, text);
}

// "h.3" of "h.3.attn.weight", or the whole of a name without a number.
std::string block_of(const std::string& name) {
  const auto digit = name.find_first_of("0123456789");
  const auto dot = digit == name.npos ? name.npos : name.find('.', digit);
  return dot == name.npos ? name : name.substr(0, dot);
}

std::string list(const char* kind, const std::vector<std::string>& texts) {
  std::string items;
  for (const std::string& text : texts) items += "<li>" + escaped_markup(text) + "</li>\n";
  return fmt::format("<ol class=\"{}\">\n{}</ol>\n", kind, items);
}

}  // namespace

std::string layer_map(const History& history, std::size_t what, const std::string& caption) {
  const charts::Axis scale = scale_of(history, what);
  if (scale.empty()) return "";
  const std::vector<std::string>& layers = history.layer_names();
  // Names of small rows would cover each other: the first one of each block stands for all.
  const bool small = layers.size() > 40;
  const auto& last = history.layers()[history.layers().size() - 1];
  std::vector<std::string> names, values;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const bool first = i == 0 || block_of(layers[i - 1]) != block_of(layers[i]);
    names.push_back(!small ? layers[i] : first ? block_of(layers[i]) : "");
    const bool told = !small && i < last.values[what].size() && std::isfinite(last.values[what][i]);
    values.push_back(told ? fmt::format("{:.2g}", last.values[what][i]) : "");
  }
  return fmt::format(
      "<figure><figcaption>{}</figcaption>\n<div class=\"map{}\" "
      "style=\"--rows:{}\">\n{}{}{}</div>\n"
      "<p class=\"note\">Steps {} to {}, from left to right. Faintest: {:.2g}; strongest: {:.2g}{}"
      ".</p></figure>\n",
      escaped_markup(caption), small ? " small" : "", layers.size(), list("map-names", names),
      cells(history, what, scale), list("map-values", values),
      grouped(history.layers()[0].iteration), grouped(last.iteration), std::pow(10, scale.low),
      std::pow(10, scale.high), small ? "" : "; on the right, the last values");
}

}  // namespace tapegrad::watch
