#include "tapegrad/apps/evaluate/model_report.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/apps/evaluate/items/metrics.h"
#include "tapegrad/apps/events/tables.h"
#include "tapegrad/base/text/internal/markup.h"
#include "tapegrad/base/text/utf8.h"
#include "tapegrad/base/text/words.h"

namespace tapegrad::embedded {
std::string_view report_style();
}

namespace tapegrad::evaluation {
namespace {

// A number of each model; none where a model was not evaluated so far.
struct Column {
  std::string name;
  struct Value {
    double value = 0;
    std::optional<double> error = {};
    std::string text;
  };
  std::vector<std::optional<Value>> values = {};
  bool is_share = false;  // from 0 to 1
};

using ValueOf = std::optional<Column::Value>;

ValueOf number_at(const Json& json, const std::string& key, int digits) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number()) return std::nullopt;
  Column::Value value{.value = found->get<double>(), .text = {}};
  value.text = fmt::format("{:.{}f}", value.value, digits);
  const auto error = json.find(key + "_stderr");
  if (error != json.end() && error->is_number()) {
    value.error = error->get<double>();
    value.text += fmt::format(" ± {:.{}f}", *value.error, digits);
  }
  return value;
}

ValueOf size_of(const Json& json) {
  const auto bytes = json.at("weight_bytes").get<double>();
  return Column::Value{.value = bytes, .text = size_text(bytes)};
}

// Of a text, or of all tasks together.
ValueOf rate_of(const Json& json) {
  double tokens = 0, seconds = 0;
  const auto add = [&](const Json& part) {
    tokens += part.at("tokens").get<double>(), seconds += part.at("seconds").get<double>();
  };
  if (!json.contains("tasks")) add(json);
  for (const Json& task : json.value("tasks", Json::array())) add(task);
  if (tokens == 0) return std::nullopt;
  const double rate = tokens / std::max(seconds, 1e-9);
  return Column::Value{.value = rate, .text = grouped(static_cast<std::int64_t>(rate))};
}

template <class F>
Column column(const std::string& name, const std::vector<Json>& models, const F& value_of) {
  Column result{.name = name};
  for (const Json& model : models) result.values.push_back(value_of(model));
  return result;
}

// A column for each score of each task, by the first model's.
void add_tasks(std::vector<Column>& columns, const std::vector<Json>& models) {
  const Json tasks = models.front().value("tasks", Json::array());
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    for (const auto& [key, value] : tasks[i].items()) {
      if (!tasks[i].contains(key + "_stderr")) continue;
      const std::string name = key;  // clang 14 captures no part of a pair
      columns.push_back(column(fmt::format("{} {}", tasks[i].at("task").get<std::string>(), name),
                               models, [&](const Json& model) {
                                 const Json& own = model.at("tasks");
                                 return i < own.size() ? number_at(own[i], name, 4) : std::nullopt;
                               }));
      columns.back().is_share = name != kPerplexity;
    }
  }
}

std::vector<Column> columns_of(const std::vector<Json>& models) {
  std::vector<Column> columns = {column("weights", models, size_of),
                                 column("tok/s", models, rate_of)};
  if (models.front().contains("bits_per_byte")) {
    for (const auto& [key, name] :
         {std::pair("bits_per_byte", "bits per byte"), std::pair("perplexity", "perplexity")}) {
      const char* const member = key;
      columns.push_back(
          column(name, models, [&](const Json& model) { return number_at(model, member, 4); }));
    }
  }
  add_tasks(columns, models);
  return columns;
}

// A path, which may be any bytes; marked if a signal has ended one of its tasks.
std::string name_of_model(const Json& json) {
  auto name = json.at("model").get<std::string>();
  while (const auto invalid = find_invalid_utf8(name)) name[*invalid] = '?';
  for (const Json& task : json.value("tasks", Json::array())) {
    if (task.at("partial").get<bool>()) return name + " (partial)";
  }
  return name;
}

constexpr double kWidth = 460, kRow = 44, kBar = 16;

