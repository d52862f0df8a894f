#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "tapegrad/apps/watch/child_program.h"

namespace tapegrad::watch {

// The program `inspect`, started for one text: `inspect --model=DIR --json --text -`. It is killed
// after a minute, after too much output, and when this ends.
class InspectChild {
 public:
  // Error if it cannot be started.
  InspectChild(const std::filesystem::path& program, const std::filesystem::path& model,
               const std::string& text);

  struct Answer {
    int status = 200;  // of HTTP: 422 if the program refused, 503 if it was killed
    std::string body;  // JSON
  };
  // Takes what it has printed; the answer once it has ended. Never waits.
  std::optional<Answer> look();

 private:
  Answer answer(int status) const;

  ChildProgram child_;
  std::string printed_, complaint_;
  std::string killed_for_;  // why, for people
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace tapegrad::watch
