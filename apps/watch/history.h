#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tapegrad/base/json/internal/json_file.h"

namespace tapegrad::watch {

// Bounds of what is kept of a run's lines, however many there are.
inline constexpr std::size_t kMostPoints = 2000, kMostSeries = 64, kMostSamples = 200;
inline constexpr std::size_t kMostLayerRecords = 300, kMostLayers = 1000;
inline constexpr std::size_t kMostNameBytes = 128, kMostTextBytes = 16 << 10;

// A sequence that keeps its first and its last element and at most `most` in all: when it is full,
// every second one goes, and from then on half as many are kept.
template <class T>
class Thinned {
 public:
  explicit Thinned(std::size_t most) : most_(most) {}

  void add(T element) {
    has_last_ = count_++ % every_ != 0;
    if (has_last_) {
      last_ = std::move(element);
      return;
    }
    kept_.push_back(std::move(element));
    if (kept_.size() + 1 >= most_) halve();
  }

  std::size_t size() const { return kept_.size() + (has_last_ ? 1 : 0); }
  const T& operator[](std::size_t i) const { return i < kept_.size() ? kept_[i] : last_; }

 private:
  void halve() {
    has_last_ = kept_.size() % 2 == 0;
    if (has_last_) last_ = kept_.back();
    for (std::size_t i = 1; 2 * i < kept_.size(); ++i) kept_[i] = std::move(kept_[2 * i]);
    kept_.resize((kept_.size() + 1) / 2);
    every_ *= 2;
  }

  std::size_t most_;
  std::uint64_t count_ = 0, every_ = 1;
  std::vector<T> kept_;
  T last_{};
  bool has_last_ = false;
};

// The lines of metrics.jsonl and layers.jsonl, thinned: memory has a bound that does not depend on
// how many lines there are, or what is in them.
class History {
 public:
  // A line of metrics.jsonl. Returns what it says as a JSON object, without what is no number,
  // truth value or text, and with long texts cut; "" if the line is none. The numbers of a step
  // that was skipped are in no series: its batch taught nothing. To lines with the time of a step,
  // "total_seconds" and "total_tokens" are added: of all steps until then, however far what
  // they are made of is thinned later.
  std::string add_metrics(std::string_view line);
  // Adds a line of layers.jsonl in the same way.
  std::string add_layers(std::string_view line);

  std::uint64_t lines() const { return lines_; }
  std::uint64_t layer_lines() const { return layer_lines_; }
  std::int64_t last_iteration() const { return last_iteration_; }
  // The lowest validation loss of all, and the training loss that was measured beside it.
  struct Best {
    std::int64_t iteration = 0;
    double val_loss = 0;
    std::optional<double> train_loss = {};
  };
  const std::optional<Best>& best() const { return best_; }
  bool has_final_loss() const { return series_.count("final_val_loss") > 0; }

  struct Point {
    std::int64_t iteration = 0;
    double value = 0;
  };
  struct Sample {
    std::int64_t iteration = 0;
    std::string text;
    std::string prompt = {}, wanted = {};  // of an answer to a conversation
  };
  // Statistics of all layers at one step: of gradient, weight and update, a number for each name
  // in layer_names(), as far as it goes. NaN: none.
  struct LayerRecord {
    std::int64_t iteration = 0;
    std::vector<float> values[3];
  };
  static constexpr std::string_view kLayerValues[3] = {"gradient", "weight", "update"};

  const std::map<std::string, Thinned<Point>>& series() const { return series_; }
  const Thinned<Sample>& samples() const { return samples_; }
  const Thinned<std::int64_t>& skipped() const { return skipped_; }
  std::uint64_t skipped_count() const { return skipped_count_; }  // of all
  const std::vector<std::string>& layer_names() const { return layer_names_; }
  const Thinned<LayerRecord>& layers() const { return layers_; }

  // As GET /api/runs/ID/history answers: see docs/watching.md.
  std::string json() const;

 private:
  // Adds to a sum that grows by `each` in each step, and says it in `values`.
  void add_total(Json& values, const char* name, std::int64_t iteration, double each);
  void add_point(const std::string& name, Point point);
  std::size_t layer_index(const std::string& name);  // kMostLayers if there are too many

  std::uint64_t lines_ = 0, layer_lines_ = 0, skipped_count_ = 0;
  std::int64_t last_iteration_ = -1;
  std::optional<Best> best_;
  std::map<std::string, Thinned<Point>> series_;
  Thinned<Sample> samples_{kMostSamples};
  Thinned<std::int64_t> skipped_{kMostPoints};
  std::vector<std::string> layer_names_;
  std::map<std::string, std::size_t> layer_indices_;
  Thinned<LayerRecord> layers_{kMostLayerRecords};
};

// The first bytes of a text, without half a character at their end.
std::string shortened(const std::string& text, std::size_t most_bytes);

}  // namespace tapegrad::watch
