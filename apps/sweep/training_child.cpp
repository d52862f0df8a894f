#include "tapegrad/apps/sweep/training_child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "tapegrad/base/error.h"
#include "tapegrad/run/folder/internal/folder_calls.h"

namespace tapegrad::sweep {
namespace {

namespace fs = std::filesystem;

constexpr int kNotStarted = 127;
constexpr int kStop = SIGINT;

int open_or_fail(const fs::path& path, int flags) {
  constexpr int kMode = 0666;
  const int descriptor = ::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, kMode);
  check(descriptor >= 0, "{} cannot be opened: {}", path.string(), run::system_error());
  return descriptor;
}

// After fork(): calls only what is safe in a signal handler.
[[noreturn]] void become(char* const* argv, int in, int out, int report, pid_t parent) {
  ::setpgid(0, 0);
  // Ignored signals stay ignored after execv(), also by catch_interrupts().
  for (const int signal : {SIGTERM, SIGHUP}) ::signal(signal, SIG_IGN);
  for (const int signal : {kStop, SIGPIPE, SIGXFSZ}) ::signal(signal, SIG_DFL);
  ::prctl(PR_SET_PDEATHSIG, kStop);
  if (::getppid() != parent) ::_exit(kNotStarted);
  if (::dup2(in, 0) >= 0 && ::dup2(out, 1) >= 0 && ::dup2(out, 2) >= 0) {
    ::execv("/proc/self/exe", argv);  // the file that runs, whatever has its name by now
  }
  const int reason = errno;
  [[maybe_unused]] const ssize_t written = ::write(report, &reason, sizeof reason);
  ::_exit(kNotStarted);
}

// The errno that the child writes to the pipe if it cannot start; 0 if it has started, which closes
// the pipe.
int read_report(int pipe) {
  int reason = 0;
  ssize_t count = 0;
  do {
    count = ::read(pipe, &reason, sizeof reason);
  } while (count < 0 && errno == EINTR);
  return count == sizeof reason ? reason : 0;
}

void wait_for_end(pid_t process) {
  while (::waitpid(process, nullptr, 0) < 0 && errno == EINTR) continue;
}

}  // namespace

TrainingChild::TrainingChild(const std::vector<std::string>& args, const fs::path& output) {
  std::string name = "tapegrad";
  std::vector<char*> argv = {name.data()};
  for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);
  const int out = open_or_fail(output, O_WRONLY | O_CREAT | O_APPEND);
  const int in = open_or_fail("/dev/null", O_RDONLY);
  const pid_t parent = ::getpid();
  ::signal(SIGCHLD, SIG_DFL);
  int report[2] = {-1, -1};
  if (::pipe2(report, O_CLOEXEC) == 0) process_ = ::fork();
  if (process_ == 0) become(argv.data(), in, out, report[1], parent);
  int reason = process_ > 0 ? 0 : errno;
  for (const int descriptor : {in, out, report[1]}) ::close(descriptor);
  if (process_ > 0) reason = read_report(report[0]);
  ::close(report[0]);
  if (process_ > 0 && reason != 0) wait_for_end(process_);
  check(reason == 0, "a run cannot be started: {}", std::generic_category().message(reason));
}

TrainingChild::~TrainingChild() {
  if (code_ || process_ <= 0) return;
  stop();
  wait_for_end(process_);
}

void TrainingChild::stop() {
  if (!stopped_ && !code_) ::kill(process_, kStop);
  stopped_ = true;
}

std::optional<int> TrainingChild::ended() {
  int status = 0;
  if (code_) return code_;
  const pid_t found = ::waitpid(process_, &status, WNOHANG);
  if (found < 0 && errno == ECHILD) code_ = kNoStatus;
  if (found == process_) code_ = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  return code_;
}

}  // namespace tapegrad::sweep
