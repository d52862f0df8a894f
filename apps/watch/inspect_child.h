#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

namespace tapegrad::watch {

// The program `inspect`, started for one text: `inspect --model=DIR --json --text -`, in a process
// group of its own, at the lowest priority. It is killed after a minute, after too much output, and
// when this ends. It inherits no file of this program.
class InspectChild {
 public:
  // The program beside the running one; nothing if there is none.
  static std::optional<std::filesystem::path> program();

  // Error if it cannot be started.
  InspectChild(const std::filesystem::path& program, const std::filesystem::path& model,
               const std::string& text);
  ~InspectChild();
  InspectChild(const InspectChild&) = delete;
  InspectChild& operator=(const InspectChild&) = delete;

  struct Answer {
    int status = 200;  // of HTTP: 422 if the program refused, 503 if it was killed
    std::string body;  // JSON
  };
  // Takes what it has printed; the answer once it has ended. Never waits.
  std::optional<Answer> look();

 private:
  bool read(int& descriptor, std::string& to, std::size_t most_bytes);
  void kill();
  std::optional<int> ended();  // the status with which it did
  Answer answer(int status) const;

  pid_t process_ = -1;
  int output_ = -1, errors_ = -1;
  std::string printed_, complaint_;
  std::string killed_for_;  // why, for people
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace tapegrad::watch
