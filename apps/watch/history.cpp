#include "tapegrad/apps/watch/history.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <limits>

namespace tapegrad::watch {
namespace {

// Empty if there is none.
std::string metric_text(const Json& values, const char* name) {
  const auto at = values.find(name);
  return at != values.end() && at->is_string() ? at->get<std::string>() : "";
}

// The object on a line; null if it has none with an iteration.
Json object_on(std::string_view line, int depth) {
  try {
    Json json = parse_json<Json>(line, depth);
    if (!json.is_object()) return nullptr;
    const auto at = json.find("iteration");
    if (at == json.end() || !at->is_number_integer() || *at < 0) return nullptr;
    if (at->is_number_unsigned() && at->get<std::uint64_t>() > std::uint64_t{1} << 53)
      return nullptr;  // JavaScript would round it
    return json;
  } catch (const Error&) {
    return nullptr;
  }
}

bool is_finite(const Json& value) {
  return value.is_number() && std::isfinite(value.get<double>());
}

std::string number_json(double value) {
  return std::isfinite(value) ? fmt::format("{:.7g}", value) : "null";
}

// [a,b,…] of `size` elements.
template <class Element>
std::string list(std::size_t size, const Element& element) {
  std::string text = "[";
  for (std::size_t i = 0; i < size; ++i) {
    if (i > 0) text += ',';
    text += element(i);
  }
  return text + "]";
}

}  // namespace

std::string shortened(const std::string& text, std::size_t most_bytes) {
  if (text.size() <= most_bytes) return text;
  std::size_t end = most_bytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + " …";
}

void History::add_point(const std::string& name, Point point) {
  auto found = series_.find(name);
  if (found == series_.end() && series_.size() < kMostSeries) {
    found = series_.emplace(name, kMostPoints).first;
  }
  if (found != series_.end()) found->second.add(point);
}

void History::add_total(Json& values, const char* name, std::int64_t iteration, double each) {
  Point last;
  if (const auto found = series_.find(name); found != series_.end()) {
    // A run that went back to a checkpoint repeats steps: the newest count.
    std::size_t i = found->second.size();
    while (i > 0 && found->second[i - 1].iteration >= iteration) --i;
    if (i > 0) last = found->second[i - 1];
  }
  if (iteration <= last.iteration) return;
  const double total = last.value + static_cast<double>(iteration - last.iteration) * each;
  values[name] = total;
  add_point(name, {iteration, total});
}

std::string History::add_metrics(std::string_view line) {
  ++lines_;
  const Json object = object_on(line, 2);
  if (object.is_null()) return "";
  const auto iteration = object["iteration"].get<std::int64_t>();
  last_iteration_ = std::max(last_iteration_, iteration);
  // A step that was left out has taught nothing: its loss and norm are no points of the curves.
  const auto skip = object.find("skipped");
  const bool skipped = skip != object.end() && *skip == true;
  Json values = Json::object();
  // The record of a step holds for all steps since the one before.
  if (const auto ms = object.find("ms"); ms != object.end() && is_finite(*ms)) {
    const double seconds = ms->get<double>() / 1000;
    add_total(values, "total_seconds", iteration, seconds);
    const auto rate = object.find("tokens_per_second");
    if (rate != object.end() && is_finite(*rate))
      add_total(values, "total_tokens", iteration, rate->get<double>() * seconds);
  }
  for (const auto& [name, value] : object.items()) {
    if (name.size() > kMostNameBytes || values.size() >= kMostSeries) continue;
    if (is_finite(value) || value.is_boolean()) values[name] = value;
    if (value.is_string()) {
      values[name] = shortened(value.get_ref<const std::string&>(), kMostTextBytes);
    }
    if (!is_finite(value) || name == "iteration" || skipped) continue;
    add_point(name, {iteration, value.get<double>()});
  }
  const auto val = object.find("val_loss"), train = object.find("train_loss");
  if (val != object.end() && is_finite(*val) && (!best_ || *val < best_->val_loss)) {
    best_ = {iteration, val->get<double>()};
    if (train != object.end() && is_finite(*train)) best_->train_loss = train->get<double>();
  }
  if (const auto at = values.find("sample"); at != values.end() && at->is_string()) {
    samples_.add({iteration, at->get<std::string>(), metric_text(values, "prompt"),
                  metric_text(values, "wanted")});
  }
  if (skipped) {
    skipped_.add(iteration);
    ++skipped_count_;
  }
  return json_text(values);
}

std::size_t History::layer_index(const std::string& name) {
  const auto found = layer_indices_.find(name);
  if (found != layer_indices_.end()) return found->second;
  if (layer_names_.size() >= kMostLayers || name.size() > kMostNameBytes) return kMostLayers;
  layer_names_.push_back(name);
  return layer_indices_[name] = layer_names_.size() - 1;
}

std::string History::add_layers(std::string_view line) {
  ++layer_lines_;
  const Json object = object_on(line, 3);
  if (object.is_null()) return "";
  const auto layers = object.find("layers");
  if (layers == object.end() || !layers->is_object()) return "";
  LayerRecord record{object["iteration"].get<std::int64_t>(), {}};
  Json shown = Json::object();
  for (const auto& [name, numbers] : layers->items()) {
    if (!numbers.is_object()) continue;
    const std::size_t index = layer_index(name);
    if (index == kMostLayers) continue;
    Json& of_layer = shown[name] = Json::object();
    for (std::size_t i = 0; i < std::size(kLayerValues); ++i) {
      const auto value = numbers.find(kLayerValues[i]);
      if (value == numbers.end() || !is_finite(*value)) continue;
      std::vector<float>& values = record.values[i];
      values.resize(std::max(values.size(), index + 1), std::numeric_limits<float>::quiet_NaN());
      values[index] = value->get<float>();
      of_layer[std::string(kLayerValues[i])] = *value;
    }
  }
  const std::int64_t iteration = record.iteration;
  layers_.add(std::move(record));
  return json_text({{"iteration", iteration}, {"layers", shown}});
}

std::string History::json() const {
  std::string text =
      fmt::format("{{\"lines\":{},\"layer_lines\":{},\"series\":{{", lines_, layer_lines_);
  for (const auto& [name, series] : series_) {
    const Thinned<Point>& points = series;
    if (text.back() != '{') text += ',';
    text += json_text(name) + ":[";
    text += list(points.size(), [&](auto i) { return fmt::format("{}", points[i].iteration); });
    text += ',';
    text += list(points.size(), [&](auto i) { return number_json(points[i].value); });
    text += ']';
  }
  text += "},\"samples\":" + list(samples_.size(), [&](auto i) {
            const Sample& sample = samples_[i];
            Json json = {{"iteration", sample.iteration}, {"text", sample.text}};
            if (!sample.wanted.empty()) {
              json["prompt"] = sample.prompt;
              json["wanted"] = sample.wanted;
            }
            return json_text(json);
          });
  text += ",\"skipped\":" +
          list(skipped_.size(), [&](auto i) { return fmt::format("{}", skipped_[i]); });
  text += fmt::format(",\"skipped_count\":{}", skipped_count_);
  text += ",\"layers\":{\"names\":" + json_text(layer_names_);
  text += ",\"iterations\":" +
          list(layers_.size(), [&](auto i) { return fmt::format("{}", layers_[i].iteration); });
  for (std::size_t which = 0; which < std::size(kLayerValues); ++which) {
    text += fmt::format(",\"{}\":", kLayerValues[which]);
    text += list(layers_.size(), [&](auto i) {
      const std::vector<float>& values = layers_[i].values[which];
      return list(layer_names_.size(),
                  [&](auto n) { return n < values.size() ? number_json(values[n]) : "null"; });
    });
  }
  return text + "}}";
}

}  // namespace tapegrad::watch
