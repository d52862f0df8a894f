#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tapegrad::watch {

// The program `tapegrad` beside the running one, started for a page: in a process group of its own,
// at the lowest priority, and the first to go where memory ends. It inherits no file of this
// program, and is killed when this ends.
class ChildProgram {
 public:
  // The program; nothing if there is none.
  static std::optional<std::filesystem::path> beside();

  // The contents of its stdin: a text of 4 kB at most, or nothing, until this ends, however it
  // ends.
  enum class Input { text, open };
  // Error if it cannot be started.
  ChildProgram(const std::filesystem::path& program, const std::vector<std::string>& args,
               Input input, std::string_view text = {});
  ~ChildProgram();
  ChildProgram(const ChildProgram&) = delete;
  ChildProgram& operator=(const ChildProgram&) = delete;

  pid_t process() const { return process_; }
  // Takes what it has printed on stdout or stderr, as much as there is room for. False if it
  // printed more. Never waits.
  bool read_output(std::string& to, std::size_t most_bytes) {
    return read(output_, to, most_bytes);
  }
  bool read_errors(std::string& to, std::size_t most_bytes) {
    return read(errors_, to, most_bytes);
  }
  // From now on, what it prints is lost.
  void close_output();
  // The status with which it ended, as of waitpid(); nothing while it runs. Where SIGCHLD is
  // ignored, the system keeps no status: then it is kNoStatus.
  static constexpr int kNoStatus = -1;
  std::optional<int> ended();
  void kill();

 private:
  static bool read(int& descriptor, std::string& to, std::size_t most_bytes);

  pid_t process_ = -1;
  int input_ = -1, output_ = -1, errors_ = -1;
  std::optional<int> status_;
};

}  // namespace tapegrad::watch
