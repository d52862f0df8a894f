#pragma once

#include <chrono>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tapegrad/apps/serve/text_job.h"

namespace tapegrad::serve {

enum class LogForm { lines, json, none };
inline constexpr std::array<std::string_view, 3> kLogFormNames = {"lines", "json", "none"};
inline std::span<const std::string_view> names_of(LogForm) { return kLogFormNames; }

// A request as the log and /metrics know it.
struct Visit {
  std::string method, path;  // path: of the table of endpoints, or "other"
  std::string id = {};
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  std::string request = {}, answer = {};  // if texts are logged
};

// Says on stderr what was asked and answered, a line each, and counts it. What cannot be written,
// to a full disk say, is lost. For one thread.
class AccessLog {
 public:
  AccessLog(LogForm form, bool texts) : form_(form), texts_(texts) {}

  bool keeps_texts() const { return texts_ && form_ != LogForm::none; }
  // status 499: the client left before the answer.
  void write(const Visit& visit, int status, const Usage& usage = {});
  // Says once for each name that it is of fields that are ignored; of too many names, "..." once.
  void ignored(const std::vector<std::string>& names);
  // Says once that the model's template has no tools.
  void told_tools();
  // Lines of Prometheus' text: requests by path and status.
  std::string metrics() const;

 private:
  const LogForm form_;
  const bool texts_;
  std::map<std::pair<std::string, int>, std::int64_t> requests_;
  std::set<std::string> ignored_;  // names that were said
  bool told_tools_ = false;
};

// The engine's numbers as Prometheus' text.
std::string metrics_of(const EngineState& state);

}  // namespace tapegrad::serve
