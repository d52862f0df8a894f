#include "tapegrad/apps/sweep/sweep_record.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "tapegrad/apps/events/metrics_lines.h"
#include "tapegrad/base/file.h"
#include "tapegrad/run/folder/file_names.h"
#include "tapegrad/run/folder/internal/folder_calls.h"

namespace tapegrad::sweep {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFormat = "tapegrad sweep 1";
constexpr double kMostSeconds = 1e11;  // 3,000 years

Json json_of_run(const SweepRecord& record, const RunRecord& run) {
  Json values = Json::object(), losses = Json::array();
  for (std::size_t i = 0; i < record.names.size(); ++i) values[record.names[i]] = run.values[i];
  for (const double loss : run.losses) {
    losses.push_back(std::isfinite(loss) ? Json(loss) : Json(nullptr));
  }
  return {{"run", run.name},    {"values", values},       {"final_val_losses", losses},
          {"steps", run.steps}, {"seconds", run.seconds}, {"error", run.error}};
}

// Only the results: its values follow from the options of the sweep, and must be these.
void read_run(const fs::path& path, const Json& json, RunRecord& run) {
  run = {.name = run.name, .values = run.values};
  Json values;
  get(path, json, "values", values);
  bool same = values.size() == run.values.size();
  auto expected = run.values.begin();
  for (const Json& value : values) same = same && json_text(value) == json_text(Json(*expected++));
  check(same, "{}: run {} has other values than this sweep tries", path.string(), run.name);
  get(path, json, "steps", run.steps);
  get(path, json, "seconds", run.seconds);
  check(run.steps >= 0 && run.seconds >= 0 && run.seconds <= kMostSeconds,
        "{}: 'steps' and 'seconds' of run {} must be 0 or more, and at most {} seconds",
        path.string(), run.name, kMostSeconds);
  get(path, json, "error", run.error);
  const auto losses = json.find("final_val_losses");
  check(losses != json.end() && losses->is_array(), "{}: 'final_val_losses' must be a list",
        path.string());
  for (const Json& loss : *losses) {
    check(loss.is_number() || loss.is_null(), "{}: 'final_val_losses' must have numbers",
          path.string());
    run.losses.push_back(loss.is_number() ? loss.get<double>() : kNoLoss);
  }
}

bool is_run_name(const std::string& name) {
  return name.size() >= 3 && name.find_first_not_of("0123456789") == name.npos;
}

const Json& runs_in(const fs::path& path, const Json& json) {
  const auto runs = json.find("runs");
  check(runs != json.end() && runs->is_array(), "{}: 'runs' must be a list", path.string());
  return *runs;
}

std::string name_of(const fs::path& path, const Json& run) {
  std::string name;
  get(path, run, "run", name);
  check(is_run_name(name), "{}: '{}' is no run of a sweep", path.string(), name);
  return name;
}

// The first option of a sweep that differs, for people.
std::string difference(const Json& before, const Json& now) {
  for (const auto& [name, value] : now.items()) {
    const auto it = before.find(name);
    const Json old = it == before.end() ? Json(nullptr) : *it;
    const std::string was = json_text(old), is = json_text(value);
    if (was != is) return fmt::format("{} was {} and is {}", name, was, is);
  }
  return "its options differ";
}

void remove_sweep(const fs::path& folder, const Json& stored,
                  const std::vector<std::string>& reads) {
  const fs::path path = folder / kSweepFile;
  std::vector<fs::path> folders;
  for (const Json& run : runs_in(path, stored)) folders.push_back(folder / name_of(path, run));
  for (const fs::path& run : folders) {
    check(!run::is_locked(run), "{}: another program trains there, and its run is not removed",
          run.string());
  }
  for (const std::string& name : reads) {
    const fs::path read = resolved_path(name);
    for (const fs::path& run : folders) {
      check(!run::is_inside(read, resolved_path(run)),
            "the runs read {}, which --overwrite would remove: choose another --out-dir", name);
    }
  }
  for (const fs::path& run : folders) run::remove_or_fail(run);
  run::remove_or_fail(folder / kTableFile);
  run::remove_or_fail(path);
}

}  // namespace

