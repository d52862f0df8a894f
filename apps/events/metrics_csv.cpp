#include "tapegrad/apps/events/metrics_csv.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <vector>

namespace tapegrad::events {
namespace {

constexpr std::size_t kMostColumns = 1000;

// The text of a value in a column; empty if it has none. A number that is not finite is null in
// JSON, and empty here.
std::optional<std::string> text_of(const Json& value, bool samples) {
  if (value.is_number() || value.is_boolean()) return json_text(value);
  if (value.is_null()) return "";
  if (samples && value.is_string()) return value.get<std::string>();
  return std::nullopt;
}

class Table {
 public:
  Table(bool samples, const Write& write) : samples_(samples), write_(write) {}

  void learn_names(const Json& line, const std::filesystem::path& path) {
    for (const auto& [name, value] : line.items()) {
      if (name == "iteration" || columns_.contains(name) || !text_of(value, samples_)) continue;
      check(columns_.size() < kMostColumns, "{}: there are more than {} names", path.string(),
            kMostColumns);
      columns_.emplace(name, columns_.size());
      names_.push_back(name);
    }
  }

  void write_heading() {
    write_("iteration");
    for (const std::string& name : names_) write_("," + csv_field(name));
    write_("\n");
  }

  // Lines of one step that follow each other are one row.
  void add(const Json& line) {
    const std::string iteration = json_text(line.at("iteration"));
    if (iteration != iteration_) {
      write_row();
      iteration_ = iteration;
    }
    for (const auto& [name, value] : line.items()) {
      const auto column = columns_.find(name);
      if (column == columns_.end()) continue;
      row_.resize(names_.size());
      if (auto text = text_of(value, samples_)) row_[column->second] = std::move(*text);
    }
  }

  void write_row() {
    if (row_.empty()) return;
    std::string text = iteration_;
    for (const std::string& field : row_) text += "," + csv_field(field);
    write_(text + "\n");
    row_.clear();
  }

 private:
  bool samples_;
  const Write& write_;
  std::unordered_map<std::string, std::size_t> columns_;
  std::vector<std::string> names_, row_;
  std::string iteration_;
};

}  // namespace

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

void write_metrics_csv(MetricsLines& lines, bool samples, const Write& write) {
  Table table(samples, write);
  lines.read([&](const Json& line) { table.learn_names(line, lines.path()); });
  table.write_heading();
  lines.read([&](const Json& line) { table.add(line); });
  table.write_row();
}

void write_layers_csv(MetricsLines& lines, const Write& write) {
  constexpr const char* kNumbers[] = {"gradient", "weight", "update"};
  write("iteration,layer,gradient,weight,update\n");
  lines.read([&](const Json& line) {
    const auto layers = line.find("layers");
    if (layers == line.end() || !layers->is_object()) return;
    for (const auto& [name, numbers] : layers->items()) {
      if (!numbers.is_object()) continue;
      std::string row = json_text(line.at("iteration")) + "," + csv_field(name);
      for (const char* number : kNumbers) {
        const auto value = numbers.find(number);
        row += ",";
        if (value != numbers.end() && value->is_number()) row += value->dump();
      }
      write(row + "\n");
    }
  });
}

}  // namespace tapegrad::events
