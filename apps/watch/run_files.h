#pragma once

#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tapegrad/apps/watch/history.h"
#include "tapegrad/apps/watch/line_tail.h"
#include "tapegrad/apps/watch/run_notes.h"

namespace tapegrad::watch {

enum class RunState {
  training,  // a program holds the folder's lock
  ended,     // all that was asked for is done
  stopped,   // by a signal; or killed, if no session says so
  failed,    // by an error
};
std::string_view name_of(RunState state);

// True if a folder has a run's config.json.
bool is_run_folder(const std::filesystem::path& folder);

// True if a call of sessions.jsonl that does not go on ended without a word.
bool was_killed(const Json& session);

// The contents of a run folder's files, for those who watch: read() reads what is new. The folder
// may be anybody's: broken, huge or hostile files cost bounded memory, and bounded time a call;
// links are not followed.
class RunFiles {
 public:
  explicit RunFiles(std::filesystem::path folder);

  struct Line {
    bool of_layers = false;    // of layers.jsonl, otherwise of metrics.jsonl
    std::uint64_t number = 0;  // of lines before it in the file
    std::string values;        // JSON
  };
  struct News {
    std::vector<Line> lines = {};
    bool restarted = false;  // the history is another one: lines of it are not among `lines`
    bool changed = false;    // state, options, sessions or notes
    bool more = false;       // there was no time to read all
  };
  News read(std::size_t most_bytes);
  // Reads until there is no more, but at most that many bytes.
  void read_all(std::uint64_t most_bytes = std::uint64_t{4} << 30);

  // The run has ended, although its folder is still locked: by this program.
  void end_training() { released_ = true; }

  const std::filesystem::path& folder() const { return folder_; }
  std::string name() const;
  RunState state() const { return state_; }
  std::optional<std::int64_t> max_iters() const { return max_iters_; }
  const Json& options() const { return options_; }  // {section: {name: value}}
  // The calls of sessions.jsonl, first and last. Each has what its line of the end says, too; one
  // without that is going on, or was killed.
  Json sessions() const;
  // Why a run is not training: the signal, the error's sentence; or "killed" (or the power failed),
  // "early stop", "time budget". Empty if it made the steps that it was asked for.
  std::string reason() const;
  const RunNotes& notes() const { return notes_; }
  // Keeps these in the folder. Error if it is no run folder, cannot be written to, or has become a
  // link to another one.
  void keep_notes(const RunNotes& notes);
  const History& history() const { return history_; }

 private:
  bool read_config();
  bool read_notes();
  bool read_sessions();
  bool read_state();
  const Json* last_session() const;  // null: none
  Json* last_session() { return const_cast<Json*>(std::as_const(*this).last_session()); }
  std::string of_last_session(const char* name) const;  // its text of that name, or ""

  std::filesystem::path folder_;
  std::filesystem::path place_;  // where that led, links followed
  LineTail metrics_, layers_, sessions_tail_;
  History history_;
  bool behind_ = true;   // lines are not news until all that was there has been read
  bool silent_ = false;  // lines were read that are in no News
  std::filesystem::file_time_type config_time_{}, notes_time_{};
  RunNotes notes_;
  Json options_ = Json::object();
  std::optional<std::int64_t> max_iters_;
  std::vector<Json> first_sessions_;
  std::deque<Json> last_sessions_;
  RunState state_ = RunState::stopped;
  bool released_ = false;  // end_training()
};

}  // namespace tapegrad::watch
