#pragma once

#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tapegrad/tests/places.h"
#include "tapegrad/tests/temp_folder.h"

using Args = std::vector<std::string>;

inline Args operator+(Args a, const Args& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// As a word of a shell's command.
inline std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) c == '\'' ? text += "'\\''" : text += c;
  return text + "'";
}

// The same for one of the project's programs.
inline std::string quoted_program(const std::string& name) {
  return quoted(std::string(tapegrad::places::kPrograms) + "/" + name);
}

struct Result {
  int code;  // −signal if a signal ended the program
  std::string out, err;
};

// Makes this process one of the user nobody, who has no rights.
inline bool become_nobody() {
  constexpr uid_t kNobody = 65534;
  return ::setgroups(0, nullptr) == 0 && ::setgid(kNobody) == 0 && ::setuid(kNobody) == 0;
}

// One of the project's programs, or another one by its whole path, running, with stdout and stderr
// in files; stdin is `input`.
class Program {
 public:
  enum class User { same, nobody };

  Program(const std::string& name, const Args& args, const std::filesystem::path& folder = ".",
          const std::filesystem::path& input = "/dev/null", User user = User::same) {
    const std::string path = std::filesystem::path(tapegrad::places::kPrograms) / name;
    std::vector<char*> argv{const_cast<char*>(path.c_str())};
    for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
    argv.push_back(nullptr);
    const std::string out = files_ / "out", err = files_ / "err";
    // The project may be where nobody may look, such as below /root.
    const int opened = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    pid_ = ::fork();
    if (pid_ != 0) {
      ::close(opened);
      return;
    }
    const int from = ::open(input.c_str(), O_RDONLY);
    const int to_out = ::open(out.c_str(), O_WRONLY | O_CREAT, 0600);
    const int to_err = ::open(err.c_str(), O_WRONLY | O_CREAT, 0600);
    if (::chdir(folder.c_str()) != 0 || ::dup2(from, 0) < 0 || ::dup2(to_out, 1) < 0 ||
        ::dup2(to_err, 2) < 0 || (user == User::nobody && !become_nobody())) {
      ::_exit(126);
    }
    if (user == User::nobody) ::fexecve(opened, argv.data(), environ);
    if (user == User::same) ::execv(path.c_str(), argv.data());
    ::_exit(127);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() {
    if (pid_ < 0) return;
    send(SIGKILL);
    wait();
  }

  std::string out() const { return TempFolder::get(files_ / "out"); }

  pid_t pid() const { return pid_; }
  void send(int signal) const { ::kill(pid_, signal); }

  // Waits until the program has printed `text`; throws after a minute.
  void wait_for(const std::string& text) const {
    for (int i = 0; i < 6000; ++i) {
      if (out().find(text) != std::string::npos) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    throw std::runtime_error("the program did not print '" + text + "' but:\n" + out());
  }

  // True if it has ended, or does so before `time` is over.
  bool ends_within(std::chrono::milliseconds time) const {
    const auto limit = std::chrono::steady_clock::now() + time;
    for (siginfo_t info{};;) {
      if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
          info.si_pid == pid_) {
        return true;
      }
      if (std::chrono::steady_clock::now() > limit) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }

  Result wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), out(),
            TempFolder::get(files_ / "err")};
  }

 private:
  TempFolder files_;
  pid_t pid_ = -1;
};

inline Result run_program(const std::string& name, const Args& args,
                          const std::filesystem::path& folder = ".") {
  return Program(name, args, folder).wait();
}
