#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "tapegrad/apps/watch/child_program.h"

namespace tapegrad::watch {

// The program `serve`, started for people who talk to the newest checkpoint of a run: at a port of
// this computer alone, with one thread. It ends when this ends, and when this program does.
class TalkChild {
 public:
  // `port`: 0 is any that is free. Error if it cannot be started.
  TalkChild(const std::filesystem::path& program, std::filesystem::path run, int port);

  const std::filesystem::path& run() const { return run_; }
  // True if it has ended.
  bool ended() { return child_.ended().has_value(); }
  // The news, once it listens or has ended. Never waits.
  struct Answer {
    int status = 200;  // of HTTP: 422 if the program refused, 503 if it was killed
    std::string body;  // JSON: {"port": …} or {"error": …}
  };
  std::optional<Answer> look();

 private:
  ChildProgram child_;
  const std::filesystem::path run_;
  int port_ = 0;
  std::string printed_, complaint_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace tapegrad::watch