double RunRecord::loss() const {
  return error.empty() && !losses.empty() ? losses.back() : kNoLoss;
}

std::vector<RunRecord> new_runs(const std::vector<Values>& values) {
  std::vector<RunRecord> runs;
  for (const Values& v : values) {
    runs.push_back({.name = fmt::format("{:03}", runs.size() + 1), .values = v});
  }
  return runs;
}

std::vector<RunRecord> with_results(const fs::path& path, const Json& stored,
                                    std::vector<RunRecord> runs) {
  for (const Json& json : runs_in(path, stored)) {
    const std::string name = name_of(path, json);
    const auto run =
        std::find_if(runs.begin(), runs.end(), [&](const RunRecord& r) { return r.name == name; });
    check(run != runs.end(), "{}: the sweep has no run {}", path.string(), name);
    read_run(path, json, *run);
  }
  return runs;
}

SweepRecord begin_in(const fs::path& folder, SweepRecord record, bool overwrite,
                     const std::vector<std::string>& reads) {
  const fs::path path = folder / kSweepFile;
  run::make_folder(folder);
  if (path_exists(path)) {
    const Json stored = read_json_object(path);
    std::string format;
    get(path, stored, "format", format);
    check(format == kFormat, "{}: its format is '{}', and this program knows only '{}'",
          path.string(), format, kFormat);
    Json asked;
    get(path, stored, "asked", asked);
    if (overwrite) {
      remove_sweep(folder, stored, reads);
    } else {
      // As texts: of a path that is no UTF-8, the file has what json_text() makes of it.
      check(json_text(asked) == json_text(record.asked),
            "{} holds another sweep: {}. Give another --out-dir, or --overwrite, which removes it",
            folder.string(), difference(asked, record.asked));
      record.runs = with_results(path, stored, record.runs);
      for (RunRecord& run : record.runs) {
        if (!path_exists(folder / run.name)) run = {.name = run.name, .values = run.values};
      }
    }
  } else {
    for (const RunRecord& run : record.runs) {
      check(!path_exists(folder / run.name),
            "{} is there already, and belongs to no sweep. Give another --out-dir",
            (folder / run.name).string());
    }
  }
  save(folder, record);
  return record;
}

std::optional<double> stored_gflops(const fs::path& folder) {
  const fs::path path = folder / kSweepFile;
  if (!path_exists(path)) return std::nullopt;
  const Json stored = read_json_object(path);
  Json asked;
  get(path, stored, "asked", asked);
  const auto it = asked.find("gflops");
  return it != asked.end() && it->is_number() ? std::optional(it->get<double>()) : std::nullopt;
}

void save(const fs::path& folder, const SweepRecord& record) {
  Json runs = Json::array();
  for (const RunRecord& run : record.runs) runs.push_back(json_of_run(record, run));
  const Json json = {{"format", kFormat}, {"asked", record.asked}, {"runs", runs}};
  constexpr int indent = 1;
  write_file_atomically(folder / kSweepFile, json_text(json, indent) + "\n");
}

FinalLoss final_loss_of(const fs::path& run_folder) {
  FinalLoss result;
  const fs::path path = run_folder / run::kMetricsFile;
  if (!path_exists(path)) return result;
  events::MetricsLines(path).read([&](const Json& line) {
    const auto loss = line.find("final_val_loss");
    if (loss == line.end()) return;
    result.loss = loss->is_number() ? loss->get<double>() : kNoLoss;
    result.steps = line.at("iteration").get<std::int64_t>();
  });
  return result;
}

std::string error_in(const std::string& output) {
  constexpr std::string_view mark = ": error: ";
  const std::size_t at = output.rfind(mark);
  if (at == output.npos) return "";
  const std::size_t begin = at + mark.size();
  return output.substr(begin, output.find('\n', begin) - begin);
}

}  // namespace tapegrad::sweep
