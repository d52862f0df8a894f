#pragma once

#include <string>
#include <vector>

namespace tapegrad::events {

using TableRow = std::vector<std::string>;

// A table of texts, all rows as long as its head: as comma-separated values, for Markdown, and in
// columns that stand below each other.
std::string csv_table(const TableRow& head, const std::vector<TableRow>& rows);
std::string markdown_table(const TableRow& head, const std::vector<TableRow>& rows);
std::string text_table(const TableRow& head, const std::vector<TableRow>& rows);

}  // namespace tapegrad::events
