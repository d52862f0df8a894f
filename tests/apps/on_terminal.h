#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>

#include <cstdlib>

#include "tapegrad/tests/apps/program.h"
#include "tapegrad/tests/places.h"

struct TerminalSize {
  unsigned short columns = 90, rows = 30;
};

// The prompt stands before the editor has told the terminal to pass on keys as they are.
inline void wait_for_editor(int terminal) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  struct termios state {};
  do {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    REQUIRE(::tcgetattr(terminal, &state) == 0);
  } while ((state.c_lflag & ICANON) != 0 && std::chrono::steady_clock::now() < end);
}

// All that a program writes to a terminal of that size. Each time that it asks with "> ", somebody
// types the next of these keys. It must end with code 0.
inline std::string on_terminal(const std::string& program, const Args& args, TerminalSize size = {},
                               const std::vector<std::string>& keys = {}) {
  const int master = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  REQUIRE(master >= 0);
  REQUIRE(::grantpt(master) == 0);
  REQUIRE(::unlockpt(master) == 0);
  struct winsize window {};
  window.ws_col = size.columns;
  window.ws_row = size.rows;
  REQUIRE(::ioctl(master, TIOCSWINSZ, &window) == 0);
  const std::string name = ::ptsname(master);
  const std::string path = std::filesystem::path(tapegrad::places::kPrograms) / program;
  std::vector<char*> argv{const_cast<char*>(path.c_str())};
  for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::setsid();
    const int terminal = ::open(name.c_str(), O_RDWR);  // the terminal of this session from now on
    ::setenv("TERM", "xterm", 1);
    ::unsetenv("OMPI_COMM_WORLD_SIZE");
    for (const int to : {0, 1, 2}) ::dup2(terminal, to);
    ::execv(path.c_str(), argv.data());
    ::_exit(127);
  }
  std::string all;
  std::size_t typed = 0;
  char bytes[4096];
  const auto answers = [&] {  // of a program that waits for more keys, there are none
    struct pollfd terminal = {master, POLLIN, 0};
    return ::poll(&terminal, 1, 60'000) > 0;
  };
  for (ssize_t n = 0;
       answers() && (n = ::read(master, bytes, sizeof(bytes))) > 0;) {  // EIO at the end
    all.append(bytes, static_cast<std::size_t>(n));
    if (typed == keys.size() || !all.ends_with("> ")) continue;
    wait_for_editor(master);
    const std::string& next = keys[typed++];
    if (::write(master, next.data(), next.size()) != static_cast<ssize_t>(next.size())) break;
  }
  ::close(master);  // which hangs up
  int status = 0;
  ::waitpid(pid, &status, 0);
  INFO(all);
  REQUIRE(status == 0);
  return all;
}
