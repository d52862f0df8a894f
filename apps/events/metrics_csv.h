#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "tapegrad/apps/events/metrics_lines.h"

namespace tapegrad::events {

// A field of comma-separated values as RFC 4180 has it: in quotes if it has a comma, a quote or an
// end of line.
std::string csv_field(std::string_view text);

using Write = std::function<void(std::string_view)>;

// metrics.jsonl as comma-separated values: a heading, then a row for each step that has numbers.
// Columns are "iteration" and the names of all numbers, in the order in which they first appear;
// what a step lacks is empty. With `samples`, texts have columns, too. Error if the file has more
// than 1,000 names.
void write_metrics_csv(MetricsLines& lines, bool samples, const Write& write);

// layers.jsonl: iteration, layer, gradient, weight and update, a row for each layer.
void write_layers_csv(MetricsLines& lines, const Write& write);

}  // namespace tapegrad::events
