#include "tapegrad/apps/sweep/training_child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "tapegrad/base/error.h"
#include "tapegrad/run/folder/folder_calls.h"

namespace tapegrad::sweep {
namespace {

namespace fs = std::filesystem;

constexpr int kNotStarted = 127;

int open_or_fail(const fs::path& path, int flags) {
  constexpr int kMode = 0666;
  const int descriptor = ::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, kMode);
  check(descriptor >= 0, "{} cannot be opened: {}", path.string(), run::system_error());
  return descriptor;
}

// After fork(): calls only what is safe in a signal handler.
[[noreturn]] void become(const char* program, char* const* argv, int in, int out, pid_t parent) {
  ::setpgid(0, 0);
  // Those that this program catches have their defaults after execv(); ignored ones do not.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGXFSZ}) ::signal(signal, SIG_DFL);
  ::prctl(PR_SET_PDEATHSIG, SIGINT);
  const bool orphan = ::getppid() != parent;
  if (!orphan && ::dup2(in, 0) >= 0 && ::dup2(out, 1) >= 0 && ::dup2(out, 2) >= 0) {
    ::execv(program, argv);
  }
  ::_exit(kNotStarted);
}

}  // namespace

TrainingChild::TrainingChild(const std::vector<std::string>& args, const fs::path& output) {
  std::error_code error;
  const std::string program = fs::read_symlink("/proc/self/exe", error).string();
  check(!error, "this program's path is unknown: {}", error.message());
  std::string name = "tapegrad";
  std::vector<char*> argv = {name.data()};
  for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);
  const int in = open_or_fail("/dev/null", O_RDONLY);
  const int out = open_or_fail(output, O_WRONLY | O_CREAT | O_APPEND);
  const pid_t parent = ::getpid();
  process_ = ::fork();
  if (process_ == 0) become(program.c_str(), argv.data(), in, out, parent);
  const std::string reason = run::system_error();
  ::close(in);
  ::close(out);
  check(process_ > 0, "{} cannot be started: {}", program, reason);
}

TrainingChild::~TrainingChild() {
  if (code_ || process_ <= 0) return;
  stop();
  while (::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) continue;
}

void TrainingChild::stop() {
  if (!stopped_ && !code_) ::kill(process_, SIGINT);
  stopped_ = true;
}

std::optional<int> TrainingChild::ended() {
  int status = 0;
  if (code_ || ::waitpid(process_, &status, WNOHANG) != process_) return code_;
  code_ = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  return code_;
}

}  // namespace tapegrad::sweep
