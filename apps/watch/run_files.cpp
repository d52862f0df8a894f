#include "tapegrad/apps/watch/run_files.h"

#include <algorithm>
#include <iterator>
#include <system_error>

#include "tapegrad/base/file.h"
#include "tapegrad/run/folder/internal/config_json.h"
#include "tapegrad/run/folder/internal/folder_calls.h"
#include "tapegrad/run/folder/internal/session.h"
#include "tapegrad/run/folder/run_folder.h"

namespace tapegrad::watch {
namespace {

namespace fs = std::filesystem;

// As resuming a run reads them: see RunFolder::trim.
constexpr std::size_t kMostLineBytes = std::size_t{1} << 20;
// A run's own has some kilobytes, and the longest list of files some more.
constexpr std::uintmax_t kMostConfigBytes = std::uintmax_t{256} << 10;
constexpr std::size_t kMostOptions = 500, kMostListed = 20, kMostOptionBytes = 1 << 10;
constexpr std::size_t kMostOptionsBytes = std::size_t{64} << 10;
constexpr std::size_t kMostCommandBytes = 4 << 10, kMostSessions = 20;
constexpr std::size_t kMostSessionBytes = 8 << 10;
constexpr std::size_t kMostSessionsBytes = 32 << 10;  // of the first, and of the last
constexpr const char* kEnded = "ended";  // a name of lines that end a session: see session.h

// A value without what a page has no room for.
Json shown(const Json& value, std::size_t most_bytes) {
  if (value.is_number() || value.is_boolean() || value.is_null()) return value;
  if (run::is_text(value)) return shortened(run::text_of_json(value), most_bytes);
  Json list = Json::array();
  if (!value.is_array()) return nullptr;
  for (const Json& element : value) {
    if (list.size() == kMostListed) {
      list.push_back("…");
      break;
    }
    list.push_back(element.is_array() ? Json() : shown(element, most_bytes));
  }
  return list;
}

// The room that is left for members.
struct Room {
  std::size_t members, bytes;
};

Json shown_members(const Json& object, std::size_t most_bytes, Room& room) {
  Json result = Json::object();
  for (const auto& [name, value] : object.items()) {
    if (room.members == 0 || name.size() > kMostNameBytes) continue;
    Json short_value = shown(value, most_bytes);
    const std::size_t bytes = name.size() + json_text(short_value).size();
    if (bytes > room.bytes) continue;
    --room.members;
    room.bytes -= bytes;
    result[name] = std::move(short_value);
  }
  return result;
}

std::size_t bytes_of(const Json& session) { return json_text(session).size(); }

}  // namespace

std::string_view name_of(RunState state) {
  switch (state) {
    case RunState::training:
      return "training";
    case RunState::ended:
      return "ended";
    case RunState::failed:
      return "failed";
    default:
      return "stopped";
  }
}

bool is_run_folder(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_regular_file(fs::symlink_status(folder / run::kConfigFile, ignored));
}

RunFiles::RunFiles(fs::path folder)
    : folder_(std::move(folder)),
      metrics_(folder_ / run::kMetricsFile, kMostLineBytes),
      layers_(folder_ / run::kLayersFile, kMostLineBytes),
      sessions_tail_(folder_ / run::kSessionsFile, kMostLineBytes) {
  std::error_code unknown;  // keep_notes() finds it out
  place_ = fs::weakly_canonical(folder_, unknown);
  read_config();
  read_notes();
  read_state();
}

std::string RunFiles::name() const {
  const fs::path path = absolute_path(folder_ / "").parent_path();
  return path.filename().empty() ? path.string() : path.filename().string();
}

RunFiles::News RunFiles::read(std::size_t most_bytes) {
  News news;
  if (metrics_.restarted() || layers_.restarted()) {
    // Both begin anew, since they are one history.
    metrics_.rewind();
    layers_.rewind();
    history_ = History();
    news.restarted = !behind_;
    behind_ = true;
    silent_ = false;
  }
  const bool quiet = behind_;
  bool more = false;
  const auto follow = [&](LineTail& tail, bool of_layers) {
    const bool rest = tail.read(most_bytes, [&](std::string_view line) {
      const std::uint64_t number = of_layers ? history_.layer_lines() : history_.lines();
      std::string values = of_layers ? history_.add_layers(line) : history_.add_metrics(line);
      if (quiet) {
        silent_ = silent_ || !values.empty();
      } else {
        if (values.empty()) values = "{}";  // pages count lines
        news.lines.push_back({of_layers, number, std::move(values)});
      }
    });
    more = more || rest;
  };
  follow(metrics_, false);
  follow(layers_, true);
  behind_ = more;
  if (quiet && !more && silent_) {
    news.restarted = true;
    silent_ = false;
  }
  news.more = more;
  news.changed = read_config();
  news.changed = read_sessions() || news.changed;
  news.changed = read_notes() || news.changed;
  news.changed = read_state() || news.changed;
  return news;
}

void RunFiles::read_all(std::uint64_t most_bytes) {
  constexpr std::size_t piece = std::size_t{8} << 20;
  for (std::uint64_t read_bytes = 0; read_bytes < most_bytes; read_bytes += piece) {
    if (!read(piece).more) return;
  }
}

bool RunFiles::read_config() {
  std::error_code error;
  const fs::path path = folder_ / run::kConfigFile;
  const auto time = fs::last_write_time(path, error);
  if (error || time == config_time_) return false;
  config_time_ = time;
  options_ = Json::object();
  max_iters_.reset();
  try {
    if (fs::file_size(path, error) > kMostConfigBytes || error) return true;
    const Json config = read_json_object(path);
    Room room{kMostOptions, kMostOptionsBytes};
    for (const auto& [name, section] : config.items()) {
      if (!section.is_object() || name.size() > kMostNameBytes) continue;
      options_[name] = shown_members(section, kMostOptionBytes, room);
    }
  } catch (const Error&) {  // a broken file has no options to show
  }
  const auto optimizer = options_.find("optimizer");
  if (optimizer != options_.end() && optimizer->contains("max_iters")) {
    const Json& steps = (*optimizer)["max_iters"];
    if (steps.is_number_integer()) max_iters_ = steps.get<std::int64_t>();
  }
  return true;
}

bool RunFiles::read_notes() {
  std::error_code error;
  auto time = fs::last_write_time(folder_ / kNotesFile, error);
  if (error) time = {};
  if (time == std::exchange(notes_time_, time)) return false;
  notes_ = error ? RunNotes() : watch::read_notes(folder_);
  return true;
}

void RunFiles::keep_notes(const RunNotes& notes) {
  check(is_run_folder(folder_), "{} has no run", folder_.string());
  const fs::path now = resolved_path(folder_);
  check(now == place_, "{} has become a link to {}", folder_.string(), now.string());
  write_notes(folder_, notes);
  notes_ = notes;  // read_notes() tells of it
}

bool RunFiles::read_sessions() {
  bool changed = sessions_tail_.restarted();
  if (changed) {
    first_sessions_.clear();
    last_sessions_.clear();
  }
  sessions_tail_.read(kMostLineBytes, [&](std::string_view line) {
    Json session;
    try {
      session = parse_json<Json>(line, 3);
    } catch (const Error&) {
      return;
    }
    if (!session.is_object()) return;
    changed = true;
    Room room{kMostSeries, kMostLineBytes};
    session = shown_members(session, kMostCommandBytes, room);
    Json kept = Json::object();
    std::size_t bytes = 0;
    for (const auto& [name, value] : session.items()) {
      bytes += name.size() + json_text(value).size();
      if (bytes > kMostSessionBytes) break;
      kept[name] = value;
    }
    session = std::move(kept);
    if (Json* begun = last_session(); session.contains(kEnded)) {
      if (begun != nullptr && !begun->contains(kEnded)) begun->update(session);
      return;
    }
    if (first_sessions_.size() < kMostSessions) {
      first_sessions_.push_back(std::move(session));
    } else {
      last_sessions_.push_back(std::move(session));
      if (last_sessions_.size() > kMostSessions) last_sessions_.pop_front();
    }
  });
  return changed;
}

// The newest are there in any case, whatever the others take.
Json RunFiles::sessions() const {
  Json list = Json::array();
  std::size_t room = kMostSessionsBytes;
  for (const Json& session : first_sessions_) {
    const std::size_t bytes = bytes_of(session);
    if (bytes > room) break;
    room -= bytes;
    list.push_back(session);
  }
  auto begin = last_sessions_.end();
  for (room = kMostSessionsBytes; begin != last_sessions_.begin(); --begin) {
    const std::size_t bytes = bytes_of(*std::prev(begin));
    if (bytes > room) break;
    room -= bytes;
  }
  for (; begin != last_sessions_.end(); ++begin) list.push_back(*begin);
  return list;
}

const Json* RunFiles::last_session() const {
  if (!last_sessions_.empty()) return &last_sessions_.back();
  return first_sessions_.empty() ? nullptr : &first_sessions_.back();
}

std::string RunFiles::of_last_session(const char* name) const {
  const Json* last = last_session();
  const auto at = last == nullptr ? Json::const_iterator() : last->find(name);
  return last == nullptr || at == last->end() || !at->is_string() ? "" : at->get<std::string>();
}

bool was_killed(const Json& session) {
  return session.contains(run::kTellsEnd) && !session.contains(kEnded);
}

std::string RunFiles::reason() const {
  if (state_ == RunState::training) return "";
  const std::string how = of_last_session(kEnded), why = of_last_session("why");
  if (how == name_of_enum(run::Ending::finished)) return "";
  if (!why.empty()) return why;
  if (!how.empty()) return how;
  const Json* last = last_session();
  return state_ == RunState::stopped && last != nullptr && was_killed(*last) ? "killed" : "";
}

bool RunFiles::read_state() {
  const bool made_all = max_iters_ && history_.last_iteration() >= *max_iters_;
  const std::string how = of_last_session(kEnded);
  const bool stopped = how.empty() || how == name_of_enum(run::Ending::stopped);
  const bool done = made_all || history_.has_final_loss() || !stopped;
  const RunState now = !released_ && run::is_locked(folder_)     ? RunState::training
                       : how == name_of_enum(run::Ending::error) ? RunState::failed
                       : done                                    ? RunState::ended
                                                                 : RunState::stopped;
  return now != std::exchange(state_, now);
}

}  // namespace tapegrad::watch
