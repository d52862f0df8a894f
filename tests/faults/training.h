#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "tapegrad/tests/faults/files.h"
#include "tapegrad/tests/faults/fork_server.h"

namespace faults {

// How a run begins: in no folder, in that of a run that has made half of the steps, or in place of
// another run.
enum class Start { fresh, resumed, overwriting };

// The commands of a user with a program and a run folder.
struct Commands {
  Args begin, resume, replace;
};

// A training of a few steps, which a test stops in any way; what an undisturbed one ends with; and
// the verdict on what a stopped one leaves. All runs are in the folder "run".
class Training {
 public:
  // A run of so many steps, with a checkpoint before every `interval`-th and at the end. One that
  // is resumed has the steps of an interval already.
  struct Length {
    int steps, interval;
  };
  // Makes the undisturbed runs. `root` holds the texts and all places.
  Training(const std::string& program, Start start, const std::filesystem::path& root,
           Length length, const Args& more);

  std::string name() const;
  const std::string& program() const { return program_; }
  // The files before the run, and the command of the run.
  const Files& before() const { return before_; }
  const Args& command() const;
  const Commands& commands() const { return commands_; }

  // The last step whose checkpoint is safe, as far as the user was told by this output; −1 if there
  // is none yet.
  int promised(const std::string& out) const;

  // Runs a command in a place: with args of commands(), says how it ended.
  using Run = std::function<Outcome(const Args&)>;

  // Goes on from what a stopped run left in `work`, as a user would, to the end. Returns what is
  // wrong with that; empty if nothing is.
  std::string finish(const std::filesystem::path& work, int promised, const Run& run) const;

  // The fault of the files of a run that has come to its end; `new_run` if it cannot be the
  // one that was to be replaced.
  std::string check_end(const std::filesystem::path& work, bool new_run) const;

  // finish(), for files that are equal to some that were finished before, at once.
  std::string finish(const Place& place, const Files& files, int promised, const Run& run);
  // How many different files there were.
  std::size_t states() const { return verdicts_.size(); }

 private:
  std::string program_;
  Start start_;
  Length length_;
  Commands commands_;
  Files before_;
  Files end_, old_end_;  // what undisturbed runs end with: the new one, the one it replaces
  std::mutex mutex_;
  std::map<std::pair<int, Files>, std::string> verdicts_;
};

// Servers for commands, made when they are needed.
class Servers {
 public:
  Servers(std::filesystem::path root, const std::filesystem::path& folder)
      : root_(std::move(root)), place_(folder) {}

  const Place& place() const { return place_; }
  Outcome run(const std::string& program, const Args& args, const Request& request = {});
  Training::Run runner(const Training& training) {
    return [&](const Args& args) { return run(training.program(), args); };
  }

 private:
  std::filesystem::path root_;
  Place place_;
  std::map<std::pair<std::string, Args>, std::unique_ptr<Server>> servers_;
};

}  // namespace faults