// A bar for each model, below its name; an error is a line on both sides of the bar's end.
std::string bars_of(const Column& column, const std::vector<Json>& models) {
  double most = column.is_share ? 1 : 0;
  for (const ValueOf& v : column.values)
    most = v && std::isfinite(v->value) ? std::max(most, v->value) : most;
  std::string svg;
  for (std::size_t i = 0; i < models.size(); ++i) {
    const ValueOf& v = column.values[i];
    const double top = kRow * static_cast<double>(i);
    svg += fmt::format("<text class=\"axis\" x=\"0\" y=\"{:.0f}\">{}: {}</text>\n", top + 14,
                       escaped_markup(name_of_model(models[i])), v ? v->text : "–");
    if (!v || !std::isfinite(v->value)) continue;
    const auto x = [&](double value) { return kWidth * std::clamp(value / most, 0.0, 1.0); };
    svg += fmt::format(
        "<path class=\"bar\" style=\"stroke: var(--curve-{})\" d=\"M0 {:.0f}h{:.1f}\"/>\n", i % 12,
        top + 20 + kBar / 2, most > 0 ? x(v->value) : 0);
    if (!v->error || *v->error == 0 || !std::isfinite(*v->error)) continue;
    svg += fmt::format("<path class=\"error\" d=\"M{:.1f} {:.0f}H{:.1f}\"/>\n",
                       x(v->value - *v->error), top + 20 + kBar / 2, x(v->value + *v->error));
  }
  return fmt::format(
      "<figure><figcaption>{0}</figcaption>\n<svg viewBox=\"0 0 {1} {2}\" role=\"img\" "
      "aria-label=\"{0}\">\n{3}</svg></figure>\n",
      escaped_markup(column.name), kWidth, kRow * static_cast<double>(models.size()), svg);
}

std::string html_table(const std::vector<Column>& columns, const std::vector<Json>& models) {
  std::string html = "<div class=\"scroll short\" tabindex=\"0\"><table>\n<tr><th>model</th>";
  for (const Column& c : columns) html += fmt::format("<th>{}</th>", escaped_markup(c.name));
  html += "</tr>\n";
  for (std::size_t i = 0; i < models.size(); ++i) {
    html += fmt::format("<tr><th scope=\"row\">{}</th>", escaped_markup(name_of_model(models[i])));
    for (const Column& c : columns) {
      html += fmt::format("<td class=\"number\">{}</td>", c.values[i] ? c.values[i]->text : "–");
    }
    html += "</tr>\n";
  }
  return html + "</table></div>\n";
}

// On what: the text, or each task with its items.
std::string note_of(const Json& json) {
  if (!json.contains("tasks")) return json.at("text").get<std::string>();
  std::string note;
  for (const Json& task : json.at("tasks")) {
    note += fmt::format("{}{}: {}, {} each{}", note.empty() ? "" : "; ",
                        task.at("task").get<std::string>(),
                        counted(task.at("items").get<std::int64_t>(), "item"),
                        counted(task.at("num_fewshot").get<std::int64_t>(), "example"),
                        task.at("partial").get<bool>() ? " (partial)" : "");
  }
  return note;
}

}  // namespace

std::string models_table(const std::vector<Json>& models) {
  const std::vector<Column> columns = columns_of(models);
  events::TableRow head = {"model"};
  for (const Column& c : columns) head.push_back(cli::printable(c.name));
  std::vector<events::TableRow> rows;
  for (std::size_t i = 0; i < models.size(); ++i) {
    events::TableRow& row = rows.emplace_back();
    row.push_back(cli::printable(name_of_model(models[i])));
    for (const Column& c : columns) row.push_back(c.values[i] ? c.values[i]->text : "–");
  }
  return events::text_table(head, rows);
}

std::string models_page(const std::vector<Json>& models) {
  const std::vector<Column> columns = columns_of(models);
  const std::string title = models.size() == 1
                                ? "Evaluation of a model"
                                : fmt::format("Evaluation of {} models", models.size());
  std::string html = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{0}</title>\n<style>\n{1}.bar {{ fill: none; stroke-width: {2}; }}\n"
      ".error {{ stroke: var(--fg); stroke-width: 2; }}\n"
      ".charts figure:first-child {{ grid-column: auto; }}\n</style>\n</head>\n<body>\n<main>\n"
      "<h1>{0}</h1>\n<p class=\"note\">{3}</p>\n",
      title, embedded::report_style(), kBar, escaped_markup(note_of(models.front())));
  html += html_table(columns, models) + "<h2>Charts</h2>\n<div class=\"charts\">\n";
  for (const Column& column : columns) html += bars_of(column, models);
  return html +
         "</div>\n</main>\n<footer>Made by tapegrad. ± and the lines in bars are standard errors. "
         "This file needs no network.</footer>\n</body>\n</html>\n";
}

}  // namespace tapegrad::evaluation
