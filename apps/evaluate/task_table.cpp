#include "tapegrad/apps/evaluate/task_table.h"

#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/apps/events/tables.h"
#include "tapegrad/base/text/words.h"

namespace tapegrad::evaluation {
namespace {

std::string with_error(const Metric& m) {
  const auto error = m.error();
  return fmt::format("{:.4f} ± {}", m.value(), error ? fmt::format("{:.4f}", *error) : "–");
}

// "+0.0300  -0.0100 … +0.0700  12:5  0.14"
events::TableRow difference_cells(const PairedDifference& d, bool is_perplexity) {
  const auto half = d.half_interval();
  return {fmt::format("{:+.4f}{}", d.mean, is_perplexity ? " nats" : ""),
          half ? fmt::format("{:+.4f} … {:+.4f}", d.mean - *half, d.mean + *half) : "–",
          fmt::format("{}:{}", grouped(d.better), grouped(d.worse)), fmt::format("{:.2g}", d.p())};
}

void add_metric(Json& json, const Metric& m) {
  json[m.name] = m.value();
  json[m.name + "_stderr"] = tapegrad::json_of(m.error());
}

Json difference_json(const PairedDifference& d) {
  const auto half = d.half_interval();
  const auto end = [&](double sign) { return half ? Json(d.mean + sign * *half) : Json(); };
  return {{"difference", d.mean},
          {"stderr", tapegrad::json_of(d.error)},
          {"low", end(-1)},
          {"high", end(1)},
          {"better", d.better},
          {"worse", d.worse},
          {"p", d.p()}};
}

}  // namespace

std::string table_of(const std::vector<TaskResult>& results, const std::vector<TaskResult>& there) {
  events::TableRow head = {"task", "items", "shots", "metric", there.empty() ? "value" : "here"};
  if (!there.empty()) {
    head.insert(head.end(), {"there", "difference", "95 % interval", "better:worse", "p"});
  }
  std::vector<events::TableRow> rows;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const TaskResult& r = results[i];
    for (std::size_t m = 0; m < r.metrics.size(); ++m) {
      events::TableRow row(head.size());
      if (m == 0) {
        row[0] = cli::printable(r.name);
        row[1] = grouped(r.items());
        if (r.items() < r.all_items)
          row[1] += fmt::format(" of {} (partial)", grouped(r.all_items));
        row[2] = std::to_string(r.num_fewshot);
      }
      row[3] = r.metrics[m].name;
      row[4] = with_error(r.metrics[m]);
      if (i < there.size()) {
        row[5] = with_error(there[i].metrics[m]);
        const auto cells = difference_cells(paired(r.metrics[m], there[i].metrics[m]),
                                            r.metrics[m].is_perplexity());
        std::copy(cells.begin(), cells.end(), row.begin() + 6);
      }
      rows.push_back(std::move(row));
    }
  }
  return events::text_table(head, rows);
}

Json json_of(const std::vector<TaskResult>& results, const std::vector<TaskResult>& there) {
  Json all = Json::array();
  for (std::size_t i = 0; i < results.size(); ++i) {
    const TaskResult& r = results[i];
    Json json = {{"task", r.name},
                 {"items", r.items()},
                 {"partial", r.items() < r.all_items},
                 {"num_fewshot", r.num_fewshot}};
    for (const Metric& metric : r.metrics) add_metric(json, metric);
    json["stored"] = r.stored;
    json["tokens"] = r.tokens;
    json["seconds"] = r.seconds;
    if (i < there.size()) {
      Json& against = json["against"] = {{"items", there[i].items()}};
      for (std::size_t m = 0; m < r.metrics.size(); ++m) {
        const Metric& other = there[i].metrics[m];
        add_metric(against, other);
        against[other.name + "_paired"] = difference_json(paired(r.metrics[m], other));
      }
    }
    all.push_back(std::move(json));
  }
  return all;
}

}  // namespace tapegrad::evaluation
