#include "tapegrad/apps/watch/child_program.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <system_error>
#include <utility>

#include "tapegrad/base/error.h"

extern char** environ;

namespace tapegrad::watch {
namespace {

namespace fs = std::filesystem;

constexpr int kLowest = 19;  // priority

// Both ends of a pipe, closed when this ends unless they were taken.
struct Pipe {
  Pipe() {
    check(::pipe2(ends, O_CLOEXEC) == 0, "there can be no pipe: {}",
          std::generic_category().message(errno));
  }
  ~Pipe() {
    for (const int end : ends) {
      if (end >= 0) ::close(end);
    }
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  int take(int end) { return std::exchange(ends[end], -1); }
  int ends[2] = {-1, -1};
};

pid_t spawn(const fs::path& program, const std::vector<std::string>& args, const int (&files)[3]) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  for (int i = 0; i < 3; ++i) ::posix_spawn_file_actions_adddup2(&actions, files[i], i);
  ::posix_spawn_file_actions_addclosefrom_np(&actions, 3);  // sockets among them
  sigset_t none, usual;
  ::sigemptyset(&none);
  ::sigemptyset(&usual);
  for (const int signal : {SIGPIPE, SIGXFSZ, SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&usual, signal);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &usual);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  ::posix_spawnattr_setflags(
      &attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::vector<char*> argv;
  for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);
  pid_t process = -1;
  const int failed =
      ::posix_spawn(&process, program.c_str(), &actions, &attributes, argv.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  check(failed == 0, "{} cannot be started: {}", program.string(),
        std::generic_category().message(failed));
  return process;
}

}  // namespace

std::optional<fs::path> ChildProgram::beside() {
  std::error_code error;
  const fs::path path = fs::read_symlink("/proc/self/exe", error).parent_path() / "tapegrad";
  if (error || ::access(path.c_str(), X_OK) != 0 || !fs::is_regular_file(path, error)) return {};
  return path;
}

ChildProgram::ChildProgram(const fs::path& program, const std::vector<std::string>& args,
                           Input input, std::string_view text) {
  Pipe in, output, errors;
  // A text of 4 kB fits into any pipe.
  const bool written =
      ::fcntl(in.ends[1], F_SETFL, O_NONBLOCK) == 0 &&
      ::write(in.ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
  check(written, "the text does not fit into a pipe");
  for (Pipe* pipe : {&output, &errors}) ::fcntl(pipe->ends[0], F_SETFL, O_NONBLOCK);
  std::vector<std::string> all = {program.filename().string()};
  all.insert(all.end(), args.begin(), args.end());
  process_ = spawn(program, all, {in.ends[0], output.ends[1], errors.ends[1]});
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(process_), kLowest);
  // Where memory ends, it goes, and not the program that trains.
  std::ofstream("/proc/" + std::to_string(process_) + "/oom_score_adj") << 1000;
  if (input == Input::open) input_ = in.take(1);
  output_ = output.take(0);
  errors_ = errors.take(0);
}

ChildProgram::~ChildProgram() {
  if (process_ > 0) {
    kill();
    ::waitpid(process_, nullptr, 0);
  }
  close_output();
  if (input_ >= 0) ::close(input_);
}

void ChildProgram::kill() {
  if (process_ > 0) ::kill(-process_, SIGKILL);
}

void ChildProgram::close_output() {
  for (int* descriptor : {&output_, &errors_}) {
    if (*descriptor >= 0) ::close(std::exchange(*descriptor, -1));
  }
}

bool ChildProgram::read(int& descriptor, std::string& to, std::size_t most_bytes) {
  char piece[1 << 16];
  while (descriptor >= 0) {
    const ssize_t count = ::read(descriptor, piece, sizeof piece);
    if (count < 0) return true;  // nothing yet
    if (count == 0) {
      ::close(std::exchange(descriptor, -1));
    } else {
      const std::size_t room = most_bytes - to.size();
      to.append(piece, std::min(room, static_cast<std::size_t>(count)));
      if (static_cast<std::size_t>(count) > room) return false;
    }
  }
  return true;
}

std::optional<int> ChildProgram::ended() {
  if (status_) return status_;
  siginfo_t about{};
  const int failed =
      ::waitid(P_PID, static_cast<id_t>(process_), &about, WEXITED | WNOHANG | WNOWAIT);
  if (failed == 0 && about.si_pid == 0) return {};
  int status = 0;
  if (failed == 0) {
    kill();  // also programs that it started, while the number of the group is its own
    ::waitpid(process_, &status, 0);
    status_ = status;
  } else {
    status_ = kNoStatus;
  }
  process_ = -1;
  return status_;
}

}  // namespace tapegrad::watch
