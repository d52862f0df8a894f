// The records to which a run appends.

#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/run/folder/internal/config_json.h"
#include "tapegrad/run/folder/run_folder.h"

namespace tapegrad::run {

void RunFolder::append(std::unique_ptr<AppendedFile>& to, std::string_view file,
                       const std::string& line) {
  if (follows_) return;
  // Whatever has happened to the folder, the next checkpoint reports it.
  if (!to && !holds_path()) return;
  if (!to) to = std::make_unique<AppendedFile>(path_ / file);
  to->append(line + "\n");
}

void RunFolder::append_metrics(const Metrics& line) {
  Json json = Json::object();
  for (const auto& [name, value] : line) json[name] = json_of_value(value);
  append(metrics_, kMetricsFile, json_text(json));
  if (follows_) return;
  for (const auto& observer : observers_) observer->metrics(line);
}

void RunFolder::tell_step(const Metrics& line) const {
  if (follows_) return;
  for (const auto& observer : observers_) observer->step(line);
}

void RunFolder::append_session(const Metrics& line) {
  Json json = Json::object();
  for (const auto& [name, value] : line) json[name] = json_of_value(value);
  std::unique_ptr<AppendedFile> sessions;
  append(sessions, kSessionsFile, json_text(json));
}

void RunFolder::append_layers(int64_t iteration, const std::vector<LayerMeans>& layers) {
  Json json = {{"iteration", iteration}, {"layers", Json::object()}};
  for (const LayerMeans& l : layers) {
    json["layers"][l.name] = {{"gradient", l.gradient}, {"weight", l.weight}, {"update", l.update}};
  }
  append(layers_, kLayersFile, json_text(json));
  if (follows_) return;
  for (const auto& observer : observers_) observer->layers(iteration, layers);
}

}  // namespace tapegrad::run
