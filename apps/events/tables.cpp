#include "tapegrad/apps/events/tables.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "tapegrad/apps/events/metrics_csv.h"
#include "tapegrad/base/text/utf8.h"

namespace tapegrad::events {
namespace {

// A cell on one line that does not control a terminal. `bar` stands in place of |.
std::string cell_text(const std::string& text, const char* bar) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view rest = std::string_view(text).substr(at);
    const Utf8Char c = first_char(rest);
    const bool plain = c.kind == Utf8Char::Kind::valid && !controls_terminal(c.code_point);
    result += !plain ? "?" : rest.front() == '|' ? bar : std::string(rest.substr(0, c.size));
    at += c.size;
  }
  return result;
}

// Characters, which are one column wide but for some scripts.
std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

std::string markdown_row(const TableRow& row) {
  std::string text = "|";
  for (const std::string& cell : row) text += " " + cell_text(cell, "\\|") + " |";
  return text + "\n";
}

}  // namespace

std::string csv_table(const TableRow& head, const std::vector<TableRow>& rows) {
  std::string text;
  const auto add = [&](const TableRow& row) {
    for (std::size_t i = 0; i < row.size(); ++i) text += (i > 0 ? "," : "") + csv_field(row[i]);
    text += "\n";
  };
  add(head);
  for (const TableRow& row : rows) add(row);
  return text;
}

std::string markdown_table(const TableRow& head, const std::vector<TableRow>& rows) {
  std::string text = markdown_row(head) + "|";
  for (std::size_t i = 0; i < head.size(); ++i) text += "---|";
  text += "\n";
  for (const TableRow& row : rows) text += markdown_row(row);
  return text;
}

std::string text_table(const TableRow& head, const std::vector<TableRow>& rows) {
  std::vector<TableRow> all = {head};
  all.insert(all.end(), rows.begin(), rows.end());
  std::vector<std::size_t> widths(head.size(), 0);
  for (TableRow& row : all) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      row[i] = cell_text(row[i], "|");
      widths[i] = std::max(widths[i], width(row[i]));
    }
  }
  std::string text;
  for (const TableRow& row : all) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      text += row[i];
      text += i + 1 < row.size() ? std::string(widths[i] - width(row[i]) + 2, ' ') : "\n";
    }
  }
  return text;
}

}  // namespace tapegrad::events
